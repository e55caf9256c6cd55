"""Whether the Spark that is installed still has what lakegc uses behind its public interface."""

from __future__ import annotations

import inspect

import pyspark
import pytest
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from spark_core.spark import private_doors

CLOSED = (
    f"PySpark {pyspark.__version__} has no {{}} any more: find another way in "
    "spark_core/spark/private_doors.py"
)


@pytest.mark.parametrize("name", ["_gateway", "_jvm", "_ensure_initialized"])
def test_a_context_still_knows_its_java_before_there_is_one(name):
    assert hasattr(SparkContext, name), CLOSED.format(f"SparkContext.{name}")


def test_a_session_class_still_knows_the_session_before_there_is_one():
    assert hasattr(SparkSession, "_instantiatedSession"), CLOSED.format(
        "SparkSession._instantiatedSession"
    )


def test_java_is_still_started_with_a_gateway_and_a_configuration():
    taken = inspect.signature(SparkContext._ensure_initialized).parameters
    assert {"gateway", "conf"} <= taken.keys(), CLOSED.format(
        "SparkContext._ensure_initialized(gateway, conf)"
    )


def test_spark_still_says_where_its_scripts_and_jars_are():
    home = private_doors.spark_home()
    assert (home / "jars").is_dir(), CLOSED.format(
        f"jars in the folder that it names as its own, {home}"
    )


def test_sparks_daemon_still_has_the_loop_that_ours_ends_in():
    from pyspark import daemon

    assert callable(getattr(daemon, "manager", None)), CLOSED.format("pyspark.daemon.manager")


@pytest.mark.spark
def test_hadoops_configuration_is_read_as_spark_makes_it(spark):
    assert private_doors.running_java() is not None, CLOSED.format(
        "SparkContext._gateway that tells of a running Java"
    )
    found = private_doors.hadoop_configuration(SparkConf().set("spark.hadoop.lakegc.door", "open"))
    assert found.get("lakegc.door") == "open", CLOSED.format("SparkHadoopUtil.newConfiguration")


@pytest.mark.spark
def test_the_session_of_the_process_is_found(spark):
    assert private_doors.started_session() is spark, CLOSED.format(
        "SparkSession._instantiatedSession that is the session of the process"
    )
