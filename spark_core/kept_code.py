"""Whether code that was kept on a disk to be run again is this user's alone.

Machine code, pickles and archives of classes are run as they are. So whoever can write one of them,
or a folder above it, runs what he likes as whoever loads it.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

_ROOT = 0
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def objection(path: Path) -> str:
    """Say why others than this user can write a file or directory; empty if none can.

    All folders above it count: whoever can write one of them can put another file in its place.
    """
    mine = {os.geteuid(), _ROOT}
    try:
        for step in (found := path.resolve(strict=True), *found.parents):
            state = step.stat()
            if state.st_uid not in mine:
                return f"{step} belongs to another user"
            # In a directory like /tmp, only the owner of an entry can replace it.
            guarded = step != found and state.st_mode & stat.S_ISVTX
            if state.st_mode & _WRITABLE_BY_OTHERS and not guarded:
                return f"others may write {step}"
    except OSError as problem:
        return f"{problem.filename or path}: {problem.strerror}"
    return ""


def user_cache() -> Path | None:
    """Return where programs of this user keep what they can make again; None without a home."""
    chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if chosen.is_absolute():
        return chosen
    try:
        home = Path.home()
    except RuntimeError:
        return None
    return home / ("Library/Caches" if sys.platform == "darwin" else ".cache")
