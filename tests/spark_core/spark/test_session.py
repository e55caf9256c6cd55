"""With which options Java is started, and which parent its Python workers have."""

import gc
from pathlib import Path

import pyarrow as pa
import pytest

from spark_core.spark import spark_daemon
from spark_core.spark.session import spark_config

IMPORTED_AHEAD = (
    "numba",
    "pandas",
    "pyarrow",
    "pyspark.worker",
    "spark_core.mark",
    "spark_core.sweep",
)


FIRST, LAST = "spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions"
DAEMON = "spark.python.daemon.module"


def test_a_local_session_has_one_compiler_one_collector_and_the_daemon_that_imported_ahead(
    monkeypatch,
):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    config = spark_config(master="local[2]")
    assert config[FIRST] == "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    assert config[DAEMON] == "spark_core.spark.spark_daemon"


def test_java_collects_its_own_garbage_as_somebody_chose_or_as_it_likes_on_many_cores(
    monkeypatch,
):
    monkeypatch.setattr("os.cpu_count", lambda: 5)
    assert "UseSerialGC" not in spark_config(master="local[2]")[FIRST]
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    for name in (FIRST, LAST):
        assert (
            "UseSerialGC"
            not in spark_config(master="local[2]", extra={name: "-Xss4m -XX:+UseG1GC"})[FIRST]
        )
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-XX:+UseZGC")
    assert "UseSerialGC" not in spark_config(master="local[2]")[FIRST]


@pytest.mark.parametrize("master", ["yarn", "local-cluster[2,1,1024]", "spark://head:7077", None])
def test_what_runs_elsewhere_is_left_to_the_operator(master):
    assert not {FIRST, DAEMON} & set(spark_config(master=master))


def test_java_that_spark_submit_started_is_left_as_it_is(monkeypatch):
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert not {FIRST, DAEMON} & set(spark_config(master="local[2]"))


def test_the_operators_own_options_for_java_come_last_and_so_win():
    theirs = "-XX:TieredStopAtLevel=4 -Dwhat=ever"
    by_first = spark_config(master="local[2]", extra={FIRST: theirs})
    assert by_first[FIRST].endswith(f" {theirs}")
    # Spark puts these behind the others.
    by_last = spark_config(master="local[2]", extra={LAST: theirs, DAEMON: "pyspark.daemon"})
    assert by_last[LAST] == theirs
    assert theirs not in by_last[FIRST]
    assert by_last[DAEMON] == "pyspark.daemon"


@pytest.mark.parametrize(
    "line", [f"{FIRST} -Dwhat=ever", f"  {FIRST}=-Dwhat=ever", f"{FIRST}: -Dwhat=ever"]
)
def test_options_for_java_in_sparks_own_file_of_defaults_are_not_lost(tmp_path, monkeypatch, line):
    (tmp_path / "spark-defaults.conf").write_text(
        f"# {FIRST} -Dnot=this\nspark.master yarn\n{line}\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert spark_config(master="local[2]")[FIRST].endswith(" -Dwhat=ever")
    assert spark_config(master="local[2]", extra={FIRST: "-Dmine=1"})[FIRST].endswith(" -Dmine=1")


def test_workers_of_another_interpreter_have_sparks_own_parent(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python/bin/python")
    assert DAEMON not in spark_config(master="local[2]")


@pytest.mark.slow
@pytest.mark.spark
def test_python_workers_are_forked_with_everything_imported_and_frozen(spark):
    def look(batches):
        import gc
        import os
        import sys

        parent = Path(f"/proc/{os.getppid()}/cmdline").read_text()
        frozen = gc.get_freeze_count()
        yield pa.RecordBatch.from_pydict(
            {
                "parent": [parent],
                "frozen": [frozen],
                "imported": [" ".join(name for name in IMPORTED_AHEAD if name in sys.modules)],
            }
        )

    [row] = (
        spark.range(1, numPartitions=1)
        .mapInArrow(look, "parent string, frozen long, imported string")
        .collect()
    )
    assert "spark_core.spark.spark_daemon" in row.parent
    assert row.frozen > 100_000
    assert row.imported == " ".join(IMPORTED_AHEAD)


def test_a_library_that_is_missing_keeps_no_worker_from_starting(monkeypatch):
    monkeypatch.setattr(spark_daemon, "ENTRANCES", ("json", "there.is.no.such.module"))
    try:
        spark_daemon.import_ahead()
    finally:
        gc.unfreeze()


def test_java_and_python_of_one_machine_talk_past_the_network_and_few_long_rows_open_few_files():
    name, files = (
        "spark.python.unix.domain.socket.enabled",
        "spark.shuffle.sort.bypassMergeThreshold",
    )
    local, elsewhere = spark_config(master="local[2]"), spark_config(master="yarn")
    assert (local[name], local[files], elsewhere[files]) == ("true", "1", "1")
    assert name not in elsewhere
    assert spark_config(master="local[2]", extra={name: "false"})[name] == "false"
