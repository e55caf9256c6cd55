"""What is said of an object is what the mark stored of it; no Spark."""

from __future__ import annotations

import pytest

from spark_core.explain import explain, why
from spark_core.fates import Fate
from spark_core.records.reading import StoredTable
from tests.support.written_run import OLD, written_run

STAYS = [fate for fate in Fate if not fate.may_go and fate is not Fate.COMMITTED]


@pytest.fixture
def written(tmp_path):
    return written_run(tmp_path, None)


@pytest.mark.parametrize("fate", STAYS)
def test_an_object_that_stays_is_explained_by_its_row_and_nothing_else(written, fate):
    written.mark({"data/s/a": (4, OLD)}, fates={"data/s/a": (fate, "because of dev")})
    found = explain(written.run, "data/s/a")
    (reason,) = found.reasons
    assert (found.state, found.fate, reason.kind) == ("kept", fate, fate)
    assert found.sentence == f"kept: {reason.text}"
    if fate not in (Fate.YOUNG, Fate.UPLOADING):
        assert reason.text == fate.with_cause("because of dev")
    assert " or " not in reason.text


def test_an_object_that_may_go_is_explained_by_its_reason(written):
    written.mark({"data/s/a": (4, OLD)}, expired={"data/s/a": "in no commit, they say"})
    found = explain(written.run, "data/s/a")
    assert (found.fate, found.rule) == ("expired", "in no commit, they say")


def test_a_row_of_another_object_with_the_same_hash_says_nothing(written, monkeypatch):
    written.mark({"data/s/a": (4, OLD)})
    row = {"address": "data/s/b", "fate": "expired", "why": "in no commit", "until": None}
    monkeypatch.setattr(StoredTable, "rows_of", lambda *_, **__: {"data/s/a": row})
    assert why._fates(written.run, ["data/s/a"]) == {}
