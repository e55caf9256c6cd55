"""What a retention policy names in a repository on the sandbox, read from its tables by Spark."""

from datetime import timedelta

import pytest

from spark_core import graveler, holds
from spark_core.errors import ChainError, IncompleteReadError
from spark_core.records import tables
from spark_core.references.policies import dated_entries, expirations, parsing, versions
from spark_core.references.policies.document import Period, Policy, Rule
from spark_core.references.policies.lifecycle import Lifecycle, LifecyclePolicy
from spark_core.spark import placement
from tests.support.told_repository import BEGIN, DAY, Told, rule

pytestmark = pytest.mark.spark

SECOND = timedelta(seconds=1)


@pytest.fixture
def told(sandbox, spark):
    return Told(sandbox, spark)


def test_logs_and_scratch_are_named_when_they_are_due_and_nothing_else_is(told):
    logs = told.committed("main", "logs/a")
    told.committed("main", "logstash/a", "data/a")
    told.repository.branch("users")
    scratch = told.committed("users", "tmp/x")
    told.at(10)
    young = told.committed("main", "logs/b")
    told.at(16)
    rules = (rule("main/logs/", 15), rule("users/", 3))
    rows = told.named(*rules, order=("main", "users"))
    assert set(rows) == {logs, scratch}
    assert rows[logs]["reason"] == "policy rule 1: all, 15 days, on main/logs/"
    assert (rows[scratch]["branch"], rows[scratch]["path"]) == ("users", b"tmp/x")
    assert rows[logs]["size_bytes"] == len(b"logs/a")
    assert rows[logs]["due_since"] == BEGIN + 15 * DAY
    told.at(26)
    assert set(told.named(*rules, order=("main", "users"))) == {logs, scratch, young}


@pytest.mark.deep
def test_an_object_is_due_an_hour_and_the_skew_of_clocks_later_than_its_period_says(told):
    logs = told.committed("main", "logs/a")
    margin = timedelta(hours=1, minutes=5) / DAY
    for day, wanted in ((3, set()), (3 + margin - 0.001, set()), (3 + margin, {logs})):
        told.at(day)
        assert set(told.named(rule("main/", 3))) == wanted


@pytest.mark.slow
def test_what_is_replaced_is_noncurrent_from_the_first_run_after_that(told):
    first = told.committed("main", "logs/a")
    told.at(5)
    told.repository.upload("main", "logs/a", b"other content")
    told.repository.commit("main")
    told.at(7)
    assert told.named(rule("main/", 3, "noncurrent")) == {}
    told.at(10)
    assert told.named(rule("main/", 3, "noncurrent")) == {}
    told.at(11)
    rows = told.named(rule("main/", 3, "noncurrent"))
    assert set(rows) == {first}
    assert rows[first]["due_since"].replace(microsecond=0) == BEGIN + 10 * DAY + SECOND


@pytest.mark.slow
def test_what_is_merged_keeps_its_branch_and_what_a_deleted_branch_made_has_none(told):
    told.repository.branch("feature")
    merged = told.committed("feature", "logs/a")
    told.repository.merge("feature", "main")
    told.at(9)
    assert told.named(rule("main/", 1)) == {}
    assert set(told.named(rule("feature/", 1), order=("feature",))) == {merged}
    told.repository.drop_branch("feature")
    told.at(10)
    assert told.named(rule("main/", 1), rule("feature/", 1), order=("main", "feature")) == {}
    told.at(11)
    rows = told.named(rule(None, 1))
    assert set(rows) == {merged}
    assert rows[merged]["branch"] is None


def test_an_object_with_two_paths_goes_only_under_both(told):
    first = told.committed("main", "logs/a")
    told.linked("main", "data/a")
    told.repository.commit("main")
    told.at(9)
    assert told.named(rule("main/logs/", 1)) == {}
    told.at(10)
    assert set(told.named(rule("main/logs/", 1), rule("main/data/", 1))) == {first}


@pytest.mark.deep
def test_what_is_staged_as_well_is_not_named(told):
    told.committed("main", "logs/a")
    told.repository.branch("dev")
    told.linked("dev", "logs/other")
    told.at(9)
    assert told.named(rule(None, 1)) == {}
    told.repository.reset("dev", type="reset")
    told.at(10)
    assert len(told.named(rule(None, 1))) == 1


