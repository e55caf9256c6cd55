"""Since when a branch stands on its head.

The earliest sign of it, and none where the branch was reset.
"""

from datetime import UTC, datetime, timedelta

import pytest

from spark_core.model import Branch, Commit, Refs
from spark_core.records.figures import CommitsFigures
from spark_core.references import heads
from spark_core.references.heads import Head, Heads, heads_of
from tests.support.figures import manifest_of

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)
SKEW = timedelta(minutes=5)


def ago(days):
    return NOW - timedelta(days=days)


def refs_of(commits, **branches):
    """Make refs; a commit is id -> (parents, days ago) or (parents, days ago, version)."""
    made: dict[str, Commit] = {}
    for id_, (parents, days, *version) in commits.items():
        generation = 1 + max((made[parent].generation for parent in parents), default=0)
        created = days if isinstance(days, datetime) else ago(days)
        made[id_] = Commit(
            id_, tuple(parents), created, f"tree-{id_}", *(version or [1]), generation=generation
        )
    return Refs(made, tuple(Branch(name, commit) for name, commit in branches.items()), ())


def seen(refs, previous=None, written=None, **options):
    told = {"read_at": NOW, "skew": SKEW, "is_walked": False, **options}
    return heads_of(refs, previous, lambda _: written or {}, **told).branches


LINE = {"a": ([], 50), "b": (["a"], 40), "c": (["b"], 30)}


def test_the_date_of_the_head_counts():
    assert seen(refs_of(LINE, main="c", dev="b")) == {
        "main": Head("c", ago(30)),
        "dev": Head("b", ago(40)),
    }


@pytest.mark.parametrize(("written", "since"), [(31, 31), (29, 30)])
def test_a_metarange_that_was_written_earlier_counts_and_a_later_one_does_not(written, since):
    assert seen(refs_of(LINE, main="c"), written={"tree-c": ago(written)})["main"].since == ago(
        since
    )


def test_a_run_that_saw_the_head_earlier_counts_though_its_date_and_its_metarange_are_later():
    refs = refs_of({**LINE, "c": (["b"], 2)}, main="c")
    before = heads_of(
        refs, None, lambda _: {"tree-c": ago(25)}, read_at=ago(20), skew=SKEW, is_walked=False
    )
    assert before.branches["main"].since == ago(40), (
        "ahead of the run that saw it: the date before it counts"
    )
    now = seen(refs, before, written={"tree-c": ago(1)})
    assert now["main"].since == ago(40)


def test_a_date_to_come_is_no_date_and_that_of_the_commit_before_counts():
    refs = refs_of({**LINE, "c": (["b"], datetime.max.replace(tzinfo=UTC))}, main="c")
    assert seen(refs, written={"tree-c": ago(1)})["main"] == Head("c", ago(40))
    near = refs_of({**LINE, "c": (["b"], NOW + SKEW)}, main="c")
    assert seen(near)["main"] == Head("c", NOW), "clocks may differ, and it was seen by now"


def test_where_no_date_can_be_nothing_is_known():
    refs = refs_of({"a": ([], datetime.max.replace(tzinfo=UTC))}, main="a")
    assert seen(refs)["main"] == Head("a", None, heads.NO_DATE)


def test_a_date_counts_in_whole_seconds_as_the_names_of_objects_do():
    refs = refs_of({"a": ([], ago(3) + timedelta(microseconds=999_999))}, main="a")
    assert seen(refs)["main"].since == ago(3)


def test_a_commit_that_descends_from_the_head_and_that_no_branch_reaches_is_a_sign():
    commits = {**LINE, "gone": (["b"], 20)}
    found = seen(refs_of(commits, main="c", dev="b"))
    assert found["dev"].why == heads.RESET_BACK
    assert not found["main"].why, "nothing descends from it"
    assert not seen(refs_of(commits, main="c", dev="b", other="gone"))["dev"].why


def test_a_merge_counts_as_a_descendant_of_both_its_parents():
    commits = {**LINE, "side": (["a"], 35), "merged": (["c", "side"], 20)}
    assert seen(refs_of(commits, main="c", side="side"))["side"].why == heads.RESET_BACK


def before(**branches):
    return Heads(ago(10), {name: Head(commit, ago(45)) for name, commit in branches.items()})


def test_a_head_of_the_last_run_that_is_not_on_the_main_line_is_a_sign():
    commits = {**LINE, "side": (["a"], 35), "new": (["c"], 5)}
    assert (
        seen(refs_of(commits, main="new", side="side"), before(main="side"))["main"].why
        == heads.RESET_ASIDE
    )
    assert not seen(refs_of(commits, main="new", side="side"), before(main="c"))["main"].why


