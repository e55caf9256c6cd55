"""What a retention policy takes: confirmed, marked, swept, and looked at again before it goes."""

import os
from dataclasses import replace
from datetime import timedelta

import pytest

from spark_core import holds, lakegc_keys, report
from spark_core.checks import confirming, verdict
from spark_core.checks.policies import check_policy
from spark_core.errors import ChainError, TransientError, VerdictError
from spark_core.explain.why import explain
from spark_core.fates import Fate
from spark_core.records import tables
from spark_core.records.figures import ExpiredFigures
from spark_core.references.policies import confirmed, staged_names, versions
from spark_core.references.policies.document import Policy
from spark_core.report import mark_summary
from spark_core.spark import placement
from spark_core.sweep import quarantine, references_now
from spark_core.sweep.policy_now import ByPolicy
from spark_core.sweep.tasks_of_a_round import objects_of_plan
from spark_core.undo.restore import restore
from spark_core.upkeep import house_keeping
from tests.support.looks import named
from tests.support.pipeline import mark_and_conclude, sweep_only
from tests.support.sandbox_runs import open_sandbox_run
from tests.support.stored_rows import rows_of
from tests.support.told_repository import BEGIN, DAY, Told, rule

pytestmark = pytest.mark.spark


@pytest.fixture
def told(sandbox, spark):
    return Told(sandbox, spark)


def staged(told, branch, *paths):
    """Upload objects and leave them staged."""
    return [told.repository.upload(branch, path, f"{branch} {path}".encode()) for path in paths]


def linked(told, address_at, branch, path, **more):
    """Stage the object at a branch and path under another name."""
    shown = told.repository.stat(*address_at)
    size = shown["size_bytes"]
    answer = told.repository.stage(branch, path, shown["physical_address"], size_bytes=size, **more)
    assert answer.status == 201


_WORDS = ("1: all, 3 days, on main/logs/", "2: all, 2 days, on main/tmp/")
UPLOADS = rule("main/tmp/", 3, "uncommitted")


# What keeps an object that went by a policy, besides what the quick run tries.
_CHANGES = ["document", "end", "setting"]


def opened(told, **options):
    now = BEGIN + told.day * DAY
    told.sandbox.clock.set(now + timedelta(seconds=1))
    options = {"policies": "sweep", **options}
    return open_sandbox_run(told.sandbox, told.repository.name, told.spark, now, **options)


def policy(told, *rules, order=(), is_confirmed=True):
    """Set a policy, and confirm what it says."""
    run = opened(told)
    version = versions.store_version(run, Policy(rules, order), who="test")
    if is_confirmed:
        confirmed.confirm(run, version, "ann@host")


def marked(told, **options):
    run = opened(told, **options)
    mark, stored, _ = mark_and_conclude(run)
    assert stored.passed, [check["summary"] for check in stored.failed]
    return run, mark


def reason_of(run, address):
    rows = rows_of(run.load(tables.EXPIRED_ADDRESSES))
    return next(row.reason for row in rows if row.address == address)


def kept(run):
    """Address -> why, of the objects that the sweep of a plan kept."""
    sweep_only(run)
    rows = rows_of(run.load(tables.DELETION_REPORT, anew=True))
    return {row["address"]: row["error"] for row in rows if row["outcome"] == "kept"}


def test_what_a_confirmed_rule_names_goes_and_reading_it_answers_gone(told):
    logs = told.committed("main", "logs/a")
    data = told.committed("main", "data/a")
    garbage = told.repository.upload("main", "data/b", b"never committed")
    told.repository.delete("main", "data/b")
    told.at(9)
    policy(told, rule("main/logs/", 3))
    run, mark = marked(told)
    assert set(mark.addresses(run)) == {logs, garbage}
    assert reason_of(run, logs) == "policy rule 1: all, 3 days, on main/logs/"
    report = mark_summary.of_mark(run)
    assert report.listed.objects == 3
    assert {group.name: group.objects for group in report.kept} == {Fate.COMMITTED.sentence: 1}
    assert sweep_only(run) == {logs: "deleted", garbage: "deleted"}
    assert told.repository.lies_there(data)
    assert not told.repository.lies_there(logs)
    gone = told.repository.ask("GET", "/refs/main/objects", query={"path": "logs/a"})
    assert gone.status == 410


