"""Every listed object gets one fate, whatever the tables hold: compared with plain sets."""

import random
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest

from spark_core import holds, schemas
from spark_core.errors import IncompleteReadError
from spark_core.fates import Fate, WhyMayGo
from spark_core.mark import compared, fates, fates_by_answers
from spark_core.mark.compared import NAMED
from spark_core.mark.expired_sums import SUMMED, Sums
from spark_core.mark.fate_rows import FateTargets
from spark_core.mark.fates import Inputs
from spark_core.mark.fates_by_answers import Answers
from spark_core.records import reading, tables, writing
from spark_core.records.writing import Target
from spark_core.references.held_paths import HELD
from spark_core.spark import exchange, placement
from spark_core.spark.exchange import source_of
from tests.support.standing import standing
from tests.support.written_run import NOW, OLD, any_name, hash_of, written_run

pytestmark = pytest.mark.spark

NOBODY = Answers(np.empty(0, np.int64), pa.array([], pa.string()), np.empty(0, np.int64))


@pytest.fixture(params=["by the driver", pytest.param("by executors", marks=pytest.mark.slow)])
def run(request, tmp_path, spark, monkeypatch):
    if request.param == "by executors":
        monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 0)
        monkeypatch.setattr(exchange, "_ROWS_OF_A_BUCKET", 100)
        monkeypatch.setattr(compared, "_ROWS_OF_A_TASK", 100)
    return written_run(tmp_path, spark=spark)


def _held_paths(*addresses):
    words = ["hold a: path m/**"] * len(addresses)
    rows = pa.table([[hash_of(each) for each in addresses], words], schema=HELD)
    return source_of(rows, HELD)


def _decide(written, *, held=holds.NONE, held_paths=(), answers=NOBODY, **inputs):
    run = written.run
    stored = {spec: run.load(spec) for spec in tables.MARK_TABLES}
    attempt = writing.new_attempt()
    targets = FateTargets(
        Target(run.store, "_lakefs/picked/", attempt, schemas.EXPIRED_ADDRESSES),
        Target(run.store, "_lakefs/fates/", attempt, schemas.FATES),
    )
    decided = fates.decide(
        run,
        stored[tables.NAMESPACE_SLICES],
        stored[tables.UNCOMMITTED_ADDRESSES],
        stored[tables.COMMITTED_ADDRESSES],
        inputs=Inputs(held, _held_paths(*held_paths), **inputs),
        targets=targets,
        otherwise=WhyMayGo.NEVER_COMMITTED,
    )
    decided = fates_by_answers.decide_waiting(run, decided, answers, targets)
    assert not [key for key in writing_left(run) if "_waiting" in key]
    return decided, _rows(run, decided.expired, schemas.EXPIRED_ADDRESSES)


def writing_left(run):
    return [key for batch in run.store.list("_lakefs/picked/") for key in batch["key"].to_pylist()]


def _rows(run, receipts, schema):
    return [
        row
        for part in writing.parts_of(receipts)
        for batch in reading.read_part(run.store, schema, part)
        for row in batch.to_pylist()
    ]


