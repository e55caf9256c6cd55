"""The Spark session: how it is set up and started, and what can be asked of one."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from spark_core.spark import connect
from spark_core.spark.java import launch_java, telling_of_a_start
from spark_core.spark.placement import GATEWAY, is_local

if TYPE_CHECKING:
    # Imported where a session is started: a run whose work the driver does has none.
    from pyspark.sql import SparkSession

# The names by which other rooms speak of what they pass on. `Spark` gives the session.
Session: TypeAlias = "SparkSession"
Spark: TypeAlias = "Callable[[], SparkSession]"

# Options for the driver's Java. If two contradict each other, it takes the last.
_FIRST_OPTIONS, _LAST_OPTIONS = "spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions"
_DAEMON = "spark_core.spark.spark_daemon"
# Java's second compiler costs as much as it gains up to joins of 20 million objects
# (docs/performance.md).
_ONE_COMPILER = "-XX:TieredStopAtLevel=1"
# On few cores the concurrent collectors gain nothing and take 150 MB more (docs/performance.md).
# Java does not start with two collectors chosen, so another choice, also in the environment, stands
# alone.
_ONE_COLLECTOR, _FEW_CORES = "-XX:+UseSerialGC", 4
_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")
_JAVAS_OWN = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")


def master_of(spark: SparkSession) -> str:
    """Return the master of a session; of one on a server elsewhere, whatever it has, its name."""
    return connect.NAME if connect.is_remote(spark) else spark.sparkContext.master or ""


def runs_here(spark: SparkSession) -> bool:
    """Say whether all tasks of a session run on the driver's machine; see `is_local`."""
    return is_local(master_of(spark))


def speculates(spark: SparkSession) -> bool:
    """Say whether Spark may run a slow task a second time beside the first, or does not tell."""
    from pyspark.errors import PySparkException

    try:
        chosen = spark.conf.get("spark.speculation", "false")
    except PySparkException:
        return True
    return str(chosen).strip().lower() != "false"


def may_be_at_work(spark: SparkSession, *, was_retried: bool) -> bool:
    """Say whether a task that Spark gave up may still be at work on an unreachable executor.

    Args:
        spark: The session that ran the tasks.
        was_retried: Some attempt is known to have come before another one. Of two copies of a slow
            task, only the one that ended first reports. So where Spark makes such copies nothing
            more need be known. Nor where Spark ran a stage again: the attempts of its tasks are
            counted anew then.
    """
    if runs_here(spark):
        return False
    if connect.is_remote(spark):
        # A server does not tell whether it ran a stage again.
        return True
    return was_retried or speculates(spark) or _ran_anything_again(spark)


def _ran_anything_again(spark: SparkSession) -> bool:
    """Say whether any stage of the session that Spark remembers failed in part or ran again."""
    context = spark.sparkContext
    tracker = context.statusTracker()
    # A notebook puts the jobs of a cell into a group, and Spark then tells of that group alone.
    groups = {None, context.getLocalProperty("spark.jobGroup.id")}
    ids = (job for group in groups for job in tracker.getJobIdsForGroup(group))
    jobs = (tracker.getJobInfo(job) for job in ids)
    stages = (tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds)
    return any(stage.currentAttemptId or stage.numFailedTasks for stage in stages if stage)


def spark_config(
    *,
    master: str | None = "local[*]",
    extra: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the Spark properties of a lakegc session.

    Args:
        master: Spark master; on a laptop the driver does all the work. None if `spark-submit` or
            another starter of this process has chosen it.
        extra: The operator's own properties; they win.

    Returns:
        Property name -> value, ready for a session builder.
    """
    properties = dict(extra or {})
    # Executors must run an interpreter that has the libraries. Spark takes it only from the
    # environment.
    os.environ.setdefault("PYSPARK_PYTHON", properties.get("spark.pyspark.python", sys.executable))
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    config = {
        "spark.app.name": "lakegc",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Rows of Arrow batches on their way to Python: enough to amortise, few enough for memory.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
        "spark.python.worker.reuse": "true",
        # Rows are few and long here. By default a task would open a file for each bucket.
        "spark.shuffle.sort.bypassMergeThreshold": "1",
        # A second copy of a slow task would delete, or write a part, beside the first one.
        "spark.speculation": "false",
        # Otherwise each named column costs some calls to Java, which note the line of Python for
        # Spark's own messages.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
    }
    if master is not None:
        config["spark.master"] = master
    if master is not None and master.startswith("local"):
        config |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    if master is not None and is_local(master):
        config |= {
            "spark.driver.memory": "2g",
            # Each sort and join begins with its own page. The default is 32 MiB, which few rows do
            # not fill.
            "spark.buffer.pageSize": "4m",
            # Java and Python talk through files of the system and not through the network, where
            # Spark is of version 4.1 or newer.
            "spark.python.unix.domain.socket.enabled": "true",
        }
        if GATEWAY not in os.environ:
            config[_FIRST_OPTIONS] = _java_options(properties)
            if os.environ["PYSPARK_PYTHON"] == sys.executable:
                config["spark.python.daemon.module"] = _DAEMON
            properties.pop(_FIRST_OPTIONS, None)
    return config | properties


def _java_options(properties: Mapping[str, str]) -> str:
    """Return options for the driver's Java that make it small on this machine.

    Args:
        properties: The operator's own; their options for Java come after ours.
    """
    first, last = (
        properties.get(name, _in_spark_defaults(name)) for name in (_FIRST_OPTIONS, _LAST_OPTIONS)
    )
    is_chosen = any(
        _COLLECTOR.search(flags)
        for flags in (first, last, *(os.environ.get(name, "") for name in _JAVAS_OWN))
    )
    collector = "" if is_chosen or (os.cpu_count() or 1) > _FEW_CORES else _ONE_COLLECTOR
    return " ".join(filter(None, (_ONE_COMPILER, collector, first)))


def _in_spark_defaults(name: str) -> str:
    """Return a property of the file of Spark defaults; empty if it has none.

    Spark itself takes properties from there if a session names none.
    """
    import pyspark

    home = os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
    directory = os.environ.get("SPARK_CONF_DIR") or Path(home, "conf")
    try:
        lines = Path(directory, "spark-defaults.conf").read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return ""
    found = [line.strip()[len(name) :] for line in lines if line.strip().startswith(name)]
    return found[-1].lstrip(" \t=:") if found else ""


def start_session(properties: Mapping[str, str]) -> SparkSession:
    """Return the session of this process, started with these properties if there is none.

    Args:
        properties: The result of `spark_config`.

    Raises:
        SettingsError: If there is no Java, or no Spark Connect where a server was chosen; or if it
            does not start here, with what of this machine keeps it from that.
        LakegcError: If Java says why it does not, and nothing of this machine does.
    """
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for name, value in properties.items():
        builder = builder.config(name, value)
    if (server := connect.chosen_remote()) is not None:
        connect.require_connect(server)
        return builder.getOrCreate()
    launch_java(properties)
    with telling_of_a_start(properties):
        return builder.getOrCreate()


def is_started() -> bool:
    """Say whether this thread has a session already."""
    # Another thread may be importing Spark at this moment.
    session = getattr(sys.modules.get("pyspark.sql"), "SparkSession", None)
    return session is not None and session.getActiveSession() is not None
