"""What wrong input gets: the run fails by name, says what to do, and nothing is deleted."""

from dataclasses import replace
from datetime import timedelta

import pytest

from spark_core import graveler
from spark_core.checks import verdict
from spark_core.errors import (
    CorruptTableError,
    IncompleteReadError,
    LakegcError,
    NotFoundError,
    PermissionDeniedError,
    RepositoryStateError,
    SettingsError,
    TransientError,
    UnsafePlanError,
    VerdictError,
)
from spark_core.lakefs import LakeFSServer
from spark_core.model import RunKey
from spark_core.run import Environment, RunOptions, open_run
from spark_core.storage import StoreOptions
from tests.support import golden
from tests.support.clock import FakeClock
from tests.support.pipeline import mark_and_conclude, mark_only, sweep_only
from tests.support.recorded_server import RecordedServer
from tests.support.sandbox_runs import SMALL

pytestmark = pytest.mark.spark


class Case:
    """A recorded repository, marked with age switched off, and what it held before."""

    def __init__(self, recorded, spark):
        self.recorded = recorded
        self.spark = spark
        self.before = self._data()

    def _data(self):
        root = self.recorded.namespace_root / "data"
        return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}

    def run(self, *, name=None, key=None, server_options=None, **options):
        clock = FakeClock(self.recorded.now + timedelta(seconds=2))
        environment = Environment(
            server=LakeFSServer(server_options or self.recorded.options(), clock=clock),
            store_options=StoreOptions(local_path=str(self.recorded.local_path)),
            spark=lambda: self.spark,
            clock=clock,
            server_path=golden.SERVER_PATH,
        )
        chosen = {
            "may_sweep": True,
            "min_age": timedelta(days=-36_500),
            "allow_unsafe_min_age": True,
            **SMALL,
        }
        return open_run(
            environment,
            name or self.recorded.name,
            key or RunKey.at(self.recorded.now),
            RunOptions(**{**chosen, **options}),
        )

    def refuses(self, error, text, **run_options):
        with pytest.raises(error, match=text) as refusal:
            mark_and_conclude(self.run(**run_options))
        assert isinstance(refusal.value, LakegcError)
        self.nothing_was_deleted()
        return refusal.value

    def fails_the_check(self, check, text):
        run = self.run()
        _, found, results = mark_and_conclude(run)
        assert not found.passed
        (failed,) = [result for result in results if not result.passed]
        assert failed.name == check
        assert text in failed.summary
        with pytest.raises(VerdictError, match=f"did not pass its checks: {check}"):
            sweep_only(run)
        self.nothing_was_deleted()

    def nothing_was_deleted(self):
        assert self._data() == self.before

    def tables_of_head(self, branch="main"):
        """Paths of the metarange and of the ranges that a branch's head has."""
        tables = self.recorded.namespace_root / "_lakefs"
        commit_id = golden.expected(self.recorded.name)["branches"][branch]["commit_id"]
        metarange = (
            tables / golden.expected(self.recorded.name)["commits"][commit_id]["metarange_id"]
        )
        ranges = (
            graveler.read_metarange(metarange.read_bytes(), name="head")
            .column("range_id")
            .to_pylist()
        )
        return metarange, [tables / range_id for range_id in ranges]


@pytest.fixture
def case(tmp_path, spark):
    with RecordedServer.unpacked("merges", tmp_path, index=0) as recorded:
        yield Case(recorded, spark)


def _other(tmp_path, spark, name, **options):
    return RecordedServer.unpacked(name, tmp_path / name, **options)


def test_no_server(case):
    options = replace(
        case.recorded.options(),
        endpoint="http://127.0.0.1:1",
        tries=2,
        first_backoff=timedelta(milliseconds=1),
    )
    refusal = case.refuses(TransientError, r"127\.0\.0\.1:1", server_options=options)
    assert "endpoint" in str(refusal)


def test_wrong_keys(case):
    options = replace(case.recorded.options(), secret_access_key="not-the-secret-of-anybody")
    refusal = case.refuses(PermissionDeniedError, "401|credentials|key", server_options=options)
    assert "not-the-secret-of-anybody" not in str(refusal)


def test_a_repository_that_does_not_exist(case):
    case.refuses(NotFoundError, "nobody", name="nobody")


def test_a_repository_that_is_being_deleted(case):
    case.recorded.answer_with(
        "GET", r"/repositories/merges", (410, {"message": "repository in deletion"})
    )
    case.refuses(RepositoryStateError, "delet")


def test_a_repository_that_was_deleted_a_moment_ago_and_still_answers_as_if_empty(case):
    empty = {
        "pagination": {"has_more": False, "max_per_page": 1000, "next_offset": "", "results": 0},
        "results": [],
    }
    case.recorded.answer_with("GET", r"/repositories/merges/branches", (200, empty))
    case.refuses(
        RepositoryStateError, "merges has no branch: it is bare, or it was deleted a moment ago"
    )


def test_a_list_of_commits_that_is_empty(case):
    case.recorded.commits_csv.write_text("commit_id,expired,metarange_id\n")
    case.refuses(RepositoryStateError, "commit")


