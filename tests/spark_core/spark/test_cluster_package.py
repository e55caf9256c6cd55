"""Executors get this very package, or the run is refused by naming what they have instead."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from spark_core import __version__
from spark_core.errors import SettingsError
from spark_core.spark import cluster, python_of_executors
from spark_core.spark.cluster import (
    fingerprint,
    package_sources,
    require_network,
    require_same_package,
    write_archive,
)
from spark_core.spark.placement import is_local
from spark_core.spark.python_of_executors import PythonProcess
from spark_core.spark.session import spark_config


def _executor(**changes):
    sources = fingerprint(package_sources())
    return PythonProcess(**{**_WHOLE, "fingerprint": sources, **changes})


_WHOLE = {
    "host": "worker-3",
    "python": "3.11",
    "executable": "/opt/python",
    "missing": "",
    "place": "/x/lakegc.zip/y",
    "offline": "",
}


@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local", True),
        ("local[*]", True),
        ("local[4,2]", True),
        ("local-cluster[2,1,1024]", False),
        ("spark://head:7077", False),
        ("yarn", False),
        ("", False),
    ],
)
def test_executors_are_the_driver_itself_only_on_a_local_master(master, local):
    assert is_local(master) is local


def test_the_archive_holds_every_source_of_the_package_and_nothing_else(tmp_path):
    path = write_archive(package_sources())
    assert path.name == f"lakegc-{__version__}.zip"
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        assert (
            archive.read("spark_core/checks/verdict.py")
            == dict(package_sources())["spark_core/checks/verdict.py"]
        )
    assert {
        "spark_core/__init__.py",
        "spark_core/graveler/loops/buffers.py",
        "spark_core/sweep/rounds.py",
    } <= names
    assert all(name.startswith("spark_core/") and name.endswith(".py") for name in names)


def test_equal_sources_make_equal_archives():
    first, second = (write_archive(package_sources()) for _ in range(2))
    assert first != second
    assert first.read_bytes() == second.read_bytes()


def test_what_a_process_says_of_itself_is_what_it_would_run():
    told = PythonProcess(*python_of_executors._self_description(python_of_executors._ENTRANCES)())
    assert told.fingerprint == fingerprint(package_sources())
    assert (told.missing, told.executable) == ("", sys.executable)
    lacking = PythonProcess(
        *python_of_executors._self_description(("spark_core.mark", "spark_core.not_there"))()
    )
    assert lacking.missing == "spark_core.not_there"


def test_one_letter_makes_another_fingerprint():
    sources = package_sources()
    changed = [(sources[0][0], sources[0][1] + b"#"), *sources[1:]]
    renamed = [("spark_core/other.py", sources[0][1]), *sources[1:]]
    assert len({fingerprint(each) for each in (sources, changed, renamed)}) == 3


def test_executors_like_the_driver_are_accepted():
    require_same_package(
        [_executor(), _executor(host="worker-4")], fingerprint(package_sources()), ship_package=True
    )


@pytest.mark.parametrize(
    ("changes", "ship", "said"),
    [
        (
            {"missing": "spark_core"},
            False,
            r"have no lakegc \(/opt/python on worker-3 .*ship_package = true",
        ),
        ({"missing": "spark_core.mark"}, True, r"have no lakegc .*sent and is not there"),
        (
            {"missing": "numba"},
            True,
            r"lack a library \(/opt/python on worker-3 finds no module 'numba'\)",
        ),
        (
            {"fingerprint": "f00"},
            False,
            r"another lakegc than the driver .*imports it from /x/lakegc\.zip/y",
        ),
    ],
)
def test_executors_that_could_decide_otherwise_are_refused(changes, ship, said):
    with pytest.raises(SettingsError, match=rf"{said}(.|\n)*"):
        require_same_package(
            [_executor(), _executor(**changes)], fingerprint(package_sources()), ship_package=ship
        )


def test_on_a_local_master_nothing_is_sent_or_asked():
    # Anything but these two would raise.
    cluster.prepare_cluster(
        SimpleNamespace(sparkContext=SimpleNamespace(master="local[2]", applicationId="a"))
    )


def test_a_connect_session_gets_the_package_as_an_artifact_once(monkeypatch):
    shipped = []

    class Connect:
        __module__ = "pyspark.sql.connect.session"
        session_id = "1b"

        def addArtifacts(self, path, *, pyfile):  # noqa: N802 - Spark's name
            shipped.append((Path(path).name, pyfile))

    monkeypatch.setattr(cluster, "probe_executors", lambda _: [_executor()])
    monkeypatch.setattr(cluster, "_prepared", set())
    for _ in range(2):
        cluster.prepare_cluster(Connect())
    assert shipped == [(f"lakegc-{__version__}.zip", True)]


def test_executors_whose_python_may_not_use_the_network_are_refused_with_what_serves():
    there = _executor(offline="[Errno 101] Network is unreachable")
    require_network([_executor()])
    with pytest.raises(SettingsError, match=r"may not use the network .*worker-3") as refused:
        require_network([_executor(), there])
    assert "dedicated or standard access instead of serverless" in str(refused.value)


@pytest.mark.slow
def test_a_process_without_a_network_says_so_and_one_with_a_network_does_not():
    assert python_of_executors._network_description()() == ""
    alone = ["unshare", "--user", "--map-root-user", "--net"]
    if subprocess.run([*alone, "true"], check=False, capture_output=True).returncode:
        pytest.skip("unshare cannot take the network from a process here: run as root")
    code = (
        "from spark_core.spark import python_of_executors as asked; "
        "print(asked._network_description()())"
    )
    done = subprocess.run(
        [*alone, sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert "Network is unreachable" in done.stdout


def test_a_python_of_another_version_is_told_from_spark_s_long_answer():
    text = """An error occurred while calling o1.collect.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:1)
pyspark.errors.exceptions.base.PySparkRuntimeError: \
[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver
\tat org.apache.spark.api.python.BasePythonRunner.x(PythonRunner.scala:2)"""
    refusal = str(python_of_executors._unusable(text))
    assert "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9" in refusal
    assert "PYSPARK_PYTHON" in refusal
    assert "PythonRunner.scala" not in refusal


def test_the_interpreter_of_the_operator_s_properties_is_taken(monkeypatch):
    # Set first, so that what the call leaves behind is taken back for the tests behind this one.
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, "python")
    monkeypatch.delenv("PYSPARK_PYTHON")
    spark_config(master="yarn", extra={"spark.pyspark.python": "./environment/bin/python"})
    assert os.environ["PYSPARK_PYTHON"] == "./environment/bin/python"


def test_no_second_copy_of_a_task_deletes_beside_the_first():
    assert spark_config(master="yarn")["spark.speculation"] == "false"


@pytest.mark.slow
def test_tasks_import_neither_the_servers_client_nor_what_executors_need_not_have():
    """Every Python worker imports it anew, and the client alone would take longer than all the
    rest.
    """
    modules = "', '".join(python_of_executors._ENTRANCES)
    code = (
        f"import importlib, sys; [importlib.import_module(name) for name in ['{modules}']]; "
        f"print({{'lakefs_sdk', 'msgspec', 'pydantic'}} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
