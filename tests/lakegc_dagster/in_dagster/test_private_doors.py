"""Whether the Dagster that is installed still has what lakegc uses behind its public interface."""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import dagster as dg
import pytest

ROOT = Path(__file__).parents[3]
CLOSED = (
    f"Dagster {dg.__version__} has no {{}} any more: find another way in "
    "lakegc_dagster/in_dagster/private_doors.py"
)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("dagster._core.errors", "DagsterUserCodeProcessError"),
        (
            "dagster._core.definitions.asset_checks.asset_check_evaluation",
            "AssetCheckEvaluationTargetMaterializationData",
        ),
    ],
)
def test_the_private_class_is_still_where_it_was(module, name):
    try:
        found = getattr(import_module(module), name, None)
    except ImportError:
        found = None
    assert found is not None, CLOSED.format(f"{module}.{name}")


def test_no_other_private_name_of_dagster_is_used():
    used = {
        (path.name, found)
        for package in ("lakegc_dagster", "spark_core")
        for path in (ROOT / package).rglob("*.py")
        for found in re.findall(r"\bdagster(?:_\w+)?(?:\.\w+)*\._[\w.]+", path.read_text())
    }
    assert used == {
        ("private_doors.py", "dagster._core.errors"),
        (
            "private_doors.py",
            "dagster._core.definitions.asset_checks.asset_check_evaluation",
        ),
    }


@pytest.mark.slow
def test_the_daemon_is_still_what_a_script_of_that_name_runs():
    from lakegc_dagster.in_dagster.private_doors import DAEMON

    done = subprocess.run(
        [sys.executable, *DAEMON, "run", "--help"], capture_output=True, text=True, check=False
    )
    assert "--workspace" in done.stdout, CLOSED.format("script dagster-daemon")


@pytest.mark.parametrize(
    ("tags", "by_a_person"),
    [
        ({}, True),
        ({"dagster/partition": "repo|key", "lakegc/repository": "repo"}, True),
        ({"dagster/sensor_name": "requested_runs"}, True),
        ({"dagster/sensor_name": "theirs"}, False),
        ({"dagster/schedule_name": "nightly_mark"}, False),
        ({"dagster/backfill": "abc"}, False),
        ({"dagster/auto_materialize": "true"}, False),
        ({"dagster/from_automation_condition": "true"}, False),
    ],
)
def test_a_run_that_dagster_started_by_itself_is_known_by_its_tags(tags, by_a_person):
    from lakegc_dagster.in_dagster.private_doors import started_by_a_person

    assert started_by_a_person(tags) is by_a_person, CLOSED.format("tag of that name")


def test_a_failure_with_a_sentence_is_shown_without_dagsters_stack():
    from lakegc_dagster.in_dagster.private_doors import SentenceFailure

    @dg.op
    def refused():
        raise SentenceFailure("RefusedError", "This is so. Do that.")

    @dg.job
    def refusing():
        refused()

    with dg.DagsterInstance.ephemeral() as instance:
        made = refusing.execute_in_process(instance=instance, raise_on_error=False)
    (step,) = [event for event in made.all_events if event.is_step_failure]
    shown = step.step_failure_data.error
    assert shown.to_string().strip() == "RefusedError: This is so. Do that.", CLOSED.format(
        "DagsterUserCodeProcessError.user_code_process_error_infos"
    )
    assert step.step_failure_data.user_failure_data.description == shown.message.strip()
    (ended,) = [
        event for event in made.all_events if event.event_type is dg.DagsterEventType.RUN_FAILURE
    ]
    assert ended.event_specific_data.error == shown
