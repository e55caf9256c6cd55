"""What a person asks of an asset is its first metadata."""

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from lakegc_dagster import headlines
from lakegc_dagster.headlines import of_tables
from lakegc_dagster.metadata import above, counters_metadata
from spark_core.prices import Price
from spark_core.records import tables
from spark_core.records.figures import (
    AmountFigures,
    CommittedFigures,
    DeletionFigures,
    ExpiredFigures,
    IndexFigures,
    InventoryFigures,
    ListedFigures,
    TakenFigures,
    TwinFigures,
)
from spark_core.records.manifest import Manifest
from spark_core.report import Check
from spark_core.report.status import RepositoryStatus
from tests.spark_core.report.test_page import CURVE, REPORT
from tests.support.figures import read

AT = datetime(2026, 11, 20, 2, tzinfo=UTC)
OLD = "the inventory is 3.0 days older than the run: garbage since then is not seen"
EXPIRED = ExpiredFigures(
    live_objects=1,
    missing_objects=0,
    missing_named=(),
    other_sizes=0,
    expired_objects=1_200,
    expired_bytes=3_000_000_000,
    by_reason=(("in no commit", 200, 1), ("past <b>its</b> retention", 1_000, 2_999_999_999)),
    by_age=(("over a year", 1_000, 2_999_999_999), ("under a day", 200, 1)),
    by_fate={"expired": (1_200, 3_000_000_000), "committed": (800, 1_000_000_000)},
    twins=TwinFigures(),
)


def manifest(spec, figures):
    return Manifest(spec.name, "r", "i", "k", "a", AT, AT, {}, (), figures.facts())


def records(value):
    return [dict(record.data) for record in value.records]


def test_a_mark_is_told_in_a_headline_in_figures_and_by_reason_with_most_bytes_first():
    told = headlines.of_table(manifest(tables.EXPIRED_ADDRESSES, EXPIRED), Price(0.02))
    assert next(iter(told)) == "headline"
    assert told["headline"].value.split("  \n") == [
        "**1,200 objects (3.0 GB) may go**",
        "of 2,000 objects (4.0 GB).",
        "They cost 0.06 a month.",
        "The verdict decides.",
    ]
    assert told["objects_that_may_go"].value == 1_200
    assert told["bytes_that_may_go"].value == 3_000_000_000
    assert told["share_of_bytes"].value == 0.75
    assert [row["what"] for row in records(told["by_reason"])] == [
        "past <b>its</b> retention",
        "in no commit",
    ]
    ages = [row["what"] for row in records(told["by_age"])]
    assert ages == ["under a day", "over a year"], "the youngest first, whatever their bytes"


@pytest.mark.parametrize(
    ("days", "more"),
    [
        (0.9, "."),
        (
            3.04,
            f"; **{OLD}**.",
        ),
    ],
)
def test_a_listing_says_of_which_inventory_it_is_and_whether_that_is_old(days, more):
    inventory = InventoryFigures(
        manifest="s3://i/manifest.json",
        created_at="2026-11-17T02:00:00+00:00",
        age_seconds=days * 86_400,
        files=1,
        file_bytes=1,
        rows=2,
        rows_passed_over=1,
    )
    listed = ListedFigures(
        cutoff=AT.isoformat(),
        repositories=1,
        overlapping_repositories=(),
        table_prefix="_lakefs",
        clock_skew_seconds={},
        objects=1,
        inventory=inventory,
    )
    told = headlines.of_table(manifest(tables.NAMESPACE_SLICES, listed))["headline"].value
    read = f"They were read from the inventory of 2026-11-17T02:00:00+00:00{more}"
    assert read in " ".join(told.replace("  \n", " ").split())


