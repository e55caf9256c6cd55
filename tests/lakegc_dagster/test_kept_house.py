"""House-keeping as an asset: what it pruned is forgotten by Dagster too, and shown with it."""

import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from lakegc_dagster.assets import upkeep
from lakegc_dagster.assets.upkeep import house_keeping
from lakegc_dagster.names import OWN
from lakegc_dagster.partitions import partition_key
from lakegc_dagster.resources import Runs, Wiring, build_resources
from spark_core import lakegc_keys
from spark_core.model import RunKey
from spark_core.run import RunOptions
from spark_core.settings import Settings
from spark_core.upkeep import house_keeping as keeping
from spark_core.upkeep.house_keeping_result import House, Pruned
from spark_core.upkeep.server_files import Left
from tests.lakegc_dagster.conftest import failure, new_key, ran

KEYS = [RunKey(datetime(2026, 11, day, 2, tzinfo=UTC)) for day in (17, 18, 19, 20)]
HOUSE = House(Pruned([KEYS[0]], objects=5, size_bytes=1_000), Left(1, 136, 1, 1_000, 6, 9_958))


@dataclass(frozen=True)
class _Opened:
    """What house-keeping asks of a run, where it is not opened."""

    options: RunOptions
    store: None = None
    take_over: str | None = None


def test_what_it_did_is_shown_with_the_asset(monkeypatch):
    run = _Opened(RunOptions(keep_runs=2))
    monkeypatch.setattr(Runs, "_open", lambda *_: run)
    monkeypatch.setattr(keeping, "after_run", lambda _run: HOUSE)
    monkeypatch.setattr(upkeep, "is_at_rest", lambda _context: False)
    monkeypatch.setattr(upkeep, "report_run", lambda *_, **__: None)
    settings = Settings.model_validate(
        {"server": {"endpoint": "http://127.0.0.1:9"}, "repositories": {"one": {"keep_runs": 2}}}
    )
    runs = build_resources(Wiring(settings))["runs"]
    with dg.build_asset_context(
        partition_key=partition_key("one", KEYS[3]), resources={"runs": runs}
    ) as context:
        shown = house_keeping.make(OWN)(context).metadata
    assert shown["pruned_objects"].value == 5
    assert shown["left_by_server_bytes"].value == 1_136


def parts(ground, key):
    """Parquet of a run's tables, but for the record of what is gone."""
    root = ground.sandbox.blockstore / ground.repository_id / lakegc_keys.ROOT
    return [
        path for path in root.glob(f"*/run_id={key}/part-*.parquet") if path.parts[-3] != "reports"
    ]


@pytest.mark.slow
@pytest.mark.spark
def test_the_jobs_keep_house_and_a_step_that_is_chosen_alone_does_nothing_before_the_run_is_done(
    ground,
):
    older, key = new_key(ago=timedelta(hours=1)), new_key()
    assert ground.job("mark_and_sweep", older).success
    then = time.time() - timedelta(days=31).total_seconds()
    for path in (ground.sandbox.blockstore / ground.repository_id / lakegc_keys.ROOT).rglob(
        f"run_id={older}/*"
    ):
        os.utime(path, (then, then))
    strict = ground.with_settings(keep_runs=1)
    # Its mode is sweep, and this is a mark: house is kept when it was swept.
    marked = strict.job("mark", key)
    assert marked.success, failure(marked)
    assert ran(marked)[-1] == "house_keeping"
    event = marked.asset_materializations_for_node("house_keeping")[-1]
    assert event.metadata["not_now"].value == f"run {key} is not swept yet"
    assert parts(ground, older)
    alone = strict.only(new_key(ago=timedelta(minutes=1)), "house_keeping")
    (event,) = alone.asset_materializations_for_node("house_keeping")
    assert "has no verdict" in event.metadata["not_now"].value

    swept = strict.job("sweep", key)
    assert swept.success, failure(swept)
    event = swept.asset_materializations_for_node("house_keeping")[-1]
    assert event.metadata["pruned_runs"].value == [str(older)]
    assert not parts(ground, older)
    assert parts(ground, key)
