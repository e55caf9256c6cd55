"""The Java process of this Python process: which Java, its start, and where its lines go.

A process has one, as it has one session. Spark would start it with its first session; here it is
started before, so that its output goes to a file where that is wanted, or so that its configuration
can be read without a session.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from spark_core.errors import LakegcError, SettingsError, sentences
from spark_core.foreign_errors import one_line, reason
from spark_core.spark.obstacles import obstacle
from spark_core.spark.output import OUTPUT
from spark_core.spark.placement import GATEWAY

# The jar by which an installation of Spark says its version.
_SPARK_JAR = re.compile(r"spark-core_[\d.]+-(\d\S*)\.jar")
_VERSION_OF_PYSPARK = re.compile(r"^__version__(?:: str)? = ['\"]([^'\"]+)", re.MULTILINE)
_JAVA_VERSION = re.compile(r'version "(\d+)')


def min_java(spark: str) -> int:
    """Return the oldest Java that a version of Spark runs on.

    Examples:
        >>> min_java("3.5.6"), min_java("4.0.0")
        (11, 17)
    """
    return 11 if spark.startswith("3.") else 17


def pyspark_version() -> str:
    """Return the version of pyspark, which is not imported for that where its files can be read."""
    found = find_spec("pyspark")
    file = Path(found.origin if found and found.origin else os.devnull).with_name("version.py")
    said = _VERSION_OF_PYSPARK.search(file.read_text()) if file.exists() else None
    if said is not None:
        return said[1]
    # Spark itself may bring it, in an archive.
    from pyspark import __version__

    return __version__


def find_java() -> Path | None:
    """Return the Java that Spark's scripts start; None when there is none."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    return Path(found) if found and Path(found).exists() else None


def check_java() -> str:
    """Return the version line of the Java that Spark will start.

    Raises:
        SettingsError: If there is no Java, or one that is too old for the Spark that is installed;
            or `SPARK_HOME` is the folder of another Spark, or of none.
    """
    version_here = pyspark_version()
    _require_spark_of_pyspark(version_here)
    java, least = find_java(), min_java(version_here)
    advice = (
        f"Spark {version_here} needs Java {least} or newer. Install one (Debian and Ubuntu: "
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


def _require_spark_of_pyspark(pyspark_version: str) -> None:
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


def launch_java(properties: Mapping[str, str]) -> Any:
    """Start the Java process of this Python process, or take the one that `spark-submit` started.

    No session is made. A Java that runs already is taken as it is.

    Args:
        properties: The result of `spark_config`.

    Returns:
        py4j's way to it.

    Raises:
        SettingsError: If there is no Java that Spark can run on, or it does not start, or ends
            before it serves.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is None:  # noqa: SLF001 - also one that somebody else started
        launch: Callable[[SparkConf, dict[str, Any]], Any] = launch_gateway
        conf = SparkConf(loadDefaults=False)
        for name, value in properties.items():
            conf.set(name, value)
        if GATEWAY not in os.environ:
            check_java()
        with _streams() as streams, telling_of_a_start(properties):
            SparkContext._ensure_initialized(gateway=launch(conf, streams))  # noqa: SLF001
    return SparkContext._gateway  # noqa: SLF001


@contextmanager
def _streams() -> Iterator[dict[str, Any]]:
    """Open the file for the lines of a Java that is about to start, where there is to be one."""
    log = OUTPUT.kept_in
    if log is None or OUTPUT.is_shown or GATEWAY in os.environ:
        yield {}
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    # Another command may write to it at the same time; so each writes at its end.
    with log.open("ab") as lines:
        lines.truncate(0)
        OUTPUT.log = log
        yield {"stdout": lines, "stderr": lines}


@contextmanager
def telling_of_a_start(properties: Mapping[str, str]) -> Iterator[None]:
    """Say of a start of Spark that failed why it did, as Java tells it, and what helps.

    Args:
        properties: With which it starts.

    Raises:
        SettingsError: If the start fails.
        LakegcError: If it fails by what Java tells, and nothing of this machine is wrong.
    """
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError, OSError, RuntimeError) as failure:
        said, where, goes_on = str(failure), "", isinstance(failure, Py4JJavaError)
        if OUTPUT.log is not None:
            where = f"Its own lines are in {OUTPUT.log}."
            # A Java that has ended can say why there alone.
            said = said if goes_on else OUTPUT.log.read_text(errors="replace").strip() or said
        found = obstacle(os.environ, properties)
        kind = LakegcError if goes_on and not found else SettingsError
        raise kind(
            f"Spark does not start ({reason(said)})",
            sentences(found or "Mend [spark] in the settings, or the Java installation", where),
        ) from failure


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
