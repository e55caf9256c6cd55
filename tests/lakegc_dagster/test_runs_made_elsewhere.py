"""What Dagster is told of runs that it did not make, but the engine, called by commands or cron."""

import os
import re
from collections import Counter
from contextlib import contextmanager, suppress
from datetime import timedelta

import dagster as dg
import pytest
from dagster._core.storage.asset_check_state import AssetCheckState, bulk_update_asset_check_state

import lakegc_dagster.runs_made_elsewhere as module
from lakegc_dagster.asset_checks import build_checks
from lakegc_dagster.assets import ALL_ASSETS
from lakegc_dagster.in_dagster import telling
from lakegc_dagster.names import OWN, Names
from lakegc_dagster.partitions import partition_key, repository_run
from lakegc_dagster.resources import Wiring, build_resources
from lakegc_dagster.runs_made_elsewhere import Told, build_runs_made_elsewhere, to_tell
from spark_core import checks as guards
from spark_core import lakegc_keys
from spark_core.checks import confirming
from spark_core.clocks import SystemClock
from spark_core.errors import RepositoryStateError
from spark_core.mark_and_sweep import collect
from spark_core.model import RunKey
from spark_core.records import tables
from spark_core.run import open_run
from spark_core.storage.local import LocalStore
from spark_core.storage.local.errors import deletion_answer
from tests.lakegc_dagster.conftest import (
    failure,
    ground_on,
    instance_in_memory,
    new_key,
    settings_of,
)

TABLES = [spec.name for spec in tables.MARK_TABLES]
OF_A_MARK = {*TABLES, "policy_expirations", "verdict", "house_keeping"}
OF_A_SWEEP = {*OF_A_MARK, "deletion_report"}
CHECKS = {name for name, _, _ in guards.CHECKS}
SHARE, NOTHING_LEFT = "expired_share_is_plausible", "every_object_was_deleted"
EVALUATED = "CHECK_EVALUATION"
# What only a step of Dagster's has done.
OF_A_STEP = {"who_worked", "server_calls_so_far"}
STRICT = {"max_expired_share": 0.0, "share_from_objects": 0}


@pytest.fixture
def place(served, request):
    """A repository of its own, and an instance of Dagster that knows nothing of it."""
    with ground_on(served, f"r{abs(hash(request.node.nodeid)) % 10**10}") as made:
        yield made


def at(minutes):
    return new_key(ago=timedelta(minutes=minutes))


def opened(place, key, repository_id=None):
    environment = build_resources(Wiring(place.settings))["runs"].environment
    name = repository_id or place.repository_id
    return open_run(environment, name, key, place.settings.run_options(name))


def made(place, key, job="mark_and_sweep", repository_id=None):
    """Make a run by the engine, and return what ended it."""
    return collect(opened(place, key, repository_id), job).error


def tick(place, names=OWN, clock=None):
    """Evaluate the sensor as a new daemon does, and return of how many runs it told."""
    (sensor,) = build_runs_made_elsewhere(place.settings, names)
    wiring = Wiring(place.settings, names=names, clock=clock or SystemClock())
    runs = build_resources(wiring)["runs"]
    resources = {names.named("runs"): runs}
    with dg.build_sensor_context(place.instance, resources=resources) as context:
        answer = sensor.evaluate_tick(context)
    assert not answer.run_requests
    return int(re.search(r"told of (\d+)", answer.skip_message)[1])


def materializations(place, asset, key=None):
    """The materializations of an asset, newest first."""
    asset = asset if isinstance(asset, dg.AssetKey) else dg.AssetKey(asset)
    partitions = None if key is None else [partition_key(place.repository_id, key)]
    asked = dg.AssetRecordsFilter(asset, asset_partitions=partitions)
    return place.instance.fetch_materializations(asked, limit=100).records


def told(place, key):
    """How often each asset was materialized for a run."""
    found = {asset.name: len(materializations(place, asset.name, key)) for asset in ALL_ASSETS}
    return {name: number for name, number in found.items() if number}


def metadata(place, asset, key):
    return materializations(place, asset, key)[0].asset_materialization.metadata