def test_fates_are_those_of_plain_sets(run):
    dice = random.Random(7)
    listed = {
        f"data/slice{number % 13}/object{number}": (
            dice.randrange(1, 99),
            NOW - timedelta(hours=dice.randrange(99)),
        )
        for number in range(1_500)
    }
    names = list(listed)
    committed, staged = (
        set(dice.sample(names, 500)) | {"data/lost/one"},
        set(dice.sample(names, 200)) | {"data/lost/two"},
    )
    run.mark(listed, committed=sorted(committed) * 2, staged=sorted(staged))
    decided, rows = _decide(run)
    wanted = {
        address: "committed"
        if address in committed
        else "staged"
        if address in staged
        else standing(address, modified, run.run.limits)
        for address, (_, modified) in listed.items()
    }
    wanted = {name: "expired" if fate == "candidate" else fate for name, fate in wanted.items()}
    assert {fate: count for fate, count in decided.objects.items() if count} == Counter(
        wanted.values()
    )
    assert sorted(row["address"] for row in rows) == sorted(
        name for name, fate in wanted.items() if fate == "expired"
    )
    stored = {row["address_hash"]: row for row in _rows(run.run, decided.fates, schemas.FATES)}
    assert {hashed: row["fate"] for hashed, row in stored.items()} == {
        hash_of(name): fate for name, fate in wanted.items() if fate != "committed"
    }
    waits = run.run.key.instant - run.run.limits.cutoff
    for name, fate in wanted.items():
        if fate != "committed":
            size, modified = listed[name]
            row = stored[hash_of(name)]
            assert row["size_bytes"] == size
            assert row["until"] == (modified + waits if fate == "young" else None)
            assert row["address"] == (name if fate == "expired" else None)
    assert all((row["size_bytes"], row["last_modified"]) == listed[row["address"]] for row in rows)
    sizes = Counter()
    for address, fate in wanted.items():
        sizes[fate] += listed[address][0]
    assert {fate: size for fate, size in decided.size_bytes.items() if size} == sizes
    # Staged entries count as live, committed ones only where a head has them.
    assert (decided.live, _missing(decided)) == (len(staged), [hash_of("data/lost/two")])
    assert decided.sums.total == (len(rows), sizes["expired"])
    assert {row["reason"] for row in rows} == {WhyMayGo.NEVER_COMMITTED}


def _missing(decided):
    return sorted(int(each) for some in decided.missing for each in some)


def test_what_a_hold_keeps_is_counted_apart(run):
    """Holds come before age: what is young and held stays when it is old."""
    run.mark({"data/a/held": (3, OLD), "data/a/goes": (4, OLD), "data/a/young": (5, NOW)})
    run.run.store.put("data/a/held", b"abc")
    holds.add(run.run, "one", "address", "data/a/held", who="ann", why="")
    decided, rows = _decide(run, held=holds.load(run.run.store))
    assert [row["address"] for row in rows] == ["data/a/goes"]
    assert +decided.objects == Counter({Fate.UNREFERENCED: 1, Fate.HELD: 1, Fate.YOUNG: 1})
    assert decided.size_bytes[Fate.HELD] == 3
    stored = {row["fate"]: row for row in _rows(run.run, decided.fates, schemas.FATES)}
    assert stored["held"]["why"] == "hold one: address data/a/held"
    assert stored["held"]["address"] == "data/a/held"


def _named(*rows):
    columns = [
        [hash_of(hashed) for hashed, _, _ in rows],
        *zip(*[row[1:] for row in rows], strict=True),
    ]
    return source_of(pa.table([pa.array(column) for column in columns], schema=NAMED), NAMED)


def test_what_is_held_by_a_path_stays_although_a_policy_takes_it(run):
    run.mark(
        {"data/a/held": (3, OLD), "data/a/due": (4, OLD), "data/a/goes": (5, OLD)},
        committed=["data/a/due"],
    )
    held = ["data/a/held", "data/a/held", "data/a/due", "data/b/never"]
    decided, rows = _decide(
        run, held_paths=held, due=_named(("data/a/due", "data/a/due", "rule 1"))
    )
    assert [row["address"] for row in rows] == ["data/a/goes"]
    assert decided.objects[Fate.HELD] == decided.objects[Fate.COMMITTED] == 1
    (stored,) = (
        row for row in _rows(run.run, decided.fates, schemas.FATES) if row["fate"] == "held"
    )
    assert (stored["why"], stored["address"]) == ("hold a: path m/**", "data/a/held")


