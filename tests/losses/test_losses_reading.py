"""Losses by the server's answers; the number is the row of the table in docs/safety.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from spark_core.addresses.namespace import Namespace
from spark_core.errors import (
    IncompleteReadError,
    NotFoundError,
    RepositoryStateError,
    SettingsError,
)
from spark_core.lakefs import (
    EntriesPage,
    LakeFSServer,
    PreparedUncommitted,
    complete_refs,
    diff_addresses,
    read_retained,
    scan_uncommitted,
    uncommitted_files,
    walk_refs,
)
from spark_core.model import Branch, Refs, Repository, RetentionRules
from spark_core.storage import ObjectStore
from tests.support.scripted_server import Asked, in_turn, page

Answering = Callable[[Any], LakeFSServer]
SCAN = ("POST", ".*/prepare_uncommited")
RUN = "ft6rqqpksduakb446ivg"
STAGED = f"_lakefs/retention/gc/uncommitted/{RUN}/uncommitted/"


def scanned(location: str, token: str = "") -> tuple[int, Any]:
    return 201, {"run_id": RUN, "gc_uncommitted_location": location, "continuation_token": token}


def test_1_the_last_page_had_no_rows_and_its_empty_location_stood_for_all_pages(
    answering: Answering, store: ObjectStore
) -> None:
    server = answering({SCAN: in_turn(scanned("local://repo/one", "more"), scanned(""))})
    scan = server.prepare_uncommitted("repo")
    with pytest.raises(
        IncompleteReadError, match=r"holds 0 files, 1 pages of the scan said that they wrote one"
    ):
        uncommitted_files(store, scan)
    store.put(f"{STAGED}page-1.parquet", b"rows of the first page")
    assert list(uncommitted_files(store, scan)) == [f"{STAGED}page-1.parquet"]


class _Branches:
    """Branches with one staged entry each; one is deleted during the scan, which then loses all
    rows.

    `lost` are not found when they are read, although they are listed.
    """

    def __init__(self, *names: str, lost: str = "") -> None:
        self.names, self.lost, self.scans = names, lost, 0

    def branches(self, _repository: str) -> list[Branch]:
        return [Branch(name, "c") for name in self.names]

    def prepare_uncommitted(self, _repository: str) -> PreparedUncommitted:
        self.scans += 1
        return PreparedUncommitted(f"run{self.scans}", pages=1, pages_with_data=self.scans - 1)

    def diff_branch(self, _repository: str, branch: str) -> Iterator[tuple[str, str]]:
        yield "path", "added"
        if branch == self.lost:
            raise NotFoundError(f"branch {branch}: 404 branch not found")

    def list_entries(self, _repository: str, branch: str, *, after: str) -> EntriesPage:
        assert after < "path"
        return EntriesPage([("path", f"local:///bs/repo/data/{branch}")], has_more=False)

    def staged(self) -> list[str]:
        """Read what is staged; relative addresses."""
        repository = Repository("repo", "local://repo", "main", datetime(2026, 1, 1, tzinfo=UTC))
        kept: list[pa.RecordBatch] = []
        namespace = Namespace.parse("local://repo", server_path="/bs")
        server: Any = self
        diff_addresses(server, repository, namespace, kept.append, at_once=1)
        return [address for batch in kept for address in batch.column("address").to_pylist()]


def test_2_a_branch_deleted_in_the_middle_of_the_scan_took_other_branches_rows_with_it() -> None:
    seen: Any = _Branches("a", "main")
    assert scan_uncommitted(seen, "repo")[0].pages_with_data == 0, (
        "the rows of both are lost without a word"
    )
    assert seen.staged() == ["data/a", "data/main"]


def test_2_a_branch_that_the_server_could_not_find_for_a_while_was_taken_for_deleted() -> None:
    with pytest.raises(
        IncompleteReadError, match=r"lists 1 branches of repository .* and did not find them.*'a'"
    ):
        _Branches("a", "main", lost="a").staged()


@pytest.mark.parametrize("names", [(), ("dev",)])
def test_17_a_repository_without_branches_had_an_empty_live_set(names: tuple[str, ...]) -> None:
    with pytest.raises(
        RepositoryStateError, match=r"has no branch: it is bare|its default branch 'main' not among"
    ):
        _Branches(*names).staged()


def test_21_a_deleted_repository_answered_from_a_cache_with_an_empty_list_of_commits(
    store: ObjectStore,
) -> None:
    store.put(
        f"_lakefs/retention/gc/commits/run_id={RUN}/commits.csv",
        b"commit_id,expired,metarange_id\n",
    )
    with pytest.raises(RepositoryStateError, match=r"retains no commit at all"):
        read_retained(store, RUN)


def test_22_the_server_answered_for_a_commit_with_another_ones_data(answering: Answering) -> None:
    def commit(id_: str, parents: list[str], metarange: str) -> dict[str, Any]:
        return {
            "id": id_,
            "parents": parents,
            "meta_range_id": metarange,
            "version": 1,
            "creation_date": 1,
        }

    head, asked_for, another = "a" * 64, "b" * 64, "c" * 64

    def answers(asked: Asked) -> tuple[int, Any]:
        what = asked.path.rpartition("/")[2]
        if what in ("branches", "tags"):
            return 200, page(
                [{"id": "main", "commit_id": head}] if what == "branches" else [], asked.query
            )
        shown = (
            commit(head, [asked_for], "1" * 64)
            if asked.path.endswith("main/commits")
            else commit(another, [], "")
        )
        if "after" in asked.query:
            return 200, {"results": [], "pagination": {"has_more": False}}
        return 200, {"results": [shown], "pagination": {"has_more": False}}

    with pytest.raises(IncompleteReadError, match=r"commit bbbb.*answered about other commits"):
        walk_refs(answering({("GET", ".*"): answers}), "repo")


def test_22_the_server_answered_for_the_head_that_a_dump_lacked_with_another_commit(
    answering: Answering,
) -> None:
    """The head was committed while the dump was made. The log of its branch is that of a new
    branch, and its own log is of another commit.
    """
    head, another = "a" * 64, "c" * 64
    shown = {
        "id": another,
        "parents": [],
        "meta_range_id": "1" * 64,
        "version": 1,
        "creation_date": 1,
    }
    logs = (200, {"results": [shown], "pagination": {"has_more": False}})
    dumped = Refs({}, (Branch("main", head),), ())
    with pytest.raises(IncompleteReadError, match=rf"commit {head}.*answered about other commits"):
        complete_refs(answering({("GET", ".*/commits"): logs}), "repo", dumped)


def test_24_a_page_token_that_repeats_ended_the_scan_early(answering: Answering) -> None:
    server = answering({SCAN: scanned("local://repo/one", "again and again")})
    with pytest.raises(IncompleteReadError, match=r"page 2 repeats a continuation token"):
        server.prepare_uncommitted("repo")


def test_25_rules_that_the_client_library_could_not_read_were_taken_for_none(
    answering: Answering,
) -> None:
    rules = ("GET", ".*/gc_rules")
    without_branches = answering({rules: (200, {"default_retention_days": 30, "branches": None})})
    assert without_branches.retention_rules("repo") == RetentionRules(30, {})
    unreadable = answering({rules: (200, {"default_retention_days": 30, "branches": "none"})})
    with pytest.raises(IncompleteReadError, match="branches"):
        unreadable.retention_rules("repo")


def test_26_days_that_wrapped_to_a_few_were_collected_under(answering: Answering) -> None:
    wrapped = answering(
        {("GET", ".*/gc_rules"): (200, {"default_retention_days": -5, "branches": []})}
    )
    with pytest.raises(RepositoryStateError, match="the default is -5 days, wanted 0 to 36500"):
        wrapped.retention_rules("repo")
    with pytest.raises(
        SettingsError, match=r"would be 4294967301 days.*the rules were not changed"
    ):
        wrapped.set_retention_rules("repo", RetentionRules(4_294_967_301, {}))


def test_30_the_server_swallowed_an_error_of_its_store_in_the_middle_of_a_scan() -> None:
    silent: Any = _Branches("main")
    scans = scan_uncommitted(silent, "repo")
    assert [scan.pages_with_data for scan in scans] == [0, 1], (
        "what one scan lost, the next one finds"
    )
