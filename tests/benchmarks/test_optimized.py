"""The comparison of a mark with the index with a clean one: what is counted, and its state."""

import hashlib
import io
import json
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import change, marks, optimized
from benchmarks.optimized import SMALL, Bars
from benchmarks.populate import populate
from benchmarks.runs import REPOSITORY
from lakegc_dagster.sandbox import Sandbox
from spark_core import schemas

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
FATES = {"expired": [2, 10, 77], "staged": [5, 50, 99]}


def run(requests, pages, cpu, *, index="2026-11-21T02-00-00Z", fates=FATES, seconds=4.0):
    return {
        "seconds": seconds,
        "store_requests": {"read": requests},
        "server_calls": {"GET /config": 30},
        "cpu_seconds": {"Java": cpu},
        "cpu_steps": {"namespace_slices": 1.0, "uncommitted_addresses": 2.0},
        "pss_bytes": {"Java": 500 * 2**20},
        "found": {
            "index": index,
            "why_full": None if index else "no mark of this repository has passed yet",
            "named": 2,
            "fates": fates,
            "by_fate": {name: some[:2] for name, some in fates.items()},
            "rows": {"objects listed": pages * 1_000},
            "files": {"pages of the listing": pages, "ranges": 1},
        },
    }


def compared(changed, bars=SMALL):
    clean = run(2_000, 499, 20.0, index=None)
    found = optimized.measures([clean], [changed], bars, start=4.0, little=14.0)
    return {one.name: one for one in found}


def reached(one):
    return one.optimized <= one.most


def test_each_measure_is_compared_with_its_bar():
    bars = Bars(100, 2.0, 0.0, cpu_share=0.3, read_share=0.02, seconds=4.0, pss_mib=500)
    found = compared(run(100, 9, 6.0), bars)
    with_a_bar = [one for one in found.values() if one.most is not None]
    assert len(with_a_bar) == 8
    assert all(map(reached, with_a_bar))
    assert found["pages and table files read"].most == 10
    assert found["CPU seconds in all"].most == 6.0
    above = found["  above Spark's start"]
    assert (above.clean, above.optimized) == (16.0, 2.0)
    assert found["  above it, without reading what is staged"].optimized == 0.0
    assert found["  above a mark of 300 objects"].clean == 6.0


def test_one_more_than_a_bar_does_not_reach_it():
    bars = Bars(100, 2.0, 0.0, cpu_share=0.3, read_share=0.02, seconds=4.0, pss_mib=499)
    other = {**FATES, "expired": [2, 10, 78]}
    found = compared(run(101, 10, 6.1, fates=other, seconds=4.1), bars)
    with_a_bar = [one for one in found.values() if one.most is not None]
    assert len(with_a_bar) == 8
    assert not any(map(reached, with_a_bar))


def test_each_fate_is_compared_by_its_objects():
    clean, same = run(1, 1, 1.0), run(1, 1, 1.0)
    assert optimized.unlike(clean, same) == 0
    other = run(1, 1, 1.0, fates={**FATES, "young": [1, 1, 1]})
    # In the stored rows, and in the sums of everything.
    assert optimized.unlike(clean, other) == 2


def test_bars_of_the_design_case_differ_by_the_form_of_its_ranges():
    many, few = optimized.large("many"), optimized.large("few")
    assert (many.cpu_without_staged, few.cpu_without_staged) == (40.0, 25.0)
    assert many.requests == few.requests == 700


def test_a_clean_run_is_not_taken_for_one_with_the_index():
    with pytest.raises(SystemExit, match="was a clean one: no mark of this repository has passed"):
        optimized.require_optimized(run(1, 5, 1.0, index=None))


def test_a_digest_of_fates_tells_objects_apart_and_not_their_order():
    def of(*rows):
        names = [field for field in schemas.FATES if field.name in {"fate", "address_hash"}]
        schema = pa.schema([*names, schemas.FATES.field("size_bytes")])
        columns = zip(*rows, strict=True)
        named = dict(zip(("fate", "address_hash", "size_bytes"), columns, strict=True))
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_pydict(named, schema), sink)
        part = {"key": hashlib.sha256(sink.getvalue()).hexdigest()}
        return marks.fates(lambda _: sink.getvalue(), json.dumps({"parts": [part]}))

    one, other, last = ("expired", -7, 10), ("expired", 2**62, 20), ("young", 5, 1)
    found = of(one, other, last)
    assert found == of(last, other, one)
    assert {name: some[:2] for name, some in found.items()} == {"expired": [2, 30], "young": [1, 1]}
    assert found["expired"] != of(("expired", -7, 20), ("expired", 2**62, 10), last)["expired"]
    assert found["expired"] != of(("expired", -8, 10), other, last)["expired"]
    json.dumps(found)


def test_a_change_replaces_stages_and_drops_and_a_commit_leaves_retention(tmp_path):
    with Sandbox(tmp_path) as sandbox:
        made = populate(
            sandbox,
            REPOSITORY,
            now=NOW,
            objects=2_000,
            commits=20,
            branches=6,
            days=40,
            retention_days=14,
            overwritten_share=0.5,
            garbage=30,
            staged=40,
        )
        core = sandbox.core
        before = change.expired(core, NOW)
        assert before == made.expired
        assert change.expired(core, NOW + change.BASE_AGE) > before
        left = change.expired(core, NOW + change.BASE_AGE)
        commits = len(core.state.commits(core.repository(REPOSITORY).number))
        assert change.change(sandbox, NOW + timedelta(hours=24), 2_000) == 20
        assert len(core.state.commits(core.repository(REPOSITORY).number)) == commits + 3
        # Two that were uploaded and reset, and two that were staged before and reset.
        assert change.expired(core, NOW + change.BASE_AGE) == left + 4
