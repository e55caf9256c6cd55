"""The patterns of branch names that lakeFS has: of protection rules and of hook files.

References:
    lakeFS 71a45eeb1: `pkg/graveler/branch/protection_manager.go` (github.com/gobwas/glob without
    separators), `pkg/actions/action.go` (`path.Match` of Go).
"""

from __future__ import annotations

import re
from functools import lru_cache

_SET = re.compile(r"\[([!^]?)((?:\w(?:-\w)?|-)+)\]", re.ASCII)


def protects(pattern: str, branch: str) -> bool | None:
    """Say whether a protection rule names a branch; None if the pattern is of no known form.

    Examples:
        >>> protects("{main,release-*}", "release-1"), protects("[", "main")
        (True, None)
    """
    return _matches(pattern, branch, not_in="!", has_choices=True)


def hook_names(pattern: str, branch: str) -> bool | None:
    """Say whether a pattern of a hook file names a branch; None if it is of no known form.

    A pattern of nothing but `*` names every branch, and so none.

    Examples:
        >>> hook_names("dev-?", "dev-1"), hook_names("*", "dev-1")
        (True, False)
    """
    if pattern and not pattern.strip("*"):
        return False
    return _matches(pattern, branch, not_in="^", has_choices=False)


def _matches(pattern: str, branch: str, *, not_in: str, has_choices: bool) -> bool | None:
    compiled = _compiled(pattern, not_in=not_in, has_choices=has_choices)
    return None if compiled is None else compiled.fullmatch(branch) is not None


@lru_cache(maxsize=10_000)
def _compiled(pattern: str, *, not_in: str, has_choices: bool) -> re.Pattern[str] | None:
    """Translate a pattern; None if it is of no known form.

    Args:
        pattern: The pattern.
        not_in: The letter with which a set of letters that are not meant begins.
        has_choices: Whether `{a,b}` is a choice.
    """
    words: list[str] = []
    at = depth = 0
    while at < len(pattern):
        letter = pattern[at]
        letters = _SET.match(pattern, at)
        if letters is not None and letters[1] in ("", not_in):
            words.append(f"[{'^' if letters[1] else ''}{letters[2]}]")
            at = letters.end()
            continue
        if letter == "\\":
            at += 1
            word = re.escape(pattern[at : at + 1]) or None
        elif letter in "[]":
            word = None
        elif has_choices and letter in "{},":
            word, depth = _choice(letter, depth)
        else:
            word = {"*": ".*", "?": "."}.get(letter, re.escape(letter))
        if word is None:
            return None
        words.append(word)
        at += 1
    try:
        return re.compile("".join(words)) if depth == 0 else None
    except re.error:
        return None


def _choice(letter: str, depth: int) -> tuple[str | None, int]:
    """Translate a letter of `{a,b}`, and count how deep it stands."""
    if letter == "{":
        return "(?:", depth + 1
    if letter == "}":
        return (")", depth - 1) if depth else (None, depth)
    return ("|" if depth else re.escape(letter)), depth
