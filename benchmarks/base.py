r"""Mark and sweep a repository at an earlier instant, so that an optimized mark has a base.

    python -m benchmarks.base BLOCKSTORE --endpoint http://127.0.0.1:8000 \
        --at 2026-11-20T10:00:00+00:00

A process of its own does it, because it needs Spark. The keys of the server are in
`LAKEGC_ACCESS_KEY_ID` and `LAKEGC_SECRET_ACCESS_KEY`. It prints how many objects were deleted, as
one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.runs import REPOSITORY
from spark_core.errors import VerdictError
from spark_core.lakefs import LakeFSServer, ServerOptions
from spark_core.mark_and_sweep import keep, mark_and_conclude, sweep
from spark_core.model import RunKey
from spark_core.records.figures import DeletionFigures
from spark_core.run import Environment, RunOptions, open_run
from spark_core.spark.placement import default_master
from spark_core.spark.session import spark_config, start_session
from spark_core.storage import StoreOptions


class _Then:
    """A clock that runs, and is late by so much."""

    def __init__(self, behind: timedelta) -> None:
        self._behind = behind

    def now(self) -> datetime:
        return datetime.now(UTC) - self._behind

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def main() -> None:
    """Make the base."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("blockstore", type=Path)
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--at", type=datetime.fromisoformat, required=True)
    parser.add_argument("--spark", type=json.loads, default={}, help="Spark properties, as JSON")
    asked = parser.parse_args()
    keys = os.environ["LAKEGC_ACCESS_KEY_ID"], os.environ["LAKEGC_SECRET_ACCESS_KEY"]
    options = ServerOptions(asked.endpoint, *keys)
    swept = mark_and_sweep(options, asked.blockstore, asked.at, asked.spark)
    sys.stdout.write(json.dumps({"swept": swept}) + "\n")


def mark_and_sweep(
    server: ServerOptions,
    blockstore: Path,
    at: datetime,
    spark: Mapping[str, str] | None = None,
) -> int:
    """Collect the repository with the options of a settings file that names none.

    Args:
        server: The server, which may be asked at any time.
        blockstore: Directory of the server's blockstore.
        at: The instant of the mark.
        spark: Spark properties.

    Returns:
        How many objects were deleted.

    Raises:
        VerdictError: If the mark did not pass.
    """
    environment = Environment(
        server=LakeFSServer(server),
        store_options=StoreOptions(local_path=str(blockstore)),
        spark=lambda: start_session(spark_config(master=default_master(), extra=spark)),
        clock=_Then(datetime.now(UTC) - at),
    )
    # Quarantine, the default on local files, would copy what a synthetic store does not have.
    options = RunOptions(may_sweep=True, optimized=True, quarantine=False)
    run = open_run(environment, REPOSITORY, RunKey.at(at), options)
    verdict = mark_and_conclude(run, lambda _: None).verdict
    if not verdict.passed:
        raise VerdictError(f"the base did not pass: {verdict.failed}", "Mend the fixture.")
    stored, _ = keep(run, sweep(run, lambda _: None))
    return DeletionFigures.of(stored.manifest).deleted_objects or 0


if __name__ == "__main__":
    main()
