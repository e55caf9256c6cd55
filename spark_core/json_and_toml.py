"""Read JSON and TOML that others wrote: whatever cannot be read is a ValueError.

Brackets that are nested deep enough end Python's stack instead, wherever they are first read,
compared or written again.
"""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Sequence
from typing import Any

# Nothing that lakeFS, a store or lakegc writes is nested deeper than ten.
DEEPEST = 100
_NESTING = (dict, list)


class NamedTwiceError(ValueError):
    """A name is twice in an object: of its two values, another reader takes the other."""


def read_json(text: str | bytes, *, each_once: bool = False) -> Any:
    """Read JSON.

    Args:
        text: The text.
        each_once: Refuse a name that is twice in an object, as in whatever people write.

    Raises:
        ValueError: If it is no JSON, or is nested deeper than `DEEPEST`; as `NamedTwiceError` if it
            has a name twice.
    """
    try:
        found = json.loads(text, object_pairs_hook=once_each if each_once else None)
    except RecursionError:
        raise _too_deep() from None
    _require_shallow(found)
    return found


def read_toml(text: str) -> dict[str, Any]:
    """Read TOML.

    Raises:
        ValueError: If it is no TOML, or is nested deeper than `DEEPEST`.
    """
    try:
        found = tomllib.loads(text)
    except RecursionError:
        raise _too_deep() from None
    _require_shallow(found)
    return found


def once_each(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return names with their values.

    Raises:
        NamedTwiceError: If a name is there twice.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise NamedTwiceError(f"it has the field `{twice}` twice")
    return found


def _require_shallow(found: Any) -> None:
    level = [[found]]
    for _ in range(DEEPEST + 1):
        level = [
            list(each.values()) if type(each) is dict else each
            for outer in level
            for each in outer
            if type(each) in _NESTING
        ]
        if not level:
            return
    raise _too_deep()


def _too_deep() -> ValueError:
    return ValueError(f"values are nested deeper than {DEEPEST}")