def test_policy_version_and_who_confirmed_it_stand_in_verdict_and_report(told):
    told.committed("main", "logs/a", "logs/bb")
    told.committed("main", "tmp/a", "data/a")
    told.at(9)
    policy(told, rule("main/logs/", 3), rule("main/tmp/", 2))
    run, _ = marked(told)
    (version,) = versions.history(run.store)
    logs, tmp = (f"policy rule {words}" for words in _WORDS)
    found = verdict.load(run).policy
    assert found["name"] == "_lakefs/retention/gc/policies/0000000001.json"
    assert (found["version"], found["digest"]) == (1, version.policy_digest)
    assert (found["set_by"], found["confirmed_by"]) == ("test", "ann@host")
    assert found["confirmed_at"].startswith("2026-11-10T02:00:01")
    assert found["by_reason"] == [[logs, 2, 13], [tmp, 1, 5]]
    made = mark_summary.of_mark(run)
    assert (made.policy.name, made.policy.digest) == (found["name"], found["digest"])
    assert (made.policy.set_by, made.policy.confirmed_by) == ("test", "ann@host")
    by_rule = [(group.name, group.objects, group.size_bytes) for group in made.policy.by_rule]
    assert by_rule == [(logs, 2, 13), (tmp, 1, 5)]
    assert report.Report.from_json(made.to_json(), name="report") == made
    page = report.page(made)
    for words in ("<h2>Retention policy", found["name"], found["digest"], "ann@host", logs):
        assert words in page
    assert mark_summary.of_mark(marked_without_policy(told)).policy is None


def marked_without_policy(told):
    told.at(10)
    run, _ = marked(told, policies="off")
    assert verdict.load(run).policy is None
    return run


def test_a_row_of_the_deletion_report_says_why_the_object_went(told):
    logs = told.committed("main", "logs/a")
    told.repository.upload("main", "data/b", b"never committed")
    told.repository.delete("main", "data/b")
    told.at(9)
    policy(told, rule("main/logs/", 3))
    run, mark = marked(told)
    sweep_only(run)
    rows = rows_of(run.load(tables.DELETION_REPORT))
    assert {row["address"]: row["reason"] for row in rows} == {
        address: reason_of(run, address) for address in mark.addresses(run)
    }
    assert reason_of(run, logs) == f"policy rule {_WORDS[0]}"


@pytest.mark.parametrize(
    "way",
    ["deleted", *(pytest.param(each, marks=pytest.mark.deep) for each in ("dropped", "reset"))],
)
def test_what_another_branch_showed_until_yesterday_has_its_whole_grace(told, way):
    dropped = told.committed("main", "data/a")
    told.repository.branch("dev")
    told.at(5)
    told.repository.delete("main", "data/a")
    told.repository.commit("main")
    policy(told, rule("main/", 7, "noncurrent"))
    told.at(29)
    marked(told)
    told.at(30)
    if way == "deleted":
        told.repository.drop_branch("dev")
    elif way == "reset":
        told.repository.hard_reset("dev", "main")
    else:
        told.repository.delete("dev", "data/a")
        told.repository.commit("dev")
    told.at(31)
    run, mark = marked(told, keep_runs=1)
    assert mark.addresses(run) == []
    # Tables of earlier runs go, and what those saw stays.
    for file in (told.repository.store.folder / lakegc_keys.ROOT).rglob("*"):
        os.utime(file, (BEGIN.timestamp(), BEGIN.timestamp()))
    assert house_keeping.keep_house(run).pruned.runs
    told.at(38)
    run, mark = marked(told)
    assert mark.addresses(run) == []
    told.at(39)
    run, _ = marked(told)
    assert sweep_only(run) == {dropped: "deleted"}


@pytest.mark.slow
def test_a_branch_that_shows_it_again_since_the_mark_keeps_what_was_noncurrent(told):
    dropped = told.committed("main", "data/a")
    had_it = told.repository.branches()["main"]
    told.repository.delete("main", "data/a")
    told.repository.commit("main")
    policy(told, rule("main/", 1, "noncurrent"))
    told.at(2)
    marked(told)
    told.at(4)
    run, mark = marked(told)
    assert mark.addresses(run) == [dropped]
    told.repository.branch("again", had_it)
    why = "not let go any more: the retention policy does not name it"
    assert kept(run) == {dropped: why}


def test_a_document_that_nobody_confirmed_takes_nothing_and_stops_nothing(told):
    logs = told.committed("main", "logs/a")
    garbage = told.repository.upload("main", "data/b", b"never committed")
    told.repository.delete("main", "data/b")
    told.at(9)
    policy(told, rule("main/logs/", 3), is_confirmed=False)
    run, mark = marked(told)
    assert mark.addresses(run) == [garbage]
    facts = run.load(tables.POLICY_EXPIRATIONS).manifest.facts
    assert facts["takes_rules"] == []
    assert (
        f"lakegc confirm {run.repository.id} policy_is_confirmed --run {run.key}"
        in (facts["waits"])
    )
    confirmed.confirm_marked(run, who="test")
    told.at(10)
    run, mark = marked(told)
    assert mark.addresses(run) == sorted([logs, garbage])


