"""Make foreign text safe to show.

Whoever may write to a repository chooses its addresses, branch names and messages.
"""

from __future__ import annotations

import re
from datetime import timedelta
from html import escape as html_escape

# Most text passes this fast check: plain ASCII without control characters.
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


def span_text(span: timedelta) -> str:
    """Print a span of time in days, hours, minutes and seconds, without those that are 0.

    Examples:
        >>> from datetime import timedelta
        >>> span_text(timedelta(hours=24, minutes=5)), span_text(timedelta(seconds=1))
        ('1 day 5 minutes', '1 second')
    """
    minutes, seconds = divmod(int(span.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    named = {"day": days, "hour": hours, "minute": minutes, "second": seconds}
    said = [
        f"{count:,} {unit}{'' if count == 1 else 's'}" for unit, count in named.items() if count
    ]
    return " ".join(said) or "0 seconds"


def counted(number: int, word: str) -> str:
    """Print a number of things.

    Examples:
        >>> counted(1, "slice"), counted(2_000, "range")
        ('1 slice', '2,000 ranges')
    """
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def visible(text: str, *, lines: bool = False) -> str:
    r"""Escape invisible characters, which could control a terminal or reorder the text.

    These are control characters (also those of the second set, which some terminals
    obey), marks that change the direction of writing, zero-width characters, spaces
    other than the usual one, and what Unicode has not assigned. Letters of every
    language stay as they are, even those that only look alike, because no decision
    depends on how text looks.

    Args:
        text: Text from elsewhere.
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


def escape(text: str) -> str:
    """Make text from elsewhere safe for HTML: no markup, and nothing that cannot be seen."""
    return html_escape(visible(text))


def _escaped(one: str) -> str:
    return ascii(one)[1:-1]
