"""Objects that a policy takes, and that somebody links once more: every name counts."""

import pytest

from spark_core.checks import verdict
from spark_core.records import tables
from spark_core.references.policies import staged_names
from spark_core.sweep import references_now
from spark_core.sweep.policy_now import ByPolicy
from spark_core.sweep.tasks_of_a_round import objects_of_plan
from tests.roundtrip.test_policy_sweeps import (
    UPLOADS,
    kept,
    linked,
    marked,
    names_without_dev,
    policy,
    staged,
)
from tests.support.looks import named
from tests.support.pipeline import sweep_only
from tests.support.told_repository import Told, rule

pytestmark = pytest.mark.spark


@pytest.fixture
def told(sandbox, spark):
    return Told(sandbox, spark)


def _hide(told, tmp):
    checksum = told.repository.stat("main", "tmp/x")["checksum"]
    linked(told, ("main", "tmp/x"), "dev", "tmp/x", checksum=checksum)
    assert told.repository.call("GET", "/branches/dev/diff")["results"] == []
    assert told.repository.store.relative(told.repository.entries("dev")["tmp/x"]) == tmp


def _dev_has_the_content_since_day_20(told):
    told.repository.branch("dev")
    tmp = staged(told, "main", "tmp/x")[0]
    told.at(20)
    told.repository.upload("dev", "tmp/x", b"main tmp/x")
    told.repository.commit("dev")
    return tmp


@pytest.mark.parametrize("between", [False, True])
def test_a_hidden_entry_of_a_staged_object_keeps_it_by_the_usual_settings(told, between):
    """The branch's head is younger than the object, which was linked there later."""
    tmp = _dev_has_the_content_since_day_20(told)
    told.at(22)
    if not between:
        _hide(told, tmp)
    told.at(24)
    policy(told, UPLOADS)
    run, mark = marked(told)
    if between:
        assert mark.addresses(run) == [tmp]
        _hide(told, tmp)
    sweep_only(run)
    assert told.repository.ask("GET", "/refs/dev/objects", query={"path": "tmp/x"}).status == 200
    assert told.repository.lies_there(tmp)


def test_a_name_that_the_sweep_saw_behind_the_names_keeps_the_object(told, monkeypatch):
    """It is staged after the names were read, and before the same look reads what is staged."""
    tmp = staged(told, "main", "tmp/x")[0]
    told.at(9)
    policy(told, UPLOADS)
    run, mark = marked(told)
    assert mark.addresses(run) == [tmp]
    read, done = references_now._Reading.read_staged, []

    def after_a_link(self, held):
        if not done:
            done.append(linked(told, ("main", "tmp/x"), "main", "kept/x"))
        return read(self, held)

    monkeypatch.setattr(references_now._Reading, "read_staged", after_a_link)
    assert set(kept(run)) == {tmp}
    assert told.repository.get("main", "kept/x") == b"main tmp/x"


def test_an_entry_that_one_reading_of_the_sweep_saw_and_the_names_do_not_show_keeps_its_object(
    told, monkeypatch
):
    """As for the mark (safety 30): a reading that lost an entry beside one that has it."""
    told.repository.branch("dev")
    tmp = staged(told, "main", "tmp/x")[0]
    told.at(9)
    policy(told, UPLOADS)
    run, mark = marked(told)
    assert mark.addresses(run) == [tmp]
    linked(told, ("main", "tmp/x"), "dev", "other")
    names_without_dev(monkeypatch)
    assert set(kept(run)) == {tmp}
    assert told.repository.get("dev", "other") == b"main tmp/x"


def test_a_hidden_entry_of_a_committed_object_keeps_it_by_the_usual_settings(told):
    """The same for a rule `all`: what commits have may be linked at any time."""
    told.repository.branch("dev")
    logs = told.committed("main", "logs/a")
    told.at(20)
    told.repository.upload("dev", "data/b", b"logs/a")
    told.repository.commit("dev")
    told.at(22)
    checksum = told.repository.stat("main", "logs/a")["checksum"]
    linked(told, ("main", "logs/a"), "dev", "data/b", checksum=checksum)
    assert told.repository.call("GET", "/branches/dev/diff")["results"] == []
    told.at(24)
    policy(told, rule("main/logs/", 3))
    run, mark = marked(told)
    assert mark.addresses(run) == []
    assert sweep_only(run) == {}
    assert told.repository.lies_there(logs)
    assert told.repository.get("dev", "data/b") == b"logs/a"


@pytest.mark.parametrize("between", [False, True])
def test_what_expired_commits_say_of_an_object_that_heads_have_spares_no_question(told, between):
    """Its entry of the head gives another checksum, and so does the one that hides beside it."""
    told.repository.rules(1)
    logs = told.committed("main", "logs/a")
    told.repository.delete("main", "logs/a")
    other = told.repository.upload("main", "data/b", b"data/b")
    checksum = told.repository.stat("main", "data/b")["checksum"]
    told.repository.stage("main", "logs/b", _physical(told, logs), size_bytes=6, checksum=checksum)
    told.repository.commit("main")

    def hide():
        told.repository.stage(
            "main", "data/b", _physical(told, logs), size_bytes=6, checksum=checksum
        )
        assert told.repository.call("GET", "/branches/main/diff")["results"] == []
        assert told.repository.get("main", "data/b") == b"logs/a"

    told.at(8)
    if not between:
        hide()
    told.at(9)
    policy(told, rule("main/logs/", 3))
    run, mark = marked(told)
    assert sum(part.rows for part in run.load(tables.COMMITTED_ADDRESSES).manifest.beside)
    assert mark.addresses(run) == ([logs] if between else [])
    if between:
        hide()
    sweep_only(run)
    assert told.repository.get("main", "data/b") == b"logs/a"
    assert told.repository.lies_there(other)


def _physical(told, address):
    return f"{told.repository.namespace}/{address}"


def test_a_name_that_a_later_look_of_a_sweep_saw_keeps_the_object(told, monkeypatch):
    """Names took long to read, the branches beside them did not, and were read again."""
    tmp = staged(told, "main", "tmp/x")[0]
    told.at(9)
    policy(told, UPLOADS)
    run, mark = marked(told)
    plan = objects_of_plan(mark.expired)
    digest = run.load(tables.POLICY_EXPIRATIONS).manifest.facts["policy_digest"]
    by_policy = ByPolicy(plan, plan.rows, digest)
    look = references_now.reader_of_references(by_policy)
    tables_of_mark = verdict.load_mark(run)
    read, clock = staged_names.diff_names, run.environment.clock

    def slowly(*arguments, **options):
        clock.sleep(20 * 60)
        return read(*arguments, **options)

    monkeypatch.setattr(staged_names, "diff_names", slowly)
    assert named(look(run, plan, tables_of_mark).kept, [tmp]) == {}
    linked(told, ("main", "tmp/x"), "main", "kept/x")
    clock.sleep(10 * 60)
    again = run.now()
    found = look(run, plan, tables_of_mark)
    # What was not read again, and is not relied on, makes no look old.
    assert found.figures.oldest_began >= again.isoformat()
    assert found.figures.staged[0].from_diffs == 2
    assert list(named(found.kept, mark.addresses(run))) == [tmp]