def test_a_changed_document_must_be_confirmed_anew(told):
    told.committed("main", "logs/a")
    told.at(9)
    policy(told, rule("main/logs/", 3))
    run = opened(told)
    versions.store_version(run, Policy((rule("main/logs/", 2),)), who="test")
    _, mark = marked(told)
    assert mark.addresses(run) == []
    versions.store_version(run, Policy((rule("main/logs/", 3),)), who="test")
    told.at(10)
    run, mark = marked(told)
    assert len(mark.addresses(run)) == 1


def test_a_run_that_looked_at_another_document_or_none_confirms_nothing(told):
    told.committed("main", "logs/a")
    told.at(9)
    run, _ = marked(told)
    with pytest.raises(VerdictError, match="did not look at a retention policy"):
        confirmed.confirm_marked(run, who="test")
    told.at(10)
    policy(told, rule("main/logs/", 3), is_confirmed=False)
    run, _ = marked(told)
    versions.store_version(run, Policy((rule("main/logs/", 2),)), who="test")
    with pytest.raises(VerdictError, match=r"looked at version 1 .* version 2 counts now"):
        confirmed.confirm_marked(run, who="test")


def test_a_rule_above_its_share_waits_and_the_others_go(told):
    logs = told.committed("main", "logs/a")
    told.committed("main", "data/a", "data/b", "data/c")
    told.at(9)
    rules = (rule("main/logs/", 3), rule("main/data/", 3))
    options = {"share_from_objects": 1, "max_policy_share": 0.5, "max_expired_share": 1}
    policy(told, *rules)
    run, mark = marked(told, **options)
    assert mark.addresses(run) == [logs]
    assert run.load(tables.POLICY_EXPIRATIONS).manifest.facts["above_share"] == [2]


def test_a_change_between_mark_and_sweep_keeps_what_it_concerns(told):
    held, tagged, staged, copied, gone = (
        told.committed("main", f"logs/{name}") for name in ("held", "tag", "staged", "copy", "gone")
    )
    told.at(9)
    policy(told, rule("main/logs/", 3))
    run, mark = marked(told)
    assert len(mark.addresses(run)) == 5
    holds.add(run, "mine", "address", held, who="test", why="for a test")
    physical = told.repository.stat("main", "logs/staged")["physical_address"]
    told.repository.branch("dev")
    told.repository.stage("dev", "mine", physical, size_bytes=len(b"logs/staged"))
    physical = told.repository.stat("main", "logs/copy")["physical_address"]
    told.repository.stage("main", "data/copy", physical, size_bytes=len(b"logs/copy"))
    told.repository.commit("main")
    assert tagged in mark.addresses(run)
    why = kept(run)
    assert set(why) == {held, staged, copied}
    assert why[held] == "referenced again: hold mine: address " + held
    assert why[staged] == "referenced again: staged"
    assert why[copied] == "not let go any more: the retention policy does not name it"
    assert not told.repository.lies_there(gone)


@pytest.mark.parametrize(
    "change",
    ["tag", "confirmed", *(pytest.param(x, marks=pytest.mark.deep) for x in _CHANGES)],
)
def test_a_tag_another_document_or_another_setting_since_the_mark_keeps_all_of_it(told, change):
    logs = told.committed("main", "logs/a")
    told.at(9)
    policy(told, rule("main/logs/", 3))
    run, mark = marked(told)
    assert mark.addresses(run) == [logs]
    if change == "tag":
        told.repository.tag("v1", "main")
    elif change == "document":
        versions.store_version(run, Policy((rule("main/logs/", 300),)), who="test")
    elif change == "confirmed":
        version = versions.store_version(run, Policy((rule("main/logs/", 2),)), who="test")
        confirmed.confirm(run, version, "test")
    elif change == "end":
        versions.store_version(run, None, who="test")
    else:
        run = opened(told, policies="mark")
    assert set(kept(run)) == {logs}
    assert told.repository.lies_there(logs)


