"""Rows that meet by a hash: all of them, each once, whoever brings them together."""

import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from spark_core.errors import CorruptTableError, IncompleteReadError
from spark_core.spark import exchange, placement
from spark_core.spark.exchange import Exchange, JoinedSource, Sent, Source, source_of
from spark_core.spark.sources import as_read

pytestmark = pytest.mark.spark

LISTED = pa.schema([pa.field("hash", pa.int64(), nullable=False), pa.field("name", pa.string())])
SAID = pa.schema(
    [pa.field("hash", pa.int64(), nullable=False), pa.field("count", pa.int64(), nullable=False)]
)
FOUND = pa.schema([pa.field("name", pa.string()), pa.field("count", pa.int64())])


def _batches_of(schema, some):
    # Batches without rows between the others.
    yield pa.RecordBatch.from_pylist([], schema)
    for begin in range(0, len(some), 7):
        yield pa.RecordBatch.from_pylist(some[begin : begin + 7], schema)
        yield pa.RecordBatch.from_pylist([], schema)


def _listed(task):
    return _batches_of(LISTED, [{"hash": number, "name": str(number)} for number in task])


def _said(task):
    return _batches_of(SAID, [{"hash": number, "count": 1} for number in task])


def _counted(rows):
    found = rows.group_by("hash").aggregate([("count", "sum")])
    return found.select(["hash", "count_sum"]).rename_columns(SAID.names).cast(SAID)


def _joined(tables):
    """Send each listed row to one of three, with the number of its references."""
    said = tables["said"].group_by("hash").aggregate([("count", "sum")])
    rows = tables["listed"].join(said, "hash", join_type="left outer")
    number = np.array([hash_ % 3 for hash_ in rows["hash"].to_pylist()], dtype=np.int64)
    found = rows.select(["name", "count_sum"]).rename_columns(FOUND.names)
    return Sent(
        (rows.num_rows, sum(tables["said"]["count"].to_pylist()), tables["said"].num_rows),
        {each: found.filter(pa.array(number == each)) for each in range(3)},
    )


def _kept(number, rows):
    return number, rows.to_pylist()


def _met(listed, said, spark, *, combine=as_read, kernel=_joined, tasks=3):
    sources = {
        "listed": Source(
            LISTED, [listed[task::tasks] for task in range(tasks)], len(listed), _listed
        ),
        "said": Source(
            SAID, [said[task::tasks] for task in range(tasks)], len(said), _said, combine
        ),
    }
    return Exchange(sources, kernel, FOUND, _kept).run(lambda: spark)


def _is_right(listed, said, receipts, written):
    counts = Counter(said)
    assert sum(receipt[0] for receipt in receipts) == len(listed)
    assert sum(receipt[1] for receipt in receipts) == len(said)
    assert len({number for number, _ in written}) == len(written)
    found = sorted((row["name"], row["count"]) for _, rows in written for row in rows)
    assert found == sorted((str(number), counts.get(number)) for number in listed)
    assert all(int(row["name"]) % 3 == number for number, rows in written for row in rows)


@pytest.fixture(params=["by the driver", "by executors"])
def many_buckets(request, monkeypatch):
    if request.param == "by executors":
        monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 0)
        monkeypatch.setattr(exchange, "_ROWS_OF_A_BUCKET", 100)
    return request.param


def _hashes(dice, count):
    return [dice.getrandbits(64) - 2**63 for _ in range(count)]


@pytest.mark.usefixtures("many_buckets")
def test_every_row_meets_all_rows_of_its_hash(spark):
    dice = random.Random(5)
    some = _hashes(dice, 700)
    listed = [*some[:600], -(2**63), 2**63 - 1, 0, -1]
    said = [*some[300:], *some[500:], 0, 0, -(2**63)]
    _is_right(listed, said, *_met(listed, said, spark))


@pytest.mark.usefixtures("many_buckets")
def test_a_source_without_rows_meets_the_others(spark):
    for listed, said in (([], [5]), ([5], [])):
        _is_right(listed, said, *_met(listed, said, spark))


def test_the_driver_brings_few_rows_together_without_a_session():
    listed, said = [1, 2, 3], [2, 2]
    sources = {
        "listed": Source(LISTED, [listed], 3, _listed),
        "said": Source(SAID, [said], 2, _said),
    }
    receipts, written = Exchange(sources, _joined, FOUND, _kept).run(lambda: pytest.fail("Spark"))
    _is_right(listed, said, receipts, written)
    assert len(receipts) == 1


def test_a_hash_with_a_million_references_costs_a_row_for_each_task(spark, monkeypatch):
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 0)
    sources = {
        "listed": Source(LISTED, [[7, 8]], 2, _listed),
        "said": Source(SAID, [0, 1, 2, 3], 1_000_000, _many, _counted),
    }
    receipts, written = Exchange(sources, _joined, FOUND, _kept).run(lambda: spark)
    assert [sum(receipt[at] for receipt in receipts) for at in (1, 2)] == [1_000_000, 4]
    found = {row["name"]: row["count"] for _, rows in written for row in rows}
    assert found == {"7": 1_000_000, "8": None}


