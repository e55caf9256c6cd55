"""Convert addresses between absolute and relative, and decide which are inside a namespace.

Every comparison of addresses in the project goes through this module, so that two forms of one
object never count as two objects. That mistake would delete live data. An address that could be
read in two ways is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_core.addresses.collectable import (
    CONTROL_PATTERN,
    FOLDED_SEGMENT,
    FOLDED_SEGMENT_PATTERN,
    arrow_pattern,
    is_given_name,
)
from spark_core.addresses.collectable import collectable_batch as collectable_batch
from spark_core.addresses.collectable import is_collectable as is_collectable
from spark_core.addresses.collectable import nested_repository as nested_repository
from spark_core.addresses.collectable import slice_batch as slice_batch
from spark_core.addresses.collectable import slice_of as slice_of
from spark_core.addresses.xids import xid_time as xid_time
from spark_core.addresses.xids import xid_time_batch as xid_time_batch
from spark_core.errors import AddressError, SettingsError

__all__ = ["Namespace"]

# The kind of store of each scheme that the server resolves. An address with another one is unknown.
_KINDS = {
    "s3": "s3",
    "gs": "gs",
    "mem": "mem",
    "memory": "mem",
    "local": "local",
    "http": "azure",
    "https": "azure",
}
_COLLECTED_KINDS = ("s3", "gs", "azure", "local")
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)

# A `local://` URI with an empty, `.` or `..` segment. One further slash begins an absolute path.
_FOLDED_LOCAL = r"(?s)^local://(?:/?\.{1,2}(?:/|$)|//|/?$|/?[^/].*/\.{0,2}(?:/|$))"
# A URI with one of these has a query, an escape or a user part, and takes the slow path.
_SECOND_READING = r"[?%@]"

_SECOND_READING_PATTERN = arrow_pattern(_SECOND_READING)

# Azure's service reads `\` as `/` and drops dots at the end of a segment.
_RENAMED_BY_AZURE = r"\\|\.(?:/|$)"
# The server also drops slashes at both ends of an absolute path.
_SECOND_READING_AZURE = rf"{_SECOND_READING}|{_RENAMED_BY_AZURE}|/$|://[^/]*//"

_RENAMED_BY_AZURE_PATTERN = arrow_pattern(_RENAMED_BY_AZURE)

# Relative addresses of which each server and store has one reading.
_PLAIN_SEGMENTS = r"^[0-9A-Za-z_-]+(?:/[0-9A-Za-z_-]+)*$"

# An address with more readings than this is refused without looking at all of them.
_MOST_READINGS = 1_000


class AddressType(IntEnum):
    """How the address of an entry is resolved (lakeFS `catalog.proto`)."""

    BY_PREFIX = 0
    RELATIVE = 1
    FULL = 2


@dataclass(frozen=True)
class Namespace:
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

    References:
        lakeFS `pkg/block/namespace.go` and `pkg/block/local/adapter.go`, v1.84.
    """

    uri: str
    server_path: str | None = None

    @classmethod
    def parse(cls, uri: str, *, server_path: str | None = None) -> Namespace:
        """Read a storage namespace; see the class for what is refused."""
        return cls(uri, server_path)

    def __post_init__(self) -> None:
        match = _URI.fullmatch(self.uri)
        if match is None or _KINDS.get(match[1].lower()) not in _COLLECTED_KINDS:
            raise AddressError(
                f"storage namespace {_shown(self.uri)} has no scheme that can be collected "
                "(s3://, gs://, https://ACCOUNT.blob.../CONTAINER, local://)",
                "Look at the repository's storage_namespace.",
            )
        if _SECOND_READING_PATTERN.search(match[2]) or CONTROL_PATTERN.search(match[2]):
            raise self._strange("holds a query, an escape, a user part or a control character")
        if not self._authority and self._kind != "local":
            raise self._strange("names no bucket or account")
        if not self._path and self._kind in ("local", "azure"):
            raise self._strange("names no directory or container")
        if self._path and FOLDED_SEGMENT_PATTERN.search(self._path):
            raise self._strange("holds an empty, `.` or `..` segment")
        if self._kind == "azure" and _RENAMED_BY_AZURE_PATTERN.search(self._path):
            raise self._strange(
                "holds a backslash or a segment that ends in a dot, which Azure takes for another "
                "name,"
            )
        self._check_server_path()

    def _strange(self, what: str) -> AddressError:
        return AddressError(
            f"storage namespace {_shown(self.uri)} {what}, so its addresses can be read in two "
            "ways",
            "Such a repository has to be collected by hand.",
        )

    def _check_server_path(self) -> None:
        if self._kind != "local":
            return
        if self.server_path is None:
            raise SettingsError(
                f"storage namespace {_shown(self.uri)} lies on a local blockstore, and the "
                "blockstore's path on the server is not set",
                "Linked and staged objects have absolute addresses there: set server_path to the "
                "path that the server's own configuration names (blockstore.local.path).",
            )
        inner = self.server_path.rstrip("/")
        if not self.server_path.startswith("/") or FOLDED_SEGMENT_PATTERN.search(inner[1:]):
            raise SettingsError(
                f"server_path {self.server_path!r} is not an absolute path below / without `.`, "
                "`..` and empty segments",
                "Set it to the path that the server shows in its addresses, "
                "local://<server_path>/...",
            )

    @property
    def scheme(self) -> str:
        """The scheme in lower case, without `://`."""
        return self.uri.partition("://")[0].lower()

    @property
    def kind(self) -> str:
        """The kind of store, as the server's `blockstore_type` names it: s3, gs, azure or local."""
        return self._kind

    @property
    def _kind(self) -> str:
        return _KINDS[self.scheme]

    @cached_property
    def _authority(self) -> str:
        return _authority(self._kind, self.uri.partition("://")[2])

    @cached_property
    def _path(self) -> str:
        """Path below the authority without the slashes at its end; empty for a whole bucket."""
        rest = self.uri.partition("://")[2].rstrip("/")
        return rest if self._kind == "local" else rest.partition("/")[2]

    @cached_property
    def root(self) -> str:
        """Normalized URI of the namespace, with one slash at its end and the host in lower case."""
        return f"{self.scheme}://" + "".join(
            f"{part}/" for part in (self._authority, self._path) if part
        )

    @property
    def bucket(self) -> str:
        """Bucket (S3, GCS) or host (Azure); empty on a local blockstore."""
        return self._authority

    @property
    def path(self) -> str:
        """Path below the bucket, host or blockstore, without slashes around it."""
        return self._path

    @cached_property
    def _local_forms(self) -> tuple[str, ...]:
        """What may stand between `local://` and a relative address.

        The server joins a FULL address to the blockstore's path once more when it shows it, and
        somebody may stage the address that was shown.
        """
        server = (self.server_path or "").rstrip("/")
        return tuple(
            f"{before}{self._path}/"
            for before in ("", *(f"{server * times}/" for times in (1, 2, 3)))
        )

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
        if not address or "\0" in address:
            raise _unknown(address, "is empty or holds a NUL")
        if address_type == AddressType.RELATIVE:
            return self._checked(address, address)
        match = _URI.fullmatch(address)
        known = match is not None and match[1].lower() in _KINDS
        if address_type == AddressType.FULL:
            if not known:
                raise _unknown(
                    address, f"is FULL and does not begin with a known scheme ({', '.join(_KINDS)})"
                )
            return self._cut_out(address)
        if address_type == AddressType.BY_PREFIX:
            return self._cut_out(address) if known else self._checked(address, address)
        raise _unknown(address, f"has the address type {address_type}, which is none of 0, 1, 2")

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

    def _cut_out(self, address: str) -> str | None:
        scheme, _, rest = address.partition("://")
        if _KINDS[scheme.lower()] != self._kind:
            return None
        plain, folded = self._cut(rest), self._cut(self._folded(rest))
        if plain != folded and self._may_be_collected(rest):
            raise _unknown(
                address, f"could be read as {_shown(plain)} or as {_shown(folded)} of {self.root}"
            )
        if plain is not None:
            return self._checked(plain, address, absolute=True)
        self._suspect_server_path(address, rest)
        return None

    def _folded(self, rest: str) -> str:
        """Return the other reading of what follows `scheme://`; see `_fold`.

        On Azure the server knows an account by the first label of its host alone, whatever domain
        follows; a suffix behind a dash in that label is another way to the same account. Some
        stores that speak S3 ignore the case of a bucket (where it is a host). Some (MinIO) drop
        slashes before a key and then fold the rest of it. On other stores these are other objects.
        """
        folded = _fold(self._kind, rest)
        if self._kind == "local":
            return folded
        authority, slash, path = folded.partition("/")
        if self._kind != "azure":
            if authority.lower() == self._authority.lower():
                authority = self._authority
            return (
                authority
                + slash
                + (_fold("local", path.lstrip("/")) if path.startswith("/") else path)
            )
        if _azure_account(authority.lower()) == self._account:
            authority = self._authority
        segments: list[str] = []
        for segment in path.replace("\\", "/").split("/"):
            if segment == "..":
                del segments[-1:]
            elif segment != ".":
                segments.append(segment.rstrip("."))
        return authority + slash + "/".join(segments).strip("/")

    def _may_be_collected(self, rest: str) -> bool:
        """Say whether what follows `scheme://` has any reading that could be collected.

        It is decoded again and again until nothing changes. People keep files of their own beside
        `data/` and stage them, with colons escaped (`%3A`) in the names of Hive partitions. It does
        not matter which reading such an address means, because none of them is ever deleted.
        """
        if self._kind == "local":
            return True
        readings, seen = [rest], set[str]()
        while readings and len(seen) < _MOST_READINGS:
            reading = readings.pop()
            if reading in seen:
                continue
            seen.add(reading)
            authority, slash, path = reading.partition("/")
            for form in (reading, authority + slash + _fold("local", path.lstrip("/"))):
                inside = self._cut(form)
                if inside is not None and (
                    inside.startswith("data/") or is_given_name(inside, flat=True)
                ):
                    return True
            readings += [
                self._folded(reading),
                unquote(reading),
                *(reading.partition(mark)[0] for mark in "?#"),
            ]
        return bool(readings)

    @cached_property
    def _account(self) -> str:
        """The bucket, or on Azure the account: what tells stores apart."""
        return _azure_account(self._authority) if self._kind == "azure" else self._authority

    def _cut(self, rest: str) -> str | None:
        """Cut the namespace off what follows `scheme://`; None when it does not begin with it."""
        if self._kind == "local":
            return next(
                (rest[len(form) :] for form in self._local_forms if rest.startswith(form)), None
            )
        authority, _, path = rest.partition("/")
        if _authority(self._kind, authority) != self._authority or len(authority) == len(rest):
            return None
        before = f"{self._path}/" if self._path else ""
        return path[len(before) :] if path.startswith(before) else None

    def _checked(self, relative: str, address: str, *, absolute: bool = False) -> str:
        """Refuse a relative address that the store would resolve to another name."""
        if not relative:
            raise _unknown(address, "names the namespace itself")
        if relative.startswith("/") and not absolute:
            raise _unknown(address, "is relative and begins with a slash")
        if self._kind == "local" and FOLDED_SEGMENT_PATTERN.search(relative):
            raise _unknown(
                address, "holds an empty, `.` or `..` segment, which a file system folds away"
            )
        if self._kind == "azure" and _RENAMED_BY_AZURE_PATTERN.search(relative):
            raise _unknown(
                address,
                "holds a backslash or a segment that ends in a dot, which Azure takes for another "
                "name",
            )
        return relative

    def _suspect_server_path(self, address: str, rest: str) -> None:
        """Refuse an address that looks like an object of this namespace below another path.

        With a wrong `server_path`, for instance a parent of the right one, every linked object
        would lie outside and so be expired. An import from a folder that ends like the namespace
        looks the same, so it is refused as well. The other path may also be a relative one.
        """
        if self._kind != "local":
            return
        if any(self._own_object.search(f"/{form}") for form in (rest, _fold(self._kind, rest))):
            raise _unknown(
                address,
                f"looks like an object of {self.root}, but is none with server_path "
                f"{self.server_path!r} (correct that setting if the server names its blockstore "
                "otherwise)",
            )

    @cached_property
    def _own_object(self) -> re.Pattern[str]:
        """Matches a path in which a collectable name follows the namespace."""
        return re.compile(rf"/{re.escape(self._path)}/(?:data/|[0-9a-f]{{32}}\Z)")

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
        if addresses.null_count or types.null_count or len(addresses) != len(types):
            raise AddressError(
                f"{self.root}: a column of {len(addresses)} addresses has nulls, or its types do "
                "not match it",
                "The table it comes from is not what lakeFS writes.",
            )
        if pc.all(pc.equal(types, int(AddressType.FULL))).as_py():
            plain = self._all_plain(addresses)
            if plain is not None:
                return plain
        relative = _mask(pc.equal(types, int(AddressType.RELATIVE)))
        empty = pc.equal(pc.binary_length(addresses), 0)
        clean = ~(_mask(pc.or_(empty, pc.starts_with(addresses, "/"))) | _holding_nul(addresses))
        if self._kind == "local":
            clean &= ~_mask(pc.match_substring_regex(addresses, FOLDED_SEGMENT)) | ~relative
        if self._kind == "azure":
            clean &= ~_mask(pc.match_substring_regex(addresses, _RENAMED_BY_AZURE))
        relative &= clean
        if relative.all():
            return addresses
        inside, outside, cut = self._plain_uris(
            addresses, clean & _mask(pc.equal(types, int(AddressType.FULL)))
        )
        result = pc.if_else(pa.array(inside), cut, addresses)
        result = pc.if_else(pa.array(outside), pa.scalar(None, pa.string()), result)
        hard = np.flatnonzero(~(relative | inside | outside))
        if not len(hard):
            return result
        values, kinds = (
            addresses.take(pa.array(hard)).to_pylist(),
            types.take(pa.array(hard)).to_pylist(),
        )
        answers = [self.relative(value, kind) for value, kind in zip(values, kinds, strict=True)]
        mask = np.zeros(len(addresses), dtype=bool)
        mask[hard] = True
        return pc.replace_with_mask(result, pa.array(mask), pa.array(answers, pa.string()))

    def _all_plain(self, addresses: pa.StringArray) -> pa.StringArray | None:
        """Cut FULL addresses after the root if all of them have one reading; None otherwise.

        Then each is the root as it stands, and segments of characters that no server or store
        reads in another way. A server shows addresses like that, millions of them.
        """
        forms = self._local_forms if self._kind == "local" else ()
        for begin in [f"local://{form}" for form in forms] or [self.root]:
            if pc.all(pc.starts_with(addresses, begin)).as_py():
                cut = pc.utf8_slice_codeunits(addresses, len(begin))
                if pc.all(pc.match_substring_regex(cut, _PLAIN_SEGMENTS)).as_py():
                    return cut
        return None

    def _plain_uris(
        self, addresses: pa.StringArray, candidates: npt.NDArray[np.bool_]
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_], pa.StringArray]:
        """Split the FULL addresses that have one reading into inside and outside.

        Returns:
            Which are inside, which are outside, and the addresses cut after the root.
        """
        nothing = np.zeros(len(addresses), dtype=bool)
        if not candidates.any():
            return nothing, nothing, addresses
        others = "|".join(scheme for scheme, kind in _KINDS.items() if kind != self._kind)
        outside = candidates & _mask(pc.match_substring_regex(addresses, rf"^(?:{others})://"))
        if self._kind == "local":
            own = candidates & ~_mask(pc.match_substring_regex(addresses, _FOLDED_LOCAL))
            inside, cut = nothing, addresses
            for form in self._local_forms:
                here = own & ~inside & _mask(pc.starts_with(addresses, f"local://{form}"))
                if not here.any():
                    continue
                inside = inside | here
                cut = pc.if_else(
                    pa.array(here), pc.utf8_slice_codeunits(addresses, len(f"local://{form}")), cut
                )
            return inside, outside, cut
        second = _SECOND_READING_AZURE if self._kind == "azure" else _SECOND_READING
        one_reading = candidates & ~_mask(pc.match_substring_regex(addresses, second))
        if self._kind != "azure":
            plain = _mask(
                pc.match_substring_regex(
                    addresses, rf"^[a-z0-9]+://{re.escape(self._authority)}/[^/]"
                )
            )
            one_reading &= plain | ~_mask(
                pc.match_substring_regex(addresses, self._in_bucket_of_any_case)
            )
        own_store = (
            f"{self.scheme}://{self._authority}/" if self._kind == "azure" else f"{self.scheme}://"
        )
        here = _mask(pc.starts_with(addresses, self.root))
        outside |= one_reading & ~here & _mask(pc.starts_with(addresses, own_store))
        inside = one_reading & here & _mask(pc.not_equal(addresses, self.root))
        return inside, outside, pc.utf8_slice_codeunits(addresses, len(self.root))

    @property
    def _in_bucket_of_any_case(self) -> str:
        return rf"(?i)^[a-z0-9]+://{re.escape(self._authority)}(?:/|$)"

    def contains(self, other: Namespace) -> bool:
        """Say whether the other namespace is this one or lies inside it."""
        mine, theirs = f"{self._path}/".lstrip("/"), f"{other._path}/".lstrip("/")
        return (self._kind, self._account) == (other._kind, other._account) and theirs.startswith(
            mine
        )

    def overlaps(self, other: Namespace) -> bool:
        """Say whether one of the two is inside the other or both are the same.

        Collecting one of such a pair could delete objects that only the other one references.
        """
        return self.contains(other) or other.contains(self)


