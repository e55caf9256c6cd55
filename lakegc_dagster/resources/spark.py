"""The one Spark session of the process, as a resource."""

from dagster_pyspark import LazyPySparkResource
from pydantic import PrivateAttr

from spark_core.spark.one_session import OneSession, prepared_session
from spark_core.spark.session import Session


class SparkResource(LazyPySparkResource):
    """The one Spark session of the process; a run without much to read starts none.

    Attributes:
        ship_package: Send lakegc's own code to the executors of a cluster.
    """

    ship_package: bool = True

    _session: OneSession | None = PrivateAttr(default=None)

    def start_ahead(self) -> None:
        """Begin to start the session, so that Spark starts while other things are asked."""
        self._one_session().start_ahead()

    @property
    def spark_session(self) -> Session:
        """The session, waited for if need be.

        Raises:
            SettingsError: As `prepared_session` raises it.
        """
        return self._one_session()()

    def _one_session(self) -> OneSession:
        if self._session is None:
            self._session = OneSession(
                lambda: prepared_session(self.spark_config, ship_package=self.ship_package)
            )
        return self._session