def test_tags_and_holds_keep_what_a_rule_names(told):
    tagged, held, other = (told.committed("main", path) for path in ("logs/a", "x/b", "x/c"))
    told.repository.delete("main", "logs/a")
    told.repository.commit("main")
    told.repository.delete("main", "x/b")
    told.repository.commit("main")
    told.at(9)
    assert set(told.named(rule(None, 1))) == {tagged, held, other}
    run, _ = told.marked()
    commits = {
        path: id_ for id_ in told.repository.commits for path in told.repository.entries(id_)
    }
    assert set(commits) == {"logs/a", "x/b", "x/c"}
    first = next(
        id_ for id_ in told.repository.commits if set(told.repository.entries(id_)) == {"logs/a"}
    )
    told.repository.tag("v1", first)
    holds.add(run, "one", "address", held, who="test", why="")
    told.at(10)
    assert set(told.named(rule(None, 1))) == {other}
    told.at(11)
    assert set(told.named(rule(None, 1), tags_protect=False)) == {tagged, other}


def test_what_nothing_retained_reaches_is_not_a_policy_s(told):
    told.repository.rules(1)
    told.committed("main", "logs/a")
    told.repository.delete("main", "logs/a")
    told.repository.commit("main")
    kept = told.committed("main", "logs/b")
    told.at(9)
    assert set(told.named(rule("main/", 1))) == {kept}


def test_what_is_too_young_to_be_considered_is_not_named(told):
    told.committed("main", "logs/a")
    told.at(2)
    assert told.named(rule("main/", 1), min_age=timedelta(days=3)) == {}


def _table_of(told, commit_id):
    """Return the file of a commit's metarange."""
    run, _ = told.marked()
    graph = {commit.id: commit for commit in run.server.log(told.repository.name, commit_id)}
    return told.repository.store.folder / "_lakefs" / graph[commit_id].metarange_id


@pytest.mark.deep
def test_an_expired_table_that_is_missing_leaves_branches_undecided(told):
    told.repository.rules(1)
    told.committed("main", "logs/old")
    lost = _table_of(told, told.repository.commits[list(told.repository.commits)[-1]]["id"])
    told.at(5)
    logs = told.committed("main", "logs/a")
    told.at(9)
    assert logs in told.named(rule("main/", 1))
    lost.rename(lost.with_name("aside"))
    told.at(10)
    assert told.named(rule("main/", 1)) == {}
    told.at(11)
    assert logs in told.named(rule(None, 1))


def test_a_range_of_an_expired_commit_that_is_missing_leaves_branches_undecided(told):
    """Others were judged before anybody knew of it, and are judged anew."""
    told.repository.rules(1)
    told.committed("main", "logs/old")
    run, _ = told.marked()
    metarange = _table_of(told, told.repository.branches()["main"]).read_bytes()
    rows = graveler.read_metarange(metarange, name="x")
    lost = told.repository.store.folder / "_lakefs" / rows.column("range_id")[0].as_py()
    told.at(5)
    told.repository.delete("main", "logs/old")
    logs = told.committed("main", "logs/a")
    told.at(9)
    assert set(told.named(rule("main/", 1))) == {logs}
    lost.unlink()
    told.at(10)
    assert told.named(rule("main/", 1)) == {}
    run, mark = told.marked()
    figures, _ = expirations.find(run, Policy((rule(None, 1),)), mark)
    assert (figures.unread, figures.policy_objects, figures.entries) == (1, 1, 1)


def test_entries_that_get_lost_on_their_way_name_nothing(told, monkeypatch):
    told.committed("main", "logs/a")
    told.committed("main", "data/a")
    told.at(9)
    run, mark = told.marked()
    read = dated_entries._read

    def lossy(*task):
        yield from (batch for batch in read(*task) if batch.num_rows < 2)

    monkeypatch.setattr(dated_entries, "_read", lossy)
    with pytest.raises(IncompleteReadError, match="1 of 3 rows of `entries` came out of"):
        expirations.find(run, Policy((rule(None, 1),)), mark)


def test_without_a_policy_there_is_no_table(told):
    run, mark = told.marked()
    assert expirations.policy_expirations(run, mark) is None


def test_a_policy_of_branches_alone_names_no_object(told):
    told.committed("main", "logs/a")
    told.at(99)
    run, mark = told.marked()
    section = Lifecycle((LifecyclePolicy(("*",), None, 1),))
    versions.store_version(run, Policy((), (), section), who="test")
    stored = run.keep(expirations.policy_expirations(run, mark))
    assert (stored.manifest.rows, stored.manifest.facts["policy_objects"]) == (0, 0)


