"""Match names with patterns of `*`, `?`, sets and choices, in a time that no pattern can stretch.

A regular expression tries one way after the other through a pattern, and `*a` nine times over
`aaa...` has more ways than anybody can wait for. Here all ways are followed at once, so the work
is at most the length of the pattern times that of the name.

References:
    R. Baeza-Yates and G. Gonnet, "A new approach to text searching", CACM 35(10), 1992.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from typing import TypeAlias

# A set, a letter that means itself, or a letter. A set that does not end is read in one way alone:
# `-` stands between two letters only.
_WORD = re.compile(r"\[([!^]?)((?:\w(?:-\w)?)+)\]|\\.|.", re.ASCII | re.DOTALL)
_ITEM = re.compile(r"(\w)(?:-(\w))?", re.ASCII)


@dataclass(frozen=True)
class Syntax:
    """What a pattern may have besides `*`, `?` and a backslash before a letter.

    Attributes:
        not_in: The letter that begins a set of letters that are not meant.
        has_choices: Whether `{a,b}` is a choice.
        mixes_ranges: Whether a set may hold more than one range, or ranges and letters.
        overlaps: Whether what stands behind a `*` may match letters that what stands before it did.
        skips: Whether `?` and a set of letters that are not meant may stand for no letter, too.
    """

    not_in: str = "!"
    has_choices: bool = False
    mixes_ranges: bool = True
    overlaps: bool = False
    skips: bool = False


class _Wild(Enum):
    ANY = auto()
    OPEN = auto()
    NEXT = auto()
    CLOSE = auto()


@dataclass(frozen=True)
class _Letter:
    """One letter of the name; a set that is not meant holds those that it is not."""

    among: frozenset[str]
    is_meant: bool = True


_Token: TypeAlias = _Wild | _Letter
_MARKS: dict[str, _Token] = {"*": _Wild.ANY, "?": _Letter(frozenset(), is_meant=False)}
_CHOICE: dict[str, _Token] = {"{": _Wild.OPEN, ",": _Wild.NEXT, "}": _Wild.CLOSE}


def matches(pattern: str, name: str, syntax: Syntax) -> bool | None:
    """Say whether a pattern matches a whole name; None if the pattern is of no known form.

    Examples:
        >>> matches("dev-[0-9]*", "dev-12", Syntax()), matches("[", "dev-12", Syntax())
        (True, None)
    """
    tokens = _tokens(pattern, syntax)
    return None if tokens is None else _reaches_end(tokens, name, syntax)


def _reaches_end(tokens: tuple[_Token, ...], name: str, syntax: Syntax) -> bool:
    """Follow a pattern; bit n of a number says that it can have matched the first n letters."""
    where: dict[str, int] = {}
    for at, letter in enumerate(name):
        where[letter] = where.get(letter, 0) | 1 << at
    end = 1 << len(name)
    reached = 1
    # The choices that are open: where each began, and where its alternatives so far ended.
    choices: list[tuple[int, int]] = []
    for token in tokens:
        match token:
            case _Letter(among, is_meant):
                found = sum(where.get(letter, 0) for letter in among)
                stays = reached if syntax.skips and not is_meant else 0
                reached = (reached & (found if is_meant else ~found)) << 1 | stays
            case _Wild.ANY:
                # From the first place that was reached, every later one is too.
                reached = -(reached & -reached) if not syntax.overlaps else -bool(reached)
            case _Wild.OPEN:
                choices.append((reached, 0))
            case _Wild.NEXT:
                begun, ended = choices.pop()
                choices.append((begun, ended | reached))
                reached = begun
            case _Wild.CLOSE:
                reached |= choices.pop()[1]
        reached &= 2 * end - 1
        if not (reached or choices):
            return False
    return bool(reached & end)


@lru_cache(maxsize=10_000)
def _tokens(pattern: str, syntax: Syntax) -> tuple[_Token, ...] | None:
    """Read a pattern; None if it is of no known form."""
    try:
        return tuple(_read(pattern, syntax))
    except ValueError:
        return None


def _read(pattern: str, syntax: Syntax) -> Iterator[_Token]:
    marks = _MARKS | (_CHOICE if syntax.has_choices else {})
    depth = 0
    for word in _WORD.finditer(pattern):
        written, not_in, letters = word.group(0, 1, 2)
        mark = marks.get(written)
        depth += (mark is _Wild.OPEN) - (mark is _Wild.CLOSE)
        if depth < 0 or written in ("[", "]", "\\") or not_in not in (None, "", syntax.not_in):
            raise ValueError(pattern)
        if letters:
            yield _Letter(_letters(letters, syntax), is_meant=not not_in)
        elif mark is None or (mark is _Wild.NEXT and not depth):
            yield _Letter(frozenset(written[-1]))
        else:
            yield mark
    if depth:
        raise ValueError(pattern)


def _letters(written: str, syntax: Syntax) -> frozenset[str]:
    items = _ITEM.findall(written)
    if len(items) > 1 and any(last for _, last in items) and not syntax.mixes_ranges:
        raise ValueError(written)
    letters = set[str]()
    for first, last in items:
        if last and last < first:
            raise ValueError(written)
        letters.update(map(chr, range(ord(first), ord(last or first) + 1)))
    return frozenset(letters)
