"""Every check of a mark passes on a whole one, fires on what it is there for, and says its limit
and the way on.
"""

import re
from dataclasses import replace

import pytest

from spark_core import checks as guards
from spark_core.records import tables
from tests.support.passing_mark import passing_mark
from tests.support.written_run import written_run

SLICES, STAGED, COMMITS, COMMITTED, EXPIRED = (spec.name for spec in tables.MARK_TABLES)
HEADS = ("head_ranges", "head_ranges_read", "head_metaranges", "head_metaranges_read")
NO_RANGES = dict.fromkeys(("ranges", "ranges_read", "entries", "entries_read"), 0)

# What the search for hidden entries says where more than one in a hundred waits.
WAITING = {
    "candidates": 10_000,
    "unchecked_objects": 101,
    "unchecked_bytes": 4_000_000,
    "twin_calls": 1_000,
    "planned_calls": 22_400,
}

# Check -> (table whose facts are otherwise, the facts, what it says then); each alone makes exactly
# that check fail.
FIRING = {
    "namespace_is_its_own": [
        (
            SLICES,
            {"overlapping_repositories": ["other"], "repositories": 2},
            r"local://repo is shared with other \(2 repo",
        ),
        (
            SLICES,
            {"repositories": 0},
            r"shared with nobody knows whom \(0 repositories were compared\)",
        ),
    ],
    "listing_lies_in_one_repository": [
        (
            SLICES,
            {"nested_objects": 3},
            "3 objects below data/ belong to a repository made inside local://repo",
        ),
    ],
    "clocks_agree": [
        (
            SLICES,
            {"clock_skew_seconds": {"server": -301.0, "store": 0.0}},
            r"server -301 s, store agrees, at most 300 s",
        ),
        (
            SLICES,
            {"clock_skew_seconds": {"server": None, "store": 301.0}},
            r"store \+301 s, at most 300 s are accepted",
        ),
    ],
    "uncommitted_was_read_whole": [
        (STAGED, {"branches_read": 0}, "no branch's changes were read"),
        (
            STAGED,
            {"pages": 3, "pages_with_data": 2, "files": 1, "files_read": 1},
            "a page claimed rows that are in no file",
        ),
        (STAGED, {"files": 2, "files_read": 1}, "only 1 of 2 files were read"),
        (STAGED, {"files": 1, "files_read": 1, "file_rows": 7}, "0 rows were stored, 7 were read"),
    ],
    "commits_are_known": [
        (
            COMMITS,
            {"unknown_to_dump": ["c" * 64]},
            r"retains 1 commits that its own dump does not know \(cccccccccccc\.\.\.",
        ),
    ],
    "heads_are_readable": [
        (COMMITS, {"heads": 0, "heads_retained": 0}, "no branch has a head"),
        (COMMITS, {"heads": 3, "heads_retained": 2}, "2 of 3 heads are retained"),
        (COMMITTED, {"head_metaranges": 2}, "only 1 of their 2 metaranges are known"),
        (
            COMMITTED,
            {"head_ranges": 5, "head_ranges_read": 4},
            "only 4 of their 5 ranges are known",
        ),
    ],
    "ranges_were_read_whole": [
        (COMMITTED, {"metaranges_read": 1}, "of which only 1, 3 and 4 are known"),
        (COMMITTED, {"ranges_read": 2}, "of which only 2, 2 and 4 are known"),
        (COMMITTED, {"entries_read": 3}, "of which only 2, 3 and 3 are known"),
        (
            COMMITTED,
            {"ranges_read": 1, "taken": {"ranges": 1}},
            "of which only 2, 2 and 4 are known",
        ),
        (COMMITTED, {"taken": {"entries": 1}}, "of which only 2, 3 and 5 are known"),
        (COMMITTED, {"metarange_rows": 2}, " 2 of 3 rows of metaranges and 0 of 0 addresses"),
        (COMMITTED, {"metarange_rows": 4, "metaranges_read": 3}, " 4 of 3 rows of metaranges"),
        (COMMITTED, {"addresses_read": 3}, " 0 of 3 addresses came out of it"),
    ],
    "zero_ranges_are_proved": [
        # Nothing was read although the commits have two metaranges; the heads are empty, so no
        # other check sees it.
        (
            COMMITTED,
            {**NO_RANGES, "empty_metaranges": 0},
            (
                r"no range, although they have 2 metaranges, of which 2 were read and 0 hold none: "
                r"everything that repo committed"
            ),
        ),
        (
            COMMITTED,
            {
                **NO_RANGES,
                "retained_metaranges": 1,
                "retained_metaranges_read": 1,
                "empty_metaranges": 1,
            },
            "although they have 2 metaranges, of which 1 were read and 1 hold none",
        ),
        (
            COMMITTED,
            {
                **NO_RANGES,
                "retained_metaranges_read": 1,
                "empty_metaranges": 1,
                "taken": {"retained_metaranges": 1},
            },
            "although they have 2 metaranges, of which 2 were read and 1 hold none",
        ),
    ],
    "only_data_expires": [
        (EXPIRED, {"not_collectable": 2}, "2 objects that would go do not lie under data/\\."),
        (
            EXPIRED,
            {"not_of_lakefs": 3},
            "3 objects that would go were not named by lakeFS or are older than the repos",
        ),
    ],
    "plan_is_a_selection_of_fates": [
        (EXPIRED, {"enclosed": {}}, "the fates of the objects are not stored"),
        (
            EXPIRED,
            {"by_fate": {"expired": [2, 8], "committed": [1, 4]}},
            "the fates let 2 objects go, and the table names 1",
        ),
    ],
    "only_old_objects_expire": [
        (
            EXPIRED,
            {"too_young": 1},
            r"1 objects that would go were written at or after the cutoff 2026-11-19T01:55:00",
        ),
        (
            SLICES,
            {"cutoff": "2026-11-20T02:00:00+00:00"},
            r"cutoff 2026-11-20T02.* \(this run's cutoff is 2026-11-19T01:55",
        ),
    ],
    "live_objects_are_listed": [
        (
            EXPIRED,
            {
                "live_objects": 1_000,
                "missing_objects": 11,
                "missing_named": ["data/s/lost"],
                "missing_table": "gc/missing/",
            },
            (
                r"11 of 1000 objects that branches reach are not in the listing \(1\.1%, limit "
                r"1\.0%\), for example data/s/lost\. "
                r"gc/missing/ names all of them"
            ),
        ),
        (SLICES, {"objects": 0}, "the listing of local://repo/data/ is empty, although 5 retained"),
    ],
    "hidden_entries_were_asked": [
        (
            EXPIRED,
            {"twins": WAITING},
            (
                r"101 objects \(4\.0 MB\) wait, because a branch may read from them and "
                r"twin_calls = 1,000 did not suffice to ask: "
                r"raise twin_calls \(to about 22,400\)"
            ),
        ),
    ],
    "expired_share_is_plausible": [
        (
            EXPIRED,
            {"expired_objects": 5_001, "expired_bytes": 0},
            (
                r"5001 of 10000 objects \(50\.0%\) and 0\.0% of the bytes would go, above the "
                r"limit of 50\.0%\. "
                r".*`lakegc confirm repo expired_share_is_plausible --run 2026-11-20T02-00-00Z`\)"
            ),
        ),
        (
            EXPIRED,
            {"expired_objects": 1, "expired_bytes": 51},
            r"51\.0% of the bytes would go, above the limit of 50\.0%",
        ),
    ],
}
ELSEWHERE = {
    "tables_were_made_in_order": "tests/spark_core/run/test_chain.py",
    "nothing_changed_suddenly": "test_sudden_change.py",
    "optimized_runs_were_right": "tests/losses/test_losses_of_optimized_runs.py",
    "mark_is_recent": "tests/spark_core/checks/test_sweepable.py",
}
CASES = [(name, *case) for name, cases in FIRING.items() for case in cases]


