"""Find the line of `lakegc.toml` on which a setting stands."""

from __future__ import annotations

from typing import Any

from spark_core.json_and_toml import read_toml

Place = tuple[str | int, ...]


def line_of(text: str, loc: Place) -> int | None:
    """Find the line of a key, or of its table if the key is not there; None if neither is."""
    table: Place = ()
    fallback = None
    for number, line in enumerate(text.splitlines(), start=1):
        written = line.strip()
        header = written.startswith("[")
        if not header and "=" not in written:
            continue
        try:
            # The parser itself shows what a header or a key names, with quotes, dots and spaces.
            named = _only_path(read_toml(written if header else f"{written.partition('=')[0]} = 0"))
        except ValueError:
            # A line of a list or a string that spans several lines.
            continue
        if header:
            table = named
            if table == loc[: len(table)]:
                fallback = number
                if table == loc:
                    return number
        elif (*table, *named) == loc[: len(table) + len(named)]:
            return number
    return fallback


def _only_path(document: Any) -> Place:
    path: list[str | int] = []
    while document:
        if isinstance(document, list):
            document = document[0]
            continue
        if not isinstance(document, dict):
            break
        ((name, document),) = document.items()
        path.append(name)
    return tuple(path)
