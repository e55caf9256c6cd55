"""What every test may use: one Spark session, and no telemetry."""

import os
import sys

import pytest
from hypothesis import settings

# How long an example takes says how busy the machine is.
settings.register_profile("lakegc", deadline=None)
settings.load_profile("lakegc")

os.environ["DAGSTER_DISABLE_TELEMETRY"] = "1"
# The tests are not the user's Dagster, must not pick up the user's settings, nor fold what they read to a terminal's width.
for variable in list(os.environ):
    if variable in {"DAGSTER_HOME", "LAKEGC_CONFIG", "COLUMNS"} or variable.startswith("LAKEGC__"):
        del os.environ[variable]


# Files that take longest, in this order: begun last, one would keep a single process busy at the end.
LONGEST = (
    "faults/test_faults_of_a_mark.py",
    "search/test_random_histories.py",
    "search/test_concurrent_writers.py",
    "roundtrip/test_cluster.py",
    "mark/test_twins.py",
    "faults/test_faults_of_a_sweep.py",
    "mark/test_renewal.py",
    "lakegc_dagster/test_dagster_runs.py",
)


def pytest_collection_modifyitems(items):
    """Begin with the longest files."""
    ranks = {name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get("/".join(item.path.parts[-2:]), len(ranks)))


def pytest_runtest_logreport(report):
    """Say at once what a long search tried and found: the summary comes hours later, or never."""
    if "deep" in report.keywords and report.when == "call":
        told = [str(value) for name, value in report.user_properties if name == "figures"]
        sys.__stderr__.write("".join(f"\n{line}" for line in [*told, report.longreprtext] if line))


def pytest_terminal_summary(terminalreporter):
    """Say what searches tried: a test tells it by `record_property("figures", ...)`."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == "figures" and report.when == "call":
                    terminalreporter.write_line(str(value))


@pytest.fixture(scope="session")
def spark():
    """The one session of the process; whatever asks for a session later gets this one."""
    from spark_core.spark.session import spark_config, start_session
    from tests.support.small_spark import SMALL_SPARK

    session = start_session(spark_config(master="local[2]", extra=SMALL_SPARK))
    yield session
    session.stop()