@pytest.mark.parametrize(("version", "parents"), [(1, ["c", "side"]), (0, ["side", "c"])])
def test_the_main_line_goes_by_the_main_parent_which_is_the_last_one_in_version_0(version, parents):
    commits = {**LINE, "side": (["a"], 35), "new": (parents, 5, version)}
    refs = refs_of(commits, main="new", side="side")
    assert not seen(refs, before(main="c"))["main"].why
    assert seen(refs, before(main="side"))["main"].why == heads.RESET_ASIDE


def test_a_branch_that_moved_onto_a_commit_that_was_there_was_reset():
    found = seen(refs_of(LINE, main="c", dev="c"), before(main="c", dev="a"))
    assert found["dev"].why == heads.RESET_ONTO
    assert found["main"] == Head("c", ago(45))
    moved = refs_of({**LINE, "new": (["c"], 5)}, main="c", dev="new")
    assert not seen(moved, before(main="c", dev="c"))["dev"].why, (
        "a new commit is what operations make"
    )


def test_a_branch_that_follows_another_one_by_resets_lost_the_sign_of_its_first_reset():
    followed = Heads(
        ago(10), {"main": Head("c", ago(30), heads.RESET_ONTO), "dev": Head("c", ago(30))}
    )
    new = {**LINE, "d": (["c"], 5)}
    found = seen(refs_of(new, main="d", dev="d"), followed)
    assert found["main"].why == heads.RESET_ONTO, "the new commit may be that of the other branch"
    assert not found["dev"].why
    own = seen(refs_of(new, main="d", dev="c"), followed)
    assert not own["main"].why, "a commit of its own drops what was staged"


def test_a_head_that_is_unknown_by_now_is_a_sign():
    assert seen(refs_of(LINE, main="c"), before(main="collected"))["main"].why == heads.RESET_ASIDE


def test_a_sign_stays_as_long_as_the_branch_rests_and_ends_with_its_next_commit():
    marked = Heads(ago(10), {"main": Head("c", ago(30), heads.RESET_ASIDE)})
    rests = seen(refs_of(LINE, main="c"), marked)
    assert rests["main"] == Head("c", ago(30), heads.RESET_ASIDE)
    moved = seen(refs_of({**LINE, "new": (["c"], 5)}, main="new"), marked)
    assert moved["main"] == Head("new", ago(5))


def test_a_branch_that_the_last_run_did_not_see_was_made_since():
    found = seen(refs_of({**LINE, "new": (["c"], 5)}, main="c", dev="new"), before(main="c"))
    assert found["dev"] == Head("new", ago(10))


def test_where_refs_were_walked_no_branch_has_a_bound_and_it_comes_back_with_a_dump():
    refs = refs_of(LINE, main="c")
    walked = heads_of(refs, None, lambda _: {}, read_at=ago(10), skew=SKEW, is_walked=True)
    assert walked.branches["main"] == Head("c", ago(30), heads.WALKED)
    assert seen(refs, walked)["main"] == Head("c", ago(30))
    asked = seen(refs, Heads(ago(10), {"main": Head("c", ago(30))}), is_walked=True)
    assert asked["main"].why == heads.WALKED


def test_a_sign_that_a_walk_saw_is_not_forgotten():
    refs = refs_of({**LINE, "side": (["a"], 35)}, main="c", side="side")
    walked = heads_of(
        refs, before(main="side"), lambda _: {}, read_at=ago(5), skew=SKEW, is_walked=True
    )
    assert seen(refs, walked)["main"].why == heads.RESET_ASIDE


def test_the_store_is_asked_once_about_each_metarange_and_not_about_heads_that_stay():
    asked = []

    def written_at(ids):
        asked.append(ids)
        return {}

    refs = refs_of({**LINE, "new": (["c"], 5)}, main="new", dev="new", old="b")
    heads_of(refs, before(old="b"), written_at, read_at=NOW, skew=SKEW, is_walked=False)
    assert asked == [["tree-new"]]


def test_heads_come_back_from_a_manifest_as_they_were_noted():
    noted = Heads(ago(10), {"main": Head("c", ago(30)), "dev": Head("b", None, heads.NO_DATE)})
    facts = {"branch_heads": noted.figures.facts()}
    assert Heads.of(manifest_of(CommitsFigures, **facts)) == noted


def test_where_the_recorded_heads_are_damaged_nothing_is_concluded_from_a_head():
    found = Heads(NOW, {}, is_damaged=True)
    assert seen(refs_of(LINE, main="c"), found)["main"].why == heads.DAMAGED
