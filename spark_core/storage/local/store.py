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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import BinaryIO

import pyarrow as pa

from spark_core.addresses.namespace import Namespace
from spark_core.errors import (
    AddressError,
    LakegcError,
    PermissionDeniedError,
    TransientError,
)
from spark_core.schemas import OBJECT_LISTING
from spark_core.storage.after_deletion import AfterDeletion
from spark_core.storage.contract import Names, ObjectStore
from spark_core.storage.copies import SecondName
from spark_core.storage.deletion import (
    KeyAnswer,
    Send,
    delete_in_batches,
    one_by_one,
    unsafe_name,
)
from spark_core.storage.listing_rows import as_prefix
from spark_core.storage.local.directories import Directories, file_status
from spark_core.storage.local.errors import deletion_answer, telling
from spark_core.storage.local.listing import list_files
from spark_core.storage.mounts import is_of_this_machine
from spark_core.storage.objects import Description, ObjectInfo
from spark_core.storage.options import StoreOptions
from spark_core.storage.outcomes import DeleteOutcome, Outcomes, Pace, unpaced
from spark_core.storage.ranged_reads import exact_range

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COPIED_BYTES = 1 << 20
# A file system that has no links or no more of them, another one, and a file of somebody else, of
# which the system makes no link, or whose time it does not set.
_NO_LINK = (
    *(errno.EPERM, errno.EXDEV, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK),
    errno.EACCES,
)


