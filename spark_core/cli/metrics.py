"""`lakegc metrics`: the collector's metrics for Prometheus."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spark_core.cli.common import command_body, read_settings
from spark_core.errors import LakegcError

if TYPE_CHECKING:
    from spark_core.settings import Settings


@click.command()
@click.option(
    "--file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write them to this file in one step, instead of where [metrics] says.",
)
@click.option("--show", is_flag=True, help="Print them, whatever [metrics] says.")
@command_body
def metrics(config: Path | None, file: Path | None, *, show: bool) -> int:
    """Write the metrics of every repository of the settings, in OpenMetrics text.

    They go to `[metrics] file` (in node exporter's folder) and `[metrics] push_gateway`; without
    either they are printed. They are read from the runs in the store; Spark does not start. Each
    command that runs also writes them at its end.

    \b
    Examples:
      lakegc metrics --show
      lakegc metrics
      lakegc metrics --file /var/lib/node_exporter/lakegc.prom
    """  # noqa: D301 - the backslash is click's mark for "leave these lines as they are"
    from spark_core.metrics.gauges import metrics_text, publish, write_metrics
    from spark_core.stored_runs.overview import overview
    from spark_core.terminal import console

    shown, now = console.console(), datetime.now(UTC)
    with ExitStack() as stack:
        settings = read_settings(config, stack)
        pasts = list(overview(settings))
        if file is not None:
            write_metrics(file, metrics_text(pasts, now))
            went = [str(file)]
        else:
            went = [] if show else list(publish(settings, pasts, now))
    if not went:
        sys.stdout.write(metrics_text(pasts, now))
    for place in went:
        shown.print(f"metrics  {place}", markup=False, soft_wrap=True)
    return 0


def publish_metrics(settings: Settings) -> None:
    """Write the metrics after a command that ran, if the settings name a place.

    The runs have done their work, so an error here is only shown.
    """
    if settings.metrics.file is None and settings.metrics.push_gateway is None:
        return
    from spark_core.metrics.gauges import publish
    from spark_core.stored_runs.overview import overview
    from spark_core.terminal import console

    try:
        publish(settings, overview(settings), datetime.now(UTC))
    except LakegcError as problem:
        console.console(sys.stderr).print(
            f"lakegc: the metrics were not written: {problem.message}",
            markup=False,
            soft_wrap=True,
        )
