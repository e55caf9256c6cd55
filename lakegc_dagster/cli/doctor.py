"""`lakegc doctor`: everything that a run needs, looked at before the run."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lakegc_dagster.cli.common import FAILED, WRONG_SETTINGS, command_body, read_settings
from spark_core.errors import SettingsError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.console import Console

    from lakegc_dagster.resources import SparkResource
    from lakegc_dagster.settings import Settings
    from spark_core.doctor import Probe

_SIGNS = {True: "✓", False: "✗", None: "–"}  # noqa: RUF001 - a dash, as in any table
_SETTINGS = "settings"


@click.command()
@click.argument("repositories", metavar="[REPOSITORY]...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print the probes as JSON, for programs.")
@click.option("--spark", is_flag=True, help="Also start Spark as the settings say, and let its executors run lakegc.")
@command_body
def doctor(config: Path | None, repositories: Sequence[str], *, as_json: bool, spark: bool) -> int:
    """Look at everything that a run needs, and say what to do where it is not in order.

    Without names: every repository of the settings. Server, keys, permissions,
    the repository's state and rules, the store's credentials and permissions,
    clocks and Java are looked at; one failure keeps nothing else from being
    looked at. Nothing of the repository is changed: objects are written and
    deleted under _lakefs/retention/gc/probe/ only, and whether objects may be
    deleted is asked with a name that nobody has.

    The exit code is 0 when nothing failed, 1 when something did, 2 when the
    settings are wrong.

    \b
    Examples:
      lakegc doctor
      lakegc doctor my-repo
      lakegc doctor my-repo --spark
      lakegc doctor my-repo --json
    """  # noqa: D301 - the backslash is click's mark for "leave these lines as they are"
    from lakegc_dagster import console

    shown = console.console()
    with ExitStack() as stack:
        settings = read_settings(config, stack)
        chosen = repositories or settings.repository_ids
        if not chosen:
            raise SettingsError(
                f"{settings.file or 'the settings'}: no repository is named, on the command line or in the settings",
                "Add a table like [repositories.my-repo].",
            )
        examined = {}
        for repository_id in chosen:
            examined[repository_id] = _look(settings, repository_id, None if as_json else shown, spark=spark)
            if not as_json:
                _show(shown, repository_id, examined[repository_id])
    if as_json:
        document = {name: [asdict(probe) for probe in probes] for name, probes in examined.items()}
        sys.stdout.write(json.dumps(document, indent=1) + "\n")
    return max(_code(probes) for probes in examined.values())


def _look(settings: Settings, repository_id: str, shown: Console | None, *, spark: bool) -> list[Probe]:
    """Ask everything, and show on a terminal how far that is."""
    if shown is None or not shown.is_terminal:
        return list(_probes(settings, repository_id, spark=spark))
    found = []
    with shown.status(f"looking at {repository_id}") as status:
        for probe in _probes(settings, repository_id, spark=spark):
            found.append(probe)
            status.update(f"looking at {repository_id}: behind {probe.about}, {probe.name}")
    return found


def _session(settings: Settings) -> SparkSession:
    from lakegc_dagster.jvm import start_quietly
    from lakegc_dagster.resources import Wiring, build_resources

    start_quietly(settings)
    resource: SparkResource = build_resources(Wiring(settings))["spark"]
    return resource.spark_session


def _probes(settings: Settings, repository_id: str, *, spark: bool) -> Iterator[Probe]:
    from spark_core.doctor import Patient, Probe, examine, told
    from spark_core.run import Storage

    try:
        options = settings.run_options(repository_id)
    except SettingsError as wrong:
        found = told(wrong)
        yield Probe(_SETTINGS, "repository", passed=False, found=found.text, next_step=found.next_step)
        return
    mode = "sweep" if options.may_sweep else "mark"
    where = str(settings.file or "the environment")
    yield Probe(_SETTINGS, "repository", passed=True, found=f"{where}: {repository_id}, mode {mode}")
    store_options = settings.store_options()
    storages = {
        storage_id: Storage(
            replace(store_options, **settings.own_store_options(storage_id)),
            settings.storage_of(storage_id).server_path,
        )
        for storage_id in settings.storages
    }
    usual = Storage(store_options, settings.storage.server_path)
    yield from examine(
        Patient(
            repository_id,
            settings.server_options,
            usual,
            options,
            storages=storages,
            spark=partial(_session, settings) if spark else None,
        )
    )


def _show(shown: Console, repository_id: str, probes: Sequence[Probe]) -> None:
    from lakegc_dagster import console

    failed, unknown = (sum(probe.passed is value for probe in probes) for value in (False, None))
    rows = [(_SIGNS[probe.passed], f"{probe.about}: {probe.name}", probe.found, probe.next_step) for probe in probes]
    shown.print(console.table(repository_id, ("", "looked at", "found", "next step"), rows))
    words = (
        "nothing failed" if not failed else f"{failed} failed: mend the first one first, later ones may follow from it"
    )
    told = f"; {unknown} could not be told" if unknown else ""
    shown.print(f"\n{repository_id}: {len(probes)} looked at, {words}{told}\n", markup=False, soft_wrap=True)


def _code(probes: Sequence[Probe]) -> int:
    if any(probe.about == _SETTINGS and probe.passed is False for probe in probes):
        return WRONG_SETTINGS
    return FAILED if any(probe.passed is False for probe in probes) else 0