def test_what_a_policy_names_goes_although_it_is_committed(run):
    run.mark(
        {"data/a/due": (3, OLD), "data/a/young": (4, NOW), "data/a/other": (5, OLD)},
        committed=["data/a/due", "data/a/young", "data/a/other"],
    )
    due = _named(("data/a/due", "data/a/due", "rule"), ("data/a/young", "data/a/young", "rule"))
    decided, rows = _decide(run, due=due)
    assert [(row["address"], row["reason"]) for row in rows] == [("data/a/due", "rule")]
    assert +decided.objects == Counter({Fate.TAKEN_BY_POLICY: 1, Fate.COMMITTED: 2})
    assert decided.taken.total == (1, 3)
    keeps = replace(NOBODY, unanswered=np.array([hash_of("data/a/due")]))
    decided, rows = _decide(run, due=due, answers=keeps)
    assert (rows, +decided.objects) == ([], Counter({Fate.COMMITTED: 3}))


def test_a_name_of_another_object_of_one_hash_lets_nothing_go(run):
    """The bytes of addresses decide where a hash could let an object go."""
    run.mark({"data/a/live": (3, OLD), "data/a/x": (4, OLD)}, committed=["data/a/live"])
    _, rows = _decide(run, due=_named(("data/a/live", "data/b/due", "rule")))
    assert [row["address"] for row in rows] == ["data/a/x"]
    decided, rows = _decide(run, named=_named(("data/a/x", "data/b/named", None)))
    assert (rows, decided.objects[Fate.NOT_NAMED]) == ([], 1)


def test_a_run_keeps_to_the_mark_that_it_was_given(run):
    run.mark({"data/a/x": (3, OLD), "data/a/y": (4, OLD), "data/a/z": (5, NOW)})
    decided, rows = _decide(run, named=_named(("data/a/x", "data/a/x", None)))
    assert [row["address"] for row in rows] == ["data/a/x"]
    assert +decided.objects == Counter({Fate.UNREFERENCED: 1, Fate.NOT_NAMED: 1, Fate.YOUNG: 1})


def test_a_run_that_leaves_what_nothing_reaches_to_others_lets_none_of_it_go(run):
    run.mark({"data/a/x": (3, OLD), "data/a/y": (4, OLD)}, staged=["data/a/y"])
    decided, rows = _decide(run, collects_unreachable=False)
    assert (rows, +decided.objects) == ([], Counter({Fate.LEFT_TO_OTHERS: 1, Fate.STAGED: 1}))


def test_what_branches_answer_keeps_objects_and_is_noted(run):
    run.mark({"data/a/read": (3, OLD), "data/a/unasked": (4, OLD), "data/a/x": (5, OLD)})
    answers = Answers(
        np.array([hash_of("data/a/read")]),
        pa.array(["a/path"]),
        np.array([hash_of("data/a/unasked")]),
    )
    decided, rows = _decide(run, answers=answers)
    assert [row["address"] for row in rows] == ["data/a/x"]
    assert decided.size_bytes == {Fate.READ_BY_BRANCH: 3, Fate.MAY_HIDE: 4, Fate.UNREFERENCED: 5}
    stored = {row["fate"]: row for row in _rows(run.run, decided.fates, schemas.FATES)}
    assert stored["read_by_branch"]["why"].endswith(": a/path")
    assert stored["may_hide"]["address"] == "data/a/unasked"


def test_an_object_that_is_listed_twice_goes_or_stays_as_one(run):
    """A listing of two pages may overlap where objects come and go."""
    run.mark({"data/a/x": (3, OLD)})
    whole = run.run.load(tables.NAMESPACE_SLICES)
    rows = [row for batch in whole.batches() for row in batch.to_pylist()] * 2
    run._keep(tables.NAMESPACE_SLICES, rows, **whole.manifest.facts)
    decided, found = _decide(run)
    assert (decided.objects[Fate.UNREFERENCED], len(found)) == (2, 2)