def _many(_task):
    sevens = pa.array(np.full(250_000, 7, np.int64))
    yield pa.record_batch([sevens, pa.array(np.ones(250_000, np.int64))], schema=SAID)


@pytest.mark.slow
def test_a_bucket_with_all_rows_is_split_and_no_hash_of_it_is(spark, monkeypatch):
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 0)
    monkeypatch.setattr(exchange, "_ROWS_OF_A_BUCKET", 100)
    monkeypatch.setattr(exchange, "_MOST_ROWS_OF_A_KERNEL", 150)
    # They agree in their upper bits.
    listed, said = list(range(600)), [*range(300, 900), *range(300, 900)]
    receipts, written = _met(listed, said, spark)
    _is_right(listed, said, receipts, written)
    assert len(receipts) > 5
    assert max(receipt[0] + receipt[2] for receipt in receipts) < 600


def test_a_bucket_that_is_split_may_lack_rows_of_a_source():
    listed = pa.table({"hash": list(range(9)), "name": ["a"] * 9}, schema=LISTED)
    split = list(exchange._small_enough({"listed": listed, "said": SAID.empty_table()}, 4))
    assert sorted(hash_ for one in split for hash_ in one["listed"]["hash"].to_pylist()) == list(
        range(9)
    )
    assert {one["said"].num_rows for one in split} == {0}


@pytest.mark.usefixtures("many_buckets")
def test_the_error_of_a_kernel_comes_back_as_it_was_raised(spark):
    with pytest.raises(CorruptTableError, match="broken"):
        _met([1, 2], [3], spark, kernel=_fails)


def _fails(_tables):
    raise CorruptTableError("a table", None, "is broken", "Mark again.")


def test_the_session_is_left_as_it_was(spark, monkeypatch):
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 0)
    names = ("spark.sql.adaptive.enabled", "spark.sql.execution.arrow.maxRecordsPerBatch")
    before = [spark.conf.get(name) for name in names]
    with pytest.raises(CorruptTableError):
        _met([1, 2], [3], spark, kernel=_fails)
    assert [spark.conf.get(name) for name in names] == before


@pytest.mark.slow
@pytest.mark.usefixtures("many_buckets")
def test_rows_that_are_held_meet_as_those_that_are_read(spark):
    dice = random.Random(6)
    some = _hashes(dice, 300)
    listed, said = some[:200], [*some[100:], *some[150:], 0]
    sources = {}
    for name, schema, rows in (
        ("listed", LISTED, [{"hash": number, "name": str(number)} for number in listed]),
        ("said", SAID, [{"hash": number, "count": 1} for number in said]),
    ):
        table = pa.Table.from_pylist(rows, schema)
        combine = _counted if name == "said" else as_read
        both = JoinedSource([source_of(table, schema), source_of(table.slice(0, 9), schema)])
        sources[name] = both.through(schema, iter, combine)
    listed, said = [*listed, *listed[:9]], [*said, *said[:9]]
    receipts, written = Exchange(sources, _joined, FOUND, _kept).run(lambda: spark)
    _is_right(listed, said, receipts, written)
    sizes = sources["said"].each(lambda: spark, _rows_of)
    assert sum(sizes) == sources["said"].rows == len(said)


def _rows_of(batches):
    return sum(batch.num_rows for batch in batches)


@pytest.mark.parametrize(
    ("shuffle", "lost", "told"),
    [
        (1, "kind = 0 AND bucket = 0", r"passed on \d+ of 600 rows of `listed`"),
        (2, "bucket = 0", r"passed on \d+ of 600 rows that came out of comparisons"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                (1, "kind = 1 AND bucket = 0", r"passed on \d+ of 700 rows of `said`"),
                (1, "kind = 0", "passed on 0 of 600 rows of `listed`"),
                (1, "bucket = -1", "passed on 0 of 3 tasks that read `listed`"),
                (2, "kind = 0", r"passed on 0 of \d+ receipts of comparisons"),
                (2, "bucket = -1", "passed on 600 of 0 rows that came out of comparisons"),
            )
        ),
    ],
)
def test_rows_that_spark_loses_between_two_tasks_end_it(spark, monkeypatch, shuffle, lost, told):
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 0)
    monkeypatch.setattr(exchange, "_ROWS_OF_A_BUCKET", 100)
    frame = type(spark.range(1))
    real, shuffles = frame.repartition, []

    def repartition(frame, *wanted):
        shuffles.append(wanted)
        if len(shuffles) == shuffle:
            frame = frame.where(f"NOT ({lost})")
        return real(frame, *wanted)

    monkeypatch.setattr(frame, "repartition", repartition)
    some = _hashes(random.Random(7), 1000)
    with pytest.raises(IncompleteReadError, match=told):
        _met(some[:600], some[300:], spark)
    assert len(shuffles) == 2
