"""Compile the hot loops once per machine, wherever the package is installed."""

from __future__ import annotations

import hashlib
import inspect
import os
import pickle
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.serialize import dumps

Function = TypeVar("Function", bound=Callable[..., object])

# The loops neither allocate nor keep arrays. With numba's runtime, counting the references to
# arrays at each inner call took four fifths of the time. A call that is not inlined hands over
# seven values for each array: reading the fields of an entry took three times as long.
_OPTIONS: dict[str, Any] = {"_nrt": False, "forceinline": True}

_ROOT = 0
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


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
    loop = numba.njit(**_OPTIONS)(function)
    source = Path(inspect.getfile(function))
    directory = cache_directory(source.parent) if source.is_file() else None
    if directory is not None and loop is not function:  # else numba is told not to compile
        _keep(loop, directory)
    return cast("Function", loop)


def _keep(loop: Any, directory: Path) -> None:
    """Let a loop keep its machine code in a directory; elsewhere it keeps none."""
    config: Any = numba.config
    before, config.CACHE_DIR = config.CACHE_DIR, str(directory)
    try:
        kept = _KeptCode(loop.py_func)  # type: ignore[no-untyped-call]
    except (RuntimeError, OSError):
        return  # no place that numba tries can be written
    finally:
        config.CACHE_DIR = before
    # A directory that could be written a moment ago may be full. numba takes another one then,
    # where code stays while other files of the folder change.
    if Path(kept.cache_path).is_relative_to(directory):
        loop._cache = kept  # noqa: SLF001 - where numba's own `cache=True` puts it


class _Proved(CompileResultCacheImpl):
    """Kept machine code with its hash: a changed byte of it could let the process die, or lie."""

    def reduce(self, data: Any) -> tuple[bytes, bytes]:
        """Return what is kept of compiled code."""
        content = dumps(super().reduce(data))  # type: ignore[no-untyped-call]
        return hashlib.sha256(content).digest(), content

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        """Return compiled code from what was kept of it."""
        digest, content = payload
        if hashlib.sha256(content).digest() != digest:
            raise ValueError("kept code was changed")
        return super().rebuild(  # type: ignore[no-untyped-call]
            target_context,
            pickle.loads(content),  # noqa: S301 - as just proved
        )


class _KeptCode(FunctionCache):
    """The kept machine code of a loop, which may only make things faster.

    Whatever is wrong with it, the loop is compiled as if there were none, and its files go.
    """

    _impl_class = _Proved

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return what was kept for the types of a call; None where there is nothing to be used."""
        try:
            return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except Exception:  # noqa: BLE001 - a damaged pickle may raise anything
            self._forget()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled for the types of a call, if that can be kept."""
        try:
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        except Exception:  # noqa: BLE001 - a full disk, or a damaged list of what is there
            self._forget()

    def _forget(self) -> None:
        for file in Path(self.cache_path).glob(f"{self._impl.filename_base}.*"):
            with suppress(OSError):
                file.unlink()


@cache
def cache_directory(folder: Path) -> Path | None:
    """Make the directory for the machine code of a folder's loops, as the folder is now.

    Args:
        folder: Of sources.

    Returns:
        Below `NUMBA_CACHE_DIR` if that is set; else below the first of `__pycache__` beside the
        sources, the user's cache directory, and a directory under the system's temporary one, where
        this user can write, and nobody else. A container with a read-only installation and no home
        has the last alone. None if no code can be kept.
    """
    name = f"lakegc-loops-{folder_contents(folder)[:32]}"
    made = (_made_private(place / name) for place in _places(folder))
    return next((each for each in made if each is not None), None)


def _places(folder: Path) -> Iterator[Path]:
    """Give the places for the directory of a folder, the best first; each when it is asked for."""
    if named := str(numba.config.CACHE_DIR):  # type: ignore[attr-defined]
        yield Path(named).absolute()
        return
    yield folder / "__pycache__"
    if (cache := _user_cache()) is not None:
        yield cache / "lakegc"
    # Without a home, such as in a container that does not know the user, this is the last place.
    yield Path(tempfile.gettempdir()) / f"lakegc-numba-{os.getuid()}"


def _made_private(directory: Path) -> Path | None:
    """Make a directory where it is missing; None unless this user can write there, and he alone.

    Kept code is loaded as it is. So a directory that somebody else made, under a name that can be
    guessed, must not be used; nor one in which others may write a file that is there.
    """
    try:
        directory.mkdir(parents=True, mode=0o700, exist_ok=True)
        # What a link leads to is judged, and is what numba gets: the link may lead elsewhere then.
        directory = directory.resolve(strict=True)
        is_open = directory.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)
        if is_open or _others_write(directory) or not os.access(directory, os.W_OK | os.X_OK):
            return None
    except (OSError, RuntimeError):
        return None
    return directory


def _others_write(directory: Path) -> bool:
    """Say whether others than this user can write a directory, or put another into its place.

    All folders above it count: whoever can write one of them can do the latter.
    """
    mine = {os.geteuid(), _ROOT}
    for step in (directory, *directory.parents):
        state = step.stat()
        # In a folder like /tmp, only the owner of an entry can replace it.
        guarded = step != directory and state.st_mode & stat.S_ISVTX
        if state.st_uid not in mine or (state.st_mode & _WRITABLE_BY_OTHERS and not guarded):
            return True
    return False


def _user_cache() -> Path | None:
    """Return where programs of this user keep what they can make again; None without a home."""
    chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if chosen.is_absolute():
        return chosen
    try:
        home = Path.home()
    except RuntimeError:
        return None
    return home / ("Library/Caches" if sys.platform == "darwin" else ".cache")


def folder_contents(folder: Path) -> str:
    """Hash the sources of a folder, and the options by which they are compiled."""
    sources = [*sorted(folder.glob("*.py")), Path(__file__)]
    return hashlib.sha256(
        b"".join(hashlib.sha256(source.read_bytes()).digest() for source in sources)
    ).hexdigest()
