"""The local blockstore: the directory of a namespace, and the file of an address."""

from __future__ import annotations

import os
from datetime import datetime
from http import HTTPStatus
from pathlib import Path

from lakegc_dagster.sandbox.clock import SandboxClock
from lakegc_dagster.sandbox.errors import ApiError, no_data

SCHEME = "local://"
RELATIVE = 1
FULL = 2


def namespace_name(storage_namespace: str) -> str:
    """Return the directory of a namespace below the blockstore: `local://a/b/` gives `a/b`."""
    return storage_namespace.removeprefix(SCHEME).strip("/")


class Blockstore:
    """Files of all storage namespaces below one directory.

    Args:
        root: The blockstore's directory; absolute.
        clock: Gives written files their modification time.
    """

    def __init__(self, root: Path, clock: SandboxClock) -> None:
        self.root = root
        self._clock = clock

    def directory(self, storage_namespace: str) -> Path:
        """Return the directory of a namespace."""
        return self.root / namespace_name(storage_namespace)

    def location(self, storage_namespace: str, key: str) -> str:
        """Print a key as the real local store does: blockstore path, namespace, key."""
        return f"{SCHEME}{self.root}/{namespace_name(storage_namespace)}/{key}"

    def physical_address(self, storage_namespace: str, address: str, address_type: int) -> str:
        """Print an entry's address as stat and ls show it.

        A FULL address with an absolute path shows the blockstore's path twice, as on the real
        server.

        References:
            `lakefs-facts` 11.24, 11.35.
        """
        if address_type == RELATIVE:
            return self.location(storage_namespace, address)
        rest = address.removeprefix(SCHEME)
        return f"{SCHEME}{self.root}{rest if rest.startswith('/') else '/' + rest}"

    def file(self, storage_namespace: str, address: str, address_type: int) -> Path:
        """Return the file of an entry.

        Raises:
            ApiError: 403 if the address lies outside the blockstore.
        """
        if address_type == RELATIVE:
            path = self.directory(storage_namespace) / address
        else:
            # `/` keeps an absolute right-hand side as it is: local:///abs/path is that path.
            path = self.root / address.removeprefix(SCHEME)
        if not Path(os.path.normpath(path)).is_relative_to(self.root):
            raise ApiError(HTTPStatus.FORBIDDEN, f"{address}: forbidden")
        return path

    def read(self, storage_namespace: str, address: str, address_type: int) -> bytes:
        """Read an entry's object.

        Raises:
            ApiError: 410 if the object is not in the store.
        """
        try:
            return self.file(storage_namespace, address, address_type).read_bytes()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            raise no_data() from None

    def write(
        self, storage_namespace: str, key: str, data: bytes, *, written_at: datetime | None = None
    ) -> None:
        """Write a file atomically, dated `written_at` or the instant of the clock."""
        path = self.directory(storage_namespace) / key
        instant = int((written_at or self._clock.now()).timestamp() * 1_000_000) * 1000
        partial = path.with_name(f".{path.name}.partial")
        try:
            partial.write_bytes(data)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial.write_bytes(data)
        os.utime(partial, ns=(instant, instant))
        partial.replace(path)

    def read_key(self, storage_namespace: str, key: str) -> bytes | None:
        """Read a file of the namespace; None when there is none."""
        try:
            return (self.directory(storage_namespace) / key).read_bytes()
        except FileNotFoundError:
            return None

    def has(self, storage_namespace: str, key: str) -> bool:
        """Say whether the namespace has this file."""
        return (self.directory(storage_namespace) / key).is_file()