def _mask(values: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    mask: npt.NDArray[np.bool_] = values.to_numpy(zero_copy_only=False)
    return mask


def _holding_nul(addresses: pa.StringArray) -> npt.NDArray[np.bool_]:
    data = addresses.buffers()[2]
    # One look at all bytes costs a hundredth of a search in each address.
    if data is None or np.frombuffer(data, np.uint8).all():
        return np.zeros(len(addresses), np.bool_)
    return _mask(pc.match_substring(addresses, "\0"))


def _authority(kind: str, rest: str) -> str:
    """Normalize the bucket or host, which is the part up to the first slash.

    A host has no case. Its default port and the three names of one Azure account (blob, dfs, and
    lakeFS's adls) lead to the same objects.
    """
    if kind == "local":
        return ""
    authority = rest.partition("/")[0]
    if kind != "azure":
        return authority
    host = re.sub(r":(?:80|443)\Z", "", authority.lower())
    return re.sub(r"\A([^.:]+)\.(?:dfs|adls)\.", r"\1.blob.", host)


def _azure_account(host: str) -> str:
    """Return the account that an Azure host leads to.

    The name of an account has no dash. A suffix behind one (`-secondary`, `-ipv6`) is another way
    to the same account.
    """
    return host.partition(".")[0].partition("-")[0]


def _fold(kind: str, rest: str) -> str:
    """Return the other reading of what follows `scheme://`.

    A local path is folded. Elsewhere the query, the escapes and the user part are resolved.
    """
    if kind == "local":
        segments: list[str] = []
        for segment in rest.split("/"):
            if segment == "..":
                del segments[-1:]
            elif segment not in ("", "."):
                segments.append(segment)
        return ("/" if rest.startswith("/") else "") + "/".join(segments)
    authority, slash, path = rest.partition("/")
    authority, question, _ = authority.partition("?")
    if question:
        return authority.rpartition("@")[2]
    return unquote(authority).rpartition("@")[2] + slash + unquote(path.partition("?")[0])


def _shown(address: str | None) -> str:
    """Quote an address for a message, without user part and query, which could be credentials."""
    if address is None:
        return "something outside"
    text = re.sub(r"(?s)\?.+", "?...", address)
    text = re.sub(r"(?s)://[^/]*@", "://...@", text)
    return repr(text if len(text) <= 300 else f"{text[:300]}...")


def _unknown(address: str, what: str) -> AddressError:
    return AddressError(
        f"address {_shown(address)} {what}; whether it is alive cannot be decided",
        "Find the entry that has it and report the form, or remove the entry.",
    )
