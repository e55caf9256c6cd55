"""Twins that hide well: behind sizes that a client said, behind lost objects, behind dates, behind
hard resets.
"""

from datetime import timedelta

import pytest

from lakegc_dagster.sandbox import gc, merge, objects, refs
from spark_core import mark, report, sweep
from spark_core.records.figures import ExpiredFigures
from spark_core.references.twins.search import NAMED
from spark_core.run.chain import Mark
from tests.support.hidden_entries import NOW, HidingPlace
from tests.support.pipeline import mark_and_conclude, sweep_only
from tests.support.stored_rows import rows_of

pytestmark = pytest.mark.spark

SAID = {"size": 0, "checksum": "said-by-the-client"}


@pytest.fixture
def place(sandbox, spark):
    return HidingPlace(sandbox, spark)


# What somebody said of sizes


@pytest.mark.deep
def test_a_repair_of_a_lost_object_by_linking_the_same_content_with_size_zero_is_kept(place):
    lost = place.write(50, b"the content", signed=True)
    place.stage(50, "p", lost, **SAID)
    place.commit(50)
    place.lose(lost)
    twin = place.write(30, b"the content", signed=True)
    place.stage(30, "p", twin, **SAID)
    other = place.upload(30, "scratch", b"not needed")
    place.upload(30, "scratch", b"staged")
    assert place.reads("p") == twin
    assert place.collect() == {other}
    assert place.reads("p") == twin


@pytest.mark.deep
def test_a_repair_over_an_entry_that_was_staged_from_outside_is_kept(place):
    place.stage(50, "p", f"local://{place.sandbox.blockstore.parent}/elsewhere/object", **SAID)
    place.commit(50)
    twin = place.write(30, b"the content", signed=True)
    place.stage(30, "p", twin, **SAID)
    assert place.collect() == set()
    assert place.reads("p") == twin


@pytest.mark.deep
def test_a_copy_of_a_dishonest_entry_is_kept_where_any_size_of_a_head_was_said(place):
    said = place.write(55, b"gzip", signed=True)
    place.stage(55, "said", said, size=10, checksum="checksum")
    place.stage(
        55, "p", f"local://{place.sandbox.blockstore}/elsewhere/p", size=10, checksum="checksum"
    )
    place.commit(50)
    # A copy says what its source says, and its name is not signed.
    place.copy(30, "p", "said")
    twin = place.reads("p")
    assert place.collect() == set()
    assert place.reads("p") == twin


@pytest.mark.deep
def test_a_copy_of_an_entry_that_only_an_old_commit_still_has_was_taken_for_honest(place):
    honest = place.write(58, b"ten bytes.", signed=False)
    place.stage(58, "p", honest, size=10, checksum="checksum")
    place.commit(57)
    said = place.write(56, b"gzip", signed=True)
    place.branch(56, "side")
    place.stage(56, "said", said, size=10, checksum="checksum", branch="side")
    place.commit(55, "side")
    with place.ago(30):
        twin = str(
            objects.copy(
                place.core, place.name, "main", "p", source_path="said", source_ref="side"
            ).address
        )
    # No head has an entry of a said size any more, and the copy has no signed name.
    with place.ago(29):
        objects.delete(place.core, place.name, "side", ["said"])
    place.commit(29, "side")
    assert place.reads("p") == twin
    assert place.collect() == set()
    assert place.reads("p") == twin


def test_an_object_that_was_written_after_the_listing_is_not_missing(place):
    """One such path would have to be asked about on every branch, and keep everything if it could
    not.
    """
    place.committed(50, "p")
    garbage = place.upload(30, "scratch", b"not needed")
    place.upload(30, "scratch", b"staged")
    run = place.run()
    slices = run.keep(mark.namespace_slices(run))
    place.committed(0, "new", b"written since")
    uncommitted = run.keep(mark.uncommitted_addresses(run, slices))
    commits = run.keep(mark.retained_commits(run, uncommitted))
    committed = run.keep(mark.committed_addresses(run, commits))
    expired = run.keep(mark.expired_addresses(run, Mark(slices, uncommitted, commits, committed)))
    assert [row.address for row in rows_of(expired)] == [garbage]
    assert expired.manifest.facts["missing_objects"] == 1
    assert expired.manifest.facts["twins"]["paths"] == 0


# Since when a branch stands on its head