@pytest.mark.slow
def test_a_policy_that_cannot_be_read_names_nothing_and_stops_nothing(told):
    logs = told.committed("main", "logs/a")
    garbage = told.repository.upload("main", "data/b", b"never committed")
    told.repository.delete("main", "data/b")
    told.at(9)
    policy(told, rule("main/logs/", 3))
    planned, mark = marked(told)
    assert mark.addresses(planned) == sorted([logs, garbage])
    key = lakegc_keys.policy_key(1)
    planned.store.put(key, planned.store.read(key).replace(b"main/logs", b"main/logz"))
    told.at(9.5)
    run, mark = marked(told)
    assert mark.addresses(run) == [garbage]
    why = kept(planned)
    assert set(why) == {logs}
    assert "the retention policy cannot be read" in why[logs]
    assert not told.repository.lies_there(garbage)


@pytest.mark.slow
def test_what_a_policy_took_is_not_missing_and_hides_nothing_else(told):
    logs = told.committed("main", "logs/a")
    lost, _ = told.committed("main", "data/lost", "data/kept")
    told.at(9)
    policy(told, rule("main/logs/", 3))
    run, _ = marked(told)
    assert sweep_only(run) == {logs: "deleted"}
    told.at(10)
    run, mark = marked(told)
    figures = ExpiredFigures.of(mark.expired.manifest)
    assert (figures.missing_objects, figures.missing_by_policy) == (0, 1)
    assert figures.twins.paths == 0
    (told.repository.store.folder / lost).unlink()
    told.at(11)
    run, mark = marked(told, max_missing_share=1)
    figures = ExpiredFigures.of(mark.expired.manifest)
    assert (figures.missing_objects, figures.missing_by_policy) == (1, 1)
    assert figures.missing_named == (lost,)


def test_a_plan_whose_policy_table_was_made_again_is_refused(told):
    logs = told.committed("main", "logs/a")
    told.at(9)
    policy(told, rule("main/logs/", 3))
    run, _ = marked(told)
    key = tables.manifest_key(tables.POLICY_EXPIRATIONS, run.key)
    made_again = replace(run.load(tables.POLICY_EXPIRATIONS).manifest, attempt="0" * 32)
    run.store.put(key, made_again.to_json())
    with pytest.raises(ChainError, match="not the table that its plan was made with"):
        sweep_only(run)
    assert told.repository.lies_there(logs)


@pytest.mark.deep
def test_the_mark_for_the_reference_job_has_nothing_that_only_a_policy_names(told):
    told.committed("main", "logs/a")
    garbage = told.repository.upload("main", "data/b", b"never committed")
    told.repository.delete("main", "data/b")
    told.at(9)
    policy(told, rule("main/logs/", 3))
    run, mark = marked(told, write_reference_mark=True)
    assert len(mark.addresses(run)) == 2
    from spark_core.handover import reference_mark
    from spark_core.reference_job import marks

    own = reference_mark.write(run)
    named = marks.load(run.store, own)
    found = marks.addresses(lambda: run.spark, run.store, named, tasks=1)
    assert found.source.here(1)["address"].to_pylist() == [garbage]


def test_a_current_object_beside_others_of_its_size_goes_although_its_branch_shows_it(told):
    """The branch answers with the object because its head has it, and that hides nothing."""
    told.repository.branch("idle")
    first, second = told.committed("main", "logs/a"), told.committed("main", "logs/b")
    told.at(9)
    policy(told, rule("main/logs/", 3))
    run, mark = marked(told)
    assert set(mark.addresses(run)) == {first, second}


def test_the_verdict_is_of_the_tables_that_the_policy_was_read_with(told):
    logs = told.committed("main", "logs/a")
    told.at(9)
    policy(told, rule("main/logs/", 3))
    run, mark = marked(told)
    figures = ExpiredFigures.of(mark.expired.manifest).policy
    assert figures is not None
    assert (figures.objects, figures.rules) == (1, (1,))
    assert verdict.load(run).expired_objects == 1
    assert mark.addresses(run) == [logs]


@pytest.mark.deep
@pytest.mark.parametrize("ended", [False, True])
def test_what_a_policy_moved_to_quarantine_comes_back_or_goes_for_good(told, ended):
    back, gone, copied = told.committed("main", "logs/back", "logs/gone", "logs/copied")
    told.at(9)
    policy(told, rule("main/logs/", 3))
    run, _ = marked(told, quarantine=True)
    assert set(sweep_only(run).values()) == {"deleted"}
    assert restore(run, [back]).objects == {"restored": 1}
    assert told.repository.lies_there(back)
    physical = told.repository.stat("main", "logs/copied")["physical_address"]
    told.repository.stage("main", "data/copied", physical, size_bytes=len(b"logs/copied"))
    told.repository.commit("main")
    told.at(41)
    if ended:
        versions.store_version(opened(told), None, who="test")
    later, mark = marked(told, quarantine=True, quarantine_days=30)
    assert mark.addresses(later) == ([] if ended else [back])
    house = house_keeping.keep_house(later)
    assert house.pruned.not_purged is None, house.words
    purged = house.pruned.purged
    # The copy of what is back in its place goes. What has another name by now, and all of it once
    # there is no policy, is in use.
    assert (purged.objects, purged.in_use) == ((1, 2) if ended else (2, 1))
    left = {key for key in (gone, copied) if _is_in_quarantine(run, key)}
    assert left == ({gone, copied} if ended else {copied})


