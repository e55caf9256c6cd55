"""A server in a time zone with daylight saving never retains a commit that lakegc would not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_core.model import Branch, Commit, Refs, RetentionRules
from spark_core.retention import retained_commits
from tests.spark_core.retention.graphs import as_the_server_walks
from tests.support.examples import examples

NEW_YORK = ZoneInfo("America/New_York")
# Lord Howe's clocks move by half an hour; Chatham's offset is no whole hour.
ZONES = ["America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Chatham", "UTC"]
RULES = RetentionRules(30, {"main": 30})


def days_ago(now: datetime, zone: ZoneInfo, fold: int) -> Callable[[int], datetime]:
    """Return the same time of day so many calendar days ago, as the server counts.

    An hour that comes twice or never has two readings, and the server may take either: `fold` 0 or
    1 (`lakefs-facts` 4.2, 11.15).
    """
    wall = now.astimezone(zone).replace(tzinfo=None)
    return lambda days: (
        (wall - timedelta(days=days)).replace(tzinfo=zone, fold=fold).astimezone(UTC)
    )


def line(now: datetime, *ages: timedelta) -> Refs:
    """A branch of commits of these ages, the oldest first, under a head that was just made."""
    names = [f"{number:02}" for number in range(len(ages) + 1)]
    commits = {
        name: Commit(name, (names[at - 1],) if at else (), now - age, f"m{name}")
        for at, (name, age) in enumerate(zip(names, [*ages, timedelta(0)], strict=True))
    }
    return Refs(commits, (Branch("main", names[-1]),), ())


def ours(refs: Refs, rules: RetentionRules, now: datetime, **options: timedelta) -> set[str]:
    return {retention.commit_id for retention in retained_commits(refs, rules, now, **options)}


# Clocks in New York go back on 2026-11-01 and forward on 2026-03-08.
AUTUMN, SPRING = datetime(2026, 11, 21, 12, tzinfo=UTC), datetime(2026, 3, 28, 12, tzinfo=UTC)
HALF_AN_HOUR = timedelta(minutes=30)


@pytest.mark.parametrize(
    ("now", "age", "by_new_york", "by_utc"),
    [
        # The 30 days have an hour more: a child of 30 days and 30 minutes still counts as inside,
        # and keeps its parent.
        (AUTUMN, timedelta(days=30) + HALF_AN_HOUR, True, False),
        (AUTUMN, timedelta(days=30, hours=1) + HALF_AN_HOUR, False, False),
        (AUTUMN, timedelta(days=30) - HALF_AN_HOUR, True, True),
        # The 30 days have an hour less: a child of 30 days less 30 minutes is already outside.
        (SPRING, timedelta(days=30) - HALF_AN_HOUR, False, True),
        (SPRING, timedelta(days=30, hours=-1) - HALF_AN_HOUR, True, True),
        (SPRING, timedelta(days=30) + HALF_AN_HOUR, False, False),
    ],
)
def test_the_hour_of_both_transitions_is_inside_our_margin(
    now: datetime, age: timedelta, *, by_new_york: bool, by_utc: bool
) -> None:
    refs = line(now, timedelta(days=90), age)
    for zone, expected in ((NEW_YORK, by_new_york), (ZoneInfo("UTC"), by_utc)):
        server = as_the_server_walks(refs, RULES, now, days_ago(now, zone, 0))
        assert ("00" in server) is expected, f"the oldest commit, by a server in {zone}"
        assert server <= ours(refs, RULES, now)
    exact = ours(refs, RULES, now, clock_margin=timedelta(0))
    assert ("00" in exact) is by_utc


def test_without_the_margin_the_autumn_hour_would_be_lost() -> None:
    refs = line(AUTUMN, timedelta(days=90), timedelta(days=30) + HALF_AN_HOUR)
    server = as_the_server_walks(refs, RULES, AUTUMN, days_ago(AUTUMN, NEW_YORK, 0))
    assert not server <= ours(refs, RULES, AUTUMN, clock_margin=timedelta(0))


@given(
    zone=st.sampled_from(ZONES).map(ZoneInfo),
    now=st.integers(0, 3 * 365 * 24 * 60).map(
        lambda minutes: datetime(2025, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
    ),
    days=st.integers(0, 400),
    near=st.lists(st.integers(-150, 150), min_size=1, max_size=8),
    fold=st.integers(0, 1),
)
@settings(max_examples=examples(60, 400), deadline=None)
def test_around_every_threshold_of_every_zone_ours_contains_the_servers(
    zone: ZoneInfo, now: datetime, days: int, near: list[int], fold: int
) -> None:
    rules = RetentionRules(days, {"main": days})
    ages = sorted((timedelta(days=days, minutes=minutes) for minutes in near), reverse=True)
    refs = line(now, *ages)
    assert as_the_server_walks(refs, rules, now, days_ago(now, zone, fold)) <= ours(
        refs, rules, now
    )
