"""Foreign text made fit for people: addresses, branch names and messages are chosen by whoever may write to a repository."""

from __future__ import annotations

import re

# A quick look that most text passes: plain ASCII without control characters.
_PLAIN = re.compile(r"[\x20-\x7e]*\Z")

_KILO = 1000


def bytes_text(size_bytes: int) -> str:
    """Print bytes as people read them.

    Examples:
        >>> bytes_text(1), bytes_text(999), bytes_text(1_000), bytes_text(12_345_678)
        ('1 byte', '999 bytes', '1.0 kB', '12.3 MB')
    """
    if size_bytes < _KILO:
        return f"{size_bytes} byte" + ("" if size_bytes == 1 else "s")
    size = float(size_bytes)
    for unit in ("kB", "MB", "GB", "TB"):
        size /= _KILO
        if size < _KILO:
            return f"{size:.1f} {unit}"
    return f"{size / _KILO:.1f} PB"


def visible(text: str, *, lines: bool = False) -> str:
    r"""Write what cannot be seen as an escape: it could drive a terminal, or turn the order of what is read.

    Control characters (also those of the second set, which some terminals obey),
    marks that change the direction of writing, zero-width ones, spaces other
    than the usual one, and what Unicode has not assigned. Letters of every
    language stay as they are, also those that only look alike: nothing is
    decided by looking.

    Args:
        text: Whatever came from elsewhere.
        lines: Whether line ends stay.

    Examples:
        >>> visible("data/s/\x1b[2J\u202egpj.exe")
        'data/s/\\x1b[2J\\u202egpj.exe'
        >>> visible("Größe, 大きさ")
        'Größe, 大きさ'
    """
    if _PLAIN.match(text):
        return text
    kept = "\n" if lines else ""
    return "".join(one if one.isprintable() or one in kept else _escaped(one) for one in text)


def _escaped(one: str) -> str:
    return ascii(one)[1:-1]
