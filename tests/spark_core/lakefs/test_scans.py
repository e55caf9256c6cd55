"""Scans under branches that come and go, and the diffs that fill in what a scan omits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_core.errors import AddressError, IncompleteReadError, RepositoryStateError
from spark_core.lakefs import LakeFSServer, PreparedUncommitted, diff_addresses, scan_uncommitted
from spark_core.model import Branch
from spark_core.namespace import Namespace
from spark_core.schemas import UNCOMMITTED_ADDRESSES
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


def test_steady_branches_need_two_scans(client: Client) -> None:
    server, scripted = client({BRANCHES: listing("main", "dev"), SCAN: in_turn(*map(scanned, RUNS))})
    assert [scan.run_id for scan in scan_uncommitted(server, "docs")] == RUNS[:2]
    assert [call.method for call in scripted.calls] == ["GET", "POST", "GET", "POST", "GET"]


@dataclass
class Vanishing:
    """A server on which a branch is deleted when the first scan comes to it, and is back before anybody looks again.

    What the scan had found on other branches is dropped then, without an error (`lakefs-facts` 11.29).
    """

    scans: int = 0

    def branches(self, _repository: str) -> list[Branch]:
        return [Branch(name, "c") for name in ("a", "b", "c")]

    def prepare_uncommitted(self, _repository: str) -> PreparedUncommitted:
        self.scans += 1
        return PreparedUncommitted(f"run{self.scans}", pages=1, pages_with_data=int(self.scans > 1))


def test_a_branch_that_was_deleted_and_made_again_during_the_scan_costs_no_staged_rows() -> None:
    scans = scan_uncommitted(Vanishing(), "docs")  # type: ignore[arg-type]
    assert [scan.pages_with_data for scan in scans] == [0, 1]


def test_a_changed_list_of_branches_means_another_scan_and_the_union_of_both(client: Client) -> None:
    branches = in_turn(listing("main", "dev"), listing("main"), listing("main"))
    server, _ = client({BRANCHES: branches, SCAN: in_turn(*map(scanned, RUNS))})
    assert [scan.run_id for scan in scan_uncommitted(server, "docs")] == RUNS[:2]


def test_a_branch_that_goes_during_the_second_scan_means_a_third(client: Client) -> None:
    branches = in_turn(listing("main", "dev"), listing("main", "dev"), listing("main"), listing("main"))
    server, _ = client({BRANCHES: branches, SCAN: in_turn(*map(scanned, RUNS))})
    assert [scan.run_id for scan in scan_uncommitted(server, "docs")] == RUNS


def test_a_moved_head_is_no_changed_branch(client: Client) -> None:
    numbers = iter(range(10**6))

    def moving(_asked: Asked) -> tuple[int, Any]:
        return 200, {**listing()[1], "results": [{"id": "main", "commit_id": f"c{next(numbers)}"}]}

    server, _ = client({BRANCHES: moving, SCAN: scanned(RUNS[0])})
    assert len(scan_uncommitted(server, "docs")) == 2


def test_a_scan_that_lost_its_branch_is_made_again_even_if_the_branch_is_back(client: Client) -> None:
    server, _ = client({BRANCHES: listing("main"), SCAN: in_turn(GONE, *map(scanned, RUNS[1:]))})
    assert [scan.run_id for scan in scan_uncommitted(server, "docs")] == RUNS[1:]


def test_branches_that_never_stand_still_refuse(client: Client) -> None:
    numbers = iter(range(10**6))
    server, scripted = client({BRANCHES: lambda _: listing("main", f"b{next(numbers)}"), SCAN: scanned(RUNS[0])})
    with pytest.raises(IncompleteReadError, match=r"branches came or went during 3 of 3 scans.*nothing was deleted"):
        scan_uncommitted(server, "docs", max_scans=3)
    assert sum(call.method == "POST" for call in scripted.calls) == 3


def test_a_scan_that_always_loses_a_branch_refuses(client: Client) -> None:
    server, _ = client({BRANCHES: listing("main"), SCAN: GONE})
    with pytest.raises(IncompleteReadError, match=r"during 5 of 5 scans \(last: one that is back\)"):
        scan_uncommitted(server, "docs")


@pytest.mark.parametrize("lists", [[listing()], [listing("main"), listing()]])
def test_no_branch_before_or_after_refuses(client: Client, lists: list[Any]) -> None:
    server, _ = client({BRANCHES: in_turn(*lists), SCAN: scanned(RUNS[0])})
    with pytest.raises(RepositoryStateError, match=r"docs has no branch: it is bare, or it was deleted a moment ago"):
        scan_uncommitted(server, "docs")


def diffs(server: LakeFSServer, repository: str, namespace: Namespace) -> pa.Table:
    kept: list[pa.RecordBatch] = []
    found = diff_addresses(server, repository, namespace, kept.append)
    table = pa.Table.from_batches(kept, UNCOMMITTED_ADDRESSES)
    assert found == table.num_rows
    return table


def test_the_diffs_find_what_the_scan_of_a_local_store_leaves_out(tmp_path: Path) -> None:
    with RecordedServer.unpacked("merges", tmp_path) as recorded:
        server = LakeFSServer(recorded.options())
        namespace = Namespace.parse("local://merges", server_path=SERVER_PATH)
        table = diffs(server, "merges", namespace)
    assert table.schema == UNCOMMITTED_ADDRESSES
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
    return 200, {"pagination": {"has_more": False}, "results": [{"path": path, "type": kind} for path in paths]}


def entries(**addresses: str) -> tuple[int, Any]:
    results = [{"path": path, "physical_address": address} for path, address in addresses.items()]
    return 200, {"pagination": {"has_more": False}, "results": results}


def test_addresses_outside_the_namespace_are_left_out(client: Client) -> None:
    server, _ = client({BRANCHES: listing("main"), DIFF: changed("p"), ENTRIES: entries(p="local:///bs/other/data/x")})
    assert diffs(server, "docs", NAMESPACE).num_rows == 0


def test_an_address_of_unknown_form_refuses(client: Client) -> None:
    server, _ = client({BRANCHES: listing("main"), DIFF: changed("p", kind="changed"), ENTRIES: entries(p="ftp://x/y")})
    with pytest.raises(AddressError, match="ftp://x/y"):
        diffs(server, "docs", NAMESPACE)


def test_removed_entries_and_clean_branches_are_not_asked_for(client: Client) -> None:
    server, scripted = client({BRANCHES: listing("main"), DIFF: changed("p", kind="removed")})
    assert diffs(server, "docs", NAMESPACE).num_rows == 0
    assert scripted.paths() == [f"GET {path}" for path in (BRANCHES[1], DIFF[1], BRANCHES[1])]


def test_an_entry_that_was_reset_since_the_diff_is_not_reached(client: Client) -> None:
    twice = in_turn(changed("p"), changed())
    server, _ = client({BRANCHES: listing("main"), DIFF: twice, ENTRIES: entries(q="local:///bs/docs/data/q")})
    assert diffs(server, "docs", NAMESPACE).num_rows == 0


def test_an_entry_that_stays_in_the_diff_and_cannot_be_looked_up_refuses(client: Client) -> None:
    server, _ = client(
        {BRANCHES: listing("main"), DIFF: changed("p", "q"), ENTRIES: entries(q="local:///bs/docs/data/q")}
    )
    with pytest.raises(IncompleteReadError, match=r"1 staged entries are in the diff.*'p'.*nothing was deleted"):
        diffs(server, "docs", NAMESPACE)


def test_two_paths_that_are_shown_alike_are_both_read(client: Client) -> None:
    shown = {"path": "p\ufffd"}
    both = [shown | {"physical_address": f"local:///bs/docs/data/{name}"} for name in "xy"]
    listed = (200, {"pagination": {"has_more": False}, "results": both})
    server, _ = client({BRANCHES: listing("main"), DIFF: changed("p\ufffd", "p\ufffd"), ENTRIES: listed})
    assert diffs(server, "docs", NAMESPACE)["address"].to_pylist() == ["data/x", "data/y"]


def test_a_branch_deleted_under_its_diff_means_another_round(client: Client) -> None:
    server, _ = client(
        {
            BRANCHES: listing("main"),
            DIFF: changed("p"),
            ENTRIES: in_turn(GONE, entries(p="local:///bs/docs/data/x")),
        }
    )
    assert diffs(server, "docs", NAMESPACE)["address"].to_pylist() == ["data/x"]


def test_rows_of_a_round_that_broke_off_are_kept_and_counted(client: Client) -> None:
    shown = entries(p="local:///bs/docs/data/x")
    server, _ = client(
        {
            BRANCHES: listing("dev", "main"),
            DIFF: changed("p"),
            ("GET", "/repositories/docs/branches/dev/diff"): changed("p"),
            ENTRIES: in_turn(GONE, shown),
            ("GET", "/repositories/docs/refs/dev/objects/ls"): shown,
        }
    )
    # Counted as they are kept, or the table would seem to have more rows than were read.
    assert diffs(server, "docs", NAMESPACE)["address"].to_pylist() == ["data/x"] * 3


def test_a_diff_that_cannot_be_read_refuses(client: Client) -> None:
    server, _ = client({BRANCHES: listing("main"), DIFF: Reply(200, b"{")})
    with pytest.raises(IncompleteReadError, match="no JSON"):
        diffs(server, "docs", NAMESPACE)


def test_a_long_diff_is_looked_up_lot_by_lot_and_an_entry_hidden_in_any_of_them_refuses(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_core.lakefs.scans.LOT", 2)
    addresses = {name: f"local:///bs/docs/data/{name}" for name in "abcde"}
    answers = {BRANCHES: listing("main"), DIFF: changed(*addresses), ENTRIES: entries(**addresses)}
    server, _ = client(answers)
    kept: list[pa.RecordBatch] = []
    assert diff_addresses(server, "docs", NAMESPACE, kept.append) == 5
    assert [batch.num_rows for batch in kept] == [2, 2, 1]
    assert sorted(pa.Table.from_batches(kept)["address"].to_pylist()) == [f"data/{name}" for name in "abcde"]

    shown = entries(**{name: address for name, address in addresses.items() if name not in "be"})
    server, _ = client({**answers, ENTRIES: shown})
    with pytest.raises(IncompleteReadError, match=r"2 staged entries are in the diff.*'b'.*nothing was deleted"):
        diffs(server, "docs", NAMESPACE)


def test_what_is_spelt_in_another_way_than_the_namespace_is_found_by_its_diff(client: Client) -> None:
    """A branch shows what is staged as `s3://x@lake/ns/data/x` in the spelling that the server reads from."""
    namespace = Namespace.parse("s3://lake/ns")
    spelt = {"p": "s3://lake/ns/data/x", "q": "S3://lake/ns/data/y", "r": "s3://lake/other/data/z"}
    server, _ = client({BRANCHES: listing("main"), DIFF: changed(*spelt), ENTRIES: entries(**spelt)})
    assert diffs(server, "docs", namespace)["address"].to_pylist() == ["data/x", "data/y"]
    server, _ = client({BRANCHES: listing("main"), DIFF: changed("p"), ENTRIES: entries(p="s3://x@lake/ns/data/x")})
    with pytest.raises(AddressError, match=r"'s3://...@lake/ns/data/x' could be read as"):
        diffs(server, "docs", namespace)