def counted(place, key):
    """The checks that Dagster's graph counts for a run, by how it shows them."""
    partition = partition_key(place.repository_id, key)
    keys = [each for of in build_checks(OWN) for each in of.check_keys]
    with dg.partition_loading_context(dynamic_partitions_store=place.instance):
        states = bulk_update_asset_check_state(
            place.instance,
            [(each, repository_run(OWN)) for each in keys],
            {each: AssetCheckState.empty() for each in keys},
        )
        return {
            each.name: status.name
            for each, state in states.items()
            for status, subset in state.subsets.items()
            if partition in subset.subset_value
        }


def evaluations(place):
    """How often a result of each check was stored."""
    log = place.instance.event_log_storage.get_logs_for_run("")
    events = [entry.dagster_event for entry in log]
    results = [
        one.event_specific_data for one in events if one.event_type_value.endswith(EVALUATED)
    ]
    return Counter((result.check_name, result.partition) for result in results)


def partitions(place):
    return place.instance.get_dynamic_partitions("repository_run")


KEYS = [RunKey.parse(f"2026-11-{day:02}T02-00-00Z") for day in (5, 4, 3, 2, 1)]
OLDEST, MIDDLE, NEWEST = KEYS[4], KEYS[2], KEYS[0]


@pytest.mark.parametrize(
    ("swept", "knows", "wanted"),
    [
        ((), Told(frozenset(), {}), KEYS),
        ((), Told(frozenset({MIDDLE}), {}), KEYS[:2]),
        ((), Told(frozenset({NEWEST}), {}), []),
        # Swept since, swept on, and swept as it was told.
        ({OLDEST}, Told(frozenset({OLDEST, NEWEST}), {}), [OLDEST]),
        ({OLDEST}, Told(frozenset({OLDEST, NEWEST}), {OLDEST: False}), [OLDEST]),
        ({OLDEST}, Told(frozenset({OLDEST, NEWEST}), {OLDEST: True}), []),
        # Never told, and older than what was.
        ({OLDEST}, Told(frozenset({NEWEST}), {}), []),
    ],
)
def test_newer_runs_are_told_and_those_that_were_swept_since_they_were_told(swept, knows, wanted):
    assert to_tell(KEYS, swept, knows) == wanted


@pytest.mark.slow
@pytest.mark.spark
def test_a_run_of_the_engine_is_shown_as_a_run_in_dagster_is(ground, served):
    key = at(1)
    result = ground.job("mark_and_sweep", key)
    assert result.success, failure(result)
    with ground_on(served, f"{ground.repository_id}-elsewhere") as elsewhere:
        made(elsewhere, key)
        assert tick(elsewhere) == 1
        for asset in OF_A_SWEEP - {"house_keeping"}:
            by_dagster = metadata(ground, asset, key).keys() - OF_A_STEP
            assert by_dagster == metadata(elsewhere, asset, key).keys(), asset
        shown = metadata(elsewhere, "deletion_report", key)
        assert shown["objects_deleted"].value == len(elsewhere.garbage)
        assert "may go" in metadata(elsewhere, "verdict", key)["headline"].value
        assert counted(elsewhere, key) == counted(ground, key)


def test_a_run_is_told_once_whatever_daemon_looks(place):
    key = at(1)
    made(place, key)
    assert tick(place) == 1
    before = evaluations(place)
    assert set(before.values()) == {1}
    assert counted(place, key) == dict.fromkeys({*CHECKS, NOTHING_LEFT}, "SUCCEEDED")
    assert tick(place) == 0
    assert told(place, key) == dict.fromkeys(OF_A_SWEEP, 1)
    assert evaluations(place) == before


def test_a_daemon_that_told_a_check_meanwhile_ends_nothing(place, monkeypatch):
    key = at(1)
    made(place, key)
    with monkeypatch.context() as patched:
        # What another daemon tells after this one has asked.
        patched.setattr(telling, "evaluated", lambda *_: {})
        assert tick(place) == 1
        assert module.tell_run(place.instance, OWN, opened(place, key), is_fresh=True) is False
    assert told(place, key) == dict.fromkeys(OF_A_SWEEP, 1)
    assert counted(place, key) == dict.fromkeys({*CHECKS, NOTHING_LEFT}, "SUCCEEDED")


