"""Compile the hot loops once per machine, wherever the package is installed."""

from __future__ import annotations

import hashlib
import inspect
import os
import stat
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])

# The loops neither allocate nor keep arrays. With numba's runtime, counting the references to
# arrays at each inner call took four fifths of the time. A call that is not inlined hands over
# seven values for each array: reading the fields of an entry took three times as long.
_OPTIONS: dict[str, Any] = {"_nrt": False, "forceinline": True}


def compiled(function: Function) -> Function:
    """Compile a loop with numba and keep the machine code on disk.

    An executor starts many Python processes, and compiling takes seconds while loading takes
    milliseconds.

    numba takes kept code for good as long as the file of the function itself is unchanged, although
    the code of the functions that it calls is part of it. Here the directory is named by the
    contents of the whole folder. So a loop takes other loops and constants from its own folder
    alone.

    A package that Spark shipped is imported from a zip, at another path for every application.
    numba would keep code for each path in the user's cache directory and never find it again. So
    nothing is kept there. Each Python worker compiles once, in a few seconds, and Spark reuses
    workers.

    Args:
        function: A function that numba can compile in nopython mode.

    Returns:
        The compiled function; it is compiled at its first call.
    """
    source = Path(inspect.getfile(function))
    directory = cache_directory(source.parent) if source.is_file() else None
    if directory is None:
        return cast("Function", numba.njit(**_OPTIONS)(function))
    config: Any = numba.config
    before, config.CACHE_DIR = config.CACHE_DIR, str(directory)
    try:
        return cast("Function", numba.njit(cache=True, **_OPTIONS)(function))
    finally:
        config.CACHE_DIR = before


@cache
def cache_directory(folder: Path) -> Path | None:
    """Make the directory for the machine code of a folder's loops, as the folder is now.

    Args:
        folder: Of sources.

    Returns:
        Below `NUMBA_CACHE_DIR` if that is set; else below the first that can be written of
        `__pycache__` beside the sources, the user's cache directory, and a private directory under
        the system's temporary one. A container with a read-only installation and no home has the
        last alone. None if no code can be kept.
    """
    named = str(numba.config.CACHE_DIR)  # type: ignore[attr-defined]
    home = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    usual = [folder / "__pycache__", Path(home) / "lakegc", private_cache_directory()]
    for place in [Path(named)] if named else usual:
        if place is not None and place.is_absolute() and _is_writable(place):
            directory = place / f"lakegc-loops-{folder_contents(folder)[:32]}"
            if _is_writable(directory):
                return directory
    return None


def _is_writable(directory: Path) -> bool:
    """Make a directory where it is missing, and tell whether this user can write there."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(directory, os.W_OK | os.X_OK)


def folder_contents(folder: Path) -> str:
    """Hash the sources of a folder, and the options by which they are compiled."""
    sources = [*sorted(folder.glob("*.py")), Path(__file__)]
    return hashlib.sha256(
        b"".join(hashlib.sha256(source.read_bytes()).digest() for source in sources)
    ).hexdigest()


def private_cache_directory() -> Path | None:
    """Make a directory for cached code, as a last resort, that only this user can write.

    Cached code is loaded without a check. So a directory that somebody else made
    under a name that can be guessed must not be used.

    Returns:
        The directory; None if it cannot be made or is not only this user's.
    """
    user = os.getuid()
    directory = Path(tempfile.gettempdir()) / f"lakegc-numba-{user}"
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        found = directory.lstat()
    except OSError:
        return None
    private = stat.S_ISDIR(found.st_mode) and found.st_uid == user and not found.st_mode & 0o022
    return directory if private and os.access(directory, os.W_OK) else None
