"""The figures of runs of every kind: what the page, the lists, the metrics, the status and Dagster
say of one adds up to what there is, and all of them say the same.
"""

import json
import re
from collections import Counter
from dataclasses import dataclass, replace
from datetime import timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakegc_dagster import headlines
from spark_core import report
from spark_core.checks import verdict
from spark_core.explain import explain_each
from spark_core.fates import Fate
from spark_core.metrics.gauges import metrics_text
from spark_core.records import tables
from spark_core.records.figures import CommittedFigures, ListedFigures
from spark_core.references.policies import confirmed, versions
from spark_core.references.policies.document import Policy
from spark_core.report.fate_counts import VANISHED, WORDS, total
from spark_core.report.past_runs import past_runs
from spark_core.report.status_of_runs import status_of
from spark_core.spark import placement
from spark_core.stored_runs.overview import Past
from spark_core.undo.restore import restore
from spark_core.upkeep import house_keeping
from tests.support.pipeline import mark_and_conclude, sweep_only
from tests.support.sandbox_runs import open_sandbox_run
from tests.support.told_repository import BEGIN, DAY, Told, rule

pytestmark = pytest.mark.spark

MARK_ID = "ft6s0e1ksdufuaulm34g"


@dataclass
class Story:
    """A repository with garbage, and runs of each kind over it.

    Attributes:
        told: The repository.
        garbage: Addresses that nothing reaches.
        logs: The address that a policy names.
    """

    told: Told
    garbage: list
    logs: str

    def run(self, day, **options):
        """Open a run of a day."""
        self.told.at(day)
        now = BEGIN + day * DAY
        self.told.sandbox.clock.set(now + timedelta(seconds=1))
        repository = self.told.repository
        return open_sandbox_run(self.told.sandbox, repository.name, self.told.spark, now, **options)

    def marked(self, day, *, reference=None, **options):
        """Mark, and store the report."""
        run = replace(self.run(day, **options), reference_mark=reference)
        _, found, _ = mark_and_conclude(run)
        assert found.passed, [check["summary"] for check in found.failed]
        report.load(run)
        return run

    def sweep_that_deletes_nothing(self, run):
        """Sweep on a store that says "deleted", and deletes nothing."""
        assert set(sweep_only(run).values()) == {"deleted"}
        self.lies_there(*self.garbage)

    def lies_there(self, *garbage):
        """Let objects lie where they lay."""
        for address in garbage:
            number = self.garbage.index(address)
            self.told.repository.store.put(address, b"x" * (number + 7))
            self.told.repository.store.date(address, BEGIN)

    def past(self, run):
        """Return all runs at the instant of one, as every command reads them."""
        now = run.key.instant + timedelta(seconds=2)
        found = past_runs(run.store, now)
        status = status_of("repo", found, now, pause=DAY, may_sweep=True)
        return Past("repo", found, status)

    def of(self, run):
        """Return one run as every command reads it."""
        (found,) = [each for each in self.past(run).runs if each.run == str(run.key)]
        return found


@pytest.fixture(params=[10_000, pytest.param(0, marks=pytest.mark.deep)])
def who(request, monkeypatch):
    """Who compares: this process, or executors."""
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", request.param)


@pytest.fixture
def story(sandbox, spark):
    told = Told(sandbox, spark)
    told.repository.rules(100)
    logs = told.committed("main", "logs/a")
    told.committed("main", "data/a", "data/bb", "data/ccc")
    garbage = [told.repository.upload("main", f"x{n}", b"x" * (n + 7)) for n in range(5)]
    for number in range(5):
        told.repository.delete("main", f"x{number}")
    told.repository.upload("main", "staged", b"staged")
    told.at(8.9)
    told.repository.upload("main", "young", b"young")
    told.repository.delete("main", "young")
    return Story(told, garbage, logs)


