"""The assets beside the tables: how all repositories stand, and what other rules would free."""

from datetime import timedelta

import pytest

from lakegc_dagster.definitions import build_defs
from lakegc_dagster.resources import SparkResource
from spark_core import explain, lakegc_keys, report
from spark_core.stored_runs.overview import overview
from tests.lakegc_dagster.conftest import failure, ground_on, new_key
from tests.spark_core.report.test_page import CURVE


@pytest.fixture(scope="module")
def bare(served):
    with ground_on(served, "overviewed") as made:
        yield made


@pytest.fixture(autouse=True)
def no_spark(monkeypatch):
    monkeypatch.setattr(SparkResource, "start_ahead", lambda _spark: None)


def told(result, asset):
    assert result.success, failure(result)
    (event,) = result.asset_materializations_for_node(asset)
    return event.metadata


def test_how_each_repository_stands_is_read_from_its_store_without_spark(bare, monkeypatch):
    monkeypatch.setattr(SparkResource, "start_ahead", lambda _spark: pytest.fail("Spark started"))
    job = build_defs(bare.settings).resolve_job_def("overview")
    result = job.execute_in_process(instance=bare.instance, raise_on_error=False)
    shown = told(result, "repositories")
    assert next(iter(shown)) == "headline"
    (row,) = shown["repositories"].records
    assert (row.data["repository"], row.data["last good mark"]) == ("overviewed", "none")
    assert shown["overviewed: bytes waiting"].value == 0


def test_the_overview_tells_the_newest_runs_from_all_runs(bare):
    keys = [lakegc_keys.verdict_key(new_key(ago=timedelta(hours=hours))) for hours in (1, 2)]
    for key in keys:
        bare.store.put(key, b"{")
    (some,), (all_of_them,) = (overview(bare.settings, newest=newest) for newest in (1, 2))
    bare.store.delete(keys)
    assert [len(each.runs) for each in (some, all_of_them)] == [1, 2]
    assert (some.status.only_newest, all_of_them.status.only_newest) == (1, None)
    assert some.status.overdue == "no mark of its newest 1 runs passed"


def test_the_schedule_of_the_overview_is_on_where_that_of_the_nights_is(bare):
    def statuses(**schedule):
        document = {**bare.settings.model_dump(exclude_unset=True), "schedule": schedule}
        made = build_defs(type(bare.settings).model_validate(document)).schedules
        return {each.name: each.default_status.value for each in made}

    assert statuses(run=True)["hourly_overview"] == "RUNNING"
    assert set(statuses(run=False).values()) == {"STOPPED"}


def test_what_other_rules_would_free_is_asked_once_kept_and_shown_with_the_page(bare, monkeypatch):
    kept = []

    def keep(_run, found, days):
        kept.append((found, days))
        return CURVE

    monkeypatch.setattr(explain, "what_if", lambda _run: "the answer")
    monkeypatch.setattr(explain, "keep_answer", keep)
    monkeypatch.setattr(report, "page_of", lambda run: {"page": f"{run.store.root}the/page.html"})
    shown = told(bare.job("ask_what_if", new_key()), "what_if")
    assert kept == [("the answer", explain.DAYS)]
    assert shown["bytes_if_kept_7_days"].value == 4_500
    assert shown["page"].value == f"{bare.sandbox.blockstore}/overviewed/the/page.html"
