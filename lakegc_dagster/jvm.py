"""The Java process that Spark runs in, started so that its words go to a file instead of over the progress on screen."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_core.errors import SettingsError
from spark_core.spark.session import check_java

if TYPE_CHECKING:
    from lakegc_dagster.settings import Settings

LOG_NAME = "spark.log"
_LAST_LINES = 5


def start_quietly(settings: Settings) -> Path:
    """Start Java for this process, unless it runs already.

    The session itself is made later, by the first run; it finds this process.

    Args:
        settings: Spark's master and properties, and Dagster's home, where the log goes.

    Returns:
        The log.

    Raises:
        SettingsError: If there is no Java that Spark can run on, or it does not start.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    check_java()
    log = settings.dagster_home / LOG_NAME
    if SparkContext._gateway is not None:  # noqa: SLF001 - Spark has no public way to ask
        return log
    log.parent.mkdir(parents=True, exist_ok=True)
    conf = SparkConf(loadDefaults=False)
    for name, value in settings.spark_config().items():
        conf.set(name, value)
    launch: Callable[[SparkConf, dict[str, Any]], Any] = launch_gateway
    with log.open("wb") as words:
        try:
            gateway = launch(conf, {"stdout": words, "stderr": words})
        except PySparkRuntimeError as failure:
            said = " | ".join(log.read_text(errors="replace").strip().splitlines()[-_LAST_LINES:])
            raise SettingsError(
                f"Spark's Java process ended before it served ({said or failure})",
                f"The whole of what it said is in {log}; mend [spark] in the settings, or the Java installation.",
            ) from failure
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)  # noqa: SLF001 - as above; a context would start the session
    return log


def end(*, seconds: float) -> int | None:
    """End the Java process of this Python process, with Spark's session, and wait for it.

    Args:
        seconds: How long it may take; then it is killed.

    Returns:
        Its exit code; None when there was none, or it had to be killed.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    session, gateway = SparkSession.getActiveSession(), SparkContext._gateway  # noqa: SLF001 - as above
    if gateway is None or gateway.proc is None:
        return None
    if session is not None:
        session.stop()
    # It ends when nobody can write to it any more.
    gateway.proc.stdin.close()
    try:
        return int(gateway.proc.wait(seconds))
    except subprocess.TimeoutExpired:
        kill()
        return None


def kill() -> None:
    """End the Java process of this Python process at once, whatever it does."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway  # noqa: SLF001 - as above
    if gateway is not None and gateway.proc is not None:
        gateway.proc.kill()
        gateway.proc.wait()
