"""Compile the hot loops once per machine, wherever the package is installed."""

from __future__ import annotations

import hashlib
import inspect
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
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
    loop = None if directory is None else _compile_to_keep(function, directory)
    return cast("Function", numba.njit(**_OPTIONS)(function) if loop is None else loop)


def _compile_to_keep(function: Function, directory: Path) -> Any:
    """Compile a loop whose machine code is kept in a directory; None if numba would not."""
    config: Any = numba.config
    before, config.CACHE_DIR = config.CACHE_DIR, str(directory)
    try:
        loop: Any = numba.njit(cache=True, **_OPTIONS)(function)
    except (RuntimeError, OSError):
        return None  # no place that numba tries can be written
    finally:
        config.CACHE_DIR = before
    if loop is function:  # numba is told not to compile
        return loop
    # A directory that could be written a moment ago may be full. numba takes another one then,
    # where code stays while other files of the folder change.
    return loop if Path(loop.stats.cache_path).is_relative_to(directory) else None


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
    name = f"lakegc-loops-{folder_contents(folder)[:32]}"
    directories = (place / name for place in _places(folder))
    return next((each for each in directories if _is_writable(each)), None)


def _places(folder: Path) -> Iterator[Path]:
    """Give the places for the directory of a folder, the best first; each when it is asked for."""
    if named := str(numba.config.CACHE_DIR):  # type: ignore[attr-defined]
        yield Path(named).absolute()
        return
    yield folder / "__pycache__"
    # Without a home, as a user whom the container does not know, it stays as it is written.
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - Path raises
    if Path(home).is_absolute():
        yield Path(home) / "lakegc"
    if (private := private_cache_directory()) is not None:
        yield private


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