@pytest.fixture
def run(tmp_path):
    return written_run(tmp_path, spark=None).run


def _failed(run, manifests):
    return [result for result in guards.check_mark(run, manifests) if not result.passed]


def _with(manifests, table, facts):
    return {
        **manifests,
        table: replace(manifests[table], facts={**manifests[table].facts, **facts}),
    }


def _rechained(manifests):
    """Name each table's parents anew, so that only the facts are otherwise and not the order."""
    made = {}
    for name, manifest in manifests.items():
        made[name] = replace(
            manifest, parents={parent: made[parent].sha256 for parent in manifest.parents}
        )
    return made


def test_every_check_has_a_case_in_which_it_fires():
    assert {*FIRING, *ELSEWHERE} == {name for name, _, _ in guards.CHECKS}


def test_a_whole_mark_passes_them_all(run):
    assert _failed(run, passing_mark(run)) == []


@pytest.mark.parametrize(
    ("name", "table", "facts", "text"), CASES, ids=lambda value: str(value)[:40]
)
def test_a_check_fires_alone_and_says_why(run, name, table, facts, text):
    manifests = _with(
        _with(passing_mark(run), SLICES, {"object_bytes": 100}), COMMITTED, {"in_data": 5}
    )
    if name == "zero_ranges_are_proved":
        manifests = _with(manifests, COMMITTED, dict.fromkeys(HEADS, 0))
    assert _failed(run, _rechained(manifests)) == []
    (failed,) = _failed(run, _rechained(_with(manifests, table, facts)))
    assert failed.name == name
    assert re.search(text, failed.summary), failed.summary


