"""The one Spark session of the process, ready for a run's work, and started ahead if need be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock

from spark_core.spark.session import Session, start_session


def prepared_session(properties: Mapping[str, str], *, ship_package: bool) -> Session:
    """Return the session of this process, started if there is none; executors have our code.

    Args:
        properties: The result of `spark_config`.
        ship_package: Send lakegc's own code to the executors of a cluster.

    Raises:
        SettingsError: As `start_session` raises it.
    """
    from spark_core.spark.cluster import prepare_cluster

    # Spark itself keeps one session per process, whoever asks first.
    session = start_session(properties)
    prepare_cluster(session, ship_package=ship_package)
    return session


class OneSession:
    """Gives the session; the first call starts it, or `start_ahead` did.

    Args:
        start: Starts the session, or returns the one that there is.
    """

    _STARTING = Lock()

    def __init__(self, start: Callable[[], Session]) -> None:
        self._start = start
        self._ahead: Future[Session] | None = None

    def __call__(self) -> Session:
        """Return the session, waited for if need be."""
        return self._started() if self._ahead is None else self._ahead.result()

    def start_ahead(self) -> None:
        """Begin to start the session, so that Spark starts while other things are asked."""
        if self._ahead is None:
            executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="lakegc-spark")
            self._ahead = executor.submit(self._started)
            executor.shutdown(wait=False)

    def _started(self) -> Session:
        # Runs side by side in one process ask for the same one.
        with self._STARTING:
            return self._start()
