"""Spark properties of the sessions that tests share."""

# On a few rows, compiling a query and starting a task cost more than what is computed. Runs of the command line in
# processes of their own have the product's settings.
SMALL_SPARK = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
}
# Of the executors of a cluster on this machine, which the product leaves to the operator.
SHORT_LIVED_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
