"""Every listed object gets one fate, and the groups of a report add up."""

import random
from collections import Counter
from datetime import timedelta

import pytest

from spark_core import report
from spark_core.fates import Fate
from spark_core.mark.expired_sums import TOP
from spark_core.records import tables
from spark_core.report import Group, Report, fate_counts
from tests.support.written_run import NOW, OLD, with_index

pytestmark = pytest.mark.spark

YOUNG = NOW - timedelta(hours=3)
WHY = "in no commit, and not staged"


def _by_name(groups):
    return {group.name: (group.objects, group.size_bytes) for group in groups}


def test_each_listed_object_has_exactly_one_fate(written):
    written.mark(
        {
            "data/a/committed": (1, OLD),
            "data/a/committed-and-staged": (2, OLD),
            "data/a/staged": (4, OLD),
            "data/a/goes": (8, OLD),
            "data/a/young": (16, YOUNG),
            "data/a/young-but-committed": (32, YOUNG),
            "data/a//folded": (64, OLD),
            "data/a/twin": (128, OLD),
            "data/a/unchecked": (256, OLD),
        },
        committed=[
            "data/a/committed",
            "data/a/committed-and-staged",
            "data/a/young-but-committed",
            "data/elsewhere",
        ],
        staged=["data/a/staged", "data/a/committed-and-staged", "data/a/staged"],
        expired={"data/a/goes": WHY},
        fates={
            "data/a/twin": (Fate.READ_BY_BRANCH, "main at a"),
            "data/a/unchecked": (Fate.MAY_HIDE, ""),
        },
    )
    found = report.of_mark(written.run)
    assert _by_name(found.kept) == {
        Fate.COMMITTED.sentence: (3, 35),
        Fate.STAGED.sentence: (1, 4),
        Fate.YOUNG.sentence: (1, 16),
        Fate.UNSAFE_NAME.sentence: (1, 64),
        Fate.READ_BY_BRANCH.sentence: (1, 128),
        Fate.MAY_HIDE.sentence: (1, 256),
    }
    assert found.fates["read_by_branch"] == (1, 128)
    assert fate_counts.total(found.fates.values()) == (9, 511)
    assert (found.expired.objects, found.expired.size_bytes) == (1, 8)
    assert (found.listed.objects, found.listed.size_bytes) == (9, 511)


def test_the_groups_of_a_large_mark_add_up_as_python_sums_them(written):
    dice = random.Random(3)
    listed = {
        f"data/slice{number % 33:02d}/object{number}": (
            dice.randrange(1, 10_000),
            NOW - timedelta(hours=dice.randrange(10_000)),
        )
        for number in range(900)
    }
    old = [address for address, (_, modified) in listed.items() if modified < written.run.cutoff]
    expired = {address: dice.choice(["one reason", "another reason"]) for address in old[::2]}
    committed = [address for address in listed if address not in expired]
    written.mark(listed, committed=committed, expired=expired)
    found = report.of_mark(written.run)

    sizes = {address: size for address, (size, _) in listed.items()}
    reasons, slices = Counter(), Counter()
    for address, reason in expired.items():
        reasons[reason] += sizes[address]
        slices[address.split("/")[1]] += sizes[address]
    assert {group.name: group.size_bytes for group in found.by_reason} == dict(reasons)
    assert [(group.name, group.size_bytes) for group in found.by_slice[:-1]] == sorted(
        slices.items(), key=lambda item: (-item[1], item[0])
    )[:TOP]
    assert found.by_slice[-1].name == f"{len(slices) - TOP} other slices"
    for groups in (found.by_reason, found.by_age, found.by_slice):
        assert sum(group.objects for group in groups) == len(expired)
        assert sum(group.size_bytes for group in groups) == sum(
            sizes[address] for address in expired
        )
    first = {group.name for group in found.by_slice[:-1]}
    others = written.run.load(tables.EXPIRED_ADDRESSES).manifest.facts["other_slices"]
    assert others == {
        "objects": sum(address.split("/")[1] not in first for address in expired),
        "bytes": sum(size for name, size in slices.items() if name not in first),
    }
    assert found.expired.objects + sum(group.objects for group in found.kept) == len(listed)
    assert [row.size_bytes for row in found.largest] == sorted(
        (sizes[address] for address in expired), reverse=True
    )[:100]