def _is_in_quarantine(run, address):
    return run.store.exists(quarantine.key_of(run.key, address))


def test_no_other_name_of_an_object_is_taken_for_the_one_that_a_rule_names(told):
    """Merged, squashed, picked and renamed objects, equal ones, and commits of a false date."""
    repository, rules = told.repository, (rule("main/logs/", 3), rule("users/", 3))
    others = []
    for name, brings in (
        ("merged", lambda: repository.merge("merged", "main")),
        ("squashed", lambda: repository.merge("squashed", "main", squash_merge=True)),
        ("picked", lambda: repository.cherry_pick("main", "picked")),
    ):
        repository.branch(name)
        others.append(told.committed(name, f"logs/{name}"))
        brings()
        repository.drop_branch(name)
    repository.branch("old")
    others.append(told.committed("old", "tmp/renamed"))
    repository.branch("users", "old")
    repository.drop_branch("old")
    # A run sees the branch where the other one ended: that proves nothing of the commits below.
    told.marked()
    logs, equal = (repository.upload("main", path, b"same") for path in ("logs/a", "data/a"))
    others.append(equal)
    others.append(repository.upload("main", "logstash/a", b"beside the folder"))
    repository.commit("main")
    scratch = told.committed("users", "tmp/own")
    told.at(9)
    others.append(repository.upload("main", "logs/dated back", b"young"))
    repository.commit("main", days_ago=60)
    told.at(11)
    policy(told, *rules)
    run, mark = marked(told)
    assert set(mark.addresses(run)) == {logs, scratch}
    sweep_only(run)
    assert not {logs, scratch} & repository.data()
    assert set(others) <= repository.data()


def test_an_address_that_is_staged_unseen_beside_its_own_name_is_kept(told):
    """No scan and no diff shows it: the committed entry of that path has the same content."""
    logs, data = (told.repository.upload("main", path, b"same") for path in ("logs/a", "data/a"))
    told.repository.commit("main")
    told.at(9)
    policy(told, rule("main/logs/", 3))
    run, mark = marked(told, hidden_entries="ask_all")
    assert mark.addresses(run) == [logs]
    shown = told.repository.stat("main", "logs/a")
    answer = told.repository.stage(
        "main", "data/a", shown["physical_address"], size_bytes=4, checksum=shown["checksum"]
    )
    assert answer.status == 201
    changes = told.repository.call("GET", "/branches/main/diff")["results"]
    assert changes == []
    (now,) = (entry for path, entry in told.repository.entries("main").items() if path == "data/a")
    assert told.repository.store.relative(now) == logs
    assert set(kept(run)) == {logs}
    assert told.repository.lies_there(data)


@pytest.mark.slow
def test_a_name_that_came_and_went_between_two_looks_of_a_sweep_keeps_its_object(told):
    logs, other = told.committed("main", "logs/a"), told.committed("main", "logs/b")
    told.at(9)
    policy(told, rule("main/logs/", 3))
    run, mark = marked(told)
    plan = objects_of_plan(mark.expired)
    digest = run.load(tables.POLICY_EXPIRATIONS).manifest.facts["policy_digest"]
    by_policy = ByPolicy(plan, plan.rows, digest)
    look = references_now.reader_of_references(by_policy)
    tables_of_mark = verdict.load_mark(run)
    assert not len(look(run, plan, tables_of_mark).kept.hashes)
    told.linked("main", "data/a")
    told.repository.commit("main")
    for _ in range(2):
        found = named(look(run, plan, tables_of_mark).kept, mark.addresses(run))
        assert found == {logs: "not let go any more: the retention policy does not name it"}
        told.repository.delete("main", "data/a")
        told.repository.commit("main")
        told.repository.upload("main", "data/c", b"so that there is something to commit")
    assert told.repository.lies_there(other)


