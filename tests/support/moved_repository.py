"""A repository recorded on one store, moved to another kind of store, and collected there."""

import copy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from spark_core import lakegc_keys
from spark_core.lakefs import LakeFSServer
from spark_core.model import RunKey
from spark_core.run import Environment, Run, RunOptions, open_run
from spark_core.storage import StoreOptions
from tests.support import golden
from tests.support.clock import FakeClock
from tests.support.pipeline import mark_and_conclude, sweep_only
from tests.support.recorded_server import RecordedServer
from tests.support.sandbox_runs import SMALL

NAME = "s3-features"


def collected_exactly(
    uri: str,
    store_options: StoreOptions,
    tmp_path: Path,
    spark: Any,
    *,
    put: Callable[[str, bytes], object],
    names: Callable[[], set[str]],
    sweep_with: StoreOptions | None = None,
) -> Run:
    """Mark and sweep the repository in a namespace, and find exactly what was recorded as dead gone
    from it.

    One unreferenced object is staged by hand before, spelt so that the server resolves it to the
    object but leaves it out of its scan (`s3://x@BUCKET/...`). A diff and the branch show it, and
    it must stay.

    Args:
        uri: The storage namespace.
        store_options: How lakegc reaches it.
        tmp_path: For the recorded files.
        spark: The session.
        put: Writes an object below the namespace, by a client that is not lakegc's.
        names: Lists what lies below the namespace, by the same client.
        sweep_with: How the sweep reaches the namespace, when that is otherwise.

    Returns:
        The run, swept.
    """
    root = golden.unpack(NAME, tmp_path)
    moment = golden.expected(NAME)["retention"][0]
    expected = sorted(moment["expired_addresses"]["mark_before_stop_and_tags"])
    odd = expected.pop()
    assert expected
    with RecordedServer(NAME, root, storage_namespace=uri) as recorded:
        _stage_unseen(recorded, odd)
        files = [file for file in root.rglob("*") if file.is_file()]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda file: put(str(file.relative_to(root)), file.read_bytes()), files))
        before = names()
        clock = FakeClock(recorded.now + timedelta(seconds=2))
        environment = Environment(
            server=LakeFSServer(recorded.options(), clock=clock),
            store_options=store_options,
            spark=lambda: spark,
            clock=clock,
        )
        options = RunOptions(
            may_sweep=True,
            min_age=timedelta(days=-36_500),
            allow_unsafe_min_age=True,
            clock_margin=timedelta(0),
            # The objects that are to go were put there without lakeFS, and all files were copied
            # today.
            strangers="collect",
            inherited="collect",
            **SMALL,
        )
        run = open_run(environment, NAME, RunKey.at(recorded.now), options)
        marked, verdict, results = mark_and_conclude(run)
        assert marked.addresses(run) == expected
        assert marked.tables.uncommitted.manifest.facts["from_diffs"] > 0
        assert verdict.passed, [result for result in results if not result.passed]
        if sweep_with is not None:
            environment = replace(environment, store_options=sweep_with)
            run = open_run(environment, NAME, RunKey.at(recorded.now), options)
        assert sweep_only(run) == dict.fromkeys(expected, "deleted")
    after = names()
    own = {
        name
        for name in after
        if f"/run_id={run.key}" in name or name.startswith((lakegc_keys.PROBE, lakegc_keys.LEASE))
    }
    assert after - own == before - set(expected)
    return run


def _stage_unseen(recorded: RecordedServer, address: str) -> None:
    """Let the default branch show an object under a new path that is in no scan; it is shown as the
    server resolves it.
    """
    branch, path = recorded.repository["default_branch"], "staged/oddly"
    expected = recorded.expected = copy.deepcopy(recorded.expected)
    expected["entry_table"].append([path, address, 3, "0" * 32, 0, "", {}])
    expected["branches"][branch]["diff"].append({"path": path, "type": "added"})
    expected["branches"][branch]["staged"].append(
        {"path": path, "address": address, "in_diff": True}
    )