def test_what_was_taken_from_the_index_counts_like_what_was_read(run):
    taken = {
        "metaranges": 1,
        "head_metaranges": 1,
        "retained_metaranges": 1,
        "ranges": 2,
        "head_ranges": 1,
        "entries": 3,
    }
    facts = passing_mark(run)[COMMITTED].facts
    read = {f"{name}_read": facts[f"{name}_read"] - count for name, count in taken.items()}
    manifests = _rechained(_with(passing_mark(run), COMMITTED, {**read, "taken": taken}))
    assert _failed(run, manifests) == []
    said = {result.name: result.summary for result in guards.check_mark(run, manifests)}
    assert said["heads_are_readable"].endswith(
        "all of them read, or taken from the index (1 metaranges and 1 ranges)"
    )
    assert said["ranges_were_read_whole"].endswith(
        "all of them read, or taken from the index (1 metaranges and 2 ranges)"
    )


def test_empty_metaranges_of_the_index_prove_that_there_is_no_range(run):
    none = {**NO_RANGES, **dict.fromkeys(HEADS, 0), "taken": {"retained_metaranges": 1}}
    few = {"retained_metaranges_read": 1, "empty_metaranges": 1}
    lacking = _with(passing_mark(run), COMMITTED, {**none, **few})
    (failed,) = _failed(run, _rechained(lacking))
    assert failed.name == "zero_ranges_are_proved"
    taken = {"retained_metaranges": 1, "empty_metaranges": 1}
    assert _failed(run, _rechained(_with(lacking, COMMITTED, {"taken": taken}))) == []


def test_a_check_that_only_says_something_stands_in_the_way_of_nothing(run):
    waiting = _rechained(_with(passing_mark(run), EXPIRED, {"twins": WAITING}))
    (said,) = _failed(run, waiting)
    assert said.name in guards.ADVISORY
    assert said.allows
    (refused,) = _failed(
        run, _rechained(_with(passing_mark(run), EXPIRED, {"expired_objects": 5_001}))
    )
    assert not refused.allows