@pytest.mark.slow
def test_a_purge_takes_for_good_what_the_policy_still_names_and_only_that(told):
    options = {"quarantine": True, "quarantine_days": 2}
    first, second = told.committed("main", "logs/a"), told.committed("main", "logs/b")
    told.at(9)
    policy(told, rule("main/logs/", 3))
    run, _ = marked(told, **options)
    assert set(sweep_only(run)) == {first, second}
    assert not {first, second} & told.repository.data()
    told.at(12)
    # An entry by another name needs the one; the other is named as before.
    told.linked("main", "data/a")
    told.repository.commit("main")
    house = house_keeping.keep_house(marked(told, **options)[0])
    assert (house.pruned.purged.objects, house.pruned.purged.in_use) == (1, 1), house.words
    done = restore(run)
    assert done.objects == {"restored": 1, "not_restorable": 1}
    assert told.repository.get("main", "data/a") == b"logs/a"
    assert not told.repository.lies_there(second)


@pytest.mark.parametrize(
    "change",
    [pytest.param(one, marks=pytest.mark.deep) for one in ("document", "end", "setting")],
)
def test_a_purge_leaves_all_of_it_when_the_policy_does_not_say_so_any_more(told, change):
    options = {"quarantine": True, "quarantine_days": 2}
    logs = told.committed("main", "logs/a")
    told.at(9)
    policy(told, rule("main/logs/", 3))
    run, _ = marked(told, **options)
    assert set(sweep_only(run)) == {logs}
    told.at(12)
    if change == "end":
        versions.store_version(opened(told), None, who="test")
    elif change == "document":
        policy(told, rule("main/other/", 3))
    else:
        options["policies"] = "mark"
    house = house_keeping.keep_house(marked(told, **options)[0])
    assert (house.pruned.purged.objects, house.pruned.purged.in_use) == (0, 1), house.words
    assert restore(run).objects == {"restored": 1}
    assert told.repository.get("main", "logs/a") == b"logs/a"


def test_a_current_object_whose_path_has_another_one_of_its_size_elsewhere_is_named_as_kept(told):
    """Nobody can tell the branch's committed entry from one that is staged unseen."""
    told.repository.branch("dev")
    logs = told.committed("main", "logs/a")
    told.committed("dev", "logs/a")
    told.at(9)
    policy(told, rule("main/logs/", 3))
    run, mark = marked(told)
    assert mark.addresses(run) == []
    figures = ExpiredFigures.of(mark.expired.manifest).twins
    assert (figures.kept_objects, figures.kept_named) == (1, (logs,))
    told.repository.delete("main", "logs/a")
    told.repository.commit("main")
    told.at(10)
    run, mark = marked(told)
    assert mark.addresses(run) == [logs]


@pytest.mark.deep
def test_a_repository_whose_objects_all_went_by_a_policy_is_marked_like_any_other(told):
    logs = told.committed("main", "logs/a")
    told.at(9)
    policy(told, rule("main/logs/", 3))
    run, _ = marked(told)
    assert sweep_only(run) == {logs: "deleted"}
    told.at(10)
    run, mark = marked(told)
    assert mark.addresses(run) == []
    said = {result.name: result.summary for result in confirming.confirmed_results(run)}
    assert said["live_objects_are_listed"] == (
        "0 of 1 objects that branches reach are in the listing, and a retention policy took 1"
    )


def test_a_rule_takes_a_staged_object_only_under_each_of_its_names(told):
    told.repository.branch("dev")
    told.repository.branch("users")
    one, two, other_path, other_branch, beside, committed = staged(
        told, "main", *(f"tmp/{name}" for name in ("one", "two", "path", "branch", "old", "in"))
    )
    of_users, outside = staged(told, "users", "x")[0], staged(told, "main", "data/x")[0]
    linked(told, ("main", "tmp/two"), "users", "two")
    linked(told, ("main", "tmp/path"), "main", "kept/path")
    linked(told, ("main", "tmp/branch"), "dev", "tmp/branch")
    told.repository.branch("work")
    linked(told, ("main", "tmp/in"), "work", "in")
    told.repository.commit("work")
    told.at(8)
    young = staged(told, "main", "tmp/young")[0]
    linked(told, ("main", "tmp/old"), "main", "tmp/linked anew")
    told.at(9)
    policy(told, UPLOADS, rule("users/", 3, "uncommitted"))
    run, mark = marked(told)
    assert set(mark.addresses(run)) == {one, two, of_users}
    assert reason_of(run, one) == "policy rule 1: uncommitted, 3 days, on main/tmp/"
    facts = run.load(tables.POLICY_EXPIRATIONS).manifest.facts
    assert (facts["staged_names"], facts["staged_problem"]) == (13, "")
    report = mark_summary.of_mark(run)
    assert {group.name: group.objects for group in report.kept}[Fate.STAGED.sentence] == 5
    explained = explain(run, one)
    assert "tmp/one, staged on main: policy rule 1" in explained.sentence
    assert set(sweep_only(run)) == {one, two, of_users}
    for branch, path in (("main", "tmp/one"), ("main", "tmp/two"), ("users", "two")):
        gone = told.repository.ask("GET", f"/refs/{branch}/objects", query={"path": path})
        assert gone.status == 410
    for address in (other_path, other_branch, beside, committed, outside, young):
        assert told.repository.lies_there(address)
    told.at(9.5)
    run, mark = marked(told)
    figures = ExpiredFigures.of(mark.expired.manifest)
    assert mark.addresses(run) == []
    assert (figures.missing_objects, figures.missing_by_policy) == (0, 3)