class Killed(BaseException):
    """The daemon's process ends."""


@pytest.mark.slow
def test_a_daemon_that_was_killed_at_any_event_tells_the_rest_when_it_is_back(place, monkeypatch):
    key = at(1)
    made(place, key)
    report = dg.DagsterInstance.report_runless_asset_event
    events = len(OF_A_SWEEP | CHECKS) + 2
    for last in range(0, events, 2):
        seen = []

        def dying(instance, event, seen=seen, last=last):
            seen.append(event)
            if len(seen) > last:
                raise Killed
            report(instance, event)

        with instance_in_memory() as place.instance:
            with monkeypatch.context() as patched:
                patched.setattr(dg.DagsterInstance, "report_runless_asset_event", dying)
                with pytest.raises(Killed):
                    tick(place)
            assert tick(place) == 1, last
            assert told(place, key) == dict.fromkeys(OF_A_SWEEP, 1)
            assert set(evaluations(place).values()) == {1}
            assert counted(place, key) == dict.fromkeys({*CHECKS, NOTHING_LEFT}, "SUCCEEDED")
            assert tick(place) == 0


@pytest.mark.spark
def test_a_run_that_dagster_made_is_not_told(ground):
    key = at(1)
    assert ground.job("mark_and_sweep", key).success
    assert tick(ground) == 0
    assert not evaluations(ground)


def test_a_run_that_dagster_is_making_now_is_not_told_meanwhile(place):
    key = at(1)
    made(place, key)
    tags = {"dagster/partition": partition_key(place.repository_id, key)}
    running = dg.DagsterRun("mark", status=dg.DagsterRunStatus.STARTED, tags=tags)
    place.instance.add_run(running)
    assert tick(place) == 0
    place.instance.report_run_failed(running)
    assert tick(place) == 1


def test_the_oldest_runs_are_told_first_and_not_all_in_one_tick(place, monkeypatch):
    keys = [at(minutes) for minutes in (4, 3, 2, 1)]
    for key in keys:
        made(place, key, "mark")
    monkeypatch.setattr(module, "_AT_MOST", 3)
    assert tick(place) == 3
    assert partitions(place) == [partition_key(place.repository_id, key) for key in keys[:3]]
    assert tick(place) == 1
    assert tick(place) == 0


class SlowClock(SystemClock):
    """Tells the time of a machine on which everything takes a minute."""

    asked = 0

    def now(self):
        self.asked += 1
        return super().now() + timedelta(minutes=self.asked)


def test_a_tick_on_a_busy_machine_tells_one_run_and_leaves_the_others_for_the_next(place):
    for minutes in (2, 1):
        made(place, at(minutes), "mark")
    assert [tick(place, clock=SlowClock()) for _ in range(3)] == [1, 1, 0]


def test_a_run_that_is_older_than_what_was_told_is_left(place):
    older, newer = at(2), at(1)
    made(place, newer)
    assert tick(place) == 1
    made(place, older, "mark")
    assert tick(place) == 0
    assert told(place, older) == {}


def test_runs_whose_tables_are_pruned_are_left(place):
    place = place.with_settings(keep_runs=2)
    keys = [at(minutes) for minutes in (3, 2, 1)]
    for key in keys:
        made(place, key, "mark")
    assert tick(place) == 2
    assert partitions(place) == [partition_key(place.repository_id, key) for key in keys[1:]]


def test_a_refused_mark_is_told_as_its_failed_check_and_not_as_work_that_was_done(place):
    strict, key = place.with_settings(**STRICT), at(1)
    assert made(strict, key) is not None
    assert tick(strict) == 1
    assert counted(strict, key) == {**dict.fromkeys(CHECKS, "SUCCEEDED"), SHARE: "FAILED"}
    assert told(strict, key) == dict.fromkeys(OF_A_MARK - {"house_keeping"}, 1)
    assert metadata(strict, "verdict", key)["passed"].value is False
    assert not materializations(strict, OWN.of_repository(strict.repository_id))
    assert tick(strict) == 0


