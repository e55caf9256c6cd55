"""Convert addresses between absolute and relative, and decide which are inside a namespace."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from spark_core.addresses.address_columns import relative_column
from spark_core.addresses.collectable import collectable_batch as collectable_batch
from spark_core.addresses.collectable import is_collectable as is_collectable
from spark_core.addresses.collectable import nested_repository as nested_repository
from spark_core.addresses.collectable import slice_batch as slice_batch
from spark_core.addresses.collectable import slice_of as slice_of
from spark_core.addresses.namespace_uri import NamespaceUri
from spark_core.addresses.readings import AddressType as AddressType
from spark_core.addresses.readings import relative
from spark_core.addresses.xids import xid_time_batch as xid_time_batch

__all__ = ["Namespace"]


@dataclass(frozen=True)
class Namespace(NamespaceUri):
    """A repository's storage namespace and the addresses in it.

    Attributes:
        uri: The URI as the server gives it; a trailing slash is kept.
        server_path: Blockstore `local` only: the blockstore's absolute path as
            the server names it. FULL addresses begin with it.

    Raises:
        AddressError: If the scheme is unknown or the path has a form that nobody documented.
        SettingsError: If `server_path` is missing or is no absolute path.

    Examples:
        >>> namespace = Namespace.parse("s3://bucket/lakes/one/")
        >>> namespace.kind, namespace.bucket, namespace.path
        ('s3', 'bucket', 'lakes/one')
    """

    @classmethod
    def parse(cls, uri: str, *, server_path: str | None = None) -> Namespace:
        """Read a storage namespace; see the class for what is refused."""
        return cls(uri, server_path)

    def relative(self, address: str, address_type: int) -> str | None:
        """Return the address relative to the namespace, None when it lies outside.

        As on the server, a BY_PREFIX address is a URI when it begins with a scheme
        that the server knows, else it is relative.

        Args:
            address: Address of an entry.
            address_type: One of `AddressType`.

        Raises:
            AddressError: If the type or the form is unknown, or the address is empty or
                holds a NUL. If it lies inside, can be read in two ways (escapes and
                queries), and one of them could be collected. On a local blockstore, if
                it has empty, `.` or `..` segments.

        References:
            lakeFS `pkg/block/namespace.go` (resolution of the three types).
        """
        return relative(self, address, address_type)

    def relative_absolute(self, uri: str) -> str | None:
        """Return an absolute URI relative to the namespace.

        Such a URI is a listing's location or a physical_address of the API.

        Returns:
            The relative address, None when it lies outside.

        Raises:
            AddressError: As `relative` does.
        """
        return self.relative(uri, AddressType.FULL)

    def absolute(self, relative: str) -> str:
        """Return the absolute URI of a relative address; `relative` is the inverse."""
        return self.root + relative

    def relative_batch(self, addresses: pa.StringArray, types: pa.Int32Array) -> pa.StringArray:
        """Apply `relative` to a whole column; plain forms need no Python object per row.

        Args:
            addresses: Addresses of entries, no nulls.
            types: Their address types, no nulls, same length.

        Returns:
            Relative addresses, same length, null where an address lies outside.

        Raises:
            AddressError: As `relative` does, for the first address that is refused.
        """
        return relative_column(self, addresses, types)