def test_a_sweep_is_told_by_what_became_of_its_objects():
    figures = DeletionFigures.of(
        SimpleNamespace(
            facts={**_swept(), "deleted_objects": 3, "deleted_bytes": 5_000}, table="t", run="r"
        )
    )
    told = headlines.of_table(manifest(tables.DELETION_REPORT, figures))
    assert told["headline"].value == "**3 objects (5.0 kB) deleted**  \nof 3 that may go."
    assert records(told["by_outcome"]) == [{"what": "deleted", "objects": 3, "bytes": "5.0 kB"}]


def _swept():
    names = ("deleted", "already_gone", "kept", "refused", "failed")
    sums = {f"{name}_{what}": 0 for name in names for what in ("objects", "bytes")}
    return {**sums, "planned_objects": 3, "left_objects": 0, "left_named": [], "rounds": 1}


@pytest.mark.parametrize(("passed", "words"), [(True, "may be swept"), (False, "cannot be swept")])
def test_a_verdict_says_whether_the_mark_may_be_swept_and_names_what_refuses_it(passed, words):
    checks = (Check("a", passed=passed, summary="", limit="", lifted_by=""),)
    report = SimpleNamespace(
        **{
            **{
                name: getattr(REPORT, name)
                for name in ("expired", "listed", "by_reason", "kept", "kind")
            },
            "passed": passed,
            "checks": checks,
            "refused": {} if passed else {"a_check": "found [this](http://x)"},
        }
    )
    told = headlines.of_mark(report)["headline"].value
    assert words in told
    assert ("0 of 1 checks passed" in told) != passed
    # Text from elsewhere is no Markdown.
    assert ("\\[this\\]\\(http://x\\)" in told) != passed
    # Dagster's column has no room for more.
    assert max(len(line) for line in told.splitlines()) <= 36


def test_the_figures_of_each_repository_have_its_name_so_that_each_has_a_plot_of_its_own():
    statuses = [
        RepositoryStatus("one", reclaimed=(2, 2_000), reclaimed_lately=(1, 1_000)),
        RepositoryStatus("two", waiting=(5, 7_000), waits_for="a confirmation", overdue="late"),
    ]
    told = headlines.of_repositories(statuses)
    assert told["one: bytes reclaimed in 30 days"].value == 1_000
    assert told["two: bytes waiting"].value == 7_000
    assert told["repositories_overdue"].value == 1
    assert [row["repository"] for row in records(told["repositories"])] == ["one", "two"]
    assert told["headline"].value.split("  \n") == [
        "**1.0 kB reclaimed in 30 days**",
        "in 2 repositories.",
        "7.0 kB wait in 1 of them.",
        "Overdue: two.",
    ]


def test_what_only_the_newest_runs_tell_is_told_as_theirs():
    cut = RepositoryStatus(
        "hourly", only_newest=60, reclaimed_lately=(1, 1_000), lately_is_whole=False
    )
    told = headlines.of_repositories([cut, RepositoryStatus("nightly")])
    assert told["headline"].value.startswith("**at least 1.0 kB reclaimed in 30  \ndays**")
    hourly, nightly = records(told["repositories"])
    assert hourly["last good mark"] == hourly["last sweep"] == "none of the newest 60"
    assert hourly["reclaimed in 30 days"] == "at least 1.0 kB"
    assert (nightly["last sweep"], nightly["reclaimed in 30 days"]) == ("none", "0 bytes")


def test_what_other_rules_would_free_is_told_as_a_table_and_in_figures_to_be_plotted():
    told = headlines.of_what_if(CURVE)
    assert told["headline"].value.split("  \n") == [
        "Under the rules of now: **5",
        "objects, 4.5 kB**.",
        "In 7 days: 6 objects, 5.0 kB.",
        "Each is an upper bound.",
    ]
    assert told["bytes_if_kept_7_days"].value == 4_500
    assert len(records(told["what_if"])) == 5


def test_house_keeping_says_each_thing_on_a_line_and_leaves_units_alone():
    told = headlines.of_house_keeping("6 files, 6.1 kB; nothing now")
    assert told["headline"].value.split("  \n") == ["6 files, 6.1 kB.", "Nothing now."]