@pytest.mark.parametrize("quarantine", [False, True])
def test_runs_that_house_keeping_pruned_are_no_partitions_and_one_in_quarantine_is(
    place, quarantine
):
    place = place.with_settings(keep_runs=1, quarantine=quarantine)
    # The objects were there for the second one to delete.
    keys = [new_key(ago=timedelta(days=days)) for days in (30, 20)]
    for key in keys:
        assert made(place, key) is None
        assert tick(place) == 1
    folder = place.sandbox.blockstore / place.repository_id / lakegc_keys.ROOT
    for file in folder.rglob("*"):
        os.utime(file, times=(keys[0].instant.timestamp(),) * 2)
    keys.append(at(1))
    assert made(place, keys[2]) is None
    assert tick(place) == 1
    assert tick(place) == 0
    ours = [partition_key(place.repository_id, key) for key in keys]
    assert {*partitions(place)} == {*ours[1 if quarantine else 2 :]}


def failing(monkeypatch, place, after):
    """Let a mark end by an error after one of its tables."""

    def fail(*_args, **_more):
        raise RepositoryStateError("the repository changed", "Mark again.")

    step = {"nothing": "listing.preflight", "namespace_slices": "uncommitted.read_uncommitted"}
    monkeypatch.setattr(f"spark_core.mark.{step[after]}", fail)


def test_a_mark_that_stored_nothing_is_not_told(place, monkeypatch):
    with monkeypatch.context() as patched:
        failing(patched, place, "nothing")
        assert made(place, at(1)) is not None
    assert tick(place) == 0
    assert partitions(place) == []


def interrupted(place, key):
    """Leave a run whose mark ended after its first two tables."""
    run = opened(place, key)
    from spark_core import mark

    stored = {}
    for spec in tables.MARK_TABLES[:2]:
        stored[spec.name] = run.keep(mark.make(run, spec, stored))


def test_a_mark_without_a_verdict_is_told_by_its_tables_and_again_when_it_has_one(place):
    key = at(1)
    interrupted(place, key)
    assert tick(place) == 1
    assert told(place, key) == dict.fromkeys(TABLES[:2], 1)
    assert counted(place, key) == {}
    assert tick(place) == 0
    # The same process goes on; what it stores anew is another table.
    assert made(place, key) is None
    assert tick(place) == 1
    assert told(place, key).keys() == OF_A_SWEEP
    assert counted(place, key) == dict.fromkeys({*CHECKS, NOTHING_LEFT}, "SUCCEEDED")
    assert tick(place) == 0


def test_what_failed_is_no_partition_once_a_later_run_was_told_that_did_its_work(place):
    strict = place.with_settings(**STRICT)
    refused, broken, good = at(3), at(2), at(1)
    made(strict, refused)
    interrupted(place, broken)
    assert tick(strict) == 2
    assert len(partitions(place)) == 2
    assert made(place, good) is None
    assert tick(place) == 1
    assert tick(place) == 0
    assert partitions(place) == [partition_key(place.repository_id, good)]


def test_a_run_whose_sweep_has_not_ended_stays_a_partition(place, monkeypatch):
    broken, good = at(2), at(1)
    interrupted(place, broken)
    monkeypatch.setattr(module.journal, "is_begun", lambda _store, key: key == broken)
    assert tick(place) == 1
    assert made(place, good) is None
    assert tick(place) == 1
    assert tick(place) == 0
    assert len(partitions(place)) == 2
    monkeypatch.undo()
    tick(place)
    assert partitions(place) == [partition_key(place.repository_id, good)]


def test_runs_that_are_over_are_no_partitions_and_all_others_stay(place):
    pruned, going, first, broken, last, young = map(at, (9, 8, 7, 6, 5, 4))
    for key in (first, last):
        made(place, key)
    assert tick(place) == 2
    mine = {key: partition_key(place.repository_id, key) for key in (pruned, going, broken, young)}
    others = [partition_key("other", pruned), f"{place.repository_id}|last week"]
    place.instance.add_dynamic_partitions("repository_run", [*mine.values(), *others])
    tags = {"dagster/partition": mine[going]}
    running = dg.DagsterRun("mark", status=dg.DagsterRunStatus.STARTED, tags=tags)
    place.instance.add_run(running)
    assert tick(place) == 0
    stored = [partition_key(place.repository_id, key) for key in (first, last)]
    assert {*partitions(place)} == {*stored, *others, mine[young], mine[going]}
    place.instance.report_run_failed(running)
    assert tick(place) == 0
    assert {*partitions(place)} == {*stored, *others, mine[young]}