def test_two_objects_of_one_hash_are_kept_where_one_of_them_is_and_end_no_mark(run):
    """A collision of hashes can only keep an object.

    It is found in moments by whoever looks for one.
    """
    twins = ["data/aaaaaaaaaaabbbbbbbb.data", "data/aaafNBUp4q*S:VnLy,l.data"]
    assert hash_of(twins[0]) == hash_of(twins[1])
    run.mark({**dict.fromkeys(twins, (3, OLD)), "data/a/x": (4, OLD)}, committed=[twins[0]] * 2)
    decided, rows = _decide(run)
    assert [row["address"] for row in rows] == ["data/a/x"]
    assert decided.objects["committed"] == 2


def test_rows_that_are_not_those_that_were_compared_end_the_mark(run):
    """Row numbers choose what goes; one that points elsewhere must never delete what lies there."""
    run.mark({"data/a/x": (3, OLD), "data/a/y": (4, OLD)}, committed=["data/a/x"])
    whole = run.run.load(tables.NAMESPACE_SLICES)
    rows = [row for batch in whole.batches() for row in batch.to_pylist()]
    hashes = [row["address_hash"] for row in rows]
    swapped = [
        {**row, "address_hash": other} for row, other in zip(rows, reversed(hashes), strict=True)
    ]
    run._keep(tables.NAMESPACE_SLICES, swapped, **whole.manifest.facts)
    with pytest.raises(IncompleteReadError, match="its rows changed after they were compared"):
        _decide(run)


def test_references_that_got_lost_end_the_mark(run, monkeypatch):
    """Of what is not compared nobody finds that it is alive."""
    run.mark({"data/a/x": (3, OLD)}, committed=["data/a/x"], staged=["data/a/x"])
    read = compared._read_references
    monkeypatch.setattr(
        compared,
        "_read_references",
        lambda store, parts: (batch.slice(1) for batch in read(store, parts)),
    )
    with pytest.raises(IncompleteReadError, match="0 of 2 references"):
        _decide(run)


def test_objects_that_got_lost_while_branches_were_asked_end_the_mark(run, monkeypatch):
    run.mark({"data/a/x": (3, OLD), "data/a/y": (4, OLD)})
    tasks = fates_by_answers.run_tasks
    monkeypatch.setattr(
        fates_by_answers, "run_tasks", lambda *some, **more: tasks(*some, **more)[1:]
    )
    with pytest.raises(IncompleteReadError, match="0 of 2 objects have a fate"):
        _decide(run)


def test_sums_of_parts_are_sums_of_the_whole():
    dice = random.Random(3)
    limits = any_name(NOW - timedelta(days=1))
    rows = [
        {
            "address": f"data/s{dice.randrange(40)}/o{number}",
            "size_bytes": dice.randrange(1_000),
            "last_modified": NOW - timedelta(days=dice.randrange(2, 900)),
            "slice": f"s{dice.randrange(40)}",
            "reason": dice.choice(["one", "another"]),
            "storage_class": dice.choice([None, "STANDARD", "STANDARD_IA"]),
        }
        for number in range(2_000)
    ]
    whole, some = Sums(), Sums()
    whole.add(pa.RecordBatch.from_pylist(rows, schema=SUMMED), NOW, limits)
    for begin in range(0, len(rows), 300):
        part = Sums()
        part.add(
            pa.RecordBatch.from_pylist(rows[begin : begin + 300], schema=SUMMED),
            NOW,
            limits,
        )
        some.merge(part)
    assert _unordered(some.figures.facts()) == _unordered(whole.figures.facts())
    largest = sorted(rows, key=lambda row: (-row["size_bytes"], row["address"]))[:100]
    assert [row[1] for row in whole.figures.largest] == [row["address"] for row in largest]
    assert [row[0] for row in whole.figures.by_class] == ["STANDARD", "STANDARD_IA"]


def _unordered(facts):
    return {
        name: sorted(value.items()) if isinstance(value, dict) else value
        for name, value in facts.items()
    }
