"""Spark properties of the sessions that tests share."""

# On a few rows, compiling a query and starting a task cost more than what is computed. Runs in processes of their own,
# such as those of the cluster and the command line, have the product's settings.
SMALL_SPARK = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # The session ends before the optimizing compiler's work has paid: the first run costs a third of the processor time so.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
