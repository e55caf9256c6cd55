"""Base and change of the synthetic case: objects, tables, scans and the server agree."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks import large_case, large_change, large_serve
from benchmarks.hooks.lakegc_bench_plan import Layers, Plan
from benchmarks.synthetic_server import Answers, Refs
from spark_core import graveler

ROOT = Path(__file__).resolve().parents[2]
CASES = [large_case.Case("few", 0.0005), large_case.Case("many", 0.0005)]
HOUR = 3_600
# Minimum age, and the skew of clocks that a mark takes off.
OLD = 24 * HOUR + 300


@pytest.fixture(
    scope="module",
    params=[CASES[0], pytest.param(CASES[1], marks=pytest.mark.slow)],
    ids=lambda case: case.form,
)
def changed(request, tmp_path_factory):
    """A case with both states, as if its base were due."""
    case = request.param
    directory = large_case.made(tmp_path_factory.mktemp("large"), case)
    plan = Plan.read(directory / "plan.json")
    then = plan.made_at - int(large_change.AGE.total_seconds())
    change = large_change.Change.of(case, plan, then)
    large_change.write_states(directory, case, change)
    return directory, change


def listed(layers):
    """Each object's address and when it was written."""
    found = {}
    for plan in layers.plans:
        objects = plan.there(np.arange(plan.objects))
        addresses, times = plan.addresses(objects).to_pylist(), plan.times(objects).tolist()
        assert not found.keys() & set(addresses)
        found |= dict(zip(addresses, times, strict=True))
    return found


def namespace(directory):
    return directory / "blockstore" / "bench"


def retained(directory, refs):
    """The metaranges that the server lists, each with its ranges' ids and counts."""
    run = large_case.RETENTION + f"/commits/run_id={refs.commits_run}/commits.csv"
    lines = (namespace(directory) / run).read_text().splitlines()[1:]
    found = {}
    for name in {line.rpartition(",")[2] for line in lines}:
        data = (namespace(directory) / "_lakefs" / name).read_bytes()
        rows = graveler.read_metarange(data, name=name, expected_id=name)
        found[name] = dict(
            zip(rows.column("range_id").to_pylist(), rows.column("count").to_pylist(), strict=True)
        )
    return found


def alive(directory, refs):
    found = set()
    ranges = {
        id_: count for some in retained(directory, refs).values() for id_, count in some.items()
    }
    for id_, count in ranges.items():
        data = (namespace(directory) / "_lakefs" / id_).read_bytes()
        rows = graveler.read_range(data, name=id_, expected_count=count, expected_id=id_)
        found |= set(rows.column("address").to_pylist())
    scans = namespace(directory) / large_case.RETENTION / "uncommitted" / refs.uncommitted_run
    for file in (scans / "uncommitted").iterdir():
        found |= set(pq.read_table(file)["physical_address"].to_pylist())
    return found


def to_go(directory, state, now):
    refs = Refs.read(directory / state / "refs.json")
    objects = listed(Layers.read(directory / state / "plan.json"))
    known = alive(directory, refs)
    assert known <= objects.keys()
    return {name for name, at in objects.items() if at < now - OLD} - known


def test_what_is_to_go_at_the_base_and_after_the_change_follows_from_the_tables(changed):
    directory, change = changed
    then = change.before.made_at
    assert len(to_go(directory, large_change.BASE, then)) == change.main.groups
    after = then + int(large_change.AGE.total_seconds())
    assert len(to_go(directory, large_change.CHANGED, after)) == change.expired
    # Nothing of that changes while the state can be measured.
    late = after + 10 * HOUR
    assert len(to_go(directory, large_change.CHANGED, late)) == change.expired


def test_a_hundredth_is_new_and_half_of_it_was_there_at_the_base(changed):
    _, change = changed
    new = change.before.objects + change.since.objects
    full = large_case.Case("many", 1.0)
    of_full = large_change.Change.of(full, full.plan(1_790_000_000), 1_789_900_000)
    assert of_full.before.objects + of_full.since.objects == pytest.approx(200_000, rel=0.01)
    assert (of_full.before.slices, of_full.since.slices) == (10, 10)
    assert new <= change.main.objects * 0.02
    then = change.before.made_at
    before, since = (
        layer.times(np.arange(layer.objects)) for layer in (change.before, change.since)
    )
    assert then - OLD < before.min() <= before.max() < then < since.min()


