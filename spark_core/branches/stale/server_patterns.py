"""The patterns of branch names that lakeFS has: of protection rules and of hook files.

References:
    lakeFS 71a45eeb1: `pkg/graveler/branch/protection_manager.go` (github.com/gobwas/glob without
    separators), `pkg/actions/action.go` (`path.Match` of Go).
"""

from __future__ import annotations

from dataclasses import replace

from spark_core.globs import Syntax, matches

# A set of gobwas is one range or some letters, `-` among them; others read `[a-cx-z]` otherwise.
_PROTECTION = Syntax(not_in="!", has_choices=True, mixes_ranges=False)
# What gobwas names by mistake: `aba` by `ab*ba`, whose ends it compares one by one, and `1` by
# `1{?,ab}`, since an alternative of one letter passes there for none.
_MISTAKES = replace(_PROTECTION, overlaps=True)
_MISTAKES_OF_CHOICES = replace(_MISTAKES, skips=True)
_HOOKS = Syntax(not_in="^")


def protects(pattern: str, branch: str) -> bool | None:
    """Say whether a protection rule names a branch; None if that is in doubt.

    Examples:
        >>> protects("{main,release-*}", "release-1"), protects("[", "main")
        (True, None)
    """
    found = matches(pattern, branch, _PROTECTION)
    mistakes = _MISTAKES_OF_CHOICES if "{" in pattern else _MISTAKES
    return None if found is False and matches(pattern, branch, mistakes) else found


def hook_names(pattern: str, branch: str) -> bool | None:
    """Say whether a pattern of a hook file names a branch; None if it is of no known form.

    A pattern of nothing but `*` names every branch, and so none.

    Examples:
        >>> hook_names("dev-?", "dev-1"), hook_names("*", "dev-1")
        (True, False)
    """
    if pattern and not pattern.strip("*"):
        return False
    return matches(pattern, branch, _HOOKS)
