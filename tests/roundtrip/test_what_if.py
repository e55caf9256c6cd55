"""What other rules would let go is what a mark under those rules finds."""

import json
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from click.testing import CliRunner

from lakegc_dagster.sandbox import gc, history, refs
from spark_core import holds, lakegc_keys
from spark_core.cli.main import main
from spark_core.explain import keep_answer, what_if
from spark_core.model import RetentionRules
from spark_core.records import tables
from spark_core.records.journal import Journal
from spark_core.report.what_if import load_curve
from spark_core.spark import placement
from tests.support.pipeline import mark_only
from tests.support.sandbox_runs import open_sandbox_run
from tests.support.written_run import journal_entries

pytestmark = pytest.mark.spark

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)
UNREACHABLE = ("expired", "read_by_branch", "may_hide")


def _unreachable(sandbox, spark, at, rules=None):
    """Mark under some rules; return objects and bytes before hidden entries are looked for."""
    if rules is not None:
        with sandbox.core.lock:
            gc.set_rules(
                sandbox.core, "repo", gc.Rules(rules.default_retention_days, rules.branches)
            )
    run = open_sandbox_run(sandbox, "repo", spark, at)
    facts = mark_only(run).expired.manifest.facts
    amounts = [facts["by_fate"].get(fate, (0, 0)) for fate in UNREACHABLE]
    return tuple(sum(each) for each in zip(*amounts, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    "is_small",
    [
        pytest.param(True, id="on the driver"),
        pytest.param(False, id="by tasks", marks=pytest.mark.deep),
    ],
)
def test_each_answer_is_what_a_mark_under_those_rules_finds(sandbox, spark, monkeypatch, is_small):
    if not is_small:
        monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 0)
    story = history.documents_history(sandbox, "repo", now=NOW)
    sandbox.clock.set(NOW + timedelta(seconds=1))
    run = open_sandbox_run(sandbox, "repo", spark, NOW)
    mark_only(run)
    other = RetentionRules(9, {"main": 2, "dev": 30})
    found = what_if(run, [16, 5, 25], other)
    answers = {one.name: (one.objects, one.size_bytes) for one in found.answers}
    assert what_if(run, (), other).answers == found.answers[3:], "no days need be asked about"
    assert list(answers) == [
        "every branch keeps 25 days",
        "every branch keeps 16 days",
        "every branch keeps 5 days",
        "the rules of now",
        "the rules of now, in 7 days",
        "the rules of now, in 30 days",
        "the rules asked about",
    ]
    for one in found.answers:
        for groups in (one.by_prefix, one.by_branch):
            assert sum(objects for _, objects, _ in groups) == one.objects
            assert sum(size_bytes for _, _, size_bytes in groups) == one.size_bytes
    assert found.swept == (0, 0)
    rules_of_now = next(one for one in found.answers if one.name == "the rules of now")
    # By branch: the 24 trials of a deleted branch; what dev and main replaced; what was staged.
    by_branch = {name: objects for name, objects, _ in rules_of_now.by_branch}
    went = [file for file in story.deleted if file.ref is not None]
    assert by_branch["(no branch)"] == sum(file.path.startswith("trials/") for file in went)
    assert by_branch["dev"] == sum(file.path[:2] in ("d_", "fe") for file in went)
    assert by_branch["main"] == len(went) - by_branch["dev"] - by_branch["(no branch)"]
    assert by_branch["(never committed)"] == found.never_committed[0]
    assert _unreachable(sandbox, spark, NOW + timedelta(seconds=2)) == answers["the rules of now"]
    # Each answer comes from one walk, whichever rules are asked about: two marks show it.
    days_marked = (5,) if is_small else (5, 16, 25)
    wanted = {f"every branch keeps {days} days": RetentionRules(days) for days in days_marked}
    wanted["the rules asked about"] = other
    seen = set()
    for at, (name, rules) in enumerate(wanted.items(), start=3):
        sandbox.clock.set(NOW + timedelta(seconds=at))
        free = _unreachable(sandbox, spark, NOW + timedelta(seconds=at), rules)
        assert free == answers[name], name
        seen.add(free)
    assert len(seen) == len(wanted), "the rules differ in what they let go"
    assert found.never_committed[0] < answers["the rules of now"][0]
    if is_small:
        curve = keep_answer(run, found, [16, 5, 25])
        assert load_curve(run.store, run.key) == curve
        assert curve.days == (5, 16, 25)
        free = [answers[f"every branch keeps {days} days"] for days in curve.days]
        assert [(one.objects, one.size_bytes) for one in curve.free] == free
        assert [one.name for one in curve.now] == list(answers)[3:6]
        page = run.store.read(lakegc_keys.report_keys(run.key, swept=False)["html"]).decode()
        assert "if every branch keeps so many days" in page


