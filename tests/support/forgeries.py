"""Every change of one value, key or element of a JSON document."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any


def forgeries(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield place (without numbers of elements), what was done, and the changed document."""
    text = json.dumps(document)
    for steps, value in _places(document, ()):
        place = ".".join(step for step in steps if isinstance(step, str))
        for words, change in _changes(value):
            changed = json.loads(text)
            at = changed
            for step in steps[:-1]:
                at = at[step]
            if steps:
                change(at, steps[-1])
            else:
                change({"": changed}, "")
            if json.dumps(changed) != text:
                yield place, words, changed


def _places(value: Any, steps: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    yield steps, value
    inner = value.items() if isinstance(value, dict) else ()
    for name, each in enumerate(value) if isinstance(value, list) else inner:
        yield from _places(each, (*steps, name))


def _changes(value: Any) -> Iterator[tuple[str, Callable[[Any, Any], None]]]:
    def put(other: Any) -> Callable[[Any, Any], None]:
        return lambda at, step: at.__setitem__(step, other)

    yield "removed", lambda at, step: at.__delitem__(step)
    yield "null", put(None)
    yield "text", put(f"{value} x")
    if isinstance(value, bool):
        yield "turned", put(not value)
        yield "as a number", put(int(value))
    elif isinstance(value, int | float):
        yield "more", put(value + 1)
        yield "less", put(value - 1)
        yield "as a fraction", put(float(value))
        yield "true", put(True)
    elif isinstance(value, dict):
        yield "a key more", lambda at, step: at[step].update(extra=1)
        yield "empty", put({})
    elif isinstance(value, list):
        yield "an element more", lambda at, step: at[step].append("x")
        yield "the first once more", lambda at, step: at[step].extend(at[step][:1])
        yield "the other way round", lambda at, step: at[step].reverse()
        yield "empty", put([])
