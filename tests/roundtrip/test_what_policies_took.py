"""What counts as taken by a policy afterwards: what sweeps took, and nothing that they kept."""

import pyarrow as pa
import pytest

from spark_core.records import tables
from spark_core.records.figures import ExpiredFigures
from spark_core.references import policy_rows
from spark_core.references.policies import confirmed, versions
from spark_core.references.policies.document import Policy
from spark_core.references.policy_rows import GOING
from spark_core.spark.exchange import JoinedSource, source_of
from tests.roundtrip.test_policy_sweeps import (
    UPLOADS,
    kept,
    linked,
    marked,
    opened,
    policy,
    staged,
)
from tests.support.pipeline import sweep_only
from tests.support.told_repository import Told, rule

pytestmark = pytest.mark.spark


@pytest.fixture
def told(sandbox, spark):
    return Told(sandbox, spark)


def lose(told, address):
    (told.repository.store.folder / address).unlink()


def taken(run):
    rows = run.load(tables.POLICY_DELETIONS, anew=True)
    return {row["address"] for batch in rows.batches() for row in batch.to_pylist()}


def missing(told):
    """Objects that a new mark misses, and how many it does not miss since a policy took them."""
    _, mark = marked(told, max_missing_share=1)
    figures = ExpiredFigures.of(mark.expired.manifest)
    return set(figures.missing_named), figures.missing_by_policy or 0


def test_what_a_sweep_kept_or_found_gone_is_missing_if_it_is_lost_later(told):
    copied, before, gone = told.committed("main", "logs/copy", "logs/before", "logs/gone")
    told.committed("main", "data/a")
    told.at(9)
    policy(told, rule("main/logs/", 3))
    run, mark = marked(told)
    assert set(mark.addresses(run)) == {copied, before, gone}
    linked(told, ("main", "logs/copy"), "main", "data/copy")
    told.repository.commit("main")
    lose(told, before)
    assert sweep_only(run) == {copied: "kept", before: "already_gone", gone: "deleted"}
    assert taken(run) == {gone}
    told.at(10)
    assert missing(told) == ({before}, 1)
    lose(told, copied)
    told.at(11)
    assert missing(told) == ({before, copied}, 1)


def test_what_a_rule_names_and_the_plan_leaves_was_not_taken(told, monkeypatch):
    """A branch may answer from it, or could not be asked."""
    gone = told.committed("main", "logs/gone")
    told.committed("main", "data/a")
    told.at(9)
    policy(told, rule("main/logs/", 3))
    run, mark = marked(told)
    real = policy_rows.PolicyRows.source

    def named(rows, of):
        more = [{**row, "address": "data/x/left"} for row in real(rows, of).here(1).to_pylist()]
        return JoinedSource([real(rows, of), source_of(pa.Table.from_pylist(more, GOING), GOING)])

    monkeypatch.setattr(policy_rows.PolicyRows, "source", named)
    policy_rows.note_before_deleting(run, mark.expired)
    assert taken(run) == {gone}


@pytest.mark.slow
def test_a_sweep_without_a_report_counts_all_that_it_set_out_to_take(told, monkeypatch):
    """It may have taken any of it. The next sweep of the run finds out."""
    copied, gone = told.committed("main", "logs/copy", "logs/gone")
    told.committed("main", "data/a")
    told.at(9)
    policy(told, rule("main/logs/", 3))
    run, _ = marked(told)
    linked(told, ("main", "logs/copy"), "main", "data/copy")
    told.repository.commit("main")

    def dies(*_arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(policy_rows, "note_what_went", dies)
        with pytest.raises(KeyboardInterrupt):
            sweep_only(run)
    assert not told.repository.lies_there(gone)
    assert taken(run) == {copied, gone}
    assert sweep_only(run) == {copied: "kept", gone: "deleted"}
    assert taken(run) == {gone}


@pytest.mark.deep
def test_what_goes_because_it_is_staged_is_kept_by_a_commit_that_another_rule_takes(told):
    """The commit says an old date, so a rule for committed objects names it at once."""
    tmp, other = staged(told, "main", "tmp/x", "tmp/y")
    told.at(9)
    policy(told, UPLOADS, rule("main/tmp/", 3))
    run, mark = marked(told)
    assert set(mark.addresses(run)) == {tmp, other}
    told.repository.reset("main", type="object", path="tmp/y")
    date = int(told.repository.written[tmp].timestamp())
    told.repository.commit("main", date=date)
    assert kept(run)[tmp] == "not let go any more: the retention policy does not name it"
    told.at(10)
    run, mark = marked(told)
    assert set(mark.addresses(run)) == {tmp, other}
    assert sweep_only(run) == {tmp: "deleted", other: "deleted"}


@pytest.mark.deep
def test_of_two_plans_with_one_object_the_run_that_took_it_has_it(told):
    logs = told.committed("main", "logs/a")
    told.committed("main", "data/a")
    told.at(9)
    policy(told, rule("main/logs/", 3))
    older, _ = marked(told)
    told.at(9.5)
    newer, _ = marked(told)
    assert sweep_only(newer) == {logs: "deleted"}
    assert sweep_only(older) == {logs: "already_gone"}
    assert (taken(newer), taken(older)) == ({logs}, set())
    told.at(10)
    assert missing(told) == (set(), 1)


@pytest.mark.deep
def test_the_same_name_on_the_branch_before_stays_and_does_not_become_visible(told):
    """The old document's example of staging and master: there it would; here reading says Gone."""
    on_main = told.committed("main", "report", "table")
    told.repository.branch("staging")
    told.at(1)
    committed = told.repository.upload("staging", "report", b"a newer report")
    told.repository.commit("staging")
    (uncommitted,) = staged(told, "staging", "table")
    told.at(9)
    rules = Policy((rule("staging/", 3), rule("staging/", 3, "uncommitted")), ("main", "staging"))
    run = opened(told)
    confirmed.confirm(run, versions.store_version(run, rules, who="test"), "test")
    run, mark = marked(told)
    assert set(mark.addresses(run)) == {committed, uncommitted}
    sweep_only(run)
    for path in ("report", "table"):
        gone = told.repository.ask("GET", "/refs/staging/objects", query={"path": path})
        assert gone.status == 410
        assert told.repository.get("main", path) == path.encode()
    assert all(map(told.repository.lies_there, on_main))