def test_a_run_looks_at_the_policy_only_where_its_options_say_so(told):
    told.committed("main", "logs/a")
    told.at(9)
    run, _ = told.marked()
    versions.store_version(run, Policy((rule("main/", 1),)), who="test")
    assert expirations.store_if_asked(run) == {"policies": "off"}
    with pytest.raises(ChainError, match="has no policy_expirations"):
        run.load(tables.POLICY_EXPIRATIONS)
    told.at(10)
    run, _ = told.marked(policies="mark")
    assert expirations.store_if_asked(run)["policy_objects"] == 1
    assert run.load(tables.POLICY_EXPIRATIONS).manifest.rows == 1
    versions.store_version(run, None, who="test")
    assert expirations.store_if_asked(run) == {"policies": "mark", "policy_version": 0}


def test_what_a_rule_removes_by_a_commit_does_not_expire(told):
    told.committed("main", "logs/a")
    told.at(9)
    removes = Rule("main", "logs/", {"all": Period(days=1)}, effect="remove")
    assert told.named(removes) == {}
    told.at(10)
    rows = told.named(removes, rule("main/", 2))
    assert [row["rule"] for row in rows.values()] == [2]


def test_what_a_policy_names_is_in_no_plan(told):
    told.committed("main", "logs/a")
    told.at(9)
    run, _ = told.marked(policies="mark")
    versions.store_version(run, Policy((rule(None, 1),)), who="test")
    assert expirations.store_if_asked(run)["policy_objects"] == 1
    assert run.load(tables.EXPIRED_ADDRESSES).manifest.rows == 0


def test_refs_that_can_only_be_walked_are_refused(told, monkeypatch):
    told.repository.rules(1)
    told.committed("main", "logs/a")
    told.at(3)
    run, mark = told.marked()
    from spark_core.lakefs import NoSuchCallError

    def no_dump(_):
        raise NoSuchCallError("no such call")

    monkeypatch.setattr(run.server, "dump_refs", no_dump)
    with pytest.raises(IncompleteReadError, match="could only be walked"):
        expirations.find(run, Policy((rule(None, 1),)), mark)


def test_tables_of_another_attempt_are_refused(told):
    told.committed("main", "logs/a")
    told.at(3)
    run, mark = told.marked()
    versions.store_version(run, Policy((rule(None, 1),)), who="test")
    from spark_core import mark as marking

    again = run.keep(marking.namespace_slices(run))
    broken = type(mark)(again, mark.uncommitted, mark.commits, mark.committed)
    with pytest.raises(ChainError, match="another attempt"):
        expirations.policy_expirations(run, broken)


@pytest.mark.deep
def test_executors_find_what_the_driver_finds(told, monkeypatch):
    logs = [told.committed("main", f"logs/{number}") for number in range(5)]
    told.committed("main", "data/a")
    told.at(9)
    here = told.named(rule("main/logs/", 1))
    assert set(here) == set(logs)
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 0)
    monkeypatch.setattr("spark_core.references.policies.range_changes._COMMITS_OF_A_TASK", 2)
    monkeypatch.setattr("spark_core.references.policies.dated_entries._RANGES_OF_A_TASK", 2)
    told.at(10)
    assert set(told.named(rule("main/logs/", 1))) == set(logs)


def test_the_figures_name_the_largest_and_the_newest_of_each_rule(told):
    sizes = {}
    for number in range(12):
        told.at(number)
        path = f"logs/{number:02d}"
        sizes[path] = len(told.repository.contents[told.committed("main", path)])
        told.repository.upload("main", f"big/{number:02d}", b"x" * (100 + number))
        told.repository.commit("main")
    told.at(30)
    run, mark = told.marked()
    text = b'{"rules": [{"filter": {"prefix": "main/big/"}, "expiration": {"days": 1}}]}'
    facts = expirations.find(run, parsing.parse(text, name="x"), mark)[0].facts()
    assert [row[3] for row in facts["largest"]["1"]] == [f"big/{n:02d}" for n in range(11, 1, -1)]
    assert [row[3] for row in facts["newest"]["1"]] == [f"big/{n:02d}" for n in range(11, 1, -1)]
    assert facts["by_rule"] == [[1, "main/big/", 12, sum(100 + n for n in range(12))]]
    assert facts["by_branch"] == [[1, "main", 12, sum(100 + n for n in range(12))]]
    assert (facts["names_placed"], facts["names_undecided"]) == (24, 0)
