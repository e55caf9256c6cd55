"""The union of the two readings: who retains what, and what refuses."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_core.errors import IncompleteReadError
from spark_core.model import RetentionRules
from spark_core.retention import Retention, merge, retained_commits, unknown_commits, with_holds
from spark_core.schemas import RETAINED_COMMITS
from tests.spark_core.retention.graphs import NOW, graph

REFS = graph("A:30 B:20(A) C:12(B) D:5(C)", branches={"main": "D"})
OURS = retained_commits(REFS, RetentionRules(99, {"main": 10}), NOW)


def rows(**metaranges: str) -> pa.Table:
    return pa.table({"commit_id": list(metaranges), "metarange_id": list(metaranges.values())})


def server(*commits: str) -> pa.Table:
    return rows(**{commit: f"metarange of {commit}" for commit in commits})


def test_each_row_says_whose_reading_keeps_it() -> None:
    table = merge(OURS, server("D", "B"), REFS)
    assert table.schema == RETAINED_COMMITS
    assert dict(
        zip(table["commit_id"].to_pylist(), table["retained_by"].to_pylist(), strict=True)
    ) == {
        "B": "server",
        "C": "lakegc",
        "D": "server+lakegc",
    }


def test_rows_carry_metarange_date_reason_and_end() -> None:
    newest = merge(OURS, server("C", "D"), REFS).to_pylist()
    assert newest[1] == {
        "commit_id": "D",
        "metarange_id": "metarange of D",
        "created_at": REFS.commits["D"].creation_date,
        "reason": "head of main",
        "retained_by": "server+lakegc",
        "retained_until": None,
        "is_head": True,
    }
    assert newest[0]["retained_until"] > NOW


def test_without_rules_there_is_no_list_of_the_server() -> None:
    table = merge(retained_commits(REFS, None, NOW), None, REFS)
    assert set(table["retained_by"].to_pylist()) == {"lakegc"}
    assert table.num_rows == 4


def test_a_commit_that_only_the_server_knows_is_kept_and_named() -> None:
    table = merge(OURS, server("D", "Z"), REFS)
    assert table.to_pylist()[-1] == {
        "commit_id": "Z",
        "metarange_id": "metarange of Z",
        "created_at": None,
        "reason": "the server's list",
        "retained_by": "server",
        "retained_until": None,
        "is_head": False,
    }
    assert unknown_commits(server("D", "Z"), REFS) == ["Z"]
    assert unknown_commits(server("A", "D"), REFS) == []


def test_an_empty_metarange_is_a_value_like_any_other() -> None:
    refs = graph("A:1", branches={"main": "A"})
    with pytest.raises(
        IncompleteReadError,
        match=r"commit A has metarange metarange of A in one reading and \(empty\)",
    ):
        merge(retained_commits(refs, None, NOW), rows(A=""), refs)


@pytest.mark.parametrize("commit", ["D", "B"])
def test_two_metaranges_for_one_commit_refuse(commit: str) -> None:
    with pytest.raises(IncompleteReadError, match=rf"commit {commit} has metarange .* other "):
        merge(OURS, rows(**{commit: "other"}), REFS)


def test_a_commit_listed_twice_is_one_row_and_refuses_if_its_metaranges_differ() -> None:
    assert merge(OURS, pa.concat_tables([server("D"), server("D")]), REFS).num_rows == len(OURS)
    with pytest.raises(IncompleteReadError, match="commit D"):
        merge(OURS, pa.concat_tables([server("D"), rows(D="other")]), REFS)


def test_a_held_commit_outlasts_the_rules_and_one_that_no_rule_retains_is_added():
    ours = [
        Retention("b", "main: within 7 days", NOW, is_head=False),
        Retention("c", "head of main", None, is_head=True),
        Retention("d", "main: within 7 days", NOW, is_head=False),
    ]
    assert with_holds(
        ours, {"a": "hold x: commit a", "b": "hold y: branch z", "c": "hold y: branch z"}
    ) == [
        Retention("a", "hold x: commit a", None, is_head=False),
        Retention("b", "hold y: branch z", None, is_head=False),
        Retention("c", "head of main", None, is_head=True),
        Retention("d", "main: within 7 days", NOW, is_head=False),
    ]
