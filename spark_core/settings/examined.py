"""What the doctor finds of a repository, by the settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from spark_core.doctor import (
    Examination,
    ExaminedNamespace,
    Finding,
    examine,
    examine_namespace,
    found_by,
)
from spark_core.errors import SettingsError
from spark_core.run import Storage
from spark_core.settings import Settings
from spark_core.settings.environment import storages_of
from spark_core.spark.connect import choose_remote

if TYPE_CHECKING:
    from spark_core.spark.session import Session

# What the findings of the settings themselves are about.
SETTINGS = "settings"


def examined(
    settings: Settings, repository_id: str, spark: Callable[[], Session] | None = None
) -> Iterator[Finding]:
    """Yield what the doctor finds, beginning with the settings of the repository.

    Args:
        settings: The settings.
        repository_id: Repository name.
        spark: Starts Spark, to be tried too; None to leave it alone.
    """
    try:
        options = settings.run_options(repository_id)
    except SettingsError as wrong:
        found = found_by(wrong)
        yield Finding(
            SETTINGS, "repository", passed=False, found=found.text, next_step=found.next_step
        )
        return
    mode = "sweep" if options.may_sweep else "mark"
    where = str(settings.file or "the environment")
    words = f"{where}: {repository_id}, mode {mode}"
    yield Finding(SETTINGS, "repository", passed=True, found=words)
    # Whether there is a Java here matters by what they say of Spark.
    choose_remote(settings.spark_remote)
    store_options = settings.store_options()
    yield from examine(
        Examination(
            repository_id,
            settings.server_options,
            Storage(store_options, settings.storage.server_path),
            options,
            storages=storages_of(settings, store_options),
            spark=spark,
        )
    )


def examined_namespace(settings: Settings, uri: str) -> Iterator[Finding]:
    """Yield what the doctor finds of a storage namespace by itself.

    Args:
        settings: The settings; they say how the server and the store are reached.
        uri: The namespace as lakeFS writes it.
    """
    storage = Storage(settings.store_options(), settings.storage.server_path)
    yield from examine_namespace(ExaminedNamespace(uri, settings.server_options, storage))
