"""The one Spark session of the process, as a resource."""

from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock

from dagster_pyspark import LazyPySparkResource
from pydantic import PrivateAttr

from lakegc_dagster.terminal.java_process import start_logged
from lakegc_dagster.terminal.spark_output import OUTPUT
from spark_core.spark.cluster import prepare_cluster
from spark_core.spark.connect import chosen_remote, require_connect
from spark_core.spark.java import check_java
from spark_core.spark.session import Session, is_started, start_session

_STARTING = Lock()


class SparkResource(LazyPySparkResource):
    """The one Spark session of the process; a run without much to read starts none.

    Attributes:
        ship_package: Send lakegc's own code to the executors of a cluster.
    """

    ship_package: bool = True

    _starting: Future[Session] | None = PrivateAttr(default=None)

    def start_ahead(self) -> None:
        """Begin to start the session, so that Spark starts while other things are asked."""
        if self._starting is None:
            executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="lakegc-spark")
            self._starting = executor.submit(self._start)
            executor.shutdown(wait=False)

    @property
    def spark_session(self) -> Session:
        """The session, waited for if need be.

        Raises:
            SettingsError: If there is no Java that Spark can run on, or no Spark Connect where the
                settings name a server.
        """
        return self._start() if self._starting is None else self._starting.result()

    def _start(self) -> Session:
        # Runs side by side in one process ask for the same one.
        with _STARTING:
            return self._started()

    def _started(self) -> Session:
        address = chosen_remote()
        if address is not None:
            require_connect(address)
        elif not is_started():
            check_java()
            if OUTPUT.kept_in is not None:
                start_logged(self.spark_config, OUTPUT.kept_in)
        # Spark itself keeps one session per process, whoever asks first.
        session = start_session(self.spark_config)
        prepare_cluster(session, ship_package=self.ship_package)
        return session
