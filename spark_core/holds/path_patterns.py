"""Patterns of paths: `**` stands for any folders, `*` for a part of one name.

Every other character stands for itself, because a path of lakeFS may have any of them.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from spark_core.errors import SettingsError

_WILD = re.compile(r"^\*\*/|/\*\*/|/\*\*$|\*\*|\*")
# `**` between slashes stands for no folder, too.
_MEANS = {
    "**/": "(?:.*/)?",
    "/**/": "/(?:.*/)?",
    "/**": "/.*",
    "**": ".*",
    "*": "[^/]*",
}


def require_pattern(pattern: str) -> str:
    """Return a pattern that can name an object.

    Raises:
        SettingsError: If it names none, or is none.
    """
    if not pattern or "\0" in pattern or any("\ud800" <= one <= "\udfff" for one in pattern):
        raise SettingsError(f"{pattern!r} is no pattern of paths", "Give one, as `models/**`.")
    if pattern.endswith("/"):
        raise SettingsError(
            f"path {pattern!r} names no object, but a folder",
            f"`{pattern}**` names everything below it.",
        )
    return pattern


def beginning(pattern: str) -> bytes:
    """Return what every path that a pattern matches begins with.

    Examples:
        >>> beginning("models/**/final"), beginning("**/final"), beginning("a/b*.csv")
        (b'models/', b'', b'a/b')
    """
    return pattern.partition("*")[0].encode()


def matching(paths: pa.Array, pattern: str) -> pa.BooleanArray:
    r"""Say which paths a pattern matches as a whole, in a time that grows with their length.

    Args:
        paths: Binary, as commits have them, whatever their bytes.
        pattern: The pattern.

    Examples:
        >>> paths = pa.array([b"models/final", b"models/a/b/final", b"models/a/final.csv"])
        >>> matching(paths, "models/**/final").to_pylist()
        [True, True, False]
        >>> matching(pa.array([b"a/x.csv", b"a/b/x.csv"]), "a/*.csv").to_pylist()
        [True, False]
    """
    return pc.match_substring_regex(paths, rf"(?s)\A{_regex(pattern)}\z")


def _regex(pattern: str) -> str:
    parts, at = list[str](), 0
    for wild in _WILD.finditer(pattern):
        parts += [_literal(pattern[at : wild.start()]), _MEANS[wild[0]]]
        at = wild.end()
    return "".join([*parts, _literal(pattern[at:])])


def _literal(text: str) -> str:
    """Name each byte by its number: nothing in it is taken for a sign, in any encoding."""
    return "".join(rf"\x{byte:02x}" for byte in text.encode())