def test_a_mark_is_told_again_when_it_was_swept(place):
    key = at(1)
    assert made(place, key, "mark") is None
    assert tick(place) == 1
    assert told(place, key) == dict.fromkeys(OF_A_MARK, 1)
    assert tick(place) == 0
    assert made(place, key, "sweep") is None
    assert tick(place) == 1
    assert told(place, key) == dict.fromkeys(OF_A_SWEEP, 1)
    assert counted(place, key) == dict.fromkeys({*CHECKS, NOTHING_LEFT}, "SUCCEEDED")
    newest, *_ = materializations(place, OWN.of_repository(place.repository_id))
    assert newest.asset_materialization.metadata["objects_deleted"].value == len(place.garbage)
    assert tick(place) == 0


class KilledError(BaseException):
    """What ends a sweep after its deletions."""


@pytest.mark.parametrize(
    ("end", "why"),
    [
        ("require_unchanged_repository", RepositoryStateError("it changed", "Mark again.")),
        ("write_report", KilledError()),
    ],
)
def test_a_run_without_the_end_of_its_sweep_makes_its_repository_not_fresh(
    place, monkeypatch, end, why
):
    def ended(*_args):
        raise why

    key, of_it = at(1), OWN.of_repository(place.repository_id)
    with monkeypatch.context() as patched:
        patched.setattr(f"spark_core.sweep.{end}", ended)
        with suppress(KilledError):
            assert made(place, key) is why
    assert tick(place) == 1
    assert not materializations(place, of_it)
    # Once it was swept, and where nothing is to be swept.
    assert made(place, key, "sweep") is None
    assert tick(place) == 1
    assert len(materializations(place, of_it)) == 1
    marked = place.with_settings(mode="mark")
    assert made(marked, at(0), "mark") is None
    assert tick(marked) == 1
    assert len(materializations(place, of_it)) == 2


@pytest.mark.spark
def test_the_sweep_of_a_mark_that_dagster_made_is_told(ground):
    key = at(1)
    assert ground.job("mark", key).success
    assert tick(ground) == 0
    assert made(ground, key, "sweep") is None
    assert tick(ground) == 1
    assert told(ground, key) == dict.fromkeys(OF_A_SWEEP, 1)
    assert evaluations(ground).keys() == {(NOTHING_LEFT, partition_key(ground.repository_id, key))}


def test_a_mark_that_was_confirmed_and_swept_says_so_and_its_check_stays_as_first_told(place):
    strict, key = place.with_settings(**STRICT), at(1)
    made(strict, key)
    assert tick(strict) == 1
    confirming.confirm(opened(strict, key), SHARE, who="ann")
    assert made(strict, key, "sweep") is None
    assert tick(strict) == 1
    assert told(strict, key) == {**dict.fromkeys(OF_A_SWEEP, 1), "verdict": 2}
    shown = metadata(strict, "verdict", key)
    assert shown["confirmed"].value == SHARE
    assert "This mark may be swept." in " ".join(shown["headline"].value.split())
    assert evaluations(strict)[SHARE, partition_key(strict.repository_id, key)] == 1
    # Dagster counts no result of an earlier materialization.
    assert SHARE not in counted(strict, key)
    assert tick(strict) == 0


def test_a_sweep_that_was_resumed_is_told_again_and_its_check_stays_as_first_told(
    place, monkeypatch
):
    key, delete_one = at(1), LocalStore._delete_one

    def refused(store, name, second=None):
        if name.startswith("data/"):
            return deletion_answer(PermissionError(13, "not allowed"))
        return delete_one(store, name, second)

    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "_delete_one", refused)
        left = made(place, key)
        assert "not deleted" in str(left), left
    assert tick(place) == 1
    assert counted(place, key)[NOTHING_LEFT] == "FAILED"
    assert "house_keeping" not in told(place, key)
    assert not materializations(place, OWN.of_repository(place.repository_id))
    assert tick(place) == 0
    assert made(place, key, "sweep") is None
    assert tick(place) == 1
    assert told(place, key) == {**dict.fromkeys(OF_A_SWEEP, 1), "deletion_report": 2}
    assert metadata(place, "deletion_report", key)["objects_deleted"].value == len(place.garbage)
    assert evaluations(place)[NOTHING_LEFT, partition_key(place.repository_id, key)] == 1
    assert tick(place) == 0