@pytest.mark.parametrize(
    ("age", "group"),
    [
        (timedelta(days=7) - timedelta(microseconds=1), "1 to 7 days"),
        (timedelta(days=7), "7 to 30 days"),
        (timedelta(days=7, microseconds=1), "7 to 30 days"),
        (timedelta(days=365), "over a year"),
        (timedelta(days=364), "90 days to a year"),
    ],
)
def test_ages_are_counted_from_the_instant_of_the_run(written, age, group):
    written.mark({"data/a/x": (5, NOW - age)}, expired={"data/a/x": WHY})
    assert report.of_mark(written.run).by_age == (Group(group, 1, 5),)


def test_instants_survive_the_way_through_spark_to_the_microsecond(written):
    instant = OLD + timedelta(microseconds=123_456)
    written.mark({"data/a/x": (5, instant)}, expired={"data/a/x": WHY})
    (named,) = report.of_mark(written.run).largest
    assert named.last_modified == instant


def test_an_optimized_mark_says_what_it_took_and_adds_up_to_the_namespace(written):
    written.mark(
        {"data/a/committed": (1, OLD), "data/a/goes": (8, OLD)},
        committed=["data/a/committed"],
        expired={"data/a/goes": WHY},
        of_expired={"vanished": {"objects": 3, "bytes": 30}},
        **with_index("2026-11-19T02-00-00Z", slices=1, objects=900, ranges=2_000),
    )
    found = report.of_mark(written.run)
    assert (found.listed.objects, found.listed.size_bytes) == (5, 39)
    assert _by_name(found.kept)[fate_counts.WORDS[fate_counts.VANISHED]] == (3, 30)
    assert sum(group.objects for group in found.kept) + found.expired.objects == 5
    words = (
        "optimized, with the index of run 2026-11-19T02-00-00Z: 1 slice (900 objects) and 2,000 "
        "ranges were taken from it"
    )
    assert str(found.kind) == words
    assert words[1:] in report.page(found)
    assert Report.from_json(found.to_json(), name="it") == found


def test_a_clean_mark_says_why_it_takes_nothing_from_an_index(written):
    why = "no mark of this repository has passed yet"
    last = "gqv3epl4fd2o8m3men70"
    written.mark({}, of_listing={"why_full": why, "last_slice": last})
    found = report.of_mark(written.run)
    assert str(found.kind) == f"clean: {why}"
    began = written.run.load(tables.NAMESPACE_SLICES).manifest.reading_began
    assert (found.kind.started, found.kind.last_slice) == (began, last)
    assert (
        f"Clean: {why}. Reading began 2026-11-20 02:00:00 UTC, and the newest slice was {last}."
        in (report.page(found))
    )


def test_an_empty_mark_has_a_report(written):
    written.mark({})
    found = report.of_mark(written.run)
    assert (found.listed.objects, found.expired.objects, found.by_slice, found.kept) == (
        0,
        0,
        (),
        (),
    )
    assert report.chart(found).startswith(b"\x89PNG")
    assert "nothing" not in report.page(found)


def test_the_rules_and_settings_of_a_mark_stand_in_its_report(written):
    written.mark({})
    found = report.of_mark(written.run).rules
    assert found.default_days is None
    assert found.settings["min_age_hours"] == 24
    assert found.settings["strangers"] == "collect"


def test_commits_are_counted_by_why_they_keep_their_objects(written):
    written.mark({}, commits=["head of main", "main: within 21 days", "main: within 21 days"])
    assert report.of_mark(written.run).commits == {"main: within 21 days": 2, "head of main": 1}


def test_refused_checks_stand_in_the_report_and_on_its_page(written):
    written.mark({"data/a/x": (5, OLD)}, expired={"data/a/x": WHY})
    written.conclude(expired_share_is_plausible="1 of 1 objects <all> would go")
    found = report.of_mark(written.run)
    assert found.passed is False
    assert found.refused == {"expired_share_is_plausible": "1 of 1 objects <all> would go"}
    page = report.page(found)
    assert "Refused. Nothing was deleted." in page
    assert "1 of 1 objects &lt;all&gt; would go" in page