def test_what_is_older_than_the_head_of_every_branch_goes_without_a_question(place):
    garbage = {place.upload(40 + number, "scratch") for number in range(3)}
    place.upload(40, "scratch", b"other")
    place.committed(30, "p")
    plan, facts = place.plan()
    assert plan == garbage
    assert (facts["paths"], facts["calls"]) == (0, 0)
    assert place.plan(1 / 24, hidden_entries="ask_all")[1]["calls"] == 1


@pytest.mark.parametrize(
    ("days", "is_asked"),
    [
        pytest.param(30 + 7, True, marks=pytest.mark.deep),
        (30 + 7 + 4 / 24 / 60, True),
        (30 + 7 + 6 / 24 / 60, False),
    ],
)
def test_an_upload_may_last_as_long_as_the_setting_says_and_the_clocks_may_differ(
    place, days, is_asked
):
    """Named and dated when the upload began, staged after the head was made.

    At the bound, and beyond it.
    """
    place.committed(30, "p")
    slow = place.write(days, b"same", signed=False)
    place.stage(29, "p", slow, size=4, checksum=place.checksum("p"))
    plan, facts = place.plan()
    assert (slow not in plan) == is_asked
    assert (facts["calls"] > 0) == is_asked


def test_a_branch_that_rests_is_asked_about_what_was_uploaded_since_and_an_active_one_is_not(place):
    place.committed(50, "p")
    place.branch(50, "resting")
    place.branch(50, "active")
    twin = place.upload(30, "p", branch="resting")
    garbage = {place.upload(days, "scratch") for days in (20, 55)}
    place.upload(20, "scratch", b"other")
    place.committed(3, "q", b"another", branch="active")
    place.committed(3, "q", b"another", branch="main")
    plan, facts = place.plan()
    assert plan == garbage
    assert (facts["branches"], facts["branches_asked"], facts["calls"]) == (3, 1, 1)
    assert place.reads("p", "resting") == twin


@pytest.mark.parametrize("is_unchanged", [True, False], ids=["unchanged", "changed"])
def test_a_merge_into_an_unchanged_branch_writes_no_metarange_and_that_branch_is_asked(
    place, *, is_unchanged
):
    """The head takes over the other side's metarange, whose date is from before what the merge
    dropped.
    """
    place.committed(50, "p")
    place.branch(50, "dev")
    place.committed(45, "more", b"more", branch="dev")
    if not is_unchanged:
        place.committed(44, "own", b"of main alone")
    dropped = place.upload(30, "p")
    place.committed(3, "later", b"later", branch="dev")
    with place.ago(2):
        merged = merge.merge(place.core, place.name, "dev~1", "main")
        source = refs.resolve(place.core, place.core.repository(place.name), "dev~1").commit
    assert (merged.metarange_id == source.metarange_id) == is_unchanged
    plan, facts = place.plan()
    assert plan == {dropped}
    assert (facts["branches_asked"], facts["calls"]) == ((1, 1) if is_unchanged else (0, 0))


@pytest.mark.deep
def test_an_empty_commit_elsewhere_on_the_same_metarange_makes_no_twin_older(place):
    head = place.committed(40, "p")
    commit = place.commit(40, allow_empty=True, date=int(4e9))
    place.branch(40, "elsewhere")
    twin = place.upload(30, "p")
    # The server puts the metarange again, with a new date; nothing but the dates of commits before
    # tells of this one.
    place.commit(1, "elsewhere", allow_empty=True)
    assert place.file(place.metarange(commit)).stat().st_mtime > 1_795_000_000 - 86_400 * 3
    assert head != twin
    assert place.collect() == set()
    assert place.reads("p") == twin


def test_a_return_to_old_content_makes_no_twin_older(place):
    place.committed(50, "p")
    place.branch(50, "resting")
    twin = place.upload(45, "p", branch="resting")
    place.committed(40, "p", b"other")
    place.committed(1, "p")
    assert place.collect() == set()
    assert place.reads("p", "resting") == twin


@pytest.mark.deep
def test_a_bucket_that_was_copied_yesterday_hides_no_twin(place):
    place.committed(40, "p")
    twin = place.upload(30, "p")
    root = place.sandbox.blockstore / place.name
    for file in root.rglob("*"):
        if file.is_file():
            place.date(str(file.relative_to(root)), 1.5)
    assert place.collect() == set()
    assert place.reads("p") == twin


