"""Spark properties of the sessions that tests share."""

from pathlib import Path

from tests.support import spark_daemon

# A session ends before the optimizing compiler's work has paid: the first run costs a third of the processor time so.
SHORT_LIVED_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# On a few rows, compiling a query and starting a task cost more than what is computed. Runs of the command line in
# processes of their own have the product's settings.
SMALL_SPARK = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": SHORT_LIVED_JAVA,
}
# Python finds the module from the project's folder alone.
if Path.cwd() == Path(__file__).resolve().parents[2]:
    SMALL_SPARK["spark.python.daemon.module"] = spark_daemon.__name__