def test_a_policy_that_was_not_looked_at_is_told_once():
    off = SimpleNamespace(summary="the settings switch policies off")
    told = headlines.of_policy([off, off, off], {})
    assert told["headline"].value == "The settings switch policies off."


def test_the_figures_of_a_group_stand_before_its_words():
    told = headlines.of_table(manifest(tables.EXPIRED_ADDRESSES, EXPIRED))
    names = [column.name for column in told["by_reason"].schema.columns]
    assert names == list(records(told["by_reason"])[0]) == ["objects", "bytes", "what"]


def test_a_counter_gives_way_to_what_a_person_asks():
    shown = above({"by_reason": "table", "headline": "h"}, counters_metadata({"by_reason": ["x"]}))
    assert list(shown) == ["by_reason", "headline"]
    assert shown["by_reason"] == "table"


INDEX = IndexFigures(
    run="2026-11-19T02-00-00Z",
    saved="s",
    listed_since=0,
    open_slices=(),
    slices=70,
    objects=9_000,
    bytes=7_000_000_000,
)


def listed(**figures):
    return read(
        ListedFigures, objects=3, object_bytes=3_000, old_objects=2, old_bytes=2_000, **figures
    )


def test_an_optimized_run_says_whose_index_it_has_and_what_it_did_not_list():
    figures = replace(listed(index=INDEX.facts()), objects=10_000, object_bytes=8_000_000_000)
    told = headlines.of_table(manifest(tables.NAMESPACE_SLICES, figures))
    assert told["headline"].value.split("  \n") == [
        "**10,000 objects (8.0 GB)**",
        "lie under `data/`.",
        "2 objects (2.0 kB) are old",
        "enough.",
        "Optimized: with the index of run",
        r"2026\-11\-19T02\-00\-00Z.",
    ]
    assert (told["objects_listed"].value, told["bytes_listed"].value) == (10_000, 8_000_000_000)
    assert (told["slices_not_listed"].value, told["objects_taken"].value) == (70, 9_000)
    assert told["index_of_run"].value == INDEX.run


def test_a_clean_run_says_why_it_is_one_where_it_might_have_been_another():
    why = "each of 7 marks reads everything (full_every)"
    told = headlines.of_table(manifest(tables.NAMESPACE_SLICES, listed(why_full=why)))
    assert "Clean: each of 7 marks" in told["headline"].value
    plain = headlines.of_table(manifest(tables.NAMESPACE_SLICES, listed()))
    assert "Clean" not in plain["headline"].value
    assert "slices_not_listed" not in plain


def test_the_share_that_may_go_is_that_of_all_that_was_listed_or_taken():
    gone = AmountFigures(objects=8_000, bytes=4_000_000_000)
    told = headlines.of_table(manifest(tables.EXPIRED_ADDRESSES, replace(EXPIRED, vanished=gone)))
    assert "of 10,000 objects (8.0 GB)." in told["headline"].value
    assert told["share_of_bytes"].value == 0.375
    whole = headlines.of_table(manifest(tables.EXPIRED_ADDRESSES, EXPIRED))
    assert whole["share_of_bytes"].value == 0.75


def test_the_ranges_that_an_optimized_run_took_from_the_index_are_counted():
    taken = TakenFigures(ranges=990, entries=12_000)
    figures = read(CommittedFigures, ranges_read=11, in_data=9, taken=taken.facts())
    told = headlines.of_table(manifest(tables.COMMITTED_ADDRESSES, figures))
    assert told["headline"].value.split("  \n") == [
        "**12,000 entries of 990 ranges**",
        "were taken from the index.",
        "11 ranges were read.",
    ]
    assert (told["ranges_not_read"].value, told["entries_taken"].value) == (990, 12_000)
    assert "reached_addresses" not in told, "the others are reached as well"


def test_every_table_has_a_headline():
    assert set(of_tables._BY_TABLE) == {spec.name for spec in tables.ALL_TABLES}
