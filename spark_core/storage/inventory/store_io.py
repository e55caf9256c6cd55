"""What pyiceberg reads, from one of our stores."""

from __future__ import annotations

from typing import Any

from pyiceberg.io import FileIO, InputFile, OutputFile

from spark_core.errors import NotFoundError
from spark_core.storage.contract import ObjectStore


def key_of(location: str, root: str) -> str:
    """Return the key of a file in its store.

    Raises:
        ValueError: If it lies elsewhere.
    """
    location = location.removeprefix("file://")
    if not location.startswith(root):
        raise ValueError(f"{location} does not lie below {root}")
    return location.removeprefix(root)


class StoreIO(FileIO):
    """Reads what pyiceberg asks for from one of our stores; writes nothing."""

    def __init__(self, store: ObjectStore, root: str) -> None:
        super().__init__({})
        self._store, self._root = store, root

    def new_input(self, location: str) -> InputFile:
        """Return a file that is there to be read."""
        return _StoredFile(location, self._store, key_of(location, self._root))

    def new_output(self, location: str) -> OutputFile:
        """Write nothing."""
        raise NotImplementedError(f"nothing is written to {location}")

    def delete(self, location: Any) -> None:
        """Delete nothing."""
        raise NotImplementedError(f"{location} stays")


class _StoredFile(InputFile):
    def __init__(self, location: str, store: ObjectStore, key: str) -> None:
        super().__init__(location)
        self._store, self._key = store, key

    def __len__(self) -> int:
        with self._store.open_source(self._key) as source:
            return source.seek(0, 2)

    def exists(self) -> bool:
        return self._store.exists(self._key)

    def open(self, seekable: bool = True) -> Any:  # noqa: ARG002, FBT001, FBT002
        # pyiceberg and Arrow close what they were given.
        return _Opened(self._store, self._key)


class _Opened:
    """An object that is open for reading; closing it closes the store's source."""

    def __init__(self, store: ObjectStore, key: str) -> None:
        self._context = store.open_source(key)
        try:
            self._source = self._context.__enter__()
        except NotFoundError as error:
            raise FileNotFoundError(f"{store.root}{key} is not there") from error
        self._open = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._open:
            self._open = False
            self._context.__exit__(None, None, None)

    @property
    def closed(self) -> bool:
        return not self._open
