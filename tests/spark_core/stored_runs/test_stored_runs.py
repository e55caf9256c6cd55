"""Which runs there are, beside what others keep in folders of the same names."""

from datetime import UTC, datetime, timedelta

import pytest

from lakegc_dagster.sandbox import Sandbox, repositories
from spark_core import lakegc_keys
from spark_core.checks import verdict
from spark_core.checks.last_runs_compared import nothing_changed_suddenly
from spark_core.errors import NotFoundError
from spark_core.model import RunKey
from spark_core.records import tables
from spark_core.settings import Settings
from spark_core.stored_runs import open_stored
from spark_core.upkeep import own_files
from tests.support.passing_mark import passing_mark
from tests.support.sandbox_runs import open_sandbox_run

# What lakeFS's own job wrote before it had `unified/`, what its server writes, and what is no
# instant.
FOREIGN = (
    "addresses/mark_id=ft6s0e1ksdufuaulm34g/part-00000.snappy.parquet",
    "addresses/run_id=ft6s0e1ksdufuaulm34g/part-00000.snappy.parquet",
    "addresses/run_id=2026-13-41T99-00-00Z/part-00000.parquet",
    "addresses/README",
    "commits/run_id=ft6s0e1ksdufuaulm34g/commits.csv",
)


@pytest.fixture
def place(tmp_path):
    """A repository whose namespace holds what others wrote: its settings, and a way to mark it."""
    with Sandbox(tmp_path / "sandbox") as sandbox:
        with sandbox.core.lock:
            repositories.create(sandbox.core, "repo", "local://repo")
        settings = Settings.model_validate(
            {
                "server": {"endpoint": sandbox.endpoint},
                "storage": {"local_path": str(sandbox.blockstore)},
                "repositories": {"repo": {}},
            }
        )
        settings._env = {
            "LAKEGC_ACCESS_KEY_ID": sandbox.access_key_id,
            "LAKEGC_SECRET_ACCESS_KEY": sandbox.secret_access_key,
        }

        def opened(ago):
            return open_sandbox_run(sandbox, "repo", None, datetime.now(UTC) - ago)

        for name in FOREIGN:
            opened(timedelta(0)).store.put(lakegc_keys.ROOT + name, b"not lakegc's")
        yield settings, opened


def test_the_report_of_the_newest_run_crashed_on_older_output_of_the_reference_job(place):
    settings, opened = place
    run = opened(timedelta(hours=2))
    passing_mark(run)
    assert open_stored(settings, "repo").key == run.key
    assert tables.runs(run.store) == [run.key]


def test_a_mark_that_broke_off_is_not_the_newest_marked_run(place):
    settings, opened = place
    run, later = opened(timedelta(hours=2)), opened(timedelta(hours=1))
    passing_mark(run)
    later.store.put(
        f"{tables.folder(tables.EXPIRED_ADDRESSES, later.key)}part-00000-000-x.parquet", b""
    )
    assert open_stored(settings, "repo").key == run.key


def test_what_others_wrote_is_no_run_of_a_repository(place):
    settings, _ = place
    with pytest.raises(NotFoundError, match="repository repo was never marked"):
        open_stored(settings, "repo")


def test_everybody_knows_the_same_runs(place):
    _, opened = place
    earlier, run = opened(timedelta(hours=2)), opened(timedelta(hours=1))
    passing_mark(earlier)
    verdict.conclude(earlier)
    compared = nothing_changed_suddenly(run, passing_mark(run))
    assert compared.figures["compared_with"] == str(earlier.key)
    assert (
        tables.runs(run.store)
        == sorted(own_files.by_run(run.store)[0], reverse=True)
        == [run.key, earlier.key]
    )


@pytest.mark.parametrize("name", FOREIGN)
def test_a_key_of_somebody_else_belongs_to_no_run(name):
    assert lakegc_keys.run_of(lakegc_keys.ROOT + name) is None


def test_a_key_of_a_run_tells_which():
    key = RunKey(datetime(2026, 11, 20, 2, tzinfo=UTC))
    assert lakegc_keys.run_of(tables.manifest_key(tables.DELETION_REPORT, key)) == key
    assert lakegc_keys.run_of(f"data/run_id={key}/x") is None
