"""The names that examples of docstrings may use: a small repository that was marked and swept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lakegc_dagster.sandbox import Sandbox, gc, objects, refs, repositories
from spark_core.graveler import read_metarange
from spark_core.lakefs import ServerOptions
from spark_core.model import RunKey
from spark_core.run import RunOptions, open_run
from spark_core.run.environment import Storage
from spark_core.storage import StoreOptions
from tests.support.clock import FakeClock
from tests.support.pipeline import mark_and_conclude
from tests.support.sandbox_runs import environment

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)


@contextmanager
def a_marked_repository(directory: Path) -> Iterator[dict[str, Any]]:
    """Make the repository `lake`, mark it, and give what examples name.

    It has `report.csv` on main, committed twice: 60 days ago and 50 days ago; rules keep 7 days.

    Yields:
        `run` (marked), `environment`, `key`, `live` and `dead` (addresses), `server_options`,
        `storage`, `options`, `metarange_id` and `range_id` (of main), `commit`, and `now`.
    """
    with Sandbox(directory) as sandbox:
        with sandbox.core.lock:
            for days, content in ((60, b"one"), (50, b"three")):
                with sandbox.clock.at(NOW - timedelta(days=days)):
                    if days == 60:
                        repositories.create(sandbox.core, "lake", "local://lake")
                        gc.set_rules(sandbox.core, "lake", gc.Rules(7, {}))
                    address = objects.upload(
                        sandbox.core, "lake", "main", "report.csv", content
                    ).address
                    commit = refs.commit(sandbox.core, "lake", "main", message=f"{days} days ago")
                if days == 60:
                    dead = address
        sandbox.clock.set(NOW + timedelta(hours=1))
        clock = FakeClock(NOW + timedelta(hours=1))
        outside = environment(sandbox, None, clock)
        key = RunKey.at(NOW)
        options = RunOptions(may_sweep=True, clock_margin=timedelta(0))
        run = open_run(outside, "lake", key, options)
        mark_and_conclude(run)
        metarange_id = next(
            each.metarange_id for each in run.server.log("lake", "main") if each.metarange_id
        )
        ranges = read_metarange(run.store.read(f"_lakefs/{metarange_id}"), name=metarange_id)
        yield {
            "run": run,
            "metarange_id": metarange_id,
            "range_id": ranges.column("range_id")[0].as_py(),
            "environment": outside,
            "key": key,
            "live": address,
            "dead": dead,
            "commit": commit,
            "now": NOW,
            "options": options,
            "storage": Storage(StoreOptions(local_path=str(sandbox.blockstore))),
            "server_options": ServerOptions(
                sandbox.endpoint, sandbox.access_key_id, sandbox.secret_access_key
            ),
        }
