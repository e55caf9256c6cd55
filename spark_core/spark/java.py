"""The Java process of this Python process: which Java, its start ahead of a session, and its lines.

A process has one, as it has one session. Spark starts it with its first session; here it is started
before, so that its output goes to a file, or so that its configuration can be read without a
session.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark import __version__ as pyspark_version
from pyspark.errors import PySparkException

from spark_core.errors import LakegcError, SettingsError, sentences
from spark_core.foreign_errors import one_line, reason
from spark_core.spark.class_archive import find_java
from spark_core.spark.obstacles import obstacle

# The jar by which an installation of Spark says its version.
_SPARK_JAR = re.compile(r"spark-core_[\d.]+-(\d\S*)\.jar")
_JAVA_VERSION = re.compile(r'version "(\d+)')


@dataclass
class _Process:
    """What this process has started, and where its lines are; None for those of this process."""

    gateway: Any = None
    log: Path | None = None


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
        SettingsError: If there is no Java, or one that is too old for the Spark that is installed;
            or `SPARK_HOME` is the folder of another Spark, or of none.
    """
    _require_spark_of_pyspark()
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
    said = answer.stderr + answer.stdout
    line = next((each for each in said.splitlines() if _JAVA_VERSION.search(each)), one_line(said))
    version = _JAVA_VERSION.search(line)
    if answer.returncode != 0 or version is None or int(version[1]) < least:
        raise SettingsError(f"Java: {java} answers {line!r}. {advice}")
    return line


def _require_spark_of_pyspark() -> None:
    """Refuse another Spark than the one that pyspark speaks with.

    An installation whose files do not say its version is taken as it is.
    """
    home, own = os.environ.get("SPARK_HOME"), ".".join(pyspark_version.split(".")[:2])
    others = [
        jar[1]
        for each in Path(home or os.devnull, "jars").glob("spark-core_*.jar")
        if (jar := _SPARK_JAR.fullmatch(each.name)) and not jar[1].startswith(f"{own}.")
    ]
    if home is not None and (others or not Path(home, "bin", "spark-submit").exists()):
        what = f"is that of Spark {others[0]}" if others else "has no bin/spark-submit"
        raise SettingsError(
            f"SPARK_HOME is {home!r}, which {what}, and pyspark is {pyspark_version}",
            "Unset SPARK_HOME, and pyspark starts its own Spark; or let it name one of version "
            f"{pyspark_version}.",
        )


def running_java() -> Any:
    """Return py4j's way to the Java process that was started here; None if none was."""
    return _PROCESS.gateway


def launch_java(
    properties: Mapping[str, str], output: int | None = None, log: Path | None = None
) -> Any:
    """Start the Java process of this Python process, or take the one that `spark-submit` started.

    No session is made. A Java that was started here before is taken as it is.

    Args:
        properties: The result of `spark_config`.
        output: Descriptor that gets all its lines; None: those of this process.
        log: The file that they reach by it.

    Returns:
        py4j's way to it.

    Raises:
        SettingsError: If it does not start, or ends before it serves.
    """
    from pyspark.java_gateway import launch_gateway

    if _PROCESS.gateway is None:
        launch: Callable[[SparkConf, dict[str, Any]], Any] = launch_gateway
        streams = {} if output is None else {"stdout": output, "stderr": output}
        _PROCESS.log = log
        with telling_of_a_start(properties):
            _PROCESS.gateway = launch(_plain(properties), streams)
    return _PROCESS.gateway


@contextmanager
def telling_of_a_start(properties: Mapping[str, str]) -> Iterator[None]:
    """Say of a start of Spark that failed why it did, as Java tells it, and what helps.

    Args:
        properties: With which it starts.

    Raises:
        SettingsError: If the start fails.
        LakegcError: If it fails by what Java tells, and nothing of this machine is wrong.
    """
    try:
        yield
    except (PySparkException, Py4JError, OSError, RuntimeError) as failure:
        said, where, goes_on = str(failure), "", isinstance(failure, Py4JJavaError)
        if _PROCESS.log is not None:
            where = f"Its own lines are in {_PROCESS.log}."
            # A Java that has ended can say why there alone.
            said = said if goes_on else _PROCESS.log.read_text(errors="replace").strip() or said
        found = obstacle(os.environ, properties)
        kind = LakegcError if goes_on and not found else SettingsError
        raise kind(
            f"Spark does not start ({reason(said)})",
            sentences(found or "Mend [spark] in the settings, or the Java installation", where),
        ) from failure


def use_launched_java(properties: Mapping[str, str]) -> None:
    """Let the session of this process run in the Java that `launch_java` started, if it did.

    Args:
        properties: Of the session.
    """
    if _PROCESS.gateway is not None:
        # Where a context runs already there cannot be another, and the session is made on that one.
        with suppress(ValueError):
            SparkContext(conf=_plain(properties), gateway=_PROCESS.gateway)


def stop_context() -> None:
    """Stop the Spark context of this process, which then hears no more of a Java that ends."""
    SparkContext.getOrCreate().stop()


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
