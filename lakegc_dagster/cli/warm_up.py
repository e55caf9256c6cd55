"""The warm-up: the loops are compiled, and one small collection archives Spark's classes."""

from __future__ import annotations

import json
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from lakegc_dagster.demo import sandbox as demo_sandbox
from lakegc_dagster.demo.sandbox import REPOSITORY_ID
from lakegc_dagster.launch.run_job import launch
from lakegc_dagster.sandbox.history import documents_history
from lakegc_dagster.stored_runs import load_report
from lakegc_dagster.terminal import java_process
from spark_core import graveler
from spark_core.addresses import address_hashes
from spark_core.errors import LakegcError, SettingsError
from spark_core.kept_code import objection
from spark_core.mark import compared
from spark_core.model import RunKey
from spark_core.references.policies import canonical_names
from spark_core.settings import load_settings
from spark_core.spark.class_archive import class_archive
from spark_core.spark.java import check_java

# Java writes some 100 MB while it ends.
_END_SECONDS = 300


def run_warm_up(shown: Console, *, again: bool = False) -> int:
    """Make what later runs find ready, unless it is there.

    Args:
        shown: Where to say what was done.
        again: Make the archive anew although it is there.

    Returns:
        0.

    Raises:
        SettingsError: If there is no Java, or no place of the user's own for the archive.
        LakegcError: If the collection failed.
    """
    compile_loops()
    shown.print("ready    compiled loops", markup=False)
    version = check_java()
    archive = class_archive()
    if archive is None:
        raise SettingsError(
            "there is no place for an archive of Spark's classes: this user has no home, or its "
            "path has more than plain letters in it",
            "Name a directory in XDG_CACHE_HOME. Spark starts without an archive, too; it only "
            "takes longer.",
        )
    found = archive.path
    if found is not None and not objection(found) and not again:
        shown.print(f"ready    {found}", markup=False, soft_wrap=True)
        return 0
    shown.print(
        f"A small repository is collected, so that Java writes down what Spark needs ({version})",
        markup=False,
    )
    with archive.making() as options:
        _collect(options)
    shown.print(f"ready    {archive.path}", markup=False, soft_wrap=True)
    return 0


def compile_loops() -> None:
    """Compile every loop of the engine, or load what was kept of it.

    Compiling takes some fifteen seconds. A collection may not come to all loops, and where the
    archive is there already, none runs.
    """
    graveler.warm_up()
    address_hashes.warm_up()
    compared.combine_references(compared.REFERENCES.empty_table())
    canonical_names.warm_up()


def _collect(options: str) -> None:
    """Collect a small repository in a Java process of its own, which ends afterwards.

    Args:
        options: Of that process.

    Raises:
        LakegcError: If the collection failed, or Java did not end well.
    """
    with tempfile.TemporaryDirectory(prefix="lakegc-warm-up-") as parent:
        try:
            _mark_and_sweep(Path(parent, "sandbox"), options)
            code = java_process.end(seconds=_END_SECONDS)
        except BaseException:
            # At this point Java would write only half of the archive.
            java_process.kill()
            raise
    if code != 0:
        raise LakegcError(
            f"Java ended with code {code} while it wrote the archive of Spark's classes"
        )


def _mark_and_sweep(directory: Path, options: str) -> None:
    env = {"LAKEGC__SPARK__CONFIG": json.dumps({"spark.driver.extraJavaOptions": options})}
    with demo_sandbox.fresh(directory) as sandbox:
        key = RunKey.at(datetime.now(UTC))
        documents_history(sandbox, REPOSITORY_ID, now=key.instant)
        settings = load_settings(demo_sandbox.settings_file(directory), env)
        java_process.start_quietly(settings)
        result = launch(settings, "mark_and_sweep", REPOSITORY_ID, key)
        if not result.success:
            raise result.failure("the small collection failed")
        load_report(settings, REPOSITORY_ID, key)