def _failing(*_arguments, **_options):
    raise TransientError("the branches cannot be listed", "Run again.")


@pytest.mark.deep
def test_executors_let_go_what_the_driver_lets_go(told):
    """What they make of a plan lies in the folder of the policy, and goes with its table."""
    placement.choose_executors(True)
    logs, data = told.committed("main", "logs/a", "data/a")
    told.committed("main", "logs/b")
    one, two = staged(told, "main", "tmp/one", "tmp/two")
    told.at(9)
    policy(told, UPLOADS, rule("main/logs/", 3))
    run, mark = marked(told)
    assert len(mark.addresses(run)) == 4
    linked(told, ("main", "tmp/two"), "main", "kept")
    linked(told, ("main", "logs/a"), "main", "kept/a")
    assert kept(run) == {
        logs: "referenced again: staged",
        two: "not let go any more: the retention policy does not name it",
    }
    assert not told.repository.lies_there(one)
    folder = told.repository.store.folder / tables.folder(tables.POLICY_EXPIRATIONS, run.key)
    assert {file.name.split("-")[0] for file in folder.iterdir()} == {
        "_aside",
        "_manifest.json",
        "part",
    }
    told.at(20)
    for file in (told.repository.store.folder / lakegc_keys.ROOT).rglob("*"):
        os.utime(file, (BEGIN.timestamp(), BEGIN.timestamp()))
    later, _ = marked(told, keep_runs=1)
    assert house_keeping.keep_house(later).pruned.runs
    assert {file.name for file in folder.iterdir()} == {"_manifest.json"}
    assert told.repository.lies_there(data)


def test_a_staged_object_that_changed_between_mark_and_sweep_is_kept(told):
    told.repository.branch("dev")
    ways = ("path", "branch", "young", "commit", "held", "reset", "gone")
    found = dict(zip(ways, staged(told, "main", *(f"tmp/{way}" for way in ways)), strict=True))
    of_dev = staged(told, "dev", "tmp/x")[0]
    told.at(9)
    policy(told, UPLOADS, rule("dev/", 3, "uncommitted"))
    run, mark = marked(told)
    assert set(mark.addresses(run)) == {*found.values(), of_dev}
    linked(told, ("main", "tmp/path"), "main", "kept/path")
    told.repository.branch("other")
    linked(told, ("main", "tmp/branch"), "other", "tmp/branch")
    linked(told, ("main", "tmp/young"), "main", "tmp/young")
    # Under a name that the rule takes, and whose objects no rule for committed ones takes.
    told.repository.branch("work")
    linked(told, ("main", "tmp/commit"), "work", "x")
    told.repository.commit("work")
    told.repository.call("PUT", "/branches/main", data={"type": "object", "path": "tmp/reset"})
    holds.add(run, "mine", "address", found["held"], who="test", why="for a test")
    holds.add(run, "all-of-dev", "branch", "dev", who="test", why="for a test")
    said = kept(run)
    assert set(said) == {*found.values(), of_dev} - {found["gone"]}
    held = said.pop(found["held"])
    assert held == f"referenced again: hold mine: address {found['held']}"
    assert said.pop(of_dev) == "not let go any more: a hold keeps what is staged on branch dev"
    # What was reset is like any other garbage for the next mark.
    assert set(said.values()) == {"not let go any more: the retention policy does not name it"}
    assert not told.repository.lies_there(found["gone"])
    for address in {*found.values(), of_dev} - {found["gone"]}:
        assert told.repository.lies_there(address)
    told.at(10)
    run, mark = marked(told)
    assert mark.addresses(run) == [found["reset"]]


