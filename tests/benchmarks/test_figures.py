"""The arithmetic of the benchmarks: what is read out of logs and outputs, medians, ratios."""

import io
import json

import pytest
from rich.console import Console

from benchmarks import figures


def test_jobs_stages_and_tasks_are_counted_in_an_event_log_that_broke_off():
    task = {
        "Event": "SparkListenerTaskEnd",
        "Task Metrics": {
            "Executor Run Time": 1500,
            "Shuffle Write Metrics": {"Shuffle Records Written": 7},
        },
    }
    events = [
        {"Event": "SparkListenerApplicationStart"},
        {"Event": "SparkListenerJobStart", "Job ID": 0},
        {**task, "Stage ID": 0},
        {**task, "Stage ID": 0},
        {"Event": "SparkListenerStageCompleted"},
        {"Event": "SparkListenerJobStart", "Job ID": 1},
        {"Event": "SparkListenerTaskEnd", "Stage ID": 1},  # of a task that failed: no figures
    ]
    found = figures.read_event_log([*map(json.dumps, events), '{"Event": "SparkListenerJobSt'])
    assert (found.jobs, found.stages, found.tasks) == (2, 1, 3)
    assert found.task_seconds == 3.0
    assert found.shuffled == 14
    assert found.widest == [2, 1]


def test_what_processes_noted_is_added_up_by_kind_and_route():
    store, server, rows, feigned = figures.read_requests(
        [
            "store read 1\n",
            "store read 1\n",
            "store delete 1000\n",
            "server GET\t/api/v1/repositories/docs/branches/main/diff?amount=1000 1\n",
            "server GET\t/api/v1/repositories/docs/branches/dev/diff 1\n",
            "rows _lakefs/retention/gc/slices/run_id=2/part-00000-000-0a.parquet 20\n",
            "rows _lakefs/retention/gc/slices/run_id=1/part-00001-000-0b.parquet 3\n",
            "rows _lakefs/retention/gc/index/entries-00000-000-0.parquet 4\n",
            "feigned list 1500\n",
            "feigned list 20\n",
        ]
    )
    assert rows == {"slices/part": 23, "index/entries": 4}
    assert feigned == {"list": 1_520}
    assert store == {"read": 2, "delete": 1000}
    assert server == {"GET /repositories/*/branches/*/diff": 2}


@pytest.mark.parametrize(
    ("url", "route"),
    [
        ("/api/v1/repositories", "/repositories"),
        ("/api/v1/repositories/branches", "/repositories/*"),
        ("/api/v1/repositories/docs/branches", "/repositories/*/branches"),
        ("/api/v1/repositories/docs/branches/a%2Fb", "/repositories/*/branches/*"),
        (
            "/api/v1/repositories/docs/refs/main/objects/ls?prefix=x",
            "/repositories/*/refs/*/objects/ls",
        ),
        ("/api/v1/repositories/docs/metadata/range/0123", "/repositories/*/metadata/range/*"),
        ("/api/v1/config", "/config"),
    ],
)
def test_a_route_holds_no_names(url, route):
    assert figures.route_of("GET", url) == f"GET {route}"


OUTPUT = [
    (0.5, "mark bench, run 2026-11-22T02-00-00Z"),
    (6.0, "  namespace_slices           3,800 rows     32.2 kB      1.2 s"),
    (7.5, "  uncommitted_addresses          9 rows      1.0 kB      1.0 s"),
    (8.0, "  deletion_report          5 of 9 deleted"),
    (9.0, "and 20 rows of something else"),
]


def test_steps_add_up_to_the_time_from_start_to_exit():
    steps = figures.steps_of(OUTPUT, 10.0)
    assert steps == {"namespace_slices": 6.0, "uncommitted_addresses": 1.5, "the rest": 2.5}
    assert sum(steps.values()) == 10.0


def test_the_key_that_a_mark_chose_is_read_from_the_output():
    lines = [(0.1, "starting"), (0.2, "mark bench, run 2026-11-24T09-22-27Z")]
    assert figures.key_of(lines) == "2026-11-24T09-22-27Z"
    with pytest.raises(ValueError, match="did not say its run key"):
        figures.key_of(lines[:1])


def test_rows_of_tables_are_read_from_the_output():
    assert figures.rows_of(OUTPUT) == {"namespace_slices": 3800, "uncommitted_addresses": 9}


def test_a_median_is_taken_over_the_runs_that_have_the_figure():
    assert figures.medians([{"a": 9, "b": 1}, {"a": 2}, {"a": 4, "b": 2}]) == {"a": 4, "b": 1.5}
    assert figures.medians([]) == {}


def test_a_run_is_compared_by_the_sums_of_its_figures():
    run = {
        "seconds": 10.0,
        "steps": {"namespace_slices": 6.0},
        "cpu_seconds": {"Java": 5.0, "driver Python": 3.0},
        "pss_bytes": {"Java": 2**20, "driver Python": 2**20},
        "most_processes": {"Java": 1},
        "beside_seconds": {"server": 0.5},
        "spark": {"jobs": 3, "stages": 4, "tasks": 5},
        "store_requests": {"read": 2, "list": 1},
    }
    found = figures.measures(run)
    assert found["CPU, s"] == 8.0
    assert found["PSS at its peak, MiB"] == 2.0
    assert found["Spark jobs"] == 3
    assert found["requests to the store"] == 3
    assert "calls to the server" not in found


def shown(table):
    console = Console(width=200, file=io.StringIO())
    console.print(table)
    return console.file.getvalue()


def test_the_last_version_is_compared_with_the_first_and_with_an_earlier_file():
    runs = {
        "before": [{"CPU, s": 60.0}, {"CPU, s": 70.0}],
        "now": [{"CPU, s": 13.0}, {"only now": 1.0}],
    }
    lines = shown(figures.table("mark", runs, {"CPU, s": 26.0})).splitlines()
    cpu = next(line for line in lines if "CPU, s" in line).split()
    assert cpu == ["CPU,", "s", "65", "60", "to", "70", "13", "0.20", "26", "0.50"]
    assert any("now / before" in line for line in lines)


def test_a_figure_that_was_nothing_has_no_ratio():
    assert figures.ratio_text(3.0, 0.0) == ""
    assert figures.ratio_text(None, 3.0) == ""
    assert figures.ratio_text(0.0, 3.0) == "0.00"
