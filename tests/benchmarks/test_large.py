"""The ranges, listing, server and plan of the synthetic case agree."""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from benchmarks import large_case
from benchmarks.hooks.lakegc_bench_plan import COMMITTED, GROUP, STAGED, Plan
from spark_core import graveler
from spark_core.addresses.namespace import Namespace
from spark_core.lakefs import (
    LakeFSServer,
    ServerOptions,
    read_refs_dump,
    read_retained,
    read_uncommitted,
)
from spark_core.lakefs.files_of_server import uncommitted_files
from spark_core.storage import StoreOptions
from tests.support.xid_times import xid_time

ROOT = Path(__file__).resolve().parents[2]
CASES = [large_case.Case("few", 0.0005), large_case.Case("many", 0.0005)]


@pytest.fixture(
    scope="module",
    params=[CASES[0], pytest.param(CASES[1], marks=pytest.mark.slow)],
    ids=lambda case: case.form,
)
def made(request, tmp_path_factory):
    return request.param, large_case.made(tmp_path_factory.mktemp("large"), request.param)


@pytest.fixture
def planned_store(made, monkeypatch):
    """The store that measured processes get."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks" / "hooks")
    monkeypatch.setenv("LAKEGC_BENCH_PLAN", str(made[1] / "plan.json"))
    from spark_core.storage import local

    monkeypatch.setattr(
        local, "LocalStore", local.LocalStore
    )  # importing the other one replaces it
    import lakegc_bench_local

    lakegc_bench_local._plan.cache_clear()
    blockstore = str(made[1] / "blockstore")
    return lakegc_bench_local.PlannedStore(
        Namespace("local://bench", blockstore), StoreOptions(local_path=blockstore)
    )


def addresses(batches):
    return [address for batch in batches for address in batch.column("key").to_pylist()]


def every(plan):
    return plan.addresses(np.arange(plan.slices * plan.slice_objects)).to_pylist()


def test_names_are_those_of_lakefs_and_tell_their_time():
    plan = large_case.Case("few", 0.0005).plan(1_790_000_000)
    objects = np.array(
        [0, 1, plan.slice_objects - 1, plan.slice_objects, plan.slices * plan.slice_objects - 1]
    )
    for address, at in zip(
        plan.addresses(objects).to_pylist(), plan.times(objects).tolist(), strict=True
    ):
        assert xid_time(address) == datetime.fromtimestamp(at, UTC)
    for number, address in zip(objects.tolist(), plan.addresses(objects).to_pylist(), strict=True):
        assert plan.object_of(address) == number
        assert plan.object_of(address[:-1] + ("0" if address[-1] != "0" else "g")) != number
    assert plan.object_of("data/nobody/nothing") is None


def test_old_objects_are_dealt_out_to_committed_staged_and_to_go():
    plan = large_case.Case("few", 0.0005).plan(1_790_000_000)
    committed = plan.committed(np.arange(plan.groups * COMMITTED))
    staged = plan.staged(np.arange(plan.groups * STAGED))
    going = np.arange(plan.groups) * GROUP + GROUP - 1
    everything = np.concatenate([committed, staged, going])
    assert sorted(everything.tolist()) == list(range(plan.old_slices * plan.slice_objects))
    assert plan.times(everything).max() < plan.made_at - 2 * 86_400
    young = np.arange(plan.old_slices * plan.slice_objects, plan.slices * plan.slice_objects)
    assert plan.times(young).min() > plan.served_at - 86_400
    assert plan.times(young).max() <= plan.served_at
    assert not set(plan.sizes(going).tolist()) & set(plan.sizes(committed).tolist())


def test_the_ranges_of_all_commits_hold_every_committed_object_and_no_other(made):
    case, directory = made
    plan = Plan.read(directory / "plan.json")
    tables = directory / "blockstore" / "bench" / "_lakefs"
    listed = (
        (tables / "retention/gc/commits/run_id=benchcommits00000000/commits.csv")
        .read_text()
        .splitlines()[1:]
    )
    found, ranges = set(), set()
    for metarange in {line.rpartition(",")[2] for line in listed}:
        read = graveler.read_metarange(
            (tables / metarange).read_bytes(), name=metarange, expected_id=metarange
        )
        ranges |= set(
            zip(read.column("range_id").to_pylist(), read.column("count").to_pylist(), strict=True)
        )
    for range_id, count in ranges:
        data = (tables / range_id).read_bytes()
        read = graveler.read_range(data, name=range_id, expected_count=count, expected_id=range_id)
        found |= set(read.column("address").to_pylist())
    assert len(listed) == case.commits
    assert found == set(
        plan.addresses(plan.committed(np.arange(plan.groups * COMMITTED))).to_pylist()
    )
    if case.form == "many":
        layout = large_case.Layout.of(case.commits, plan.groups * COMMITTED)
        assert len(ranges) == layout.ranges + bool(layout.left)


def test_the_full_case_is_that_of_the_document():
    many, few = large_case.Case("many", 1.0), large_case.Case("few", 1.0)
    plan = many.plan(1_790_000_000)
    layout = large_case.Layout.of(many.commits, plan.groups * COMMITTED)
    assert (many.slices, many.branches, many.commits) == (2_000, 1_000, 30_000)
    assert plan.slices * plan.slice_objects == pytest.approx(20_000_000, rel=0.01)
    assert plan.groups == pytest.approx(1_000_000, rel=0.01)
    assert plan.groups * STAGED == pytest.approx(5_000_000, rel=0.01)
    assert layout.ranges == 120_000
    assert layout.ranges * layout.entries == pytest.approx(50_000_000, rel=0.01)
    assert few.plan(1_790_000_000) == plan


def test_the_store_lists_describes_and_deletes_by_the_plan(made, planned_store):
    plan = Plan.read(made[1] / "plan.json")
    folders, objects = planned_store.children("data/")
    assert folders == sorted(f"data/{name}/" for name in plan.slice_names)
    assert objects.num_rows == 0
    assert "data/" in planned_store.children("")[0]
    assert sorted(addresses(planned_store.list("data/"))) == sorted(every(plan))
    one = addresses(planned_store.list(folders[3]))
    assert planned_store.requests["list"] >= plan.slices + 1
    assert planned_store.head(one[7]).key == one[7]
    assert planned_store.describe(one[7]).size_bytes == planned_store.head(one[7]).size_bytes
    assert [outcome.outcome for outcome in planned_store.delete(one[:3])] == ["deleted"] * 3
    planned_store.put("_lakefs/x", b"1")
    assert planned_store.read("_lakefs/x") == b"1"


def test_the_server_tells_what_was_made(made, planned_store):
    case, directory = made
    plan = Plan.read(directory / "plan.json")
    command = [
        sys.executable,
        "-m",
        "benchmarks.synthetic_server",
        str(directory),
        "--latency-ms",
        "0",
    ]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        server = LakeFSServer(ServerOptions(process.stdout.readline().strip(), "key", "secret"))
        repository = server.repository("bench")
        assert server.storage_config(repository).blockstore_type == "local"
        assert server.repositories() == [repository]
        branches = server.branches("bench")
        assert len(branches) == case.branches + 1
        refs = read_refs_dump(planned_store, server.dump_refs("bench"))
        assert len(refs.commits) == case.commits
        assert {branch.id: branch.commit_id for branch in refs.branches} == {
            b.id: b.commit_id for b in branches
        }
        assert (
            read_retained(planned_store, server.prepare_commits("bench").run_id).num_rows
            == case.commits
        )
        scan = server.prepare_uncommitted("bench")
        staged = [
            row
            for file in uncommitted_files(planned_store, scan)
            for row in read_uncommitted(planned_store, file)
        ]
        scanned = pa.concat_arrays([batch.column("address") for batch in staged]).to_pylist()
        assert sorted(scanned) == sorted(
            plan.addresses(plan.staged(np.arange(plan.groups * STAGED))).to_pylist()
        )
        shown = []
        for branch in branches:
            paths = [path for path, _ in server.diff_branch("bench", branch.id)]
            entries, after = [], "zz-staged/"
            while True:
                page = server.list_entries("bench", branch.id, after=after)
                entries += page.entries
                if not page.has_more:
                    break
                after = page.entries[-1][0]
            assert [path for path, _ in entries] == paths
            shown += [address.partition("/bench/")[2] for _, address in entries]
        assert sorted(shown) == sorted(scanned)
    finally:
        process.stdin.close()
        process.wait(timeout=30)
        process.stdout.close()
