"""List the files below a directory; whatever cannot be named or followed ends the listing."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import suppress

import pyarrow as pa

from spark_core.errors import IncompleteReadError
from spark_core.schemas import INSTANT
from spark_core.storage.listing_rows import LISTING_BATCH_ROWS, listing_batch
from spark_core.storage.local.directories import Directories, open_directory


def list_files(
    directories: Directories, prefix: str, folders: list[str] | None
) -> Iterator[pa.RecordBatch]:
    """List files below a prefix; with `folders`, of one level, appending its folders to them.

    Raises:
        IncompleteReadError: If a name is no UTF-8, a link or no plain file, or has two spellings.
    """
    keys: list[str] = []
    sizes: list[int] = []
    modified: list[int] = []
    for key, status in _files(directories, prefix, folders):
        keys.append(key)
        sizes.append(status.st_size)
        modified.append(status.st_mtime_ns // 1000)
        if len(keys) == LISTING_BATCH_ROWS:
            yield _batch(directories.root, keys, sizes, modified)
            keys, sizes, modified = [], [], []
    if keys:
        yield _batch(directories.root, keys, sizes, modified)


def _batch(
    root: str, keys: Sequence[str], sizes: Sequence[int], modified: Sequence[int]
) -> pa.RecordBatch:
    try:
        return listing_batch(keys, sizes, pa.array(modified, pa.int64()).cast(INSTANT))
    except UnicodeEncodeError as error:
        name = str(error.object).encode("utf-8", "surrogateescape")
        raise _strange(root, f"a name that is not UTF-8, {name!r}") from error


def _files(
    directories: Directories, prefix: str, folders: list[str] | None
) -> Iterator[tuple[str, os.stat_result]]:
    try:
        top = directories.enter(prefix)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        yield from _walk(directories.root, top, prefix, folders)
    finally:
        os.close(top)


def _walk(
    root: str, directory: int, before: str, folders: list[str] | None
) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(directory) as entries:
        for entry in entries:
            key = before + entry.name
            try:
                if entry.is_file(follow_symlinks=False):
                    _require_one_spelling(root, entry, directory, key)
                    yield key, entry.stat(follow_symlinks=False)
                elif not entry.is_dir(follow_symlinks=False):
                    what = (
                        "a symbolic link"
                        if entry.is_symlink()
                        else "neither a file nor a directory"
                    )
                    raise _strange(root, f"{key!r}, which is {what}")
                elif folders is not None:
                    folders.append(f"{key}/")
                else:
                    inner = open_directory(entry.name, directory)
                    try:
                        yield from _walk(root, inner, f"{key}/", None)
                    finally:
                        os.close(inner)
            except FileNotFoundError:
                # Removed since its directory was read: it is really gone.
                continue


def _require_one_spelling(root: str, entry: os.DirEntry[str], directory: int, key: str) -> None:
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
                    f"the listing of {root} met {key!r}, which this file system also "
                    f"finds as {other!r}: an address "
                    "written that way would look like another object",
                    "Move the blockstore to a file system that tells the normal forms of "
                    "Unicode apart.",
                )


def _strange(root: str, what: str) -> IncompleteReadError:
    return IncompleteReadError(
        f"the listing of {root} met {what}; it can be neither followed nor listed as an "
        "object, so the listing is not complete",
        "Move it out of the namespace's directory.",
    )
