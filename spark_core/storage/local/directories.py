"""Directories and files of a blockstore, entered by descriptor and never over a link."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from spark_core.errors import SettingsError, TransientError


class LinkError(OSError):
    """A path leads over a symbolic link, which is never followed."""


@dataclass(frozen=True)
class Directories:
    """The directories of a namespace.

    Attributes:
        root: The root of the namespace, for errors.
        path: Path of the namespace below the blockstore.
        local_path: Where this machine sees the blockstore.
    """

    root: str
    path: str
    local_path: str | None

    def open_blockstore(self) -> int:
        """Open the directory above all namespaces; without it everything would look empty.

        That directory may be a link.
        """
        path = self.local_path
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

    def enter(self, prefix: str, *, create: bool = False) -> int:
        """Open the directory of a prefix, one segment at a time and never over a link.

        The caller closes it.

        Raises:
            TransientError: If the namespace's own directory, which only the server makes, is
                missing, or `data/` on the way to something below it. A mount may have gone away, so
                nothing can be said to be gone.
        """
        directory = self.open_blockstore()
        root, below = ([name for name in path.split("/") if name] for path in (self.path, prefix))
        # A fresh repository has no `data/`. A listing of `data/` itself is empty then.
        needed = len(root) + (prefix != "data/" and below[:1] == ["data"])
        for number, segment in enumerate([*root, *below]):
            try:
                if create and number >= len(root):
                    with suppress(FileExistsError):
                        os.mkdir(segment, dir_fd=directory)
                        # The content of the directory is only as durable as its name.
                        os.fsync(directory)
                inner = open_directory(segment, directory)
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


def open_directory(name: str, directory: int) -> int:
    """Open a directory in an open one; a link is refused apart."""
    try:
        return os.open(
            name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory
        )
    except NotADirectoryError as error:
        if stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            raise LinkError(error.errno, "symbolic link", name) from error
        raise


def file_status(name: str, directory: int) -> os.stat_result:
    """Describe a plain file; another kind of file is refused like a directory, a link apart."""
    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        raise LinkError(0, "symbolic link", name)
    if not stat.S_ISREG(status.st_mode):
        raise IsADirectoryError(0, "no plain file", name)
    return status