def test_a_bare_repository(tmp_path, spark):
    with _other(tmp_path, spark, "bare") as recorded:
        Case(recorded, spark).refuses(RepositoryStateError, "bare has no branch: it is bare")


def test_a_read_only_repository(tmp_path, spark):
    with _other(tmp_path, spark, "read-only") as recorded:
        Case(recorded, spark).refuses(
            RepositoryStateError, "read-only is read-only.*Make it writable"
        )


@pytest.mark.parametrize("which", ["metarange", "range"])
def test_a_truncated_table(case, which):
    metarange, ranges = case.tables_of_head()
    victim = metarange if which == "metarange" else ranges[0]
    victim.write_bytes(victim.read_bytes()[:-20])
    refusal = case.refuses(CorruptTableError, victim.name)
    assert "Compare the file with the server's copy" in str(refusal)


@pytest.mark.parametrize("which", ["metarange", "range"])
def test_a_table_with_a_flipped_bit(case, which):
    metarange, ranges = case.tables_of_head()
    victim = metarange if which == "metarange" else ranges[0]
    data = bytearray(victim.read_bytes())
    data[20] ^= 4
    victim.write_bytes(bytes(data))
    case.refuses(CorruptTableError, f"{victim.name} at offset")


def test_an_unknown_footer(case):
    _, ranges = case.tables_of_head()
    ranges[0].write_bytes(ranges[0].read_bytes()[:-8] + bytes.fromhex("f09faab3f09faab3"))
    case.refuses(CorruptTableError, f"{ranges[0].name}.*magic")


def test_a_table_in_the_place_of_another(case):
    metarange, ranges = case.tables_of_head()
    others = [
        path for path in metarange.parent.iterdir() if path.is_file() and len(path.name) == 64
    ]
    for other in others:
        try:
            graveler.read_range(other.read_bytes(), name=other.name)
        except CorruptTableError:
            continue
        if other not in ranges:
            ranges[0].write_bytes(other.read_bytes())
            break
    case.refuses(CorruptTableError, ranges[0].name)


def test_a_table_that_is_missing(case):
    _, ranges = case.tables_of_head()
    ranges[0].unlink()
    case.refuses(NotFoundError, ranges[0].name)


def test_a_staged_file_that_a_page_claimed_and_that_is_not_there(case):
    for directory in (case.recorded.namespace_root / "_lakefs/retention/gc/uncommitted").iterdir():
        for file in (directory / "uncommitted").iterdir():
            file.unlink()
    case.refuses(IncompleteReadError, "page|said that it wrote")


def test_an_empty_listing_although_something_must_be_there(case):
    for path in case.before:
        path.unlink()
    case.before = {}
    case.fails_the_check("live_objects_are_listed", "the listing of local://merges/data/ is empty")


def test_a_run_key_in_the_future(case):
    key = RunKey.at(case.recorded.now + timedelta(hours=1))
    case.refuses(UnsafePlanError, f"run key {key} lies in the future", key=key)


@pytest.mark.parametrize(
    "namespace", ["local://merges", "local://merges/", "local://merges/inner", "local:///merges"]
)
def test_a_namespace_that_two_repositories_share(case, namespace):
    other = {**case.recorded.repository, "id": "other", "storage_namespace": namespace}
    listed = [case.recorded.repository, other]
    pagination = {"has_more": False, "max_per_page": 1000, "next_offset": "", "results": 2}
    case.recorded.answer_with(
        "GET", r"/repositories", (200, {"pagination": pagination, "results": listed})
    )
    case.refuses(LakegcError, "merges|local:///merges")


def test_a_page_token_that_repeats(case):
    page = {
        "run_id": "ft6rop1ksdubaso5glv0",
        "gc_uncommitted_location": "",
        "continuation_token": "eyJicmFuY2giOiJtYWluIn0=",
    }
    case.recorded.answer_with("POST", r"/repositories/merges/gc/prepare_uncommited", (201, page))
    case.refuses(IncompleteReadError, "token")


def test_days_that_the_server_wrapped(case):
    case.recorded.rules = {"default_retention_days": -2_147_483_648, "branches": None}
    case.refuses(RepositoryStateError, "-2147483648")


def test_a_minimum_age_below_the_grace_period(case):
    case.refuses(
        SettingsError,
        "the server lets an upload wait",
        min_age=timedelta(hours=1),
        allow_unsafe_min_age=False,
    )


def test_a_mark_that_would_take_most_of_a_large_repository(case):
    run = case.run(share_from_objects=1, max_expired_share=0.01)
    _, found, results = mark_and_conclude(run)
    assert [result.name for result in results if not result.passed] == [
        "expired_share_is_plausible"
    ]
    with pytest.raises(VerdictError, match=r"above the limit of 1\.0%"):
        sweep_only(run)
    case.nothing_was_deleted()
    assert found.expired_objects > 0


def test_a_sweep_of_a_mark_that_is_too_old(case):
    run = case.run()
    mark_only(run)
    verdict.conclude(run)
    run.environment.clock.sleep(timedelta(days=8).total_seconds())
    with pytest.raises(VerdictError, match=r"the limit \(max_mark_age_days\) is 7 days"):
        sweep_only(run)
    case.nothing_was_deleted()