def test_names_that_cannot_be_read_keep_what_is_staged_and_nothing_else(told, monkeypatch):
    logs = told.committed("main", "logs/a")
    tmp = staged(told, "main", "tmp/x")[0]
    told.at(9)
    policy(told, UPLOADS, rule("main/logs/", 3))
    run, mark = marked(told)
    assert set(mark.addresses(run)) == {logs, tmp}
    with monkeypatch.context() as patch:
        patch.setattr(staged_names, "diff_names", _failing)
        told.at(9.5)
        later, mark = marked(told)
        assert mark.addresses(later) == [logs]
        facts = later.load(tables.POLICY_EXPIRATIONS).manifest.facts
        assert facts["staged_problem"] == "the branches cannot be listed"
        read, *_ = check_policy(later, facts)
        assert not read.passed
        assert "no rule takes a staged object: the branches cannot be listed" in read.summary
        assert kept(run)[tmp].endswith("could not be read (the branches cannot be listed)")
    assert told.repository.lies_there(tmp)
    assert not told.repository.lies_there(logs)


def test_a_commit_whose_table_cannot_be_read_keeps_every_staged_object(told):
    told.repository.rules(1)
    told.repository.branch("dev")
    told.committed("dev", "data/a")
    lost = told.repository.branches()["dev"]
    told.repository.drop_branch("dev")
    tmp = staged(told, "main", "tmp/x")[0]
    told.at(9)
    policy(told, UPLOADS)
    run, mark = marked(told)
    assert tmp in mark.addresses(run)
    metarange = told.repository.commits[lost]["meta_range_id"]
    (told.repository.store.folder / "_lakefs" / metarange).unlink()
    told.at(9.5)
    run, mark = marked(told)
    assert tmp not in mark.addresses(run)
    assert run.load(tables.POLICY_EXPIRATIONS).manifest.facts["unread"] == 1


@pytest.mark.parametrize("hides", [False, True])
def test_all_branches_are_listed_and_only_a_name_that_rules_take_is_no_sign_of_another(told, hides):
    """The path is the same on both branches; only one of them shows it in its diff."""
    told.repository.branch("dev")
    told.repository.upload("dev", "tmp/x", b"main tmp/x")
    told.repository.commit("dev")
    tmp = staged(told, "main", "tmp/x")[0]
    told.at(9)
    policy(told, UPLOADS)
    run, mark = marked(told, hidden_entries="ask_all")
    assert mark.addresses(run) == [tmp]
    if hides:
        checksum = told.repository.stat("main", "tmp/x")["checksum"]
        linked(told, ("main", "tmp/x"), "dev", "tmp/x", checksum=checksum)
        assert told.repository.call("GET", "/branches/dev/diff")["results"] == []
    assert set(kept(run)) == ({tmp} if hides else set())
    assert told.repository.lies_there(tmp) == hides
    told.at(9.5)
    if hides:
        run, mark = marked(told, hidden_entries="ask_all")
        assert mark.addresses(run) == []


@pytest.mark.slow
def test_a_staged_object_in_quarantine_goes_for_good_while_rules_take_its_names(told):
    options = {"quarantine": True, "quarantine_days": 2}
    one, two, dropped = staged(told, "main", "tmp/one", "tmp/two", "tmp/dropped")
    told.at(9)
    policy(told, UPLOADS)
    run, _ = marked(told, **options)
    assert set(sweep_only(run)) == {one, two, dropped}
    told.at(12)
    linked(told, ("main", "tmp/two"), "main", "data/two")
    told.repository.delete("main", "tmp/dropped")
    house = house_keeping.keep_house(marked(told, **options)[0])
    assert (house.pruned.purged.objects, house.pruned.purged.in_use) == (2, 1), house.words
    assert restore(run).objects == {"restored": 1, "not_restorable": 2}
    assert told.repository.get("main", "data/two") == b"main tmp/two"


def names_without_dev(monkeypatch):
    """Let the reading of staged names lose a branch, as by an error of the staging store."""
    read = staged_names.diff_names

    def without_dev(server, repository, make, keep, **options):
        def made(branch, entries):
            return make(branch, [] if branch == "dev" else entries)

        return read(server, repository, made, keep, **options)

    monkeypatch.setattr(staged_names, "diff_names", without_dev)


def test_an_entry_that_one_reading_of_the_mark_saw_and_the_names_do_not_show_keeps_its_object(
    told, monkeypatch
):
    told.repository.branch("dev")
    other = staged(told, "main", "tmp/x", "tmp/y")[1]
    linked(told, ("main", "tmp/x"), "dev", "other")
    told.at(9)
    policy(told, UPLOADS)
    names_without_dev(monkeypatch)
    run, mark = marked(told)
    assert mark.addresses(run) == [other]
