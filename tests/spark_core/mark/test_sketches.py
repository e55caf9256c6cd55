"""Sketches answer as plain sets do, and what a question does not need is not asked of them."""

import random

import numpy as np
import pyarrow as pa
import pytest

from spark_core import schemas
from spark_core.mark.optimized import sketches
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
        }
        for name, (outside, addresses, sizes, entries) in ranges.items()
    ]


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