def test_a_commit_that_is_dated_in_the_future_hides_no_twin(place):
    place.upload(40, "p")
    place.commit(40, date=int(4e9))
    twin = place.upload(30, "p")
    plan, _ = place.plan()
    assert twin not in plan
    assert place.reads("p") == twin


def test_a_commit_that_was_dated_ahead_is_known_since_a_run_first_saw_it(place):
    """Its date came meanwhile, and its metarange was written again.

    The run that saw it before tells.
    """
    place.upload(40, "p")
    commit = place.commit(40, date=int(_instant(2).timestamp()))
    place.mark(39)
    twin = place.upload(30, "p")
    place.date(place.metarange(commit), 2)
    plan, _ = place.plan()
    assert twin not in plan


@pytest.mark.deep
def test_a_commit_whose_hooks_took_hours_hides_no_twin(place):
    """A merge seals first, and is dated and written hours later; what is staged meanwhile stays."""
    place.upload(40, "p")
    later = 40 - 5 / 24
    commit = place.commit(40, date=int(_instant(later).timestamp()))
    place.date(place.metarange(commit), later)
    twin = place.upload(40 - 1 / 24, "p")
    plan, _ = place.plan(longest_upload=timedelta(hours=24))
    assert twin not in plan


# Hard resets


@pytest.mark.deep
def test_what_a_hard_reset_hid_is_kept_where_a_commit_that_no_branch_reaches_tells_of_it(place):
    twin = place.with_a_twin_from_before()
    place.branch(19, "short-lived")
    place.committed(19, "more", b"more", branch="short-lived")
    place.hard_reset(18, "dev", "short-lived")
    place.hard_reset(17, "dev", "main")
    place.drop_branch(16, "short-lived")
    assert place.reads("p", "dev") == twin
    plan, facts = place.plan()
    assert twin not in plan
    assert list(facts["without_bound"].values()) == [2]


@pytest.mark.deep
def test_what_a_hard_reset_aside_hid_since_the_last_run_is_kept_now_and_later(place):
    twin = place.with_a_twin_from_before()
    # A commit of dev's own, which the reset leaves; what is staged is staged anew after it.
    with place.ago(52):
        objects.reset(place.core, place.name, "dev", "reset")
    place.committed(51, "own", b"own", branch="dev")
    twin = place.upload(50, "p", branch="dev")
    place.mark(18)
    place.hard_reset(15, "dev", "main")
    assert place.reads("p", "dev") == twin
    assert twin not in place.plan(10)[0]
    assert twin not in place.plan()[0], "the sign is noted, and holds as long as the branch rests"


@pytest.mark.deep
def test_what_a_hard_reset_ahead_hid_since_the_last_run_is_kept(place):
    twin = place.with_a_twin_from_before()
    place.mark(18)
    place.hard_reset(15, "dev", "main")
    assert place.reads("p", "dev") == twin
    plan, facts = place.plan()
    assert twin not in plan
    assert sum(facts["without_bound"].values()) == 1


def test_what_a_hard_reset_hid_between_a_mark_and_its_sweep_is_kept(place):
    twin = place.with_a_twin_from_before()
    place.committed(15, "own", b"own", branch="main")
    run, marked = place.mark()
    assert twin not in marked.addresses(run), "staged, and the server's scan sees it"
    place.hard_reset(0, "dev", "main")
    assert place.reads("p", "dev") == twin
    run.keep(sweep.sweep(run))
    assert place.reads("p", "dev") == twin


def test_what_no_sign_tells_of_is_kept_where_everything_is_asked(place):
    """The stated limit: before the first run a reset ahead leaves no sign."""
    twin = place.with_a_twin_from_before()
    place.hard_reset(15, "dev", "main")
    assert twin not in place.plan(hidden_entries="ask_all")[0]


def test_a_commit_after_a_reset_drops_what_was_staged_and_time_counts_again(place):
    twin = place.with_a_twin_from_before()
    place.mark(18)
    place.hard_reset(15, "dev", "main")
    place.committed(10, "own", b"own", branch="dev")
    plan, facts = place.plan()
    assert twin in plan
    assert facts["without_bound"] == {}


# What the calls do not suffice for


def test_sizes_that_repeat_keep_only_their_own_candidates_where_calls_are_short(place):
    for number in range(6):
        place.upload(50, f"many/{number}")
    place.upload(50, "one", b"another size")
    place.commit(50)
    waiting = place.upload(30, "scratch")
    goes = place.upload(29, "scratch", b"another size")
    neither = place.upload(28, "scratch", b"a size that no head has")
    place.upload(27, "scratch", b"other")
    plan, facts = place.plan(twin_calls=0)
    assert plan == {neither}
    assert (facts["unchecked_objects"], facts["paths"]) == (2, 7)
    plan, facts = place.plan(1 / 24, twin_calls=7)
    assert plan == {neither, goes, waiting}


