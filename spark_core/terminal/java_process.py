"""The Java process of Spark, started so that its output goes to a file, not over the progress."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from spark_core.settings.environment import require_spark
from spark_core.spark.java import launch_java, running_java, stop_context
from spark_core.terminal.spark_output import OUTPUT

if TYPE_CHECKING:
    from spark_core.settings import Settings

LOG_NAME = "spark.log"
# The lines of commands that only look, which may run beside a nightly run.
LOOKING_LOG_NAME = "spark-looking.log"


def start_quietly(settings: Settings, log_name: str = LOG_NAME) -> Path:
    """Start Java for this process, unless it runs already.

    The session itself is made later, by the first run; it finds this process.

    Args:
        settings: Spark's master and properties, and Dagster's home, where the log goes.
        log_name: The log's name there.

    Returns:
        The log.

    Raises:
        SettingsError: If there is no Java that Spark can run on, or it does not start; or no Spark
            Connect where the settings name a server.
    """
    log = settings.dagster_home / log_name
    properties = settings.spark_config()
    require_spark(settings)
    if settings.spark_remote is None:
        start_logged(properties, log)
    return OUTPUT.log or log


def start_logged(properties: Mapping[str, str], log: Path) -> None:
    """Start Java with Spark's properties, its lines in a file, unless it runs already.

    Raises:
        SettingsError: If it does not start.
    """
    if running_java() is not None:
        return
    words = OUTPUT.opened(log)
    try:
        launch_java(properties, words, log)
    finally:
        os.close(words)


def end(*, seconds: float) -> int | None:
    """End the Java process of this Python process, and with it Spark's session, and wait for it.

    Args:
        seconds: How long it may take; then it is killed.

    Returns:
        Its exit code; None if there was no process, or it had to be killed.
    """
    gateway = running_java()
    if gateway is None or gateway.proc is None:
        return None
    stop_context()
    # Java ends when nobody can write to it any more, and stops what runs in it.
    gateway.proc.stdin.close()
    try:
        return int(gateway.proc.wait(seconds))
    except subprocess.TimeoutExpired:
        kill()
        return None


def kill() -> None:
    """Kill the Java process of this Python process at once, whatever it is doing."""
    gateway = running_java()
    if gateway is not None and gateway.proc is not None:
        gateway.proc.kill()
        gateway.proc.wait()