@pytest.mark.parametrize(("age", "is_told"), [(timedelta(hours=47), 1), (timedelta(hours=49), 0)])
def test_only_a_run_within_the_window_of_the_policy_makes_its_repository_fresh(place, age, is_told):
    key = new_key(ago=age)
    made(place, key)
    assert tick(place) == 1
    assert len(materializations(place, OWN.of_repository(place.repository_id))) == is_told


def test_a_repository_that_is_marked_only_misses_no_sweep(place):
    key, marked = at(1), place.with_settings(mode="mark")
    made(marked, key, "mark")
    assert tick(marked) == 1
    assert told(marked, key) == dict.fromkeys(OF_A_SWEEP, 1)
    assert metadata(marked, "deletion_report", key)["repeated"].value.startswith("not swept: ")
    assert NOTHING_LEFT not in counted(marked, key)
    assert tick(marked) == 0
    # Settings of today let it be swept.
    assert made(place, key, "sweep") is None
    assert tick(place) == 1
    assert metadata(place, "deletion_report", key)["objects_deleted"].value == len(place.garbage)
    assert counted(place, key)[NOTHING_LEFT] == "SUCCEEDED"


@pytest.mark.slow
@pytest.mark.spark
def test_a_mark_of_dagsters_own_misses_no_sweep_where_the_settings_only_mark(ground):
    key, marked = at(1), ground.with_settings(mode="mark")
    assert marked.job("mark", key).success
    assert told(marked, key) == dict.fromkeys(OF_A_SWEEP, 1)
    assert tick(marked) == 0


@contextmanager
def two(place):
    """The place with another repository beside it, whose name comes first."""
    with ground_on(place.sandbox, f"a{place.repository_id}") as other:
        both = [other.repository_id, place.repository_id]
        place.settings = settings_of(place.sandbox, both)
        yield other.repository_id


def test_an_error_of_one_repository_keeps_no_other_from_its_turn(place, caplog):
    key = at(1)
    with two(place) as other:
        made(place, key)
        made(place, key, repository_id=other)
        verdict = place.sandbox.blockstore / other / lakegc_keys.verdict_key(key)
        verdict.write_bytes(b"{}")
        assert tick(place) == 1
    assert told(place, key) == dict.fromkeys(OF_A_SWEEP, 1)
    # Also where the repository itself is gone.
    place.settings = settings_of(place.sandbox, ["absent", place.repository_id])
    later = new_key()
    made(place, later)
    assert tick(place) == 1


def test_a_collector_with_a_prefix_is_told_under_its_own_names(place):
    key = at(1)
    made(place, key)
    assert tick(place, Names("gc")) == 1
    assert place.instance.get_dynamic_partitions("gc_repository_run") == [
        partition_key(place.repository_id, key)
    ]
    assert len(materializations(place, dg.AssetKey(["gc", "verdict"]), key)) == 1
    assert told(place, key) == {}


@pytest.fixture
def requests(monkeypatch):
    """What the sensor asks the stores that it opens."""
    stores = []

    def remembering(*args, **more):
        run = open_run(*args, **more)
        stores.append(run.store)
        return run

    monkeypatch.setattr(module, "open_run", remembering)

    def counted_since():
        found = Counter()
        while stores:
            found += stores.pop().requests
        return found

    return counted_since


def test_a_tick_costs_the_store_a_listing_and_few_reads_of_each_new_run(place, requests):
    for minutes in (4, 3, 2):
        made(place, at(minutes))
    assert tick(place) == 3
    assert requests().keys() <= {"list", "read", "head"}
    assert tick(place) == 0
    assert requests() == {"list": 1}
    made(place, at(1))
    assert tick(place) == 1
    found = requests()
    assert found["list"] == 1
    assert found["read"] <= 12
    assert found["head"] == 0
