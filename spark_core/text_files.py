"""Read text that people wrote, whatever editor they used."""

from __future__ import annotations

from pathlib import Path

from spark_core.errors import SettingsError


def read_text(path: Path, called: str, next_step: str = "") -> str:
    """Read a file that people wrote.

    Args:
        path: The file.
        called: What it is called in messages.
        next_step: What to do if it cannot be read.

    Raises:
        SettingsError: If it cannot be read, or is no text in UTF-8.
    """
    try:
        data = path.read_bytes()
    except OSError as problem:
        raise SettingsError(f"{called} cannot be read ({problem.strerror})", next_step) from None
    return text_of(data, called)


def text_of(data: bytes, called: str) -> str:
    r"""Return text in UTF-8, without the mark of byte order that some editors put before it.

    Args:
        data: The bytes of a file.
        called: What it is called in the message, which shows nothing of its content.

    Raises:
        SettingsError: If it is no text in UTF-8.

    Examples:
        >>> text_of(b"\xef\xbb\xbfmode", "it")
        'mode'
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as wrong:
        line = data[: wrong.start].count(b"\n") + 1
        raise SettingsError(
            f"{called} cannot be read: from line {line} on it is not UTF-8, but another encoding, "
            "such as UTF-16",
            "Save it as UTF-8.",
        ) from None
