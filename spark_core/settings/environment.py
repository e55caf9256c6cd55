"""The outside world of a run as the settings have it: server, stores, Spark and time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from spark_core.clocks import Clock, SystemClock
from spark_core.run import Environment, Storage
from spark_core.settings import Settings
from spark_core.spark.placement import choose_executors
from spark_core.storage import StoreOptions

if TYPE_CHECKING:
    from spark_core.lakefs import LakeFSServer
    from spark_core.lakefs.transport import OnAway
    from spark_core.spark.session import Session


def require_spark(settings: Settings) -> None:
    """Refuse to begin without what a session needs here: Java, or the libraries of Spark Connect.

    Raises:
        SettingsError: Names what is missing.
    """
    from spark_core.spark.connect import require_connect
    from spark_core.spark.java import check_java

    if settings.spark_remote is None:
        check_java()
    else:
        require_connect(settings.spark_remote)


def session_of(settings: Settings, properties: Mapping[str, str] | None = None) -> Session:
    """Return the session of this process, started by the settings if there is none.

    Executors get the engine's own code, where the settings say so.

    Args:
        settings: The settings.
        properties: Spark's properties over those of the settings.
    """
    from spark_core.spark.connect import choose_remote
    from spark_core.spark.one_session import prepared_session

    choose_remote(settings.spark_remote)
    asked = {**settings.spark_config(), **(properties or {})}
    return prepared_session(asked, ship_package=settings.spark.ship_package)


def open_environment(
    settings: Settings,
    spark: Callable[[], Session] | None = None,
    *,
    clock: Clock | None = None,
    on_away: OnAway | None = None,
    origin: str = "Python",
) -> Environment:
    """Open server and stores by the settings alone; no request is sent.

    Args:
        settings: The settings.
        spark: Gives the session; that of the settings when None.
        clock: Tells the time; the machine's when None.
        on_away: As for `LakeFSServer`.
        origin: As for `Environment`.

    Raises:
        SettingsError: If there are no keys for the server.
    """
    from spark_core.lakefs import LakeFSServer
    from spark_core.spark.one_session import OneSession

    clock, session = clock or SystemClock(), OneSession(partial(session_of, settings))
    server = LakeFSServer(settings.server_options(), clock=clock, on_away=on_away)
    return environment_of(
        settings,
        server,
        settings.store_options(),
        spark or session,
        clock,
        start_spark=session.start_ahead if spark is None else lambda: None,
        origin=origin,
    )


def environment_of(
    settings: Settings,
    server: LakeFSServer,
    store_options: StoreOptions,
    spark: Callable[[], Session],
    clock: Clock,
    *,
    start_spark: Callable[[], None] = lambda: None,
    origin: str = "Python",
) -> Environment:
    """Put server, stores, Spark and time together; no request is sent.

    From then on the settings say for this process whether executors do all work.

    Args:
        settings: Those of `[storage]`, and of each of a server's several storages.
        server: The server.
        store_options: How stores are reached that the settings say nothing else of.
        spark: Gives the session.
        clock: Tells the time.
        start_spark: Begins to start the session in the background.
        origin: As for `Environment`.
    """
    choose_executors(settings.are_executors_chosen)
    return Environment(
        server=server,
        store_options=store_options,
        spark=spark,
        clock=clock,
        start_spark=start_spark,
        origin=origin,
        server_path=settings.storage.server_path,
        storages=storages_of(settings, store_options),
        pages_url=settings.report.base_url,
        signed_links_live=timedelta(hours=settings.report.signed_link_hours),
    )


def storages_of(settings: Settings, store_options: StoreOptions) -> dict[str, Storage]:
    """Return the several storages of a server by their ids, each over the options of all."""
    return {
        storage_id: Storage(
            replace(store_options, **settings.own_store_options(storage_id)),
            settings.storage_of(storage_id).server_path,
        )
        for storage_id in settings.storages
    }