def test_three_commits_share_all_ranges_of_the_head_before_and_three_commits_leave(changed):
    directory, _ = changed
    at_base, at_end = (
        Refs.read(directory / state / "refs.json")
        for state in (large_change.BASE, large_change.CHANGED)
    )
    before, after = retained(directory, at_base), retained(directory, at_end)
    came, left = after.keys() - before.keys(), before.keys() - after.keys()
    assert (len(came), len(left)) == (3, 3)
    known = {name for some in before.values() for name in some}
    shared = [known & after[name].keys() for name in came]
    assert all(shared)
    assert shared[0] == shared[1] == shared[2]
    still = {name for some in after.values() for name in some}
    assert known - still
    assert {*at_base.branches} - {*at_end.branches} == {"zz-deleted"}
    assert at_base.branches["main"] != at_end.branches["main"]


def test_the_server_shows_the_staged_entries_of_every_state(changed):
    directory, _ = changed
    for state in (large_change.BASE, large_change.CHANGED):
        answers = Answers(directory, state)
        scan = namespace(directory) / large_case.RETENTION / "uncommitted"
        scan = scan / answers.refs.uncommitted_run / "uncommitted"
        scanned = [
            name
            for file in scan.iterdir()
            for name in pq.read_table(file)["physical_address"].to_pylist()
        ]
        shown = []
        for branch in answers.refs.branches:
            url = f"/api/v1/repositories/bench/refs/{branch}/objects/ls"
            after, more = "zz-staged/", True
            while more:
                status, page = answers.answer("GET", f"{url}?after={after}")
                assert status == 200
                shown += [
                    row["physical_address"].partition("/bench/")[2] for row in page["results"]
                ]
                more, after = page["pagination"]["has_more"], page["pagination"]["next_offset"]
        assert sorted(shown) == sorted(scanned)
        assert answers.answer("GET", "/api/v1/repositories/bench/settings/gc_rules")[1] == {
            "default_retention_days": 1,
            "branches": [
                {"branch_id": "main", "retention_days": 36_500},
                {"branch_id": "zz-deleted", "retention_days": 36_500},
            ],
        }


def test_what_a_run_left_is_taken_away_and_what_it_took_comes_back(changed):
    directory, _ = changed
    retention = namespace(directory) / large_case.RETENTION
    kept = directory / "optimized" / "kept"
    if not kept.exists():
        shutil.copytree(retention, kept, copy_function=os.link)
    before = sorted(str(file.relative_to(retention)) for file in retention.rglob("*"))
    (retention / "commits" / "another").mkdir()
    next((retention / "commits").glob("*/commits.csv")).unlink()
    large_change.restore(directory)
    assert sorted(str(file.relative_to(retention)) for file in retention.rglob("*")) == before


def test_a_case_without_the_change_is_served_as_before(changed):
    directory, _ = changed
    with large_serve.served(directory, latency_ms=0.0) as served:
        plan = Plan.read(directory / "plan.json")
        assert served.expired == plan.groups
        assert Layers.read(Path(served.hooks["LAKEGC_BENCH_PLAN"])).plans == (plan,)


@pytest.mark.deep
def test_a_tiny_case_is_measured_from_its_base_to_its_bars(tmp_path):
    told = tmp_path / "figures.json"
    words = ["--factor", "0.0005", "--form", "many", "--optimized", "--runs", "0"]
    done = subprocess.run(
        [
            sys.executable,
            *("-m", "benchmarks.large", *words),
            *("--latency-api", "0", "--scratch", str(tmp_path), "--json", str(told)),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert "calls to the server" in done.stdout
    ((_, found),) = json.loads(told.read_text())["optimized"].items()
    by_name = {one["name"]: one for one in found}
    assert by_name["fates that are not the clean mark's"]["optimized"] == 0
    assert by_name["objects named"]["optimized"] > 0
