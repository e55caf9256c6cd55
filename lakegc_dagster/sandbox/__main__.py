"""`python -m lakegc_dagster.sandbox`: serve a sandbox until ended, until the parent ends, or until nobody asks."""

from __future__ import annotations

import os
import signal
import threading
from datetime import timedelta
from pathlib import Path

import click

from lakegc_dagster.sandbox.server import Sandbox

_LOOK_EVERY_SECONDS = 0.5


@click.command()
@click.option("--directory", type=click.Path(path_type=Path), required=True, help="Where the sandbox keeps everything.")
@click.option("--port", default=0, show_default=True, help="Port on loopback; 0 takes a free one.")
@click.option("--grace-hours", default=24.0, show_default=True, help="Grace period that the server tells.")
@click.option("--idle-minutes", default=240.0, show_default=True, help="End after so long without a request.")
@click.option("--keep", is_flag=True, help="Go on when the program that started this one has ended.")
def main(directory: Path, port: int, grace_hours: float, idle_minutes: float, *, keep: bool) -> None:
    """Serve a lakeFS-compatible sandbox on local files, on loopback only."""
    parent = os.getppid()
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with Sandbox(directory, port=port, grace=timedelta(hours=grace_hours)) as sandbox:
        click.echo(f"serving {directory} at {sandbox.endpoint}")
        click.echo(f"keys: {directory / 'credentials.json'}")
        served, idle_seconds = -1, 0.0
        while not ended.wait(_LOOK_EVERY_SECONDS):
            if not keep and os.getppid() != parent:
                click.echo("the program that started this one has ended; ending")
                return
            total = sandbox.requests.total()
            idle_seconds = 0.0 if total != served else idle_seconds + _LOOK_EVERY_SECONDS
            served = total
            if idle_seconds >= idle_minutes * 60:
                click.echo(f"nobody asked for {idle_minutes:g} minutes; ending")
                return


if __name__ == "__main__":
    main()
