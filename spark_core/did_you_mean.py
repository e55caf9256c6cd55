"""What a person may have meant by a word that nobody knows."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

from spark_core.errors import sentences


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


def no_branch_named(named: Iterable[str], there: Collection[str]) -> str:
    """Say which branches that rules name do not exist; empty if all of them do.

    Args:
        named: The branches that the rules name.
        there: The branches of the repository.

    Examples:
        >>> no_branch_named({"mian", "dev"}, ["main", "dev"]).partition(": ")[0]
        'There is no branch named mian'
        >>> no_branch_named({"main"}, ["main"])
        ''
    """
    absent = sorted(set(named).difference(there))
    if not absent:
        return ""
    return sentences(
        f"There is no branch named {', '.join(absent[:5])}{', ...' if absent[5:] else ''}: such a "
        "rule does nothing until there is one",
        *(did_you_mean(each, there) for each in absent[:5]),
    )
