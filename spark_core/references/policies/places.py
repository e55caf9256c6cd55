"""Read JSON or YAML into values that know their place in the text.

JSON is read by code of its own: `json` and `msgspec` keep no places, and PyYAML refuses JSON with
tabs, and reads surrogate pairs as two letters.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from spark_core.json_and_toml import read_json

# Blanks of JSON, and a number, a word or whatever else stands there until the next mark.
_BLANKS = re.compile(r"[ \t\r\n]*")
_BARE = re.compile(r"[^\s,:\[\]{}\"]+")
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]*)")
# A longer number is no number of days, and Python refuses to convert the longest.
_LONGEST_NUMBER = 18
_WORDS = {"true": True, "false": False, "null": None}

# A deeper document is no policy, and would end Python's stack.
_DEEPEST = 20


@dataclass(frozen=True)
class TextPlace:
    """Where a value stands: line and column from 1 on."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


@dataclass(frozen=True)
class Value:
    """A value of the text.

    Attributes:
        place: Where it begins.
        content: A list of keys and values for a mapping (a key may repeat), a list of values for a
            list, else a string, whole number, bool or None. Other numbers are a `Other`.
    """

    place: TextPlace
    content: Any


@dataclass(frozen=True)
class Pairs:
    """The keys and values of a mapping as they stand in the text; a key may repeat."""

    items: tuple[tuple[Value, Value], ...]


@dataclass(frozen=True)
class Other:
    """A value that no policy has, such as a fraction or a date; `text` is how it is written."""

    text: str


def shown(value: Value) -> str:
    """Show a value in the message of a fault."""
    content = value.content
    if isinstance(content, Pairs):
        return "a mapping"
    if isinstance(content, list):
        return "a list"
    if isinstance(content, Other):
        return content.text[:40]
    return repr(content[:40]) if isinstance(content, str) else json.dumps(content)


class UnreadableError(ValueError):
    """The text is neither JSON nor YAML.

    Args:
        place: Where reading ended; None if that is unknown.
        problem: What was found there.
    """

    def __init__(self, place: TextPlace | None, problem: str) -> None:
        super().__init__(problem)
        self.place = place
        self.problem = problem


def read(text: str) -> Value:
    """Read a text that begins with a brace as JSON, any other as YAML.

    Raises:
        UnreadableError: If it is neither. In YAML also if it uses anchors, aliases or tags, which
            a reader of the text might overlook.
    """
    begin = _skipped(text, 0)
    if text[begin : begin + 1] == "{":
        value, end = _json(text, begin, 0)
        end = _skipped(text, end)
        if end < len(text):
            raise UnreadableError(_place(text, end), "something follows the document")
        return value
    return _yaml(text)


def _place(text: str, at: int) -> TextPlace:
    begins = _lines(text)
    line = bisect_right(begins, at)
    return TextPlace(line, at - begins[line - 1] + 1)


@lru_cache(maxsize=1)
def _lines(text: str) -> list[int]:
    """Return where each line begins."""
    return [0, *(found.end() for found in re.finditer("\n", text))]


def _skipped(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    assert found is not None  # noqa: S101 - the pattern matches the empty text
    return found.end()


def _json(text: str, at: int, depth: int) -> tuple[Value, int]:
    """Read a JSON value that begins at an offset; return it and the offset behind it."""
    place = _place(text, at)
    if depth > _DEEPEST:
        raise UnreadableError(place, f"values are nested deeper than {_DEEPEST}")
    match text[at : at + 1]:
        case "{":
            return _json_items(text, at, "}", partial(_json_pair, depth=depth))
        case "[":
            return _json_items(text, at, "]", partial(_json, depth=depth + 1))
        case '"':
            try:
                string, end = json.JSONDecoder().raw_decode(text, at)
            except json.JSONDecodeError as problem:
                raise UnreadableError(
                    TextPlace(problem.lineno, problem.colno), problem.msg
                ) from None
            return Value(place, string), end
        case _:
            bare = _BARE.match(text, at)
            if bare is None:
                raise UnreadableError(place, "a value was expected")
            return Value(place, _json_word(place, bare[0])), bare.end()


def _json_items(
    text: str, at: int, closing: str, read_one: Callable[[str, int], tuple[Any, int]]
) -> tuple[Value, int]:
    """Read the items of a mapping or a list that begins at an offset."""
    place = _place(text, at)
    items: list[Any] = []
    at = _skipped(text, at + 1)
    while text[at : at + 1] != closing:
        if items:
            at = _skipped(text, _behind(text, at, ","))
        item, at = read_one(text, at)
        items.append(item)
        at = _skipped(text, at)
    return Value(place, Pairs(tuple(items)) if closing == "}" else items), at + 1


def _json_pair(text: str, at: int, depth: int) -> tuple[tuple[Value, Value], int]:
    if text[at : at + 1] != '"':
        raise UnreadableError(_place(text, at), "a key in double quotes was expected")
    key, at = _json(text, at, depth + 1)
    at = _skipped(text, _behind(text, _skipped(text, at), ":"))
    value, at = _json(text, at, depth + 1)
    return (key, value), at


def _behind(text: str, at: int, mark: str) -> int:
    if text[at : at + 1] != mark:
        raise UnreadableError(_place(text, at), f"`{mark}` was expected")
    return at + 1


def _json_word(place: TextPlace, word: str) -> Any:
    if word in _WORDS:
        return _WORDS[word]
    if _WHOLE.fullmatch(word) and len(word) <= _LONGEST_NUMBER:
        return int(word)
    try:
        read_json(word)
    except ValueError:
        raise UnreadableError(place, f"{word[:40]!r} is no value of JSON") from None
    return Other(word)


def _yaml(text: str) -> Value:
    import yaml

    from spark_core.yaml_documents import Values

    try:
        # It ends at what is nested too deep, which a look at the events alone would not.
        node = yaml.compose(text, Loader=Values)
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            is_tagged = getattr(event, "tag", None) not in (None, "!")
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) or is_tagged:
                raise UnreadableError(
                    _mark(event.start_mark), "anchors, aliases and tags are not accepted"
                )
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        raise UnreadableError(mark and _mark(mark), str(problem.problem)) from None
    except yaml.YAMLError as problem:
        raise UnreadableError(None, str(problem).splitlines()[0]) from None
    if node is None:
        raise UnreadableError(TextPlace(1, 1), "there is nothing in it")
    return _of_node(node, 0)


def _mark(mark: Any) -> TextPlace:
    return TextPlace(mark.line + 1, mark.column + 1)


def _of_node(node: Any, depth: int) -> Value:
    import yaml

    place = _mark(node.start_mark)
    if depth > _DEEPEST:
        raise UnreadableError(place, f"values are nested deeper than {_DEEPEST}")
    if isinstance(node, yaml.MappingNode):
        pairs = tuple(
            (_of_node(key, depth + 1), _of_node(value, depth + 1)) for key, value in node.value
        )
        return Value(place, Pairs(pairs))
    if isinstance(node, yaml.SequenceNode):
        return Value(place, [_of_node(each, depth + 1) for each in node.value])
    return Value(place, _yaml_word(node.tag.rpartition(":")[2], node.value))


def _yaml_word(kind: str, written: str) -> Any:
    if kind == "str":
        return written
    if kind == "null":
        return None
    if kind == "bool" and written.lower() in ("true", "false"):
        return written.lower() == "true"
    # YAML 1.1 reads 010 as eight and 1_0 as ten.
    if kind == "int" and _WHOLE.fullmatch(written) and len(written) <= _LONGEST_NUMBER:
        return int(written)
    return Other(written)
