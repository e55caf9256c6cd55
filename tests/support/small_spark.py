"""The session that tests share, and its Spark properties."""

from typing import Any

from py4j.java_gateway import JavaClass, JavaMember, JVMView
from pyspark.sql import SparkSession as Session

from spark_core.spark.session import spark_config, start_session

# On a few rows, compiling a query and starting a task cost more than what is computed. Runs of the
# command line in processes of their own have the product's settings.
SMALL_SPARK = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Each aggregate, sort and join begins with a page of its own, which one row does not fill: with
    # Spark's 32 MiB a sixth of Java's time went to collecting them.
    "spark.buffer.pageSize": "1m",
    # The room for compiled code is that of a process that lives for minutes; Java that is full of
    # it compiles again and again.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -Xmn200m -XX:ReservedCodeCacheSize=160m",
}
# Of the executors of a cluster on this machine, which the product leaves to the operator.
SHORT_LIVED_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def remember_java_names():
    """Let py4j ask Java once what a name is: a mark names the same functions some 300 times."""
    for asked in (JVMView, JavaClass):
        look_up = asked.__getattr__

        def remembered(self, name, look_up=look_up):
            found = look_up(self, name)
            if isinstance(found, JavaClass | JavaMember):
                self.__dict__[name] = found
            return found

        asked.__getattr__ = remembered


class SessionOnDemand:
    """A session that starts when it is first asked for anything.

    To start Java takes ten seconds of a processor, in each process anew.
    """

    def __init__(self) -> None:
        self._session: Session | None = None

    def start(self) -> Session:
        """Return the session, started if it is not."""
        if self._session is None:
            remember_java_names()
            self._session = start_session(spark_config(master="local[2]", extra=SMALL_SPARK))
        return self._session

    def end(self) -> None:
        """Stop the session, if it ever started."""
        if self._session is not None:
            self._session.stop()
            self._session = None

    def __getattr__(self, name: str) -> Any:
        # Hypothesis asks whatever a state machine has whether it is a rule.
        if not hasattr(Session, name) and (name.startswith("__") or not name.startswith("_")):
            raise AttributeError(name)
        return getattr(self.start(), name)


SESSION = SessionOnDemand()
