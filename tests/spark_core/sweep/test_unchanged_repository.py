"""The second look at a repository before its sweep.

Late enough, no later than that, and at the same instance.
"""

import time
from dataclasses import replace
from datetime import timedelta

import pytest

from spark_core.errors import ChainError, NotFoundError, RepositoryStateError
from spark_core.lakefs import SystemClock
from spark_core.lakefs.answer_types import StorageConfig
from spark_core.model import Branch
from spark_core.records import tables
from spark_core.sweep import require_unchanged_repository
from tests.support.passing_mark import passing_mark
from tests.support.written_run import written_run


class _Server:
    """Describes one repository, and notes when it was asked."""

    def __init__(self, repository, clock):
        self.described = repository
        self.branch_list = [Branch("main", "c")]
        self.others = []
        self.may_compact = False
        self.clock = clock
        self.asked_at = []

    def repository(self, _repository):
        self.asked_at.append(self.clock.now())
        if self.described is None:
            raise NotFoundError("repository repo: 404 (repository not found)")
        return self.described

    def branches(self, _repository):
        return self.branch_list

    def repositories(self):
        return [self.described, *self.others]

    def storage_config(self, _repository):
        return StorageConfig("local", "", pre_sign_support=False, may_compact=self.may_compact)


class _Case:
    def __init__(self, folder, *, cache, clock=None):
        run = written_run(folder, spark=None).run
        clock = clock or run.environment.clock
        self.clock = clock
        self.server = _Server(run.repository, clock)
        self.run = replace(
            run,
            environment=replace(run.environment, server=self.server, clock=clock),
            options=replace(run.options, repository_cache=cache),
        )
        stored = passing_mark(self.run)
        self.first_answer = stored["namespace_slices"].reading_began
        self.expired = self.run.load(tables.EXPIRED_ADDRESSES)

    def settle(self):
        require_unchanged_repository(self.run, self.expired)


CACHE = timedelta(seconds=8)


@pytest.fixture
def case(tmp_path):
    return _Case(tmp_path, cache=CACHE)


@pytest.mark.parametrize("since", [1.0, 5.0, 7.9])
def test_the_wait_costs_only_what_is_left_since_the_first_answer(case, since):
    case.clock.instant = case.first_answer + timedelta(seconds=since)
    case.settle()
    (waited,) = case.clock.slept
    assert waited == pytest.approx(8.0 - since, abs=0.01)
    assert case.server.asked_at[0] >= case.first_answer + CACHE


@pytest.mark.parametrize("since", [8.0, 60.0, 86_400.0])
def test_a_mark_that_took_longer_than_the_cache_lives_waits_for_nothing(case, since):
    case.clock.instant = case.first_answer + timedelta(seconds=since)
    case.settle()
    assert case.clock.slept == []
    assert len(case.server.asked_at) == 1


def test_a_server_that_forgets_at_once_is_not_waited_for(tmp_path):
    case = _Case(tmp_path, cache=timedelta(0))
    case.settle()
    assert case.clock.slept == []
    assert len(case.server.asked_at) == 1


def test_a_repository_that_is_gone_by_then_refuses(case):
    case.server.described = None
    with pytest.raises(NotFoundError, match="repository not found"):
        case.settle()
    assert case.clock.slept, "it was asked only after the wait"


def test_a_repository_that_answers_as_if_empty_refuses(case):
    case.server.branch_list = []
    with pytest.raises(RepositoryStateError, match=r"changed since run .* with 0 branches\)"):
        case.settle()


@pytest.mark.parametrize("namespace", ["local://repo", "local://repo/data/inner", "local://repo/"])
def test_a_repository_that_was_made_in_the_namespace_since_the_mark_refuses(case, namespace):
    case.server.others = [replace(case.run.repository, id="other", storage_namespace=namespace)]
    with pytest.raises(
        RepositoryStateError,
        match=r"repositories repo \(local://repo\) and other .* share a storage namespace",
    ):
        case.settle()


@pytest.mark.parametrize(
    "change",
    [
        {"creation_date": timedelta(seconds=1)},
        {"storage_namespace": "local://elsewhere"},
        {"storage_id": "other"},
        {"read_only": True},
    ],
)
def test_a_repository_that_is_not_described_as_before_refuses(case, change):
    known = case.run.repository
    if "creation_date" in change:
        change = {"creation_date": known.creation_date + change["creation_date"]}
    case.server.described = replace(known, **change)
    with pytest.raises((RepositoryStateError, ChainError), match="Mark again under a new run key"):
        case.settle()


def test_the_wait_is_a_real_one(tmp_path):
    cache = timedelta(seconds=1.5)
    case = _Case(tmp_path, cache=cache, clock=SystemClock())
    began = time.monotonic()
    left = (case.first_answer + cache - case.clock.now()).total_seconds()
    assert left > 0.2, "storing five small tables took longer than the cache lives; raise it"
    case.settle()
    assert time.monotonic() - began >= left - 0.05
    assert case.server.asked_at[0] >= case.first_answer + cache - timedelta(milliseconds=5)


def test_a_server_that_has_become_one_that_may_compact_ends_the_sweep(case):
    case.settle()
    case.server.may_compact = True
    with pytest.raises(RepositoryStateError, match=r"was an open one when run .* was marked"):
        case.settle()
    case.run = replace(case.run, options=replace(case.run.options, compacted="ignore"))
    case.settle()
