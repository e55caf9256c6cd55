"""The Java process of this Python process: which Java, its start ahead of a session, and its lines.

A process has one, as it has one session. Spark starts it with its first session; here it is started
before, so that its output goes to a file, or so that its configuration can be read without a
session.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark import __version__ as pyspark_version

from spark_core.errors import SettingsError
from spark_core.spark.class_archive import find_java

_JAVA_VERSION = re.compile(r'version "(\d+)')


@dataclass
class _Process:
    """What this process has started."""

    gateway: Any = None


_PROCESS = _Process()


def min_java(spark: str) -> int:
    """Return the oldest Java that a version of Spark runs on.

    Examples:
        >>> min_java("3.5.6"), min_java("4.0.0")
        (11, 17)
    """
    return 11 if spark.startswith("3.") else 17


def check_java() -> str:
    """Return the version line of the Java that Spark will start.

    Raises:
        SettingsError: If there is no Java, or one that is too old for the Spark that is installed.
    """
    java, least = find_java(), min_java(pyspark_version)
    advice = (
        f"Spark {pyspark_version} needs Java {least} or newer. Install one (Debian and Ubuntu: "
        "`apt-get install openjdk-17-jre-headless`; "
        "macOS: `brew install openjdk@17`; anywhere: `pip install install-jdk && python -c "
        "\"import jdk; print(jdk.install('17'))\"`) "
        "and set JAVA_HOME to its folder."
    )
    if java is None:
        home = os.environ.get("JAVA_HOME")
        where = (
            f"JAVA_HOME is {home!r}, and there is no bin/java in it"
            if home
            else "no `java` is on the PATH"
        )
        raise SettingsError(f"Java: {where}. {advice}")
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    # A Java that takes options from its environment prints them on their own lines, before the
    # version.
    lines = (answer.stderr + answer.stdout).splitlines() or [""]
    line = next((each for each in lines if _JAVA_VERSION.search(each)), lines[0])
    version = _JAVA_VERSION.search(line)
    if answer.returncode != 0 or version is None or int(version[1]) < least:
        raise SettingsError(f"Java: {java} answers {line!r}. {advice}")
    return line


def running_java() -> Any:
    """Return py4j's way to the Java process that was started here; None if none was."""
    return _PROCESS.gateway


def launch_java(properties: Mapping[str, str], output: int | None = None) -> Any:
    """Start the Java process of this Python process, or take the one that `spark-submit` started.

    No session is made. A Java that was started here before is taken as it is.

    Args:
        properties: The result of `spark_config`.
        output: Descriptor that gets all its lines; None: those of this process.

    Returns:
        py4j's way to it.

    Raises:
        RuntimeError: If it ends before it serves.
    """
    from pyspark.java_gateway import launch_gateway

    if _PROCESS.gateway is None:
        launch: Callable[[SparkConf, dict[str, Any]], Any] = launch_gateway
        streams = {} if output is None else {"stdout": output, "stderr": output}
        _PROCESS.gateway = launch(_plain(properties), streams)
    return _PROCESS.gateway


def use_launched_java(properties: Mapping[str, str]) -> None:
    """Let the session of this process run in the Java that `launch_java` started, if it did.

    Args:
        properties: Of the session.
    """
    if _PROCESS.gateway is not None:
        # Where a context runs already there cannot be another, and the session is made on that one.
        with suppress(ValueError):
            SparkContext(conf=_plain(properties), gateway=_PROCESS.gateway)


def submitted_properties(pairs: Mapping[str, str]) -> tuple[dict[str, str], Any]:
    """Return Spark's properties as `spark-submit` left them, with pairs put over them.

    Without Java nobody knows Spark's files, nor Hadoop's. It is started if nobody has.

    Returns:
        The properties, and Hadoop's configuration, a Java object, as Spark would make it of them.
    """
    spark = launch_java({}).jvm.org.apache.spark
    conf = spark.SparkConf()
    for name, value in pairs.items():
        conf.set(name, value)
    # The fields of a pair, as Scala names them.
    found = {getattr(pair, "_1")(): getattr(pair, "_2")() for pair in conf.getAll()}  # noqa: B009
    return found, spark.deploy.SparkHadoopUtil.get().newConfiguration(conf)


def _plain(properties: Mapping[str, str]) -> SparkConf:
    conf = SparkConf(loadDefaults=False)
    for name, value in properties.items():
        conf.set(name, value)
    return conf
