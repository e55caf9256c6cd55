"""Compares a certificate with what it should say, value by value and type by type."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

# Characters of a value that a difference shows.
_SHOWN = 200


def differences(stated: Any, found: Any, gives: str) -> list[str]:
    """Compare a certificate with what it should say.

    Args:
        stated: The certificate, without seal and signature.
        found: What `content.content` puts together.
        gives: Who says what was found, with a verb.

    Returns:
        A sentence for each value that differs, is missing, or is there without need.
    """
    return list(_differences(stated, found, gives, ""))


def _differences(stated: Any, found: Any, gives: str, at: str) -> Iterator[str]:
    if isinstance(stated, dict) and isinstance(found, dict):
        for name in sorted(stated.keys() | found.keys()):
            inner = f"{at}.{name}" if at else name
            if name not in found:
                yield f"{inner}: the certificate says {_short(stated[name])}, {gives} no such field"
            elif name not in stated:
                yield f"{inner}: the certificate lacks it, {gives} {_short(found[name])}"
            else:
                yield from _differences(stated[name], found[name], gives, inner)
    elif isinstance(stated, list) and isinstance(found, list) and len(stated) == len(found):
        for number, (one, other) in enumerate(zip(stated, found, strict=True)):
            yield from _differences(one, other, gives, f"{at}[{number}]")
    # As text, since 1, 1.0 and true are equal in Python.
    elif json.dumps(stated, sort_keys=True) != json.dumps(found, sort_keys=True):
        yield f"{at}: the certificate says {_short(stated)}, {gives} {_short(found)}"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
