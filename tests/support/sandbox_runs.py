"""Runs of the engine on a sandbox in this process."""

from datetime import datetime, timedelta

from lakegc_dagster.sandbox import Sandbox
from spark_core.lakefs import LakeFSServer, ServerOptions
from spark_core.model import RunKey
from spark_core.run import Environment, Run, RunOptions, open_run
from spark_core.storage import StoreOptions
from tests.support.clock import FakeClock

# Runs are full, and delete at once, unless a test asks for others.
SMALL = {
    "repository_cache": timedelta(0),
    "optimized": False,
    "quarantine": False,
}


def environment(sandbox: Sandbox, spark, clock) -> Environment:
    options = ServerOptions(sandbox.endpoint, sandbox.access_key_id, sandbox.secret_access_key)
    return Environment(
        server=LakeFSServer(options, clock=clock),
        store_options=StoreOptions(local_path=str(sandbox.blockstore)),
        spark=lambda: spark,
        clock=clock,
    )


def open_sandbox_run(
    sandbox: Sandbox,
    repository_id: str,
    spark,
    now: datetime,
    *,
    opened: datetime | None = None,
    **options,
) -> Run:
    """Open a run that stands for `now`; a second after it, unless told when."""
    clock = FakeClock(opened or now + timedelta(seconds=1))
    chosen = RunOptions(**{"may_sweep": True, **SMALL, **options})
    return open_run(environment(sandbox, spark, clock), repository_id, RunKey.at(now), chosen)
