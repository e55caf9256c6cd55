"""What is never written into a mark for lakeFS's own job, which deletes without looking."""

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pyarrow as pa
import pytest

from spark_core.addresses.namespace import Namespace
from spark_core.checks import verdict
from spark_core.errors import IncompleteReadError, UnsafePlanError, VerdictError
from spark_core.handover.reference_mark import mark_id, require_taken_literally, write_if_asked
from spark_core.lakegc_keys import UNIFIED as ROOT
from spark_core.records.figures import StagedFigures
from tests.support.clock import FakeClock
from tests.support.figures import manifest_of
from tests.support.passing_mark import passing_mark
from tests.support.written_run import NOW, written_run

AZURE = Namespace.parse("https://account.blob.core.windows.net/container/ns")


@pytest.mark.parametrize("address", ["data/s/a%20b", "data/s/a?b", "data/s/a#b"])
def test_what_the_job_would_take_for_another_blob_is_refused_in_azure(address):
    with pytest.raises(
        UnsafePlanError, match="would take it for another object, which may be alive"
    ):
        require_taken_literally(AZURE, pa.array(["data/s/plain", address]))


@pytest.mark.parametrize("uri", ["s3://bucket/ns", "gs://bucket/ns"])
def test_elsewhere_the_job_takes_every_address_literally(uri):
    require_taken_literally(
        Namespace.parse(uri), pa.array(["data/s/a%20b", "data/s/a?b", "data/s/a#b"])
    )


def test_the_names_that_lakefs_gives_pass():
    require_taken_literally(
        AZURE, pa.array(["data/gqv3epl4fd2o8m3men70/ce8co454fd2o8m3menag,a-b_c", "data/s/x y"])
    )


def test_a_mark_whose_tables_are_old_is_never_written_for_that_job(tmp_path):
    run = written_run(tmp_path, spark=None).run
    run = replace(run, options=replace(run.options, write_reference_mark=True))
    passing_mark(run)

    def later(**days):
        return replace(
            run, environment=replace(run.environment, clock=FakeClock(NOW + timedelta(**days)))
        )

    found, _ = verdict.conclude(later(days=6))
    with pytest.raises(VerdictError, match=r"is 8 days old, the limit \(max_mark_age_days\)"):
        write_if_asked(later(days=8), found)
    assert list(run.store.list(ROOT)) == []


@pytest.mark.parametrize("scans", [[], ["first", "last"]])
def test_a_mark_is_named_by_the_servers_last_scan_and_not_written_without_one(scans):
    table = SimpleNamespace(manifest=manifest_of(StagedFigures, server_runs=scans))
    run = SimpleNamespace(
        key="KEY", repository=SimpleNamespace(id="repo"), load=lambda _spec: table
    )
    if scans:
        assert mark_id(run) == "last"
        return
    with pytest.raises(
        IncompleteReadError,
        match=r"run KEY of repository repo has no scan.*lakegc's own mark stands",
    ):
        mark_id(run)
