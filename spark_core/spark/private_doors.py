"""Uses of Spark's private interface: Spark's Python side shows little of its Java side.

An upgrade may break any of these: `tests/spark_core/spark/test_private_doors.py` says which.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from py4j.java_gateway import java_import
from pyspark import SparkConf, SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession


def spark_home() -> Path:
    """Return the folder of the Spark whose scripts would be started."""
    return Path(_find_spark_home())


def name_classes(session: SparkSession, names: Iterable[str]) -> None:
    """Tell Java the packages of classes, so that it need not look for them in each jar."""
    for name in names:
        java_import(session._jvm, name)  # noqa: SLF001 - see the module


def started_session() -> SparkSession | None:
    """Return the session of this Python process, from any thread; None if none was started."""
    return SparkSession._instantiatedSession  # noqa: SLF001 - see the module


def running_java() -> Any:
    """Return py4j's way to the Java process of this Python process; None if none was started."""
    return SparkContext._gateway  # noqa: SLF001 - see the module


def start_java(gateway: Any = None, conf: SparkConf | None = None) -> None:
    """Start the Java process of this Python process, or take a started one; no session is made."""
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)  # noqa: SLF001 - see the module


def hadoop_configuration(conf: SparkConf) -> Any:
    """Return Hadoop's configuration, a Java object, as Spark would make it; Java must run."""
    jvm: Any = SparkContext._jvm  # noqa: SLF001 - see the module
    return jvm.org.apache.spark.deploy.SparkHadoopUtil.get().newConfiguration(
        conf._jconf  # noqa: SLF001 - see the module
    )
