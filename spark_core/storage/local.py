"""The server's local blockstore: files below a directory, by the operating system's own calls.

obstore is not used here. Its local listing silently leaves out names that end in `#1` and dangling
links. It also follows links out of the directory, and fails for a newline in a name. `os.scandir`
gives every name exactly and costs about the same. Directories are entered by descriptor without
following links. So nothing outside the namespace can be read or deleted, even while somebody
changes the tree.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from spark_core.addresses.namespace import Namespace
from spark_core.errors import (
    AddressError,
    IncompleteReadError,
    LakegcError,
    NotFoundError,
    ObjectExistsError,
    PermissionDeniedError,
    SettingsError,
    TransientError,
)
from spark_core.schemas import INSTANT, OBJECT_LISTING
from spark_core.storage.after_deletion import AfterDeletion
from spark_core.storage.contract import (
    LISTING_BATCH_ROWS,
    DeleteOutcome,
    Names,
    ObjectStore,
    Outcomes,
    Pace,
    StoreOptions,
    as_prefix,
    exact_range,
    listing_batch,
    unpaced,
)
from spark_core.storage.deletion import KeyAnswer, delete_in_batches, one_by_one, unsafe_name
from spark_core.storage.mounts import is_of_this_machine
from spark_core.storage.objects import Description, ObjectInfo

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COPIED_BYTES = 1 << 20
# A busy mount; asked again it may succeed.
_PASSING = (errno.EAGAIN, errno.EBUSY, errno.ETIMEDOUT, errno.EINTR)
_NOT_A_FILE_THERE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


class _LinkError(OSError):
    """A path leads over a symbolic link, which is never followed."""


class LocalStore(ObjectStore):
    """A namespace of the blockstore `local`."""

    delete_permission = "changing its folders (w and x)"

    def __init__(self, namespace: Namespace, options: StoreOptions) -> None:
        super().__init__(namespace, options)
        os.close(self._open_blockstore())

    @property
    def longest_request(self) -> timedelta | None:
        """A process ends only after its calls; on a network the call's message may come later."""
        path = self.options.local_path
        is_here = path is not None and is_of_this_machine(path, whole=True)
        return timedelta() if is_here else None

    def _open_blockstore(self) -> int:
        """Open the directory above all namespaces; without it everything would look empty.

        That directory may be a link.
        """
        path = self.options.local_path
        try:
            if path and Path(path).is_absolute():
                return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            problem = "no absolute path"
        except OSError as error:
            problem = error.strerror or "unknown"
        raise SettingsError(
            f"{self.root} lies on a local blockstore, and local_path {path!r} cannot be opened on "
            f"this machine ({problem})",
            "Set it to the directory where this machine sees the server's blockstore.",
        )

    def children(self, prefix: str) -> tuple[Names, pa.Table]:
        """List one level; an empty directory counts as a prefix."""
        directories: list[str] = []
        batches = list(self._batches(as_prefix(prefix), directories))
        return sorted(directories), pa.Table.from_batches(batches, OBJECT_LISTING)

    def list(self, prefix: str) -> Iterator[pa.RecordBatch]:
        """List everything below, with one open directory per level for any number of files."""
        return self._batches(as_prefix(prefix), None)

    def _batches(self, prefix: str, directories: Names | None) -> Iterator[pa.RecordBatch]:
        """List files below a prefix; with `directories`, of one level, appending its folders."""
        self.requests["list"] += 1
        keys: list[str] = []
        sizes: list[int] = []
        modified: list[int] = []
        with self._telling("list", prefix):
            for key, status in self._files(prefix, directories):
                keys.append(key)
                sizes.append(status.st_size)
                modified.append(status.st_mtime_ns // 1000)
                if len(keys) == LISTING_BATCH_ROWS:
                    yield self._batch(keys, sizes, modified)
                    keys, sizes, modified = [], [], []
            if keys:
                yield self._batch(keys, sizes, modified)

    def _batch(
        self, keys: Sequence[str], sizes: Sequence[int], modified: Sequence[int]
    ) -> pa.RecordBatch:
        try:
            return listing_batch(keys, sizes, pa.array(modified, pa.int64()).cast(INSTANT))
        except UnicodeEncodeError as error:
            name = str(error.object).encode("utf-8", "surrogateescape")
            raise self._strange(f"a name that is not UTF-8, {name!r}") from error

    def _files(
        self, prefix: str, directories: Names | None
    ) -> Iterator[tuple[str, os.stat_result]]:
        if prefix:
            self.checked_key(prefix.removesuffix("/"))
        try:
            top = self._enter(prefix)
        except (FileNotFoundError, NotADirectoryError):
            return
        try:
            yield from self._walk(top, prefix, directories)
        finally:
            os.close(top)

    def _walk(
        self, directory: int, before: str, directories: Names | None
    ) -> Iterator[tuple[str, os.stat_result]]:
        with os.scandir(directory) as entries:
            for entry in entries:
                key = before + entry.name
                try:
                    if entry.is_file(follow_symlinks=False):
                        self._require_one_spelling(entry, directory, key)
                        yield key, entry.stat(follow_symlinks=False)
                    elif not entry.is_dir(follow_symlinks=False):
                        what = (
                            "a symbolic link"
                            if entry.is_symlink()
                            else "neither a file nor a directory"
                        )
                        raise self._strange(f"{key!r}, which is {what}")
                    elif directories is not None:
                        directories.append(f"{key}/")
                    else:
                        inner = _open_directory(entry.name, directory)
                        try:
                            yield from self._walk(inner, f"{key}/", None)
                        finally:
                            os.close(inner)
                except FileNotFoundError:
                    # Removed since its directory was read: it is really gone.
                    continue

    def _require_one_spelling(self, entry: os.DirEntry[str], directory: int, key: str) -> None:
        """Refuse a file that is also found under the other normal form of its name.

        Addresses are compared by their bytes.
        """
        if entry.name.isascii():
            return
        for other in {
            unicodedata.normalize("NFC", entry.name),
            unicodedata.normalize("NFD", entry.name),
        }:
            if other == entry.name:
                continue
            with suppress(FileNotFoundError):
                if os.stat(other, dir_fd=directory, follow_symlinks=False).st_ino == entry.inode():
                    raise IncompleteReadError(
                        f"the listing of {self.root} met {key!r}, which this file system also "
                        f"finds as {other!r}: an address "
                        "written that way would look like another object",
                        "Move the blockstore to a file system that tells the normal forms of "
                        "Unicode apart.",
                    )

    def _strange(self, what: str) -> IncompleteReadError:
        return IncompleteReadError(
            f"the listing of {self.root} met {what}; it can be neither followed nor listed as an "
            "object, so the listing is not complete",
            "Move it out of the namespace's directory.",
        )

    def _enter(self, prefix: str, *, create: bool = False) -> int:
        """Open the directory of a prefix, one segment at a time and never over a link.

        The caller closes it.

        Raises:
            TransientError: If the namespace's own directory, which only the server makes, is
                missing, or `data/` on the way to something below it. A mount may have gone away, so
                nothing can be said to be gone.
        """
        directory = self._open_blockstore()
        root, below = (
            [name for name in path.split("/") if name] for path in (self.namespace.path, prefix)
        )
        # A fresh repository has no `data/`. A listing of `data/` itself is empty then.
        needed = len(root) + (prefix != "data/" and below[:1] == ["data"])
        for number, segment in enumerate([*root, *below]):
            try:
                if create and number >= len(root):
                    with suppress(FileExistsError):
                        os.mkdir(segment, dir_fd=directory)
                        # The content of the directory is only as durable as its name.
                        os.fsync(directory)
                inner = _open_directory(segment, directory)
            except (FileNotFoundError, NotADirectoryError) as error:
                if number < needed:
                    raise TransientError(
                        "the directory of "
                        f"{self.root}{segment + '/' if number >= len(root) else ''} is not there: "
                        "a mount "
                        "may have gone away",
                        "Look at the mount, and at local_path, and run again.",
                    ) from error
                raise
            finally:
                os.close(directory)
            directory = inner
        return directory

    @contextmanager
    def _telling(self, action: str, key: str) -> Iterator[None]:
        """Turn the system's errors into the project's, with the key and the root in the text."""
        try:
            yield
        except _LinkError as error:
            raise IncompleteReadError(
                f"{action} {key!r} of {self.root}: {error.filename!r} on the way is a symbolic "
                "link, which is not followed",
                "Replace it by what it points to.",
            ) from error
        except _NOT_A_FILE_THERE as error:
            raise NotFoundError(
                f"{action} {key!r}: {self.root} has no such object. Look whether it was moved."
            ) from error
        except FileExistsError as error:
            raise ObjectExistsError(
                f"{action} {key!r}: {self.root} has such an object already; it was left as it is. "
                "Another writer was first."
            ) from error
        except OSError as error:
            if _is_refusal(error):
                raise PermissionDeniedError(
                    f"{action} {key!r} of {self.root}: the system refuses ({error.strerror})",
                    f"Give this user the permission to {action} there, for files and their "
                    "directories.",
                ) from error
            raise TransientError(
                f"{action} {key!r} of {self.root}: the system could not ({error.strerror})",
                "Look at the disk or the mount and run again.",
            ) from error

    @contextmanager
    def _parent(self, key: str) -> Iterator[tuple[int, str]]:
        before, _, name = self.checked_key(key).rpartition("/")
        directory = self._enter(before)
        try:
            yield directory, name
        finally:
            os.close(directory)

    def head(self, key: str) -> ObjectInfo:
        """Describe a file; a directory is no object."""
        self.requests["head"] += 1
        with self._telling("read", key), self._parent(key) as (directory, name):
            return _described(key, _file_status(name, directory))

    def written_at(self, key: str) -> datetime:
        """Tell when a file was last written, and remember a small one."""
        with self._opened(key) as source, self._telling("read", key):
            status = os.fstat(source.fileno())
            if self.small_files.takes(status.st_size):
                self.small_files.keep(key, source.read())
        return _described(key, status).last_modified

    def describe(self, key: str) -> Description:
        """Describe a file as the system knows it."""
        self.requests["head"] += 1
        with self._telling("read", key), self._parent(key) as (directory, name):
            found = _file_status(name, directory)
        version = f"{found.st_ino}-{found.st_size}-{found.st_mtime_ns}-{found.st_ctime_ns}"
        return Description(key, found.st_size, version)

    def transfer(self, source: Description, target: str) -> None:
        """Write a second file; a link would change when the original is written in place."""
        with self.open_source(source.key) as original, self._published(target, _link) as sink:
            self.requests["copy"] += 1
            with self._telling("copy", source.key):
                shutil.copyfileobj(original, sink, _COPIED_BYTES)

    @contextmanager
    def open_source(self, key: str) -> Iterator[BinaryIO]:
        """Open a file for reading."""
        with self._opened(key) as source:
            yield source

    @contextmanager
    def _opened(self, key: str) -> Iterator[BinaryIO]:
        self.requests["read"] += 1
        with self._telling("read", key), self._parent(key) as (directory, name):
            _file_status(name, directory)
            source = os.fdopen(
                os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory), "rb"
            )
        with source:
            yield source

    def read(self, key: str) -> bytes:
        """Read a whole file."""
        with self.open_source(key) as source, self._telling("read", key):
            return source.read()

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """Read a part of a file."""
        with self.open_source(key) as source, self._telling("read", key):
            source.seek(start)
            return exact_range(source.read(length), self, key, start, length)

    def put(self, key: str, data: bytes) -> None:
        """Write beside the place and move the file there."""
        with self.open_sink(key) as sink:
            sink.write(data)

    def put_if_absent(self, key: str, data: bytes) -> None:
        """Write beside the place and link there, which the system does only if nothing is there."""
        with self._published(key, _link) as sink:
            sink.write(data)

    @contextmanager
    def open_sink(self, key: str) -> Iterator[BinaryIO]:
        """Write beside the place and move the file there when the block ends well."""
        with self._published(key, _move) as sink:
            yield sink

    @contextmanager
    def _published(self, key: str, publish: Callable[[str, str, int], None]) -> Iterator[BinaryIO]:
        self.requests["put"] += 1
        before, _, name = self.checked_key(key).rpartition("/")
        part = f".lakegc-{secrets.token_hex(8)}.part"
        with self._telling("write", key):
            directory = self._enter(before, create=True)
        try:
            with self._telling("write", key):
                opened = os.open(
                    part,
                    os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC,
                    0o666,
                    dir_fd=directory,
                )
            with os.fdopen(opened, "wb") as sink:
                yield sink
                sink.flush()
                # A journal is only worth something if it survives a crash of the machine.
                os.fsync(opened)
            with self._telling("write", key):
                publish(part, name, directory)
                os.fsync(directory)
        finally:
            with suppress(FileNotFoundError):  # the file was moved
                os.unlink(part, dir_fd=directory)
            os.close(directory)

    def after_deletion(self) -> AfterDeletion:
        """Say that a file system keeps nothing; lakegc knows nothing of snapshots under it."""
        return AfterDeletion(False, f"{self.root} is a folder, which keeps no deleted files")

    def probe_delete(self, key: str) -> DeleteOutcome:
        """Ask the system about the folders directly under data/; a name tells nothing here."""
        try:
            refused = [
                folder
                for folder in ("data/", *self.children("data/")[0])
                if not self._may_change(folder)
            ]
        except PermissionDeniedError as error:
            return DeleteOutcome(key, "refused", error.found)
        except LakegcError as error:
            return DeleteOutcome(key, "failed", error.found)
        except OSError as error:
            return DeleteOutcome(key, "failed", str(error))
        if refused:
            return DeleteOutcome(
                key,
                "refused",
                f"permission denied in {refused[0]}, one of {len(refused)} such folders",
            )
        return DeleteOutcome(key, "already_gone")

    def _may_change(self, folder: str) -> bool:
        try:
            directory = self._enter(folder)
        except FileNotFoundError:
            return True  # nothing was ever written there, or it vanished meanwhile
        try:
            return os.access(".", os.W_OK | os.X_OK, dir_fd=directory, effective_ids=True)
        finally:
            os.close(directory)

    def delete(self, keys: Sequence[str], *, pace: Pace = unpaced) -> Outcomes:
        """Unlink files one by one; never a directory, never through a link."""
        return delete_in_batches(
            keys,
            lambda some: self._unlink(some, pace),
            self.options,
            size=self.delete_batch_size,
            pace=pace,
            unsafe=self._unsafe_name,
        )

    def _unsafe_name(self, key: str) -> str | None:
        """Allow control characters: the system takes a name as it is, byte by byte."""
        try:
            self.checked_key(key)
        except AddressError:
            return unsafe_name(key)
        return None

    def _unlink(self, keys: Sequence[str], pace: Pace) -> dict[str, KeyAnswer]:
        self.requests["delete"] += len(keys)
        return one_by_one(keys, self._unlink_one, pace)

    def _unlink_one(self, key: str) -> KeyAnswer:
        try:
            with self._parent(key) as (directory, name):
                _file_status(name, directory)
                os.unlink(name, dir_fd=directory)
        except _LinkError as error:
            return KeyAnswer("refused", f"{error.filename!r} is a symbolic link")
        except IsADirectoryError:
            return KeyAnswer("refused", "it is a directory or no plain file")
        except (FileNotFoundError, NotADirectoryError):
            return KeyAnswer("already_gone")
        except OSError as error:
            return KeyAnswer(
                "refused" if _is_refusal(error) else "failed",
                error.strerror,
                passing=error.errno in _PASSING,
            )
        except (AddressError, SettingsError, TransientError) as error:
            return KeyAnswer(
                "failed" if isinstance(error, TransientError) else "refused", error.found
            )
        return KeyAnswer("deleted")


def _is_refusal(error: OSError) -> bool:
    return isinstance(error, PermissionError) or error.errno == errno.EROFS


def _open_directory(name: str, directory: int) -> int:
    try:
        return os.open(
            name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory
        )
    except NotADirectoryError as error:
        if stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            raise _LinkError(error.errno, "symbolic link", name) from error
        raise


def _file_status(name: str, directory: int) -> os.stat_result:
    """Describe a plain file; another kind of file is refused like a directory, a link apart."""
    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        raise _LinkError(0, "symbolic link", name)
    if not stat.S_ISREG(status.st_mode):
        raise IsADirectoryError(0, "no plain file", name)
    return status


def _described(key: str, status: os.stat_result) -> ObjectInfo:
    return ObjectInfo(
        key, status.st_size, _EPOCH + timedelta(microseconds=status.st_mtime_ns // 1000)
    )


def _move(part: str, name: str, directory: int) -> None:
    os.replace(part, name, src_dir_fd=directory, dst_dir_fd=directory)


def _link(part: str, name: str, directory: int) -> None:
    os.link(part, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