def agree(story, run):
    """Compare all that shows the figures of a run; return its fates."""
    past, page = story.past(run), report.load(run)
    (one,) = [each for each in past.runs if each.run == str(run.key)]
    fates = {
        name: (amount["objects"], amount["size_bytes"])
        for name, amount in one.to_json()["fates"].items()
    }
    goes, stays = of_fates(fates, True), of_fates(fates, False)
    shown = json.loads(page.to_json())
    assert {name: tuple(amount) for name, amount in shown["fates"].items()} == fates

    listed = shown["listed"]
    assert total(fates.values()) == (listed["objects"], listed["size_bytes"])
    assert listed["objects"] == one.listed_objects
    assert (page.expired.objects, page.expired.size_bytes) == total(goes.values())
    assert {group.name: (group.objects, group.size_bytes) for group in page.kept} == stays
    html = report.page(page)
    assert all(str(group) in html for group in page.kept)
    of_all = page.listed.objects
    assert f"of {of_all} object{'' if of_all == 1 else 's'}" in html

    by_fate = {
        what: {
            fate: int(value)
            for kind, fate, value in re.findall(
                rf'^{what}{{repository="repo",collects="([^"]+)",fate="([^"]+)"}} (\d+)$',
                metrics_text([past], run.now()),
                re.MULTILINE,
            )
            if kind == one.collects
        }
        for what in ("lakegc_objects", "lakegc_objects_bytes")
    }
    if one == next(each for each in past.runs if each.collects == one.collects):
        for at, amounts in enumerate(by_fate.values()):
            assert amounts == {name: amount[at] for name, amount in fates.items()}

    assert (one.expired_objects, one.expired_bytes) == total(goes.values())
    (kind,) = [each for each in past.status.kinds if each.collects == one.collects]
    if kind.waiting_run == str(run.key):
        assert kind.waiting == total(goes.values())

    stored = {spec.name: run.load(spec).manifest for spec in tables.MARK_TABLES}
    for dagster in (
        headlines.of_stored(stored["expired_addresses"], None, {}),
        headlines.of_mark(page),
    ):
        words = " ".join(dagster["headline"].value.replace("*", "").split())
        may_go = one.expired_objects
        assert re.match(rf"{may_go} objects? \(.*\) may go of {listed['objects']} objects", words)
        assert {row.data["what"]: row.data["objects"] for row in dagster["kept"].records} == {
            name: amount[0] for name, amount in stays.items()
        }
    slices = headlines.of_stored(stored["namespace_slices"], None, {})
    assert slices["objects_listed"].value == listed["objects"]

    # The table has a row for each listed object that no retained commit reaches.
    told = {name: amount[0] for name, amount in fates.items() if name != VANISHED}
    explained = explain_each(run, values(run, tables.NAMESPACE_SLICES, "address"))
    assert Counter(one.fate for one in explained) == told
    told.pop("committed")
    assert Counter(values(run, tables.FATES, "fate")) == told
    return fates


def values(run, spec, column):
    """Return a column of a table of a run."""
    return [
        value
        for batch in run.load(spec).batches([column])
        for value in batch.column(column).to_pylist()
    ]


def of_fates(fates, may_go):
    """Return the fates that let objects go, or the others, in words for people."""
    going = {fate.value for fate in Fate if fate.may_go}
    return {WORDS[name]: amount for name, amount in fates.items() if (name in going) == may_go}


def objects(fates):
    return {name: amount[0] for name, amount in fates.items()}


def reference_mark(run, *addresses):
    """Write a mark of lakeFS's own job that names some addresses."""
    folder = f"_lakefs/retention/gc/unified/{MARK_ID}/"
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"address": pa.array(addresses, pa.string())}), sink)
    run.store.put(f"{folder}deleted/part-00000-a.parquet", sink.getvalue().to_pybytes())
    run.store.put(f"{folder}deleted/_SUCCESS", b"")
    told = {
        "run_id": MARK_ID,
        "success": True,
        "first_slice": "",
        "start_time": "2026-11-09T00:00:00Z",
        "cutoff_time": "2026-11-09T00:00:00Z",
        "num_deleted_objects": len(addresses),
    }
    run.store.put(f"{folder}summary.json", json.dumps(told).encode())


def with_policy(story, day):
    run = story.run(day)
    confirmed.confirm(
        run, versions.store_version(run, Policy((rule("main/logs/", 3),)), who="test"), "test"
    )


@pytest.mark.slow
def test_every_kind_of_run_has_one_fate_for_each_object_wherever_it_is_shown(story):
    plain = story.marked(9, optimized=True)
    assert objects(agree(story, plain)) == {
        "committed": 4,
        "staged": 1,
        "young": 1,
        "expired": 5,
    }

    story.told.committed("main", "data/new")
    optimized = story.marked(9.05, optimized=True)
    assert objects(agree(story, optimized)) == {"committed": 6, "young": 1, "expired": 5}
    assert story.of(optimized).kind == "optimized"

    reference_mark(plain, *story.garbage[:2], story.logs)
    within = story.marked(9.1, reference=MARK_ID)
    found = agree(story, within)
    assert (objects(found)["expired"], objects(found)["not_named"]) == (2, 3)
    status = story.past(within).status
    assert (status.last_mark, status.waiting_run) == (str(optimized.key), str(optimized.key))
    assert [(kind.collects, kind.waiting_run) for kind in status.others] == [
        ("reference mark", str(within.key))
    ]

    with_policy(story, 9.2)
    expire = story.marked(9.2, policies="only")
    assert sweep_only(expire) == {story.logs: "deleted"}
    (words,) = report.load(expire).cautions
    assert words.startswith("only what the retention policy names was considered")
    assert objects(agree(story, expire)) == {
        "committed": 5,
        "young": 1,
        "taken_by_policy": 1,
        "left_to_others": 5,
    }
    status = story.past(expire).status
    assert (status.last_mark, status.last_sweep) == (str(optimized.key), None)
    assert (status.waiting[0], status.waiting_run) == (5, str(optimized.key))
    assert status.reclaimed == (1, 6)

    swept = story.marked(12, quarantine=True, quarantine_days=7)
    assert len(sweep_only(swept)) == 6
    agree(story, swept)
    status = story.past(swept).status
    assert (status.last_sweep, status.waits_for) == (str(swept.key), "")
    assert status.in_quarantine == story.of(swept).outcomes["deleted"]

    back, needed, *_ = story.garbage
    assert restore(swept, [back]).complete
    story.lies_there(back)
    agree(story, swept)
    assert (story.of(swept).reclaimed[0], story.of(swept).in_quarantine[0]) == (5, 6)

    # Its copy stays, as something refers to it.
    name = story.told.repository.name
    assert story.told.repository.stage("main", "again", f"local://{name}/{needed}").status == 201
    later = story.marked(50)
    house = house_keeping.keep_house(later)
    assert house.pruned.purged.objects == 5, house.words
    assert story.past(later).status.in_quarantine == (1, 8)
    agree(story, swept)
    assert objects(agree(story, later))["expired"] == 1