def test_a_search_that_cannot_ask_says_how_much_waits_and_which_setting_lets_it_go(place):
    place.committed(50, "p")
    place.upload(30, "scratch")
    place.upload(29, "scratch", b"other")
    run = place.run(twin_calls=0)
    _, verdict, results = mark_and_conclude(run)
    (found,) = [result for result in results if result.name == "hidden_entries_were_asked"]
    assert not found.passed
    assert verdict.passed, "it stands in the way of nothing"
    assert "1 object (4 bytes) waits" in found.summary
    assert "raise twin_calls (to about 1)" in found.summary
    assert report.load(run).waiting == found.summary


def test_of_what_waits_the_first_addresses_are_named(place):
    place.committed(50, "p")
    waiting = sorted(place.upload(30, "scratch") for _ in range(NAMED + 6))
    # The last one stands in the staging area.
    place.upload(29, "scratch", b"other")
    _, facts = place.plan(twin_calls=0)
    assert facts["unchecked_objects"] == NAMED + 6
    assert facts["unchecked_named"] == waiting[:NAMED]


def test_what_there_was_no_time_to_ask_about_is_kept_and_the_setting_is_named(place):
    place.committed(50, "p")
    place.upload(30, "scratch")
    place.upload(29, "scratch", b"other")
    run = place.run(twin_time=timedelta(0))
    marked, _, results = mark_and_conclude(run)
    (found,) = [result for result in results if result.name == "hidden_entries_were_asked"]
    figures = ExpiredFigures.of(marked.expired.manifest).twins
    assert (figures.calls, figures.is_late, figures.unchecked_objects) == (0, True, 1)
    assert "raise twin_time_minutes and mark under a new run key" in found.summary
    assert "raise twin_calls" not in found.summary


@pytest.mark.slow
def test_the_advised_number_of_calls_lets_a_mark_decide_all_and_its_sweep_delete_it(
    place, monkeypatch
):
    """Branches that have few entries each, of one size, and many together."""
    for where in ("references.twins.cost_of_asking", "lakefs.entry_lists", "lakefs.server_calls"):
        monkeypatch.setattr(f"spark_core.{where}.PAGE", 5)
    for number in range(12):
        place.upload(50, f"many/{number}")
    place.commit(50)
    for name in "abcdef":
        place.branch(49, name)
        for number in range(6):
            place.upload(48, f"{name}/{number}", branch=name)
        place.commit(48, name)
    dead = {place.upload(30, "scratch") for _ in range(8)}
    place.upload(27, "scratch", b"other")
    plan, facts = place.plan(1, twin_calls=10)
    assert plan == set()
    assert facts["unchecked_objects"] == len(dead)
    advised = facts["planned_calls"]
    assert advised == 3 + 6 * 4
    run, marked = place.mark(twin_calls=advised)
    assert set(marked.addresses(run)) == dead
    figures = ExpiredFigures.of(marked.expired.manifest).twins
    assert advised <= 2 * figures.calls
    assert sweep_only(run) == dict.fromkeys(dead, "deleted")


def _instant(days):
    return NOW - timedelta(days=days)


# What an object's own entries say


@pytest.mark.slow
@pytest.mark.parametrize("explain", [pytest.param("full", marks=pytest.mark.slow), "short"])
@pytest.mark.parametrize("other", [b"othr", b"same"], ids=["another content", "the same content"])
def test_what_an_expired_commit_had_with_another_checksum_goes_without_a_question(
    place, explain, other
):
    with place.core.lock:
        gc.set_rules(place.core, place.name, gc.Rules(10, {}))
    head = place.committed(50, "p")
    place.branch(50, "dev")
    gone = place.committed(40, "q", other, branch="dev")
    place.drop_branch(39, "dev")
    plan, facts = place.plan(2 / 24, explain=explain)
    assert plan == {gone}
    assert facts["calls"] == (0 if other == b"othr" else 1)
    # If its own object is lost, whatever main shows at p may be a repair.
    place.lose(head)
    assert place.plan(1 / 24, explain=explain)[1]["calls"] == 1
    assert place.collect(explain=explain) == {gone}
