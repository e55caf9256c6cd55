"""What a policy took is certified with the policy, and no field of a certificate is believed."""

import json
from datetime import timedelta
from functools import cache

import pytest

from lakegc_dagster.sandbox import Sandbox
from spark_core import holds
from spark_core.certificate import content, issue, seal_and_signature
from spark_core.checks import verdict
from spark_core.errors import VerdictError
from spark_core.references.policies import confirmed, versions
from spark_core.references.policies.document import Policy
from tests.support.forgeries import forgeries
from tests.support.pipeline import mark_and_conclude, sweep_only
from tests.support.sandbox_runs import open_sandbox_run
from tests.support.told_repository import BEGIN, DAY, Told, rule

pytestmark = pytest.mark.spark

LOGS = "policy rule 1: all, 3 days, on main/logs/"
TMP = "policy rule 2: all, 2 days, on main/tmp/"
GARBAGE = "in no commit, and not staged"


def marked(told, **options):
    """A run of day 9: two rules take what they name, and garbage goes as ever."""
    told.repository.rules(30)
    told.committed("main", "logs/a", "logs/bb")
    told.committed("main", "tmp/a", "data/a")
    told.repository.upload("main", "data/b", b"never committed")
    told.repository.delete("main", "data/b")
    told.at(9)
    now = BEGIN + 9 * DAY
    told.sandbox.clock.set(now + timedelta(seconds=1))
    options = {"policies": "sweep", **options}
    run = open_sandbox_run(told.sandbox, told.repository.name, told.spark, now, **options)
    document = Policy((rule("main/logs/", 3), rule("main/tmp/", 2)))
    confirmed.confirm(run, versions.store_version(run, document, who="ann@host"), "bob@host")
    _, stored, _ = mark_and_conclude(run)
    assert stored.passed, [check["summary"] for check in stored.failed]
    return run


@pytest.fixture(scope="module")
def run(spark, tmp_path_factory):
    with Sandbox(tmp_path_factory.mktemp("place") / "sandbox") as sandbox:
        told = Told(sandbox, spark)
        run = marked(told)
        held = told.repository.stat("main", "logs/bb")["physical_address"].rpartition("data/")[2]
        holds.add(run, "audit", "address", f"data/{held}", who="test", why="")
        sweep_only(run)
        yield run


def test_a_certificate_names_the_policy_and_what_went_by_each_of_its_rules(run):
    made = issue.certificate(run)
    assert made["policy"] == verdict.load(run).policy
    assert (made["policy"]["version"], made["policy"]["confirmed_by"]) == (1, "bob@host")
    assert made["policy"]["by_reason"] == [[LOGS, 2, 13], [TMP, 1, 5]]
    # The hold came after the mark, so the sweep kept one of them.
    assert made["by_reason"] == {
        GARBAGE: {"deleted": [1, 15]},
        LOGS: {"deleted": [1, 6], "kept": [1, 7]},
        TMP: {"deleted": [1, 5]},
    }
    assert made["outcomes"] == {"deleted": [3, 26], "kept": [1, 7]}


def _wrong_with(run, monkeypatch):
    """Make what `lakegc verify --store` finds; the store does not change, and is asked once."""
    asked = cache(lambda prefix: sources(run, prefix))
    sources = issue._sources
    monkeypatch.setattr(issue, "_sources", lambda _, prefix: asked(prefix))

    def wrong(changed):
        try:
            read = seal_and_signature.read_certificate(json.dumps(changed).encode(), "changed")
        except VerdictError as refused:
            return [refused.found]
        return seal_and_signature.faults(read) or issue.differences(
            run, seal_and_signature.unsealed(read)
        )

    return wrong


# What a certificate says of itself, and no store can confirm.
NOT_COVERED = {"issued_at", "lakegc", "path.read_at"}


# The default tests try one of eight changes, the slow ones each.
@pytest.mark.parametrize("step", [8, pytest.param(1, marks=pytest.mark.slow)])
def test_whatever_is_changed_in_a_certificate_verify_fails_or_says_that_it_is_not_covered(
    run, monkeypatch, step
):
    made = seal_and_signature.sealed(issue.certificate(run, "logs/"))
    del made["sha256"]
    wrong = _wrong_with(run, monkeypatch)
    assert wrong(seal_and_signature.sealed(made)) == []
    believed, tried = set(), 0
    for number, (place, _, changed) in enumerate(forgeries(made)):
        if number % step and place not in NOT_COVERED:
            continue
        tried += 1
        sealed = seal_and_signature.sealed(changed)
        if not wrong({name: each for name, each in sealed.items() if name in {*changed, "sha256"}}):
            believed.add(place)
    assert tried > 1_000 // step
    assert believed == NOT_COVERED
    assert believed < set(content.uncovered(made, by_store=True))


def test_the_number_of_commits_is_not_covered_since_there_may_be_more_now(run, monkeypatch):
    made = issue.certificate(run, "logs/")
    path = json.loads(json.dumps(made["path"]).replace("all 3 commits", "all 2 commits"))
    assert path != made["path"]
    earlier = seal_and_signature.sealed({**made, "path": {**path, "commits_read": 2}})
    assert _wrong_with(run, monkeypatch)(earlier) == []
    assert "path.commits_read" in content.uncovered(made, by_store=True)
