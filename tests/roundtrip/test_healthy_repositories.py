"""No check fires on a repository that is as it should be, however odd: each of these passes them
all, limits counted from one object on.

The repositories recorded from a real server are asked the same in `test_golden_repositories.py`.
"""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from lakegc_dagster.sandbox import Sandbox, gc, objects, refs, repositories
from spark_core import checks as guards
from tests.support.pipeline import mark_and_conclude, sweep_only
from tests.support.sandbox_runs import open_sandbox_run

pytestmark = pytest.mark.spark

# Three weeks after the clocks of New York went back: thirty days of its calendar are an hour longer
# than those of UTC.
NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)
NEW_YORK = ZoneInfo("America/New_York")
RULES = gc.Rules(30, {})


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """One server for all of them, so each is also compared with repositories beside it."""
    with Sandbox(tmp_path_factory.mktemp("healthy") / "sandbox") as running:
        yield running


class Making:
    """A repository that is being made on the sandbox, at instants of its own past."""

    def __init__(self, sandbox, name):
        self.sandbox, self.core, self.name = sandbox, sandbox.core, name
        repositories.create(self.core, name, f"local://{name}")

    def upload(self, path, data, branch="main"):
        return objects.upload(self.core, self.name, branch, path, data).address

    def commit(self, message, branch="main"):
        return refs.commit(self.core, self.name, branch, message=message).id

    def blob(self, address):
        return self.sandbox.blockstore / self.name / address


def fresh(_making):
    """Nothing was ever uploaded: the one commit has no metarange."""


def empty_head(making):
    """The last object was removed: the head's metarange holds no range."""
    making.upload("a", b"1")
    making.commit("add")
    objects.delete(making.core, making.name, "main", ["a"])
    making.commit("remove")


def imports_only(making):
    """Every object lies elsewhere, and there are no rules.

    Retained ranges reach nothing in the namespace.
    """
    objects.stage(
        making.core,
        making.name,
        "main",
        "imported",
        physical_address=f"local://{making.sandbox.blockstore.parent}/elsewhere/object",
        checksum="0" * 32,
        size_bytes=3,
        link=False,
    )
    making.commit("import")


def tag_on_a_collected_commit(making):
    """A collector that knows no tags took the objects of a tagged commit long ago."""
    gc.set_rules(making.core, making.name, RULES)
    lost = [making.upload(f"old/{number}", b"%d" % number) for number in range(5)]
    refs.create_tag(making.core, making.name, "v1", making.commit("old"))
    objects.delete(making.core, making.name, "main", [f"old/{number}" for number in range(5)])
    making.upload("new", b"new")
    making.commit("new")
    for address in lost:
        making.blob(address).unlink()


def no_rules(making):
    """Every commit keeps its objects; what is staged is alive, too."""
    making.upload("a", b"first")
    making.commit("first")
    making.upload("a", b"second, which is longer")
    making.commit("second")
    making.upload("b", b"staged")


def days_of_new_york(making):
    """The server counts days by the calendar of New York.

    A commit stands in the hour between its days and those of UTC.
    """
    gc.set_rules(making.core, making.name, RULES)
    making.upload("a", b"first")
    making.commit("first")
    for minutes in (90, 30, -30):
        making.sandbox.clock.set(NOW - timedelta(days=30, minutes=minutes))
        making.upload("a", b"%d minutes around the threshold" % minutes)
        making.commit(f"{minutes} minutes before the threshold")


HEALTHY = [fresh, empty_head, imports_only, tag_on_a_collected_commit, no_rules, days_of_new_york]


@pytest.fixture(autouse=True)
def by_the_calendar_of_new_york(monkeypatch):
    """Let the server count back days of a time zone with daylight saving, as Go's AddDate does.

    All rules here have 30 days.
    """
    in_utc = gc.active_commits

    def active_commits(commits, branches, rules, now):
        wall = now.astimezone(NEW_YORK).replace(tzinfo=None)
        threshold = (wall - timedelta(days=30)).replace(tzinfo=NEW_YORK).astimezone(UTC)
        assert now - threshold == timedelta(days=30, hours=1), "the clocks went back in these days"
        return in_utc(commits, branches, rules, threshold + timedelta(days=30))

    monkeypatch.setattr(gc, "active_commits", active_commits)


def _made(served, make):
    name = make.__name__.replace("_", "-")
    with served.core.lock, served.clock.at(NOW - timedelta(days=400)):
        make(Making(served, name))
    served.clock.set(NOW)
    return name


@pytest.mark.parametrize("make", HEALTHY, ids=lambda make: make.__name__)
def test_every_check_passes(make, served, spark):
    name = _made(served, make)
    run = open_sandbox_run(served, name, spark, NOW, share_from_objects=0)
    marked, found, results = mark_and_conclude(run)
    assert [result.name for result in results] == [name for name, _, _ in guards.CHECKS]
    assert [(result.name, result.summary) for result in results if not result.passed] == []
    assert found.passed
    if make is not days_of_new_york:
        assert marked.addresses(run) == []
        return
    # The oldest went past its days; the one in the hour between the two calendars stays, by either
    # reading.
    assert marked.expired.manifest.rows == 1


@pytest.mark.deep
def test_night_after_night_nothing_changed_suddenly(served, spark):
    with served.core.lock, served.clock.at(NOW - timedelta(days=400)):
        making = Making(served, "nightly")
        no_rules(making)
    for night in range(3):
        at = NOW + timedelta(days=night)
        served.clock.set(at)
        run = open_sandbox_run(served, "nightly", spark, at, share_from_objects=0)
        _, found, _ = mark_and_conclude(run)
        assert found.passed, found.failed
        assert set(sweep_only(run).values()) <= {"deleted"}
        with served.core.lock:
            objects.delete(served.core, "nightly", "main", ["b"])
            making.upload("b", b"staged in night %d" % night)
