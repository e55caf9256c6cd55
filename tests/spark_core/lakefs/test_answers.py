"""Fields of many rows are read at once as they are read one by one, whatever the server answers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_core.errors import IncompleteReadError
from spark_core.lakefs.answers import Body
from spark_core.lakefs.calls import Call

CALL = Call("list_objects", "entries of main")
VALUES = st.one_of(
    st.text(max_size=3),
    st.integers(),
    st.integers(-(2**80), 2**80),
    st.booleans(),
    st.floats(),
    st.none(),
    st.lists(st.text(max_size=1), max_size=2),
    st.dictionaries(st.sampled_from(["path", "x"]), st.text(max_size=1)),
)
SOUND = st.fixed_dictionaries(
    {"path": st.text(max_size=3), "type": st.text(max_size=3)},
    optional={"mtime": st.none() | st.integers(), "size_bytes": VALUES},
)
# Every field is there, and one of them may be of another type.
ODD = st.one_of(
    st.fixed_dictionaries({"path": VALUES, "type": st.text(max_size=3), "mtime": st.integers()}),
    st.fixed_dictionaries({"path": st.text(max_size=3), "type": VALUES, "mtime": st.none()}),
    st.fixed_dictionaries({"path": st.just("p"), "type": st.just("added"), "mtime": VALUES}),
)
DAMAGED = st.dictionaries(st.sampled_from(["path", "type", "mtime", "other"]), VALUES)
ROWS = st.one_of(
    st.lists(SOUND),
    st.lists(SOUND | ODD, max_size=6),
    st.lists(SOUND | ODD | DAMAGED | VALUES, max_size=6),
    VALUES,
)
PAGES = st.fixed_dictionaries({}, optional={"results": ROWS})


def _outcome(read: Callable[[], Any]) -> tuple[list[Any], str]:
    """Return what a reading yields before it ends or refuses, and the words of its refusal."""
    found: list[Any] = []
    try:
        found.extend(read())
    except IncompleteReadError as refused:
        return found, str(refused)
    return found, ""


@given(PAGES)
def test_two_texts_of_each_row_are_what_each_row_says(page: dict[str, Any]) -> None:
    body = Body(CALL, page)

    def one_by_one() -> Any:
        for row in body.parts("results"):
            yield row.text("path"), row.text("type")

    assert _outcome(lambda: body.pairs("results", "path", "type")) == _outcome(one_by_one)


@given(PAGES)
def test_dates_of_all_rows_are_what_each_row_says(page: dict[str, Any]) -> None:
    body = Body(CALL, page)

    def one_by_one() -> Any:
        rows = body.parts("results")
        return [row.any_instant("mtime") if row.has("mtime") else None for row in rows]

    assert _outcome(lambda: body.instants("results", "mtime")) == _outcome(one_by_one)


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
    body = Body(CALL, {"results": [good, row, good]})
    with pytest.raises(IncompleteReadError, match="an answer that cannot be read is not taken"):
        list(body.pairs("results", "path", "type"))


@pytest.mark.parametrize("mtime", [True, 1.5, "5", [], {}])
def test_a_date_that_is_no_number_refuses_its_page(mtime: Any) -> None:
    body = Body(CALL, {"results": [{"mtime": 5}, {"mtime": mtime}]})
    with pytest.raises(IncompleteReadError, match="where 'mtime' should be int"):
        body.instants("results", "mtime")


def test_dates_are_a_sequence_like_any_other() -> None:
    dates = Body(CALL, {"results": [{"mtime": 5}, {}, {"mtime": 2**70}]}).instants(
        "results", "mtime"
    )
    first = datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)
    assert list(dates[:2]) == [first, None]
    assert dates[2] == datetime.max.replace(tzinfo=UTC)
    assert len(dates) == 3
