"""What a person may have meant by a word that nobody knows."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a question that names the known word next to one; empty if none is near.

    Args:
        word: What was written.
        known: What could have been written.

    Examples:
        >>> did_you_mean("mian", ["main", "dev"]), did_you_mean("x", ["main"])
        ('Did you mean main?', '')
    """
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"Did you mean {close[0]}?" if close else ""
