"""Which Java Spark may start, and what is read of its configuration before a session."""

import inspect
import subprocess
import sys

import pyspark
import pytest

from spark_core.errors import SettingsError
from spark_core.spark import java
from spark_core.spark.java import check_java


def _java(monkeypatch, home, *lines):
    """A Java that answers these lines when it is asked for its version."""
    java = home / "bin" / "java"
    java.parent.mkdir()
    said = "".join(f"echo '{line}' >&2\n" for line in lines)
    java.write_text(f"#!/bin/sh\n{said}")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))


def test_a_java_that_first_tells_which_options_it_picked_up_is_read_by_its_version(
    monkeypatch, tmp_path
):
    version = 'openjdk version "21.0.4" 2024-07-16'
    _java(
        monkeypatch,
        tmp_path,
        "Picked up JAVA_TOOL_OPTIONS: -XX:MaxRAMPercentage=75",
        version,
        "OpenJDK Runtime",
    )
    assert check_java() == version


@pytest.mark.parametrize(
    ("spark", "least", "line"),
    [
        ("4.0.0", 17, 'openjdk version "11.0.23"'),
        ("4.3.0", 17, 'openjdk version "16.0.2"'),
        ("4.3.0", 17, "no version at all"),
        ("3.5.9", 11, 'java version "1.8.0_402"'),
        ("3.5.9", 11, ""),
    ],
)
def test_a_java_that_is_too_old_or_does_not_say_is_refused_as_it_answers(
    spark, least, line, monkeypatch, tmp_path
):
    monkeypatch.setattr(java, "pyspark_version", lambda: spark)
    _java(monkeypatch, tmp_path, line)
    with pytest.raises(SettingsError, match=f"Spark {spark} needs Java {least} or") as refused:
        check_java()
    assert repr(line) in str(refused.value)


def test_a_java_that_does_not_take_its_options_is_told_by_what_it_says_of_them(
    monkeypatch, tmp_path
):
    _java(monkeypatch, tmp_path, "NOTE: Picked up JDK_JAVA_OPTIONS: -XX:+No", "Unrecognized +No")
    with pytest.raises(SettingsError, match=r"-XX:\+No Unrecognized \+No"):
        check_java()


@pytest.mark.parametrize(("spark", "least"), [("3.5.0", 11), ("3.5.9", 11), ("4.0.0", 17)])
def test_the_oldest_java_of_a_spark_is_taken(spark, least, monkeypatch, tmp_path):
    monkeypatch.setattr(java, "pyspark_version", lambda: spark)
    line = f'openjdk version "{least}.0.1"'
    _java(monkeypatch, tmp_path, line)
    assert check_java() == line


def _spark(home, *jars):
    (home / "bin").mkdir()
    (home / "bin" / "spark-submit").touch()
    (home / "jars").mkdir()
    for jar in jars:
        (home / "jars" / jar).touch()


def test_a_spark_home_without_a_spark_is_refused_before_anything_starts(monkeypatch, tmp_path):
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(SettingsError, match=r"has no bin/spark-submit, and pyspark is .+ Unset SP"):
        check_java()


def test_a_spark_home_of_another_version_is_refused_before_anything_starts(monkeypatch, tmp_path):
    _spark(tmp_path, "spark-core_2.12-3.3.2-amzn-0.jar")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setattr(java, "pyspark_version", lambda: "3.30.2")
    with pytest.raises(SettingsError, match=r"Spark 3\.3\.2-amzn-0, and pyspark is 3\.30"):
        check_java()


@pytest.mark.parametrize("jars", [(), ("spark-core_2.13-4.0.9.jar",), ("spark-core.jar",)])
def test_a_spark_home_of_the_same_version_or_of_none_that_is_told_is_taken(
    monkeypatch, tmp_path, jars
):
    _spark(tmp_path, *jars)
    _java(monkeypatch, tmp_path / "bin", 'openjdk version "21.0.4"')
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setattr(java, "pyspark_version", lambda: "4.0.1")
    assert check_java() == 'openjdk version "21.0.4"'


def test_a_java_that_ended_is_told_by_its_own_lines_and_they_are_named(monkeypatch, tmp_path):
    log = tmp_path / "spark.log"
    log.write_text('Exception in thread "main" a.WrongException: why\n\tat a.b.c(D.java:1)\n')
    monkeypatch.setattr(java.OUTPUT, "log", log)
    with (
        pytest.raises(SettingsError) as told,
        java.telling_of_a_start({}),
    ):
        raise ConnectionRefusedError(111, "Connection refused")
    assert str(told.value).startswith("Spark does not start (a.WrongException: why). ")
    assert str(told.value).endswith(f"Its own lines are in {log}.")


@pytest.mark.spark
def test_pyspark_still_starts_java_without_a_session_where_its_lines_are_wanted():
    """The one name of Spark that its documents do not have."""
    from pyspark import java_gateway

    taken = inspect.signature(getattr(java_gateway, "launch_gateway", lambda: None)).parameters
    assert {"conf", "popen_kwargs"} <= taken.keys(), (
        f"PySpark {pyspark.__version__} has no launch_gateway(conf, popen_kwargs) any more: find "
        "another way in spark_core/spark/java.py"
    )


BEFORE_A_SESSION = """
import sys
from pathlib import Path
from spark_core.spark.java import launch_java, submitted_properties
from spark_core.spark.output import OUTPUT
from spark_core.spark.session import spark_config, start_session
OUTPUT.keep_in(Path(sys.argv[1]))
OUTPUT.is_shown = sys.argv[2] == "shown"
properties = spark_config(master="local[1]", extra={"spark.hadoop.lakegc.door": "open"})
gateway = launch_java(properties)
found, hadoop = submitted_properties({"spark.hadoop.lakegc.pair": "1"})
assert gateway is launch_java(properties)
assert (hadoop.get("lakegc.door"), hadoop.get("lakegc.pair")) == ("open", "1")
session = start_session(properties)
assert session.sparkContext.getConf().get("spark.hadoop.lakegc.door") == "open"
assert session.range(3).count() == 3
assert start_session(properties) is session
print(found["spark.master"])
"""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("where", ["kept", "shown"])
def test_a_session_runs_in_the_java_that_was_started_ahead_and_nothing_of_it_is_shown_unasked(
    tmp_path, where
):
    done = subprocess.run(
        [sys.executable, "-c", BEFORE_A_SESSION, str(tmp_path), where],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["local[1]"]
    first, log = "Setting default log level", tmp_path / "spark.log"
    if where == "kept":
        assert first in log.read_text()
        assert done.stderr == "", "neither Spark's lines nor a traceback at the end of Java"
    else:
        assert first in done.stderr
        assert not log.exists()


def test_the_version_of_pyspark_is_read_without_importing_it():
    script = (
        "import sys; from spark_core.spark.java import pyspark_version; "
        "read = pyspark_version(), 'pyspark' in sys.modules; "
        "import pyspark; print(read == (pyspark.__version__, False))"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert said.stdout == "True\n"