@pytest.mark.parametrize(("waiting", "passes"), [(0, True), (1, True), (100, True), (101, False)])
def test_one_in_a_hundred_may_wait_and_what_waits_is_said_from_the_first_on(run, waiting, passes):
    manifests = _rechained(
        _with(passing_mark(run), EXPIRED, {"twins": {**WAITING, "unchecked_objects": waiting}})
    )
    (said,) = [
        result
        for result in guards.check_mark(run, manifests)
        if result.name == "hidden_entries_were_asked"
    ]
    assert said.passed is passes
    assert ("wait" in said.summary) == (waiting > 0)


def test_what_waits_for_paths_that_no_listing_gets_behind_is_not_blamed_on_the_calls(run):
    odd = {**WAITING, "planned_calls": 1, "calls": 1}
    manifests = _rechained(_with(passing_mark(run), EXPIRED, {"twins": odd}))
    (said,) = _failed(run, manifests)
    assert "rename those paths" in said.summary
    assert "twin_calls" not in said.summary


def test_every_check_says_its_limit_and_who_may_lift_it(run):
    for result in guards.check_mark(run, passing_mark(run)):
        assert result.limit, result.name
        assert result.lifted_by, result.name
        assert (result.name in guards.CONFIRMABLE) == ("lakegc confirm repo" in result.lifted_by)


def test_without_any_scan_the_changes_of_all_branches_will_do(run):
    """A branch was deleted under each scan."""
    manifests = _with(passing_mark(run), STAGED, {"pages": 0, "branches_read": 3})
    assert _failed(run, _rechained(manifests)) == []


def test_no_commit_at_all_is_refused(run):
    manifests = passing_mark(run)
    nothing = {**manifests, COMMITS: replace(manifests[COMMITS], parts=())}
    (failed,) = _failed(run, _rechained(nothing))
    assert failed.name == "commits_are_known"
    assert "every object would look unreachable" in failed.summary


def test_a_fresh_repository_has_no_range_and_is_whole(run):
    """Its one commit has the empty id, so there is no metarange to be read."""
    manifests = passing_mark(run)
    manifests = _with(manifests, COMMITTED, dict.fromkeys(manifests[COMMITTED].facts, 0))
    manifests = _with(manifests, COMMITS, {"metaranges": 0})
    assert _failed(run, _rechained(manifests)) == []


@pytest.mark.parametrize(
    ("options", "facts", "passes"),
    [
        ({}, {"live_objects": 999, "missing_objects": 999, "missing_named": ["a"]}, True),
        ({}, {"live_objects": 1_000, "missing_objects": 10, "missing_named": ["a"]}, True),
        (
            {"max_missing_share": 0.02},
            {"live_objects": 1_000, "missing_objects": 20, "missing_named": ["a"]},
            True,
        ),
        (
            {"share_from_objects": 10},
            {"live_objects": 10, "missing_objects": 1, "missing_named": ["a"]},
            False,
        ),
        ({}, {"expired_objects": 5_000}, True),
        ({"max_expired_share": 0.6}, {"expired_objects": 6_000}, True),
        ({"share_from_objects": 10_001}, {"expired_objects": 10_000}, True),
        ({"max_expired_share": 0.1}, {"expired_objects": 1_001}, False),
    ],
)
def test_limits_are_settings_and_hold_up_to_and_with_their_value(run, options, facts, passes):
    manifests = _rechained(_with(passing_mark(run), EXPIRED, facts))
    limited = replace(run, options=replace(run.options, **options))
    assert (not _failed(limited, manifests)) is passes


@pytest.mark.parametrize(("off", "failed"), [(300.0, []), (301.0, ["clocks_agree"])])
def test_clocks_may_differ_by_five_minutes(run, off, failed):
    facts = {"clock_skew_seconds": {"server": off, "store": 0.0}}
    manifests = _rechained(_with(passing_mark(run), SLICES, facts))
    assert [result.name for result in _failed(run, manifests)] == failed
