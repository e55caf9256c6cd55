"""Executors of any Spark decide as the driver does; the digest of it is compared among versions."""

import hashlib
import json
import os
from datetime import timedelta
from pathlib import Path

import pytest

from spark_core import mark
from spark_core.lakefs import LakeFSServer
from spark_core.model import RunKey
from spark_core.records import tables
from spark_core.run import Environment, RunOptions, open_run
from spark_core.spark import exchange, placement
from spark_core.storage import StoreOptions
from tests.support import golden
from tests.support.clock import FakeClock
from tests.support.pipeline import mark_only
from tests.support.recorded_server import RecordedServer
from tests.support.stored_rows import rows_of

pytestmark = pytest.mark.spark

# A file that gets a digest of all fates: `make test-spark` compares those of several versions.
DIGEST = "LAKEGC_TESTS_FATES_DIGEST"


def _run(recorded, spark):
    clock = FakeClock(recorded.now + timedelta(seconds=2))
    environment = Environment(
        server=LakeFSServer(recorded.options(), clock=clock),
        store_options=StoreOptions(local_path=str(recorded.local_path)),
        spark=lambda: spark,
        clock=clock,
        server_path=golden.SERVER_PATH,
    )
    options = RunOptions(
        # The recordings are younger than any cutoff that their own instants allow.
        min_age=timedelta(days=-36_500),
        allow_unsafe_min_age=True,
        clock_margin=timedelta(0),
        optimized=False,
    )
    return open_run(environment, recorded.name, RunKey.at(recorded.now), options)


def _fates(run):
    rows = rows_of(run.load(tables.FATES))
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in rows)


@pytest.mark.slow
def test_executors_and_the_driver_decide_alike(tmp_path, spark, monkeypatch):
    monkeypatch.setattr(exchange, "_ROWS_OF_A_CORE", 1)
    told = {}
    for name in ("merges", "unified"):
        with RecordedServer.unpacked(name, tmp_path / name, index=0) as recorded:
            run = _run(recorded, spark)
            placement.choose_executors(False)
            marked = mark_only(run)
            by_driver = _fates(run)
            placement.choose_executors(True)
            before = placement.work_so_far()
            run.keep(mark.expired_addresses(run, marked.tables))
            assert placement.work_so_far().since(before).tasks > 1
            told[name] = _fates(run)
            assert told[name] == by_driver
            assert len(by_driver) > 2
    if DIGEST in os.environ:
        Path(os.environ[DIGEST]).write_text(
            hashlib.sha256(json.dumps(told).encode()).hexdigest() + "\n"
        )
