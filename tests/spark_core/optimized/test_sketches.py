"""Sketches answer as plain sets do, and what a question does not need is not asked of them."""

import random

import numpy as np
import pyarrow as pa
import pytest

from spark_core import schemas
from spark_core.addresses.address_hashes import hashed
from spark_core.optimized import sketches
from spark_core.records import writing
from spark_core.records.writing import Target
from tests.support.written_run import written_run

NOTHING = np.empty(0, np.int64)


def hashes(numbers):
    """Hashes that differ in their lower half alone."""
    return np.array(list(numbers), np.int64) + (7 << 32)


def fingerprints(numbers):
    return np.array(sorted(numbers), "<u4")


def rows_of(ranges):
    return [
        {
            "range_id": name,
            "has_outside": outside,
            "addresses": sketches.of_hashes(hashes(addresses)).tobytes(),
            "sizes": sketches.of_sizes(np.array(list(sizes), np.int64)).tobytes(),
            "entries": fingerprints(entries).tobytes(),
            # Every third range is of no head, and its entries' checksums are unknown.
            "contents": contents_of({} if number % 3 == 0 else stated_by(addresses)).tobytes(),
        }
        for number, (name, (outside, addresses, sizes, entries)) in enumerate(ranges.items())
    ]


def stated_by(addresses):
    """What entries say: of some objects, not the same in all ranges."""
    return {number: f"{number + (len(addresses) == 9 and number < 5):032x}" for number in addresses}


def contents_of(stated):
    """The hashes of addresses with checksums, as a sketch has them."""
    checksums = pa.array(list(stated.values()), pa.string())
    return np.unique(sketches.of_contents(hashes(stated), checksums))


@pytest.fixture
def ask(tmp_path):
    run = written_run(tmp_path, spark=None).run

    def answer(ranges, **question):
        parts = []
        rows = rows_of(ranges)
        for some in (rows[:7], rows[7:]):
            target = Target(run.store, "_lakefs/x/", writing.new_attempt(), schemas.SKETCHES)
            table = pa.Table.from_pylist(some, schema=schemas.SKETCHES)
            # Batches that begin amid a column, too.
            batches = [table.combine_chunks().to_batches()[0]] if some else []
            parts += writing.write_parts(target, 0, iter(batches)).parts
        return sketches.ask(run, parts, sketches.Question(**question))

    return answer


@pytest.fixture
def ranges():
    dice = random.Random(5)
    made = {}
    for number in range(20):
        # Some have no entry inside, and some are alike.
        addresses, sizes, entries = (
            set(dice.sample(range(200), dice.choice([0, 1, 9]))) for _ in range(3)
        )
        made[f"range{number:02}"] = (number % 10 == 3, addresses, sizes, entries)
    return made


def test_the_ranges_that_have_a_candidate_are_those_of_plain_sets(ask, ranges):
    for wanted in ({1, 50, 199}, set(range(200)), {201}, set()):
        answer = ask(ranges, candidates=sketches.of_hashes(hashes(wanted)))
        assert answer.ranges == {name for name, one in ranges.items() if one[1] & wanted}
        assert answer.seen == ranges.keys()
        assert (answer.hiding, len(answer.named)) == (frozenset(), 0)


def test_the_ranges_that_may_hide_something_have_its_size_or_something_outside_or_lost(ask, ranges):
    for sizes, lost in (({3, 90}, {17, 30}), ({3, 90}, set()), (set(), {17, 30}), (set(), set())):
        answer = ask(
            ranges,
            sizes=sketches.of_sizes(np.array(sorted(sizes), np.int64)),
            lost=sketches.of_hashes(hashes(lost)),
        )
        assert answer.hiding == {
            name
            for name, (outside, addresses, said, _) in ranges.items()
            if outside or addresses & lost or said & sizes
        }
        assert answer.ranges == frozenset()


def test_the_entries_that_some_range_has_are_those_of_plain_sets(ask, ranges):
    wanted = {5, 60, 61, 150, 300}
    answer = ask(ranges, named=fingerprints(wanted))
    known = set().union(*(entries for *_, entries in ranges.values()))
    assert answer.named.tolist() == sorted(wanted & known)


def test_without_a_question_of_sizes_nothing_hides(ask, ranges):
    answer = ask(ranges, lost=sketches.of_hashes(hashes(range(200))))
    assert (answer.hiding, answer.seen) == (frozenset(), frozenset(ranges))


def test_no_sketches_answer_nothing(ask):
    answer = ask({}, candidates=sketches.of_hashes(hashes({1})), sizes=sketches.of_sizes(NOTHING))
    assert (answer.ranges, answer.hiding, answer.seen) == (frozenset(),) * 3


def test_the_checksums_that_some_range_gives_for_an_address_are_those_of_plain_sets(ask, ranges):
    heads = [one[1] for number, one in enumerate(ranges.values()) if number % 3]
    known = {pair for addresses in heads for pair in stated_by(addresses).items()}
    wanted = {number: f"{number:032x}" for number in range(200)}
    answer = ask(ranges, contents=contents_of(wanted))
    assert answer.contents.tolist() == contents_of(dict(known & wanted.items())).tolist()
    assert 0 < len(answer.contents) < len(wanted)


@pytest.mark.parametrize("with_contents", [True, False])
def test_a_sketch_has_the_checksums_that_entries_give_where_the_store_tells_contents(with_contents):
    names = pa.array(["data/s/a", "data/s/b", "data/s/c"])
    rows = {
        "address": names,
        "size_bytes": pa.array([1, 2, 3]),
        "head_path": pa.array([b"a", b"b", b"c"]),
        "checksum": pa.array(["x", None, "z"]),
        "is_live": pa.array([True] * 3),
        "address_hash": hashed(names),
    }
    batch = pa.record_batch(rows, schema=schemas.COMMITTED_ADDRESSES)
    found = sketches.sketch("range", 3, batch, with_contents=with_contents)["contents"]
    stated = sketches.of_contents(hashed(names.take([0, 2])).to_numpy(), pa.array(["x", "z"]))
    assert found == (np.unique(stated).tobytes() if with_contents else b"")
