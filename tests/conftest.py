"""What every test may use: one Spark session, and no telemetry."""

import gc
import marshal
import os
import re
import shutil
import sys
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.changed import ROOT, changed_files, touched_tests

# How long an example takes says how busy the machine is. The default suite tries the same examples
# each time, so that a new find is one of `make test-deep` and not of whoever runs `make test`. They
# are fewer than Hypothesis takes by itself: the deep run tries the rest.
settings.register_profile("lakegc", deadline=None, derandomize=True, max_examples=40)
settings.register_profile("deep", deadline=None)
settings.load_profile("lakegc")

os.environ["DAGSTER_DISABLE_TELEMETRY"] = "1"

# The store flushes each file and its directory to the disk, some 60 times in a mark and its sweep.
# Where Linux has room in memory, the temporary directories of tests are there: the calls stay the
# same, and nobody waits for a disk.
MEMORY, ROOM = Path("/dev/shm"), 2 << 30
if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ROOM:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# The tests are not the user's Dagster, must not pick up the user's settings, nor fold what they
# read to a terminal's width.
for variable in list(os.environ):
    if variable in {"DAGSTER_HOME", "LAKEGC_CONFIG", "COLUMNS"} or variable.startswith("LAKEGC__"):
        del os.environ[variable]


# Files that take longest, in this order: begun last, one would keep a single process busy at the
# end. The first of them begins all those whose executors work.
LONGEST = (
    "undo/test_undo_at_scale.py",
    "search/test_optimized_histories.py",
    "faults/test_faults_of_an_optimized_mark.py",
    "launch/test_failed_runs_in_browser.py",
    "launch/test_dagster_in_browser.py",
    "in_dagster/test_done_before.py",
    "demo/test_tour.py",
    "search/test_random_histories.py",
    "storage/azure/test_store.py",
    "roundtrip/test_policy_sweeps.py",
    "losses/test_losses_of_the_index.py",
    "losses/test_losses_of_checksums.py",
    "storage/s3/test_store.py",
    "cli/test_certificate.py",
    "pipes/test_launched.py",
    "pipes/test_payloads.py",
    "lakegc_dagster/test_dagster_runs.py",
    "launch/test_ui.py",
    "faults/test_faults_of_undo.py",
)
# As `lakegc` sets it, which any test of a command does for all tests after it.
OBJECTS_BETWEEN_COLLECTIONS = 100_000
# How a test says that executors work in it, or asks the session itself for something.
EXECUTORS = re.compile(
    r'"MOST_ROWS_OF_THE_DRIVER", |executors_work|are_executors_chosen'
    r"|\bspark\.(?:range|read|conf|createDataFrame|sparkContext)\b"
)


def pytest_addoption(parser):
    """Let `--changed` choose the tests that the differences from a commit can touch."""
    told = "only the tests that the differences from BASE (main) can touch"
    parser.addoption("--changed", nargs="?", const="main", metavar="BASE", help=told)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Begin with the longest files; let the deep run try each property, on examples of its own."""
    if base := config.getoption("--changed"):
        try:
            touched = touched_tests(changed_files(base))
        except ValueError as error:
            raise pytest.UsageError(str(error)) from None
        left = [item for item in items if item.path.relative_to(ROOT).as_posix() in touched]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(left)])
        items[:] = left
    if settings.get_current_profile_name() == "deep":
        for item in items:
            if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
                item.add_marker("deep")
    ranks = {name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get("/".join(item.path.parts[-2:]), len(ranks)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give each process whole files, and one process all those in which executors work.

    Spark's start and the first task of its executors take ten seconds of a processor each, in each
    process anew.
    """
    from xdist.scheduler import LoadFileScheduling

    class ExecutorsTogether(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return "executors" if _has_executors(config.rootpath / file) else file

        def _pending_of(self, workload):
            # A process ends a file before it begins the next one. After each test xdist would
            # count through all that the process has ended.
            pending = 0
            for file in reversed(workload.values()):
                open_tests = list(file.values()).count(False)
                if not open_tests:
                    break
                pending += open_tests
            return pending

    return ExecutorsTogether(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable():
    """Write a report in one piece.

    Each test has three, and what carries them to the first process writes each of their fifty
    values in Python.
    """
    return {"written": marshal.dumps((yield))}


@pytest.hookimpl(wrapper=True)
def pytest_report_from_serializable(data):
    """Read what `pytest_report_to_serializable` wrote."""
    data |= marshal.loads(data.pop("written"))
    return (yield)


@cache
def _has_executors(path):
    """Say whether executors work in any test of a file."""
    return path.suffix == ".py" and EXECUTORS.search(path.read_text()) is not None


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Spare the garbage collector what all tests were made of, ten times what a test makes.

    While tests are collected almost nothing becomes garbage, and looking for it took a third of the
    time; so nobody looks for it before it is set aside with the rest. Tests load as much again, so
    that looking for garbage as often as Python does by itself took a tenth of theirs.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
        gc.enable()


def pytest_runtest_logreport(report):
    """Say at once what a long search tried and found: the summary comes hours later, or never."""
    if "deep" in report.keywords and report.when == "call":
        told = [str(value) for name, value in report.user_properties if name == "figures"]
        if report.failed:
            told.append(report.longreprtext)
        sys.__stderr__.write("".join(f"\n{line}" for line in told))


def pytest_terminal_summary(terminalreporter):
    """Say what searches tried: a test tells it by `record_property("figures", ...)`."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == "figures" and report.when == "call":
                    terminalreporter.write_line(str(value))


@pytest.fixture
def executors_work():
    """Let executors do all work of a test, as with `always = true`, however little it is."""
    from spark_core.spark import placement

    placement.choose_executors(True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown():
    """Forget what the settings of a test said of its process."""
    try:
        return (yield)
    finally:
        if placement := sys.modules.get("spark_core.spark.placement"):
            placement.choose_executors(False)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Start Spark before a test whose executors may work sets anything in the environment.

    Java, and each process that it starts for later tests, would have it.
    """
    if "spark" in getattr(item, "fixturenames", ()) and _has_executors(item.path):
        from tests.support.connect_server import is_wanted
        from tests.support.small_spark import SESSION

        if not is_wanted():
            SESSION.start()


@pytest.fixture(scope="session")
def made_once(tmp_path_factory):
    """What tests begin with, made once in this process."""
    from tests.support.made_once import MadeOnce

    return MadeOnce(tmp_path_factory.mktemp("made_once"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """The one session of the process; whatever asks for a session later gets this one.

    It starts when it is first asked for anything: most tests hand it over, and the driver does all
    work of theirs.
    """
    from spark_core.spark.connect import choose_remote, remote_config
    from spark_core.spark.session import start_session
    from tests.support.connect_server import IMPORTED_AHEAD, connect_server, is_wanted
    from tests.support.small_spark import SESSION, SMALL_SPARK

    if is_wanted():
        log = tmp_path_factory.mktemp("connect") / "server.log"
        # Executors import tests, too.
        paths = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(Path.cwd())])
        env = {**os.environ, "PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable}
        conf = {**SMALL_SPARK, **IMPORTED_AHEAD}
        with connect_server(log, conf=conf, env=env) as address:
            choose_remote(address)
            session = start_session(remote_config())
            yield session
            session.stop()
        return
    yield SESSION
    SESSION.end()
