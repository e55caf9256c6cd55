"""After a run: what house-keeping pruned is forgotten by Dagster too, told to who listens, and shown with the check."""

from datetime import UTC, datetime
from types import SimpleNamespace

import dagster as dg
import pytest

from lakegc_dagster import asset_checks
from lakegc_dagster.launch import _Recorder
from lakegc_dagster.partitions import add_partitions
from spark_core.guards import CheckResult
from spark_core.housekeeping import House, Left, Pruned
from spark_core.model import RunKey
from spark_core.run import RunOptions

KEYS = [RunKey(datetime(2026, 11, day, 2, tzinfo=UTC)) for day in (17, 18, 19, 20)]
HOUSE = House(Pruned([KEYS[0]], objects=5, size_bytes=1_000), Left(1, 136, 1, 1_000, 6, 9_958))


@pytest.mark.parametrize(("kept_elsewhere", "left"), [(2, 3), (4, 4)])
def test_partitions_of_pruned_runs_go_unless_another_repository_keeps_as_many(monkeypatch, kept_elsewhere, left):
    monkeypatch.setattr(asset_checks.housekeeping, "keep_house", lambda _run: HOUSE)
    settings = SimpleNamespace(
        repository_ids=["other"], repository=lambda _name: SimpleNamespace(keep_runs=kept_elsewhere)
    )
    told, logged = _Recorder(lambda *_: None), []
    runs = SimpleNamespace(wiring=SimpleNamespace(settings=settings), observer=told)
    run = SimpleNamespace(options=RunOptions(keep_runs=2))
    with dg.instance_for_test() as instance:
        add_partitions(instance, ["other"], KEYS)
        context = SimpleNamespace(instance=instance, log=SimpleNamespace(info=logged.append))
        more = asset_checks.keep_house(context, runs, run)
        assert len(instance.get_dynamic_partitions("run")) == left
    assert logged == [HOUSE.words]
    assert told.house == (
        "the server keeps files of every collection: 2 files, 1.1 kB; and this one's dump of refs: 6 files, 10.0 kB; "
        "tables of 1 old runs pruned (5 files, 1.0 kB)"
    )
    shown = asset_checks.as_dagster(CheckResult("x", "deletion_report", passed=True, summary="all", figures={}), more)
    assert shown.metadata["house_keeping/pruned_objects"].value == 5
    assert shown.metadata["house_keeping/left_by_server_bytes"].value == 1_136
