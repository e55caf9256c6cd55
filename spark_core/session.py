"""Spark settings that lakegc relies on, and the way from a Spark failure back to the error that caused it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from spark_core import errors
from spark_core.errors import LakegcError, SettingsError

MIN_JAVA = 17

# The reference job's own default, and what two cores can make good use of.
CLUSTER_ADDRESS_PARTITIONS = 200
LOCAL_ADDRESS_PARTITIONS = 4

_JAVA_VERSION = re.compile(r'version "(\d+)')

# The last line of a Python traceback that crossed the JVM: "spark_core.errors.AddressError: ...".
_RAISED = re.compile(r"spark_core\.errors\.(\w+): ((?:.|\n)*?)(?=\n\s*(?:at |\t|SQLSTATE|$)|\Z)")


def is_local(master: str) -> bool:
    """Say whether executors are threads of the driver's own process: same files, same environment, same package.

    Examples:
        >>> is_local("local[*]"), is_local("local-cluster[2,1,1024]"), is_local("yarn")
        (True, False, False)
    """
    return master == "local" or master.startswith("local[")


def default_master() -> str | None:
    """Return the master where nobody named one: this machine, or what `spark-submit` was told when that started us."""
    return None if "PYSPARK_GATEWAY_PORT" in os.environ else "local[*]"


def spark_config(
    *, master: str | None = "local[*]", address_partitions: int | None = None, extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the Spark properties of a lakegc session.

    Args:
        master: Spark master; on a laptop the driver does all the work. None where `spark-submit` or whoever else
            started this process has chosen it.
        address_partitions: Partitions in which addresses are compared; adaptive execution joins small ones. By
            default 200 on a cluster, 4 on a laptop.
        extra: The operator's own properties; they win.

    Returns:
        Property name -> value, ready for a session builder.
    """
    properties = dict(extra or {})
    # Executors must run an interpreter that has the libraries; Spark itself takes it from the environment alone.
    os.environ.setdefault("PYSPARK_PYTHON", properties.get("spark.pyspark.python", sys.executable))
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    config = {
        "spark.app.name": "lakegc",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Rows of Arrow batches on their way to Python: large enough to amortise, small enough for memory.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
        "spark.sql.shuffle.partitions": str(address_partitions or CLUSTER_ADDRESS_PARTITIONS),
        "spark.sql.adaptive.enabled": "true",
        "spark.python.worker.reuse": "true",
        # A second copy of a slow task would delete, or write a part, beside the first one.
        "spark.speculation": "false",
    }
    if master is not None:
        config["spark.master"] = master
    if master is not None and master.startswith("local"):
        config |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    if master is not None and is_local(master):
        config |= {
            "spark.sql.shuffle.partitions": str(address_partitions or LOCAL_ADDRESS_PARTITIONS),
            "spark.driver.memory": "2g",
        }
    return config | properties


def check_java() -> str:
    """Return the version line of the Java that Spark will start.

    Raises:
        SettingsError: If there is no Java, or one older than 17.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    advice = (
        f"Spark needs Java {MIN_JAVA} or newer. Install one (Debian and Ubuntu: `apt-get install openjdk-17-jre-headless`; "
        "macOS: `brew install openjdk@17`; anywhere: `pip install install-jdk && python -c \"import jdk; print(jdk.install('17'))\"`) "
        "and set JAVA_HOME to its folder."
    )
    if not java or not Path(java).exists():
        where = f"JAVA_HOME is {home!r}, and there is no bin/java in it" if home else "no `java` is on the PATH"
        raise SettingsError(f"Java: {where}. {advice}")
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    # A Java that takes options from its environment says so in lines of their own, before the version.
    lines = (answer.stderr + answer.stdout).splitlines() or [""]
    line = next((each for each in lines if _JAVA_VERSION.search(each)), lines[0])
    version = _JAVA_VERSION.search(line)
    if answer.returncode != 0 or version is None or int(version[1]) < MIN_JAVA:
        raise SettingsError(f"Java: {java} answers {line!r}. {advice}")
    return line


@contextmanager
def surfacing_errors() -> Iterator[None]:
    """Turn a failed Spark action back into the lakegc error that an executor raised.

    Spark wraps what a Python worker raised in its own exception and keeps only
    the text; callers here decide by class.

    Raises:
        LakegcError: The error that was raised on the executor, class and message restored.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as failure:
        original = _original(str(failure))
        if original is None:
            raise
        raise original from failure


def _original(text: str) -> LakegcError | None:
    found = _RAISED.search(text)
    if found is None:
        return None
    kind = getattr(errors, found[1], None)
    if not (isinstance(kind, type) and issubclass(kind, LakegcError)):
        return None
    return kind.from_message(found[2].strip())
