"""Rows of a page are read at once as they are read field by field, whatever the server answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_core.errors import IncompleteReadError
from spark_core.lakefs.answer_types import Instants
from spark_core.lakefs.answers import Body
from spark_core.lakefs.calls import Answer, Call
from spark_core.lakefs.pages import PageReader, ShownChange, ShownEntry

CALL = Call("list_objects", "entries of main")
ENTRIES, CHANGES = PageReader(ShownEntry), PageReader(ShownChange)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
NUMBERS = st.integers() | st.integers(-(2**80), 2**80)
VALUES = st.one_of(
    TEXTS,
    NUMBERS,
    st.booleans(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.none(),
    st.lists(TEXTS, max_size=2),
    st.dictionaries(st.sampled_from(["path", "x"]), TEXTS),
)
SOUND = st.fixed_dictionaries(
    {"path": TEXTS, "type": TEXTS, "physical_address": TEXTS},
    optional={"mtime": st.none() | NUMBERS, "size_bytes": VALUES, "metadata": VALUES},
)
# One field is of another type, or any field is missing.
FIELDS = ["path", "type", "physical_address", "mtime", "other"]
ODD = st.builds(
    lambda row, name, value: {**row, name: value}, SOUND, st.sampled_from(FIELDS), VALUES
)
DAMAGED = st.dictionaries(st.sampled_from(FIELDS), VALUES)
PAGINATION = st.fixed_dictionaries(
    {"has_more": st.booleans()}, optional={"next_offset": TEXTS, "results": NUMBERS}
)
PAGES = st.fixed_dictionaries(
    {},
    optional={
        "results": st.lists(SOUND)
        | st.lists(SOUND | ODD, max_size=6)
        | st.lists(SOUND | DAMAGED | VALUES, max_size=6)
        | VALUES,
        "pagination": PAGINATION | PAGINATION | VALUES,
    },
)


def _answer(page: Any) -> Answer:
    return Answer(200, json.dumps(page).encode())


def _outcome(read: Callable[[], Any]) -> Any:
    """Return what a reading yields; None if it refuses."""
    try:
        return read()
    except IncompleteReadError:
        return None


@given(PAGES)
def test_entries_of_a_page_are_what_its_fields_say_one_by_one(page: dict[str, Any]) -> None:
    def one_by_one() -> Any:
        body = Body(CALL, page)
        rows = [
            (
                row.text("path"),
                row.text("physical_address"),
                row.any_instant("mtime") if row.has("mtime") else None,
            )
            for row in body.parts("results")
        ]
        return rows, body.part("pagination").flag("has_more")

    def at_once() -> Any:
        found = ENTRIES.read(CALL, _answer(page))
        dates = Instants([row.mtime for row in found.results])
        rows = [
            (row.path, row.physical_address, date)
            for row, date in zip(found.results, dates, strict=True)
        ]
        return rows, found.pagination.has_more

    assert _outcome(at_once) == _outcome(one_by_one)


@given(PAGES)
def test_changes_of_a_page_are_what_its_fields_say_one_by_one(page: dict[str, Any]) -> None:
    def one_by_one() -> Any:
        body = Body(CALL, page)
        rows = [(row.text("path"), row.text("type")) for row in body.parts("results")]
        pagination = body.part("pagination")
        return rows, pagination.flag("has_more"), pagination.optional_text("next_offset")

    def at_once() -> Any:
        found = CHANGES.read(CALL, _answer(page))
        rows = [(row.path, row.type) for row in found.results]
        return rows, found.pagination.has_more, found.pagination.next_offset or ""

    assert _outcome(at_once) == _outcome(one_by_one)


@pytest.mark.parametrize(
    "row",
    [
        {"path": "p"},
        {"path": "p", "type": None},
        {"path": 5, "type": "added"},
        {"path": ["p"], "type": "added"},
        ["path", "type"],
        "path",
        None,
    ],
)
def test_one_row_that_is_not_as_documented_refuses_its_page(row: Any) -> None:
    good = {"path": "good", "type": "added"}
    page = {"results": [good, row, good], "pagination": {"has_more": False}}
    with pytest.raises(
        IncompleteReadError,
        match=r"\$\.results\[1\].*that cannot be read is not taken for an empty",
    ):
        CHANGES.read(CALL, _answer(page))


@pytest.mark.parametrize("mtime", [True, 1.5, "5", [], {}])
def test_a_date_that_is_no_number_refuses_its_page(mtime: Any) -> None:
    rows = [{"path": "p", "physical_address": "a", "mtime": value} for value in (5, mtime)]
    page = {"results": rows, "pagination": {"has_more": False}}
    with pytest.raises(IncompleteReadError, match=r"\$\.results\[1\]\.mtime"):
        ENTRIES.read(CALL, _answer(page))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"null",
        b'{"results": [',
        b'\xff{"results": []}',
        b'{"results": [{"path": "\xff", "type": "added"}], "pagination": {"has_more": false}}',
        b'{"results": [], "other": "\xff", "pagination": {"has_more": false}}',
        b'\xef\xbb\xbf{"results": [], "pagination": {"has_more": false}}',
    ],
)
def test_an_answer_that_is_no_page_refuses(body: bytes) -> None:
    with pytest.raises(IncompleteReadError, match="not taken for an empty one"):
        CHANGES.read(CALL, Answer(200, body))


def test_dates_are_a_sequence_like_any_other() -> None:
    dates = Instants([5, None, 2**70])
    first = datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)
    assert list(dates[:2]) == [first, None]
    assert dates[2] == datetime.max.replace(tzinfo=UTC)
    assert len(dates) == 3
