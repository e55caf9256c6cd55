"""What is staged, compacted into a metarange that a branch's record alone names."""

from __future__ import annotations

from typing import Any

import lakefs_sdk
import pytest
from lakefs_sdk.exceptions import BadRequestException

from lakegc_dagster.sandbox import Sandbox, refs


@pytest.fixture
def compact(sandbox: Sandbox, sdk: Any) -> Any:
    sdk.create("demo")
    sdk.upload("demo", "main", "p", b"first")
    sdk.upload("demo", "main", "q", b"first")
    sdk.commit("demo", "main")

    def act() -> str:
        with sandbox.core.lock:
            return refs.compact(sandbox.core, "demo", "main")

    return act


def _diff(sdk: Any) -> list[tuple[str, str]]:
    return [(row.type, row.path) for row in sdk.branches.diff_branch("demo", "main").results]


def _address(sdk: Any, ref: str = "main", path: str = "p") -> str:
    return str(sdk.objects.stat_object("demo", ref, path).physical_address)


def test_what_was_compacted_is_shown_as_before_and_by_no_commit(sdk: Any, compact: Any) -> None:
    staged = sdk.upload("demo", "main", "p", b"second").physical_address
    sdk.upload("demo", "main", "new", b"new")
    sdk.objects.delete_object("demo", "main", "q")
    before = _diff(sdk)
    metarange = compact()
    assert _diff(sdk) == before == [("added", "new"), ("changed", "p"), ("removed", "q")]
    assert _address(sdk) == staged
    assert [row.path for row in sdk.objects.list_objects("demo", "main").results] == ["new", "p"]
    assert sdk.internal.prepare_garbage_collection_uncommitted("demo").gc_uncommitted_location
    log = sdk.refs.log_commits("demo", "main").results
    assert metarange not in {commit.meta_range_id for commit in log}
    creation = lakefs_sdk.RevertCreation(ref="main", parent_number=0)
    with pytest.raises(BadRequestException, match="dirty"):
        sdk.branches.revert_branch("demo", "main", creation)


def test_a_commit_keeps_a_compacted_entry_of_the_same_content(sdk: Any, compact: Any) -> None:
    below = sdk.upload("demo", "main", "p", b"second").physical_address
    compact()
    over = sdk.upload("demo", "main", "p", b"second").physical_address
    assert _address(sdk) == over
    sdk.commit("demo", "main")
    assert _address(sdk) == _address(sdk, "main@") == below
    assert _diff(sdk) == []


def test_an_entry_like_the_head_s_over_a_compacted_one_is_read_and_not_shown(
    sdk: Any, compact: Any
) -> None:
    sdk.upload("demo", "main", "p", b"second")
    compact()
    over = sdk.upload("demo", "main", "p", b"first").physical_address
    assert _address(sdk) == over
    (row,) = sdk.branches.diff_branch("demo", "main").results
    assert (row.type, row.path, row.size_bytes) == ("changed", "p", len(b"second"))
    sdk.commit("demo", "main")
    assert _address(sdk, "main@") == over


def test_a_reset_forgets_what_was_compacted(sdk: Any, compact: Any) -> None:
    committed = _address(sdk)
    sdk.upload("demo", "main", "p", b"second")
    sdk.objects.delete_object("demo", "main", "q")
    compact()
    one = lakefs_sdk.ResetCreation(type="object", path="p")
    sdk.branches.reset_branch("demo", "main", one)
    assert _address(sdk) == committed
    sdk.branches.reset_branch("demo", "main", lakefs_sdk.ResetCreation(type="reset"))
    assert _diff(sdk) == []
    assert sdk.objects.get_object("demo", "main", "q") == b"first"


def test_nothing_staged_is_nothing_to_compact(sdk: Any, compact: Any) -> None:
    assert compact() == ""
    sdk.upload("demo", "main", "p", b"second")
    made = compact()
    assert compact() == made
    sdk.objects.delete_object("demo", "main", "p")
    assert compact() != made
    assert _diff(sdk) == [("removed", "p")]