def test_after_a_run_by_a_policy_alone_nothing_was_collected_and_nothing_is_in_order(story):
    with_policy(story, 9)
    expire = story.marked(9, policies="only")
    sweep_only(expire)
    status = story.past(expire).status
    assert (status.last_mark, status.last_sweep) == (None, None)
    assert status.overdue == "no mark of it ever passed that lets go what nothing reaches"
    (other,) = status.others
    assert (other.last_mark, other.last_sweep) == (str(expire.key), str(expire.key))
    assert other.waits_for == ""


@pytest.mark.slow
def test_what_a_store_says_it_deleted_and_keeps_is_named_again_and_reclaimed_once(story):
    first = story.marked(9)
    story.sweep_that_deletes_nothing(first)
    again = story.marked(9.05)
    assert story.of(again).deleted_before == (5, 45)
    (words,) = [one for one in report.load(again).cautions if "reported deleted" in one]
    assert words.startswith("5 objects (45 bytes) of those that may go were reported deleted")
    story.sweep_that_deletes_nothing(again)
    assert story.past(again).status.reclaimed == (5, 45) == story.of(first).outcomes["deleted"]
    last = story.marked(11)
    sweep_only(last)
    # The one that was too young before is new.
    assert story.past(last).status.reclaimed == (6, 50)


@pytest.mark.slow
@pytest.mark.usefixtures("who")
def test_what_a_restore_brought_back_was_not_deleted_before(story):
    first = story.marked(9, quarantine=True)
    sweep_only(first)
    back, kept, *_ = story.garbage
    assert restore(first, [back]).complete
    story.lies_there(back, kept)
    again = story.marked(9.1)
    assert story.of(again).deleted_before == (1, 8)
    sweep_only(again)
    assert story.past(again).status.reclaimed == (5, 45)


@pytest.mark.slow
@pytest.mark.usefixtures("who")
@pytest.mark.parametrize("how", ["gone", "damaged"])
def test_an_earlier_report_that_cannot_be_read_stops_no_mark(story, how):
    first = story.marked(9)
    sweep_only(first)
    for part in first.load(tables.DELETION_REPORT, anew=True).manifest.parts:
        first.store.delete([part.key])
        if how == "damaged":
            first.store.put(part.key, b"nonsense")
    again = story.marked(11)
    assert (story.of(again).expired_objects, story.of(again).deleted_before) == (1, (0, 0))


def said(run):
    """Check -> sentence, as the verdict keeps it."""
    return {check["name"]: check["summary"] for check in verdict.load(run).checks}


@pytest.mark.slow
def test_what_the_checks_of_an_optimized_mark_say_is_true(story):
    story.told.repository.branch("dev")
    story.told.committed("dev", "dev/a")
    first = story.marked(9, optimized=True)
    sweep_only(first)
    story.told.repository.upload("main", "gone", b"data/a")
    story.told.repository.delete("main", "gone")
    second = story.marked(10.5, optimized=True)
    assert story.of(second).kind == "optimized"
    assert sweep_only(second)
    third = story.marked(10.6, optimized=True)
    assert story.of(third).kind == "optimized"
    clean = story.marked(10.7)
    for run in (second, third, clean):
        words = said(run)
        had = CommittedFigures.of(run.load(tables.COMMITTED_ADDRESSES).manifest)
        assert words["zero_ranges_are_proved"] == f"the retained commits have {had.ranges} ranges"
        heads = f"{had.head_metaranges} metaranges and {had.head_ranges} ranges, all of them read"
        if run is clean:
            assert words["heads_are_readable"].endswith(heads)
            assert words["ranges_were_read_whole"].endswith(" entries, all of them read")
            continue
        taken = had.taken
        assert had.ranges_read + taken.ranges == had.ranges
        assert words["heads_are_readable"].endswith(
            f"{heads}, or taken from the index ({taken.head_metaranges} metaranges and "
            f"{taken.head_ranges} ranges)"
        )
        index = ListedFigures.of(run.load(tables.NAMESPACE_SLICES).manifest).index
        assert words["optimized_runs_were_right"] == (
            f"this run is an optimized one, with the index of run {index.run}: the next clean one "
            "compares what optimized runs deleted"
        )
    assert "nothing that 1 optimized run deleted" in said(clean)["optimized_runs_were_right"]
    assert said(first)["optimized_runs_were_right"] == (
        "no optimized run was made since the last clean one"
    )
