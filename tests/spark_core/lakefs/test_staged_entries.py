"""The server's scans, and the diffs of all branches, which are complete while branches change."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_core.addresses.namespace import Namespace
from spark_core.errors import AddressError, IncompleteReadError, RepositoryStateError
from spark_core.lakefs import DiffsRead, LakeFSServer, diff_addresses, scan_uncommitted
from spark_core.lakefs.staged_entries import MAX_ROUNDS, MAX_SCANS
from spark_core.model import Repository
from spark_core.schemas import STAGED_ADDRESSES
from tests.support.golden import SERVER_PATH, expected
from tests.support.recorded_server import RecordedServer
from tests.support.scripted_server import Asked, Reply, ScriptedServer, in_turn

Client = Callable[..., tuple[LakeFSServer, ScriptedServer]]
BRANCHES = ("GET", "/repositories/docs/branches")
SCAN = ("POST", "/repositories/docs/gc/prepare_uncommited")
RUNS = ["ft6rqqpksduakb446iv0", "ft6rqqpksduakb446ivg", "ft6rqqpksduakb446iug"]
GONE = (404, {"message": "branch not found"})


def listing(*names: str) -> tuple[int, Any]:
    return 200, {
        "pagination": {"has_more": False, "next_offset": ""},
        "results": [{"id": name, "commit_id": "c"} for name in names],
    }


def scanned(run_id: str) -> tuple[int, Any]:
    return 201, {"run_id": run_id, "gc_uncommitted_location": ""}


def test_the_server_scans_twice(client: Client) -> None:
    server, scripted = client({SCAN: in_turn(*map(scanned, RUNS))})
    assert [scan.run_id for scan in scan_uncommitted(server, "docs")] == RUNS[:2]
    assert [call.method for call in scripted.calls] == ["POST", "POST"]


def test_a_scan_that_a_deleted_branch_ended_is_made_again(client: Client) -> None:
    server, _ = client({SCAN: in_turn(GONE, *map(scanned, RUNS))})
    assert [scan.run_id for scan in scan_uncommitted(server, "docs")] == RUNS[:2]


def test_a_branch_deleted_under_each_scan_leaves_the_reading_to_the_diffs(client: Client) -> None:
    server, scripted = client({SCAN: GONE})
    assert scan_uncommitted(server, "docs") == []
    assert len(scripted.calls) == MAX_SCANS
    some = in_turn(GONE, GONE, GONE, GONE, scanned(RUNS[0]))
    server, _ = client({SCAN: some})
    assert [scan.run_id for scan in scan_uncommitted(server, "docs")] == RUNS[:1]


def test_a_scan_that_makes_no_progress_still_refuses(client: Client) -> None:
    stuck = (201, {"run_id": RUNS[0], "gc_uncommitted_location": "", "continuation_token": "again"})
    server, _ = client({SCAN: stuck})
    with pytest.raises(IncompleteReadError, match="repeats a continuation token"):
        scan_uncommitted(server, "docs")


def repository(name: str = "docs", default_branch: str = "main") -> Repository:
    return Repository(name, f"local://{name}", default_branch, datetime(2026, 1, 1, tzinfo=UTC))


def read(
    server: LakeFSServer,
    name: str,
    namespace: Namespace,
    *,
    at_once: int = 1,
    default_branch: str = "main",
) -> tuple[pa.Table, DiffsRead]:
    kept: list[pa.RecordBatch] = []
    found = diff_addresses(
        server, repository(name, default_branch), namespace, kept.append, at_once=at_once
    )
    table = pa.Table.from_batches(kept, STAGED_ADDRESSES)
    # Counted as they are kept, or the table would seem to have more rows than were read.
    assert found.rows == table.num_rows
    return table, found


def diffs(server: LakeFSServer, name: str, namespace: Namespace, *, at_once: int = 1) -> pa.Table:
    return read(server, name, namespace, at_once=at_once)[0]


def test_the_diffs_find_what_the_scan_of_a_local_store_leaves_out(tmp_path: Path) -> None:
    with RecordedServer.unpacked("merges", tmp_path) as recorded:
        server = LakeFSServer(recorded.options())
        namespace = Namespace.parse("local://merges", server_path=SERVER_PATH)
        table = diffs(server, "merges", namespace)
    assert table.schema == STAGED_ADDRESSES
    found = set(table["address"].to_pylist())
    staged = {
        entry["address"]
        for branch in expected("merges")["branches"].values()
        for entry in branch["staged"]
        if entry["in_diff"]
    }
    assert found == staged
    omitted = set(expected("merges")["prepare_uncommitted"]["staged_but_not_listed"])
    # base/f5 is an identical re-upload, which no diff shows: the twin guard looks for it.
    assert omitted - found == {"data/ft6rghhksdue0hropq80/dc0klepksdue0hropqgg"}
    assert table["created_at"].null_count == table.num_rows


DIFF = ("GET", "/repositories/docs/branches/main/diff")
ENTRIES = ("GET", "/repositories/docs/refs/main/objects/ls")
NAMESPACE = Namespace.parse("local://docs", server_path="/bs")


def changed(*paths: str, kind: str = "added") -> tuple[int, Any]:
    return 200, {
        "pagination": {"has_more": False},
        "results": [{"path": path, "type": kind} for path in paths],
    }


def entries(**addresses: str) -> tuple[int, Any]:
    results = [{"path": path, "physical_address": address} for path, address in addresses.items()]
    return 200, {"pagination": {"has_more": False}, "results": results}


def test_addresses_outside_the_namespace_are_left_out(client: Client) -> None:
    server, _ = client(
        {
            BRANCHES: listing("main"),
            DIFF: changed("p"),
            ENTRIES: entries(p="local:///bs/other/data/x"),
        }
    )
    assert diffs(server, "docs", NAMESPACE).num_rows == 0


def test_a_staged_address_that_cannot_be_read_is_told_with_branch_and_path(client: Client) -> None:
    namespace = Namespace.parse("s3://lake/ns")
    staged = {
        "good": "s3://lake/ns/data/x",
        "tables/day=1": "s3://lake/ns/data/day%3A1",
        "late": "s3://lake/ns/data/y",
    }
    server, _ = client(
        {BRANCHES: listing("main"), DIFF: changed(*staged), ENTRIES: entries(**staged)}
    )
    with pytest.raises(AddressError, match=r"'s3://lake/ns/data/day%3A1' could be read") as told:
        diffs(server, "docs", namespace)
    where = "lakefs://docs/main/tables/day=1"
    assert told.value.found.startswith(f"{where} is staged with an address that cannot be read: ")
    assert told.value.next_step.endswith(f"remove the entry (`lakectl fs rm {where}`).")


def test_an_address_of_unknown_form_refuses(client: Client) -> None:
    server, _ = client(
        {
            BRANCHES: listing("main"),
            DIFF: changed("p", kind="changed"),
            ENTRIES: entries(p="ftp://x/y"),
        }
    )
    with pytest.raises(AddressError, match="ftp://x/y"):
        diffs(server, "docs", NAMESPACE)


def test_removed_entries_and_clean_branches_are_not_asked_for(client: Client) -> None:
    server, scripted = client({BRANCHES: listing("main"), DIFF: changed("p", kind="removed")})
    assert diffs(server, "docs", NAMESPACE).num_rows == 0
    assert scripted.paths() == [f"GET {path}" for path in (BRANCHES[1], DIFF[1], BRANCHES[1])]


def test_an_entry_that_was_reset_since_the_diff_is_not_reached(client: Client) -> None:
    twice = in_turn(changed("p"), changed())
    server, _ = client(
        {BRANCHES: listing("main"), DIFF: twice, ENTRIES: entries(q="local:///bs/docs/data/q")}
    )
    assert diffs(server, "docs", NAMESPACE).num_rows == 0


@pytest.mark.parametrize("misses", [1, 2, 3])
def test_a_path_deleted_and_staged_again_between_diff_and_listing_is_looked_up_again(
    client: Client, misses: int
) -> None:
    shown = in_turn(*[entries()] * misses, entries(p="local:///bs/docs/data/x"))
    server, _ = client({BRANCHES: listing("main"), DIFF: changed("p"), ENTRIES: shown})
    assert diffs(server, "docs", NAMESPACE)["address"].to_pylist() == ["data/x"]


def test_a_path_that_is_not_found_in_four_tries_refuses(client: Client) -> None:
    shown = in_turn(*[entries()] * 4, entries(p="local:///bs/docs/data/x"))
    server, _ = client({BRANCHES: listing("main"), DIFF: changed("p"), ENTRIES: shown})
    with pytest.raises(
        IncompleteReadError, match=r"1 staged entries are in the diff.*in 4 tries.*'p'"
    ):
        diffs(server, "docs", NAMESPACE)


def test_an_entry_that_stays_in_the_diff_and_cannot_be_looked_up_refuses(client: Client) -> None:
    server, _ = client(
        {
            BRANCHES: listing("main"),
            DIFF: changed("p", "q"),
            ENTRIES: entries(q="local:///bs/docs/data/q"),
        }
    )
    with pytest.raises(IncompleteReadError, match=r"1 staged entries are in the diff.*'p'"):
        diffs(server, "docs", NAMESPACE)


def test_two_paths_that_are_shown_alike_are_both_read(client: Client) -> None:
    shown = {"path": "p\ufffd"}
    both = [shown | {"physical_address": f"local:///bs/docs/data/{name}"} for name in "xy"]
    listed = (200, {"pagination": {"has_more": False}, "results": both})
    server, _ = client(
        {BRANCHES: listing("main"), DIFF: changed("p\ufffd", "p\ufffd"), ENTRIES: listed}
    )
    assert diffs(server, "docs", NAMESPACE)["address"].to_pylist() == ["data/x", "data/y"]


class Branches:
    """A server of branches that come and go; what is staged on one is an entry of its own name.

    `lists` are the branches that each listing shows, the last one again and again; `lost` are
    answered "not found" so often.
    """

    def __init__(self, *lists: str, lost: dict[str, int] | None = None) -> None:
        self.lists, self.lost = [names.split() for names in lists], dict(lost or {})
        self.asked: list[str] = []

    def __call__(self, asked: Asked) -> tuple[int, Any]:
        if asked.path.endswith("/branches"):
            return listing(*(self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]))
        name = asked.path.split("/")[4]
        if asked.path.endswith("/diff"):
            self.asked.append(name)
            return changed(name)
        if self.lost.get(name, 0):
            self.lost[name] -= 1
            return GONE
        return entries(**{name: f"local:///bs/docs/data/{name}"})


def staged(client: Client, branches: Branches, **options: Any) -> tuple[set[str], DiffsRead]:
    server, _ = client({("GET", ".*"): branches})
    table, found = read(server, "docs", NAMESPACE, **options)
    return {address.removeprefix("data/") for address in table["address"].to_pylist()}, found


@pytest.mark.parametrize("at_once", [1, 16])
def test_branches_are_read_side_by_side_each_once(client: Client, at_once: int) -> None:
    names = [f"b{number:02d}" for number in range(40)]
    branches = Branches(" ".join(["main", *names]))
    found, figures = staged(client, branches, at_once=at_once)
    assert found == {"main", *names}
    assert sorted(branches.asked) == sorted(["main", *names])
    assert figures == DiffsRead(rows=41, branches=41, gone=0, appeared=0)


def test_a_branch_that_appears_is_read_too(client: Client) -> None:
    found, figures = staged(client, Branches("main", "main new", "main new"))
    assert found == {"main", "new"}
    assert figures == DiffsRead(rows=2, branches=2, gone=0, appeared=0)


def test_a_branch_that_is_gone_is_skipped(client: Client) -> None:
    found, figures = staged(client, Branches("gone main", "main", lost={"gone": 1}))
    assert found == {"main"}
    assert figures == DiffsRead(rows=1, branches=1, gone=1, appeared=0)


def test_a_branch_that_was_deleted_and_made_again_is_read_again(client: Client) -> None:
    found, figures = staged(client, Branches("back main", lost={"back": 2}))
    assert found == {"back", "main"}
    assert figures == DiffsRead(rows=2, branches=2, gone=0, appeared=0)


def test_branches_that_come_and_go_in_every_round_end_nothing(client: Client) -> None:
    """Every listing shows a branch that was not there before and is gone when it is asked about."""
    rounds = [f"main ci-{number}" for number in range(20)]
    found, figures = staged(
        client, Branches(*rounds, lost={f"ci-{number}": 9 for number in range(20)})
    )
    assert found == {"main"}
    assert figures == DiffsRead(rows=1, branches=1, gone=MAX_ROUNDS, appeared=1)


def test_a_branch_that_is_listed_and_never_found_refuses(client: Client) -> None:
    with pytest.raises(
        IncompleteReadError,
        match=r"lists 1 branches of repository docs and did not find them in 5 tries.*'lost'",
    ):
        staged(client, Branches("lost main", lost={"lost": 99}))


def test_rows_of_a_branch_that_broke_off_are_kept_and_counted(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_core.lakefs.branch_diff.LOT", 1)
    server, _ = client(
        {
            BRANCHES: listing("main"),
            DIFF: changed("p", "q"),
            ENTRIES: in_turn(
                entries(p="local:///bs/docs/data/x"),
                GONE,
                entries(p="local:///bs/docs/data/x"),
                entries(q="local:///bs/docs/data/y"),
            ),
        }
    )
    assert diffs(server, "docs", NAMESPACE)["address"].to_pylist() == ["data/x", "data/x", "data/y"]


@pytest.mark.parametrize("lists", [("",), ("main", "")])
def test_no_branch_before_or_after_refuses(client: Client, lists: tuple[str, ...]) -> None:
    with pytest.raises(
        RepositoryStateError,
        match=r"docs has no branch: it is bare, or it was deleted a moment ago",
    ):
        staged(client, Branches(*lists))


@pytest.mark.parametrize("lists", [("dev",), ("dev main", "dev")])
def test_a_list_without_the_default_branch_refuses(client: Client, lists: tuple[str, ...]) -> None:
    with pytest.raises(
        RepositoryStateError,
        match=r"docs shows 1 branches, its default branch 'main' not among them",
    ):
        staged(client, Branches(*lists))


def test_one_branch_that_cannot_be_read_ends_the_reading_of_all_by_its_name(client: Client) -> None:
    names = [f"b{number:03d}" for number in range(200)]

    class Failing(Branches):
        def __call__(self, asked: Asked) -> tuple[int, Any]:
            if asked.path.endswith("/b002/diff"):
                return 200, {"results": "none"}
            return super().__call__(asked)

    branches = Failing(" ".join(["main", *names]))
    with pytest.raises(
        IncompleteReadError, match="uncommitted changes of branch b002 of repository docs"
    ):
        staged(client, branches, at_once=4)
    assert len(branches.asked) < 20, "nothing further is asked"


def test_a_diff_that_cannot_be_read_refuses(client: Client) -> None:
    server, _ = client({BRANCHES: listing("main"), DIFF: Reply(200, b"{")})
    with pytest.raises(IncompleteReadError, match="no JSON"):
        diffs(server, "docs", NAMESPACE)


def test_a_long_diff_is_looked_up_lot_by_lot_and_an_entry_hidden_in_any_of_them_refuses(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_core.lakefs.branch_diff.LOT", 2)
    addresses = {name: f"local:///bs/docs/data/{name}" for name in "abcde"}
    answers = {BRANCHES: listing("main"), DIFF: changed(*addresses), ENTRIES: entries(**addresses)}
    server, _ = client(answers)
    kept: list[pa.RecordBatch] = []
    assert diff_addresses(server, repository(), NAMESPACE, kept.append, at_once=1).rows == 5
    assert [batch.num_rows for batch in kept] == [2, 2, 1]
    assert sorted(pa.Table.from_batches(kept)["address"].to_pylist()) == [
        f"data/{name}" for name in "abcde"
    ]

    shown = entries(**{name: address for name, address in addresses.items() if name not in "be"})
    server, _ = client({**answers, ENTRIES: shown})
    with pytest.raises(IncompleteReadError, match=r"2 staged entries are in the diff.*'b'"):
        diffs(server, "docs", NAMESPACE)


def test_what_is_spelt_in_another_way_than_the_namespace_is_found_by_its_diff(
    client: Client,
) -> None:
    """A branch shows an entry staged as `s3://x@lake/ns/data/x` as the server resolves it."""
    namespace = Namespace.parse("s3://lake/ns")
    spelt = {"p": "s3://lake/ns/data/x", "q": "S3://lake/ns/data/y", "r": "s3://lake/other/data/z"}
    server, _ = client(
        {BRANCHES: listing("main"), DIFF: changed(*spelt), ENTRIES: entries(**spelt)}
    )
    assert diffs(server, "docs", namespace)["address"].to_pylist() == ["data/x", "data/y"]
    server, _ = client(
        {BRANCHES: listing("main"), DIFF: changed("p"), ENTRIES: entries(p="s3://x@lake/ns/data/x")}
    )
    with pytest.raises(AddressError, match=r"'s3://...@lake/ns/data/x' could be read as"):
        diffs(server, "docs", namespace)