class LocalStore(ObjectStore):
    """A namespace of the blockstore `local`."""

    delete_permission = "changing its folders (w and x)"

    def __init__(self, namespace: Namespace, options: StoreOptions) -> None:
        super().__init__(namespace, options)
        os.close(self._directories.open_blockstore())

    @property
    def longest_request(self) -> timedelta | None:
        """A process ends only after its calls; on a network the call's message may come later."""
        path = self.options.local_path
        is_here = path is not None and is_of_this_machine(path, whole=True)
        return timedelta() if is_here else None

    @property
    def _directories(self) -> Directories:
        return Directories(self.root, self.namespace.path, self.options.local_path)

    @property
    def _place(self) -> str:
        """The namespace and the folder of it on this machine, for errors."""
        return f"{self.root} ({self.options.local_path}/{self.namespace.path})"

    def children(self, prefix: str) -> tuple[Names, pa.Table]:
        """List one level; an empty directory counts as a prefix."""
        folders: Names = []
        batches = list(self._batches(as_prefix(prefix), folders))
        return sorted(folders), pa.Table.from_batches(batches, OBJECT_LISTING)

    def list(self, prefix: str) -> Iterator[pa.RecordBatch]:
        """List everything below, with one open directory per level for any number of files."""
        return self._batches(as_prefix(prefix), None)

    def _batches(self, prefix: str, folders: Names | None) -> Iterator[pa.RecordBatch]:
        self.requests["list"] += 1
        if prefix:
            self.checked_key(prefix.removesuffix("/"))
        with telling("list", prefix, self._place):
            yield from list_files(self._directories, prefix, folders)

    @contextmanager
    def _parent(self, key: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
        before, _, name = self.checked_key(key).rpartition("/")
        directory = self._directories.enter(before, create=create)
        try:
            yield directory, name
        finally:
            os.close(directory)

    def head(self, key: str) -> ObjectInfo:
        """Describe a file; a directory is no object."""
        return _described(key, self._status(key))

    def _status(self, key: str) -> os.stat_result:
        self.requests["head"] += 1
        with telling("read", key, self._place), self._parent(key) as (directory, name):
            return file_status(name, directory)

    def written_at(self, key: str) -> datetime:
        """Tell when a file was last written, and remember a small one."""
        with self._opened(key) as source, telling("read", key, self._place):
            status = os.fstat(source.fileno())
            if self.small_files.takes(status.st_size):
                self.small_files.keep(key, source.read())
        return _described(key, status).last_modified

    def describe(self, key: str) -> Description:
        """Describe a file as the system knows it."""
        found = self._status(key)
        version = f"{found.st_ino}-{found.st_size}-{found.st_mtime_ns}-{found.st_ctime_ns}"
        return Description(key, found.st_size, version)

    def transfer(self, source: Description, target: str) -> None:
        """Write a second file; a link would change when the original is written in place."""
        size = source.size_bytes
        with self.open_source(source.key) as original, self._published(target, _link, size) as sink:
            self.requests["copy"] += 1
            with telling("copy", source.key, self._place):
                shutil.copyfileobj(original, sink, _COPIED_BYTES)

    def link_to(self, key: str, target: str, *, young: bool = False) -> bool:
        """Link to a file, durably; its time is set before anybody sees it under the target."""
        self.requests["copy"] += 1
        with (
            telling("link", key, self._place),
            self._parent(key) as (directory, name),
            self._parent(target, create=True) as (folder, other),
        ):
            source = file_status(name, directory)
            try:
                if young:
                    os.utime(name, dir_fd=directory, follow_symlinks=False)
                os.link(name, other, src_dir_fd=directory, dst_dir_fd=folder, follow_symlinks=False)
            except FileExistsError:
                there = os.stat(other, dir_fd=folder, follow_symlinks=False)
                if not os.path.samestat(source, there):
                    raise
            except OSError as error:
                if error.errno not in _NO_LINK:
                    raise
                return False
            else:
                there = os.stat(other, dir_fd=folder, follow_symlinks=False)
                if not young and not os.path.samestat(source, there):
                    # Nobody could tell later whether both are one file.
                    os.unlink(other, dir_fd=folder)
                    return False
            # The original goes next, and a crash of the machine must not take both names.
            os.fsync(folder)
        return True

    @contextmanager
    def open_source(self, key: str) -> Iterator[BinaryIO]:
        """Open a file for reading."""
        with self._opened(key) as source:
            yield source

    @contextmanager
    def _opened(self, key: str) -> Iterator[BinaryIO]:
        self.requests["read"] += 1
        with telling("read", key, self._place), self._parent(key) as (directory, name):
            file_status(name, directory)
            source = os.fdopen(
                os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory), "rb"
            )
        with source:
            yield source

    def read(self, key: str) -> bytes:
        """Read a whole file."""
        with self.open_source(key) as source, telling("read", key, self._place):
            return source.read()

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """Read a part of a file."""
        with self.open_source(key) as source, telling("read", key, self._place):
            source.seek(start)
            return exact_range(source.read(length), self.root, key, start, length)

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
    def _published(
        self, key: str, publish: Callable[[str, str, int], None], size: int = 0
    ) -> Iterator[BinaryIO]:
        self.requests["put"] += 1
        before, _, name = self.checked_key(key).rpartition("/")
        part = f".lakegc-{secrets.token_hex(8)}.part"
        with telling("write", key, self._place):
            directory = self._directories.enter(before, create=True)
        try:
            self._require_room(key, size, os.fstatvfs(directory))
            with telling("write", key, self._place):
                opened = os.open(
                    part,
                    os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC,
                    0o666,
                    dir_fd=directory,
                )
            # Where a disk is full may turn out as late as here.
            with telling("write", key, self._place), os.fdopen(opened, "wb") as sink:
                yield sink
                sink.flush()
                # A journal is only worth something if it survives a crash of the machine.
                os.fsync(opened)
            with telling("write", key, self._place):
                publish(part, name, directory)
                os.fsync(directory)
        finally:
            with suppress(FileNotFoundError):  # the file was moved
                os.unlink(part, dir_fd=directory)
            os.close(directory)

    def _require_room(self, key: str, size: int, disk: os.statvfs_result) -> None:
        """Refuse to begin what would fill the disk, on which the server writes as well."""
        free = disk.f_bavail * disk.f_frsize
        # Some file systems tell nothing.
        if disk.f_blocks and free < size:
            raise TransientError(
                f"write {key!r} of {self._place}: its disk has {free} bytes free, which {size} do "
                "not fit into",
                "Make room there and run again.",
            )

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
            directory = self._directories.enter(folder)
        except FileNotFoundError:
            return True  # nothing was ever written there, or it vanished meanwhile
        try:
            return os.access(".", os.W_OK | os.X_OK, dir_fd=directory, effective_ids=True)
        finally:
            os.close(directory)

    def delete(self, keys: Sequence[str], *, pace: Pace = unpaced) -> Outcomes:
        """Unlink files one by one; never a directory, never through a link."""
        return self._delete(keys, lambda some: self._send_deletion(some, pace), pace)

    def delete_first_names(
        self, second: Mapping[str, SecondName], *, pace: Pace = unpaced
    ) -> Outcomes:
        """Unlink files that lie elsewhere as well, each as it was seen."""
        return self._delete(
            list(second), lambda some: self._send_deletion(some, pace, second), pace
        )

    def _delete(self, keys: Sequence[str], send: Send, pace: Pace) -> Outcomes:
        return delete_in_batches(
            keys,
            send,
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

    def _send_deletion(
        self, keys: Sequence[str], pace: Pace, second: Mapping[str, SecondName] | None = None
    ) -> dict[str, KeyAnswer]:
        self.requests["delete"] += len(keys)
        if second is None:
            return one_by_one(keys, self._delete_one, pace)
        return one_by_one(keys, lambda key: self._delete_one(key, second[key]), pace)

    def _delete_one(self, key: str, second: SecondName | None = None) -> KeyAnswer:
        try:
            other = None if second is None else self._status(second.key)
            with self._parent(key) as (directory, name):
                status = file_status(name, directory)
                if second is not None and not _is_as_seen(status, second, other):
                    return KeyAnswer("changed")
                os.unlink(name, dir_fd=directory)
        except (OSError, LakegcError) as error:
            return deletion_answer(error)
        return KeyAnswer("deleted")


def _described(key: str, status: os.stat_result) -> ObjectInfo:
    return ObjectInfo(
        key, status.st_size, _EPOCH + timedelta(microseconds=status.st_mtime_ns // 1000)
    )


def _is_as_seen(status: os.stat_result, second: SecondName, other: os.stat_result | None) -> bool:
    """Say whether a file is the one under its second name, with the size and time that it had.

    A link changes the time of the inode (`st_ctime`), so that says nothing.
    """
    if second.is_link and not (other and os.path.samestat(status, other)):
        return False
    found = _described(second.key, status)
    return second.seen in (None, (found.size_bytes, found.last_modified))


def _move(part: str, name: str, directory: int) -> None:
    os.replace(part, name, src_dir_fd=directory, dst_dir_fd=directory)


def _link(part: str, name: str, directory: int) -> None:
    os.link(part, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
