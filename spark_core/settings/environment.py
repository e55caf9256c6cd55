"""The outside world of a run as the settings have it: server, stores, Spark and time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from spark_core.clocks import Clock
from spark_core.run import Environment, Storage
from spark_core.settings import Settings
from spark_core.spark.placement import choose_executors
from spark_core.storage import StoreOptions

if TYPE_CHECKING:
    from spark_core.lakefs import LakeFSServer
    from spark_core.spark.session import Session


def environment_of(
    settings: Settings,
    server: LakeFSServer,
    store_options: StoreOptions,
    spark: Callable[[], Session],
    clock: Clock,
    *,
    start_spark: Callable[[], None] = lambda: None,
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
    """
    choose_executors(settings.are_executors_chosen)
    return Environment(
        server=server,
        store_options=store_options,
        spark=spark,
        clock=clock,
        start_spark=start_spark,
        server_path=settings.storage.server_path,
        storages={
            storage_id: Storage(
                replace(store_options, **settings.own_store_options(storage_id)),
                settings.storage_of(storage_id).server_path,
            )
            for storage_id in settings.storages
        },
    )