def test_rules_that_are_none_are_refused_with_the_form_that_is_wanted(tmp_path):
    for told in ("", "[]", "{}", json.dumps({"default_retention_days": -1})):
        file = tmp_path / "rules.json"
        file.write_text(told)
        answer = CliRunner().invoke(main, ["what-if", "repo", "--rules", str(file)])
        assert answer.exit_code == 2
        assert str(file) in answer.output.replace("\n", "")
        assert "default_retention_days" in answer.output
    answer = CliRunner().invoke(main, ["what-if", "repo", "--days", "1,x"])
    assert answer.exit_code == 2
    assert "is not a list of days like 1,7,30" in answer.output


def test_what_one_branch_alone_keeps_goes_in_the_end_once_it_is_deleted(sandbox, spark):
    history.documents_history(sandbox, "repo", now=NOW)
    with sandbox.core.lock:
        # So that the days by which commits of deleted branches are kept are over.
        gc.set_rules(sandbox.core, "repo", gc.Rules(0, {"main": 14, "dev": 9}))
    sandbox.clock.set(NOW + timedelta(seconds=1))
    run = open_sandbox_run(sandbox, "repo", spark, NOW)
    mark_only(run)
    before = what_if(run, ())
    (alone,) = [size for name, *size in before.kept_by_one if name == "without branch dev"]
    with sandbox.core.lock:
        refs.delete_branch(sandbox.core, "repo", "dev")
    now, then = (
        next(one for one in found.answers if one.name == "the rules of now")
        for found in (before, what_if(run, ()))
    )
    assert alone[0] > 0
    assert alone == [then.objects - now.objects, then.size_bytes - now.size_bytes]


@pytest.mark.slow
def test_what_holds_keep_by_address_or_path_is_in_no_answer(sandbox, spark):
    history.documents_history(sandbox, "repo", now=NOW)
    sandbox.clock.set(NOW + timedelta(seconds=1))
    run = open_sandbox_run(sandbox, "repo", spark, NOW)
    mark_only(run)
    before = what_if(run, (1,))
    named = run.load(tables.EXPIRED_ADDRESSES).batches(["address"])
    address = next(batch.column(0)[0].as_py() for batch in named if batch.num_rows)
    holds.add(run, "one", "address", address, who="ann", why="")
    with_one = what_if(run, (1,))
    for kept, free in zip(with_one.answers, before.answers, strict=True):
        assert kept.objects == free.objects - 1, kept.name
    holds.add(run, "trials", "path", "trials/**", who="ann", why="")
    with_paths = what_if(run, (1,))
    for kept, free in zip(with_paths.answers, with_one.answers, strict=True):
        gone = {name: objects for name, objects, _ in free.by_prefix}["trials/"]
        assert kept.objects == free.objects - gone, kept.name
        assert "trials/" not in {name for name, *_ in kept.by_prefix}
    holds.add(run, "all", "prefix", "data/", who="ann", why="")
    assert [one.objects for one in what_if(run, (1,)).answers] == [0] * len(before.answers)


def test_what_a_killed_sweep_deleted_is_in_no_answer(sandbox, spark):
    history.documents_history(sandbox, "repo", now=NOW)
    sandbox.clock.set(NOW + timedelta(seconds=1))
    run = open_sandbox_run(sandbox, "repo", spark, NOW)
    mark_only(run)
    before = what_if(run, ())
    expired = run.load(tables.EXPIRED_ADDRESSES)
    named = pa.Table.from_batches(expired.batches(["address", "size_bytes"])).to_pylist()
    names = [row["address"] for row in named[:3]]
    journal = Journal(run.store, str(run.key), expired.manifest.sha256)
    journal.intend("a.0.0.0.0", journal_entries("intended", names))
    assert what_if(run, ()).swept == (0, 0), "nobody knows what became of them"
    journal.conclude("a.0.0.0.0", journal_entries("deleted", names[:1]))
    journal.conclude("a.0.0.0.1", journal_entries("failed", names[1:2]))
    after = what_if(run, ())
    assert after.swept == (1, named[0]["size_bytes"])
    for now, then in zip(before.answers, after.answers, strict=True):
        assert (then.objects, then.size_bytes) == (
            now.objects - 1,
            now.size_bytes - named[0]["size_bytes"],
        )
