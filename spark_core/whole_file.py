"""Write a file that a command makes for a person or a program: all of it, or nothing."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

from spark_core.errors import SettingsError

_READABLE = 0o644


def require_place(file: Path) -> None:
    """Refuse a file that could not be written in the end, before the work for it begins.

    Raises:
        SettingsError: If its folder is not there, or may not be written to.
    """
    if not os.access(file.parent, os.W_OK):
        code = errno.EACCES if file.parent.is_dir() else errno.ENOENT
        raise SettingsError(
            f"{file} cannot be written ({os.strerror(code)})",
            "Name a file in a folder that is there and that you may write to.",
        )


def write_file(file: Path, content: bytes) -> None:
    """Write a file in one step, so that no reader sees half of it, and no half of it stays.

    Raises:
        OSError: If it cannot be written; it names the file.
    """
    if file.exists() and not file.is_file():
        file.write_bytes(content)  # a device, such as /dev/stdout
        return
    beside: str | None = None
    try:
        # The temporary name does not end as that of a file of metrics, so no exporter reads it.
        number, beside = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
        with os.fdopen(number, "wb") as opened:
            opened.write(content)
            os.fchmod(number, _READABLE)
        Path(beside).replace(file)
    except OSError as problem:
        if beside is not None:
            Path(beside).unlink(missing_ok=True)
        raise OSError(problem.errno, problem.strerror, str(file)) from problem
