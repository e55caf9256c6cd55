"""What may go and was taken from the index is seen in the store before it is named."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_core import lakegc_keys, schemas
from spark_core.addresses.candidates import STANDINGS
from spark_core.addresses.namespace import slice_of
from spark_core.errors import IncompleteReadError
from spark_core.fates import Fate
from spark_core.fates.deciding import CODES
from spark_core.index.saved import Saved
from spark_core.mark import fates_by_answers, seen_again
from spark_core.mark.compared import DUE
from spark_core.mark.fate_rows import WAITING, Decided, FateTargets
from spark_core.mark.fates_by_answers import Answers
from spark_core.model import RunKey
from spark_core.records import reading, writing
from spark_core.records.figures import AmountFigures, IndexFigures, SeenFigures
from spark_core.records.writing import Target
from spark_core.run import Run
from spark_core.spark import placement
from tests.support.written_run import NOW, OLD, hash_of, written_run

CLOSED, OTHER = "gqv3epl4fd2o8m3men70", "gqv3epl4fd2o8m3men7g"
NOBODY = Answers(np.empty(0, np.int64), pa.array([], pa.string()), np.empty(0, np.int64))
OLDER = NOW - timedelta(days=5)


@dataclass
class Waiting:
    """An optimized run, and objects that wait.

    Attributes:
        folder: Where the objects are.
        run: The run.
        targets: Where rows go.
    """

    folder: Path
    run: Run
    targets: FateTargets

    def put(self, address: str, size: int = 3, modified: datetime = OLD) -> None:
        """Put an object into the store."""
        file = self.folder / "repo" / address
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * size)
        os.utime(file, (modified.timestamp(), modified.timestamp()))

    def decided(self, *addresses: str, files: int = 1, bits: int = 0) -> Decided:
        """Let objects wait as the index has them: of 3 bytes, and old."""
        rows = [
            {
                "address": address,
                "size_bytes": 3,
                "last_modified": OLD,
                "slice": slice_of(address),
                "reason": "because",
                "address_hash": hash_of(address),
                "checksum": None,
                "alone": CODES[Fate.UNREFERENCED],
                "bits": bits,
            }
            for address in addresses
        ]
        found = Decided()
        for number in range(files):
            batch = pa.RecordBatch.from_pylist(rows[number::files], schema=WAITING)
            found.waiting.append(writing.write_parts(self.targets.waiting, number, iter([batch])))
        return found

    def waiting(self, decided: Decided) -> dict[str, dict[str, Any]]:
        """Return what waits."""
        parts = decided.waiting_parts
        batches = (b for part in parts for b in reading.read_part(self.run.store, WAITING, part))
        return {row["address"]: row for batch in batches for row in batch.to_pylist()}

    def fates(self, decided: Decided) -> list[dict[str, Any]]:
        """Return the rows of the table `fates`."""
        parts = writing.parts_of(decided.fates)
        batches = (
            batch
            for part in parts
            for batch in reading.read_part(self.run.store, schemas.FATES, part)
        )
        return [row for batch in batches for row in batch.to_pylist()]


@pytest.fixture
def waiting(tmp_path: Path) -> Waiting:
    return optimized(tmp_path, None)


def optimized(folder: Path, spark: Any, *, objects: int = 3, slices: int = 3) -> Waiting:
    """Open an optimized run that took so much from the index."""
    written = written_run(folder, spark=spark)
    run, earlier = written.run, RunKey.at(OLD)
    saved = Saved(
        repository="repo",
        instance=run.instance,
        endpoint=run.store.endpoint_url,
        run=str(earlier),
        started=OLD,
        last_slice="",
        open_slices=(),
        clean=str(earlier),
        optimized_since=(),
        options=run.deciding_options,
        blocked_by=(),
        closed_before=int(OLD.timestamp()),
        slices=(),
        trees=(),
        ranges=(),
        entries=(),
    )
    run.store.put(lakegc_keys.saved_key(earlier), saved.to_json())
    figures = IndexFigures(
        run=str(earlier),
        saved=saved.digest,
        listed_since=saved.closed_before,
        open_slices=(),
        slices=slices,
        objects=objects,
        bytes=0,
    )
    written.mark({}, of_listing={"index": figures.facts(), "objects": objects, "slices": slices})
    attempt = writing.new_attempt()
    targets = FateTargets(
        Target(run.store, "_lakefs/picked/", attempt, schemas.EXPIRED_ADDRESSES),
        Target(run.store, "_lakefs/fates/", attempt, schemas.FATES),
    )
    return Waiting(folder, run, targets)


def test_what_is_there_as_it_was_waits_on(waiting: Waiting) -> None:
    address = f"data/{CLOSED}/a"
    waiting.put(address)
    decided = waiting.decided(address)
    seen = seen_again.seen_again(waiting.run, decided, waiting.targets)
    assert seen.decided is decided
    assert seen.figures == {"seen": SeenFigures(objects=1)}
    assert seen.changed.num_rows == 0


def test_what_is_gone_leaves_and_is_counted(waiting: Waiting) -> None:
    there, gone = f"data/{CLOSED}/there", f"data/{CLOSED}/gone"
    waiting.put(there)
    seen = seen_again.seen_again(waiting.run, waiting.decided(there, gone), waiting.targets)
    assert set(waiting.waiting(seen.decided)) == {there}
    assert seen.figures == {
        "seen": SeenFigures(objects=2),
        "vanished": AmountFigures(objects=1, bytes=3),
    }
    assert waiting.fates(seen.decided) == []
    concluded = fates_by_answers.decide_waiting(waiting.run, seen.decided, NOBODY, waiting.targets)
    assert dict(concluded.objects) == {Fate.UNREFERENCED: 1}


def test_what_was_listed_in_this_run_is_not_asked_for(waiting: Waiting) -> None:
    sharded, direct = "data/!a/b", "data/b"
    decided = waiting.decided(sharded, direct)
    seen = seen_again.seen_again(waiting.run, decided, waiting.targets)
    assert seen.decided is decided
    assert seen.figures == {"seen": SeenFigures()}


def test_a_clean_run_asks_for_nothing(tmp_path: Path) -> None:
    written = written_run(tmp_path, spark=None)
    written.mark({})
    found = Decided()
    targets: Any = None
    seen = seen_again.seen_again(written.run, found, targets)
    assert seen.decided is found
    assert seen.figures == {}


def test_what_was_written_over_lately_is_young_again(waiting: Waiting) -> None:
    address, other = f"data/{CLOSED}/a", f"data/{CLOSED}/b"
    waiting.put(address, size=5, modified=NOW - timedelta(hours=1))
    waiting.put(other)
    seen = seen_again.seen_again(waiting.run, waiting.decided(address, other), waiting.targets)
    assert set(waiting.waiting(seen.decided)) == {other}
    (row,) = waiting.fates(seen.decided)
    assert (row["address_hash"], row["fate"], row["size_bytes"]) == (hash_of(address), "young", 5)
    assert row["until"] is not None
    assert dict(seen.decided.objects) == {Fate.YOUNG: 1}
    assert dict(seen.decided.size_bytes) == {Fate.YOUNG: 5}
    assert seen.figures["seen"] == SeenFigures(objects=2, changed_objects=1)
    assert seen.changed["address"].to_pylist() == [address]


@pytest.mark.parametrize(("size", "modified"), [(4, OLD), (3, OLDER), (7, OLDER)])
def test_what_was_written_over_long_ago_goes_as_what_it_is(
    waiting: Waiting, size: int, modified: datetime
) -> None:
    address = f"data/{CLOSED}/a"
    waiting.put(address, size, modified)
    seen = seen_again.seen_again(waiting.run, waiting.decided(address), waiting.targets)
    row = waiting.waiting(seen.decided)[address]
    assert (row["size_bytes"], row["last_modified"], row["reason"]) == (size, modified, "because")
    assert seen.figures["seen"].changed_objects == 1


def test_an_earlier_time_alone_is_no_other_object(waiting: Waiting) -> None:
    """Stores cut times differently, and a sweep takes no earlier time for another object."""
    address = f"data/{CLOSED}/a"
    waiting.put(address, modified=OLD - timedelta(milliseconds=1))
    seen = seen_again.seen_again(waiting.run, waiting.decided(address), waiting.targets)
    assert seen.figures["seen"].changed_objects == 0


def test_a_policy_does_not_take_what_is_young_again(waiting: Waiting) -> None:
    address = f"data/{CLOSED}/a"
    waiting.put(address, modified=NOW)
    decided = waiting.decided(address, bits=DUE)
    seen = seen_again.seen_again(waiting.run, decided, waiting.targets)
    assert dict(seen.decided.objects) == {Fate.YOUNG: 1}


def test_another_checksum_is_another_object() -> None:
    schema = schemas.NAMESPACE_SLICES
    said = pa.Table.from_pylist(
        [
            {
                "address": name,
                "address_hash": hash_of(name),
                "size_bytes": 3,
                "last_modified": OLD,
                "checksum": checksum,
                "alone": CODES[Fate.UNREFERENCED],
            }
            for name, checksum in (("a", "1"), ("b", "1"), ("c", None), ("d", "1"))
        ],
        schema=seen_again._SAID,
    )
    found = pa.Table.from_pylist(
        [
            {
                "slice": "s",
                "address": name,
                "size_bytes": 3,
                "last_modified": OLD,
                "checksum": checksum,
                "standing": standing,
                "address_hash": hash_of(name),
            }
            for name, checksum, standing in (
                ("d", "1", STANDINGS[1]),
                ("c", "2", STANDINGS[0]),
                ("b", "2", STANDINGS[0]),
                ("a", "1", STANDINGS[0]),
            )
        ],
        schema=schema,
    )
    assert seen_again._changed(said, found)["address"].to_pylist() == ["d", "b"]


def test_more_requests_than_they_are_worth_are_not_sent(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses = [f"data/{CLOSED}/a", f"data/{CLOSED}/b", f"data/{OTHER}/c"]
    for address in addresses:
        waiting.put(address)
    decided = waiting.decided(*addresses)
    # A page for each slice.
    monkeypatch.setattr(seen_again, "_REQUESTS", 2)
    seen = seen_again.seen_again(waiting.run, decided, waiting.targets)
    assert seen.figures == {"seen": SeenFigures(objects=3)}
    monkeypatch.setattr(seen_again, "_REQUESTS", 1)
    seen = seen_again.seen_again(waiting.run, decided, waiting.targets)
    assert seen.decided is decided
    assert seen.figures == {"seen": SeenFigures(unseen_objects=3)}


def test_more_objects_than_the_driver_holds_are_not_asked_for(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seen_again, "_MOST", 1)
    decided = waiting.decided(f"data/{CLOSED}/a", f"data/{CLOSED}/b")
    seen = seen_again.seen_again(waiting.run, decided, waiting.targets)
    assert seen.figures == {"seen": SeenFigures(unseen_objects=2)}


def test_a_large_repository_is_worth_more_requests(tmp_path: Path) -> None:
    run = optimized(tmp_path, None, objects=40_000_000, slices=2_000).run
    # 20,000 objects in a slice are 21 pages, the last one of which nobody knows.
    assert seen_again._requests(run, {"a": 7, "b": 10_000}) == 7 + 21
    assert seen_again._limit(run) == 2_100


def test_objects_that_get_lost_on_the_way_end_the_mark(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, gone = f"data/{CLOSED}/there", f"data/{CLOSED}/gone"
    waiting.put(there)
    write = seen_again._write

    def losing(*some: Any) -> Decided:
        return replace(write(*some), waiting=[])

    monkeypatch.setattr(seen_again, "_write", losing)
    with pytest.raises(IncompleteReadError, match="objects that wait got lost"):
        seen_again.seen_again(waiting.run, waiting.decided(there, gone), waiting.targets)


@pytest.mark.spark
def test_executors_make_the_same_of_it(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 0)
    waiting = optimized(tmp_path, spark)
    addresses = [f"data/{CLOSED}/{number}" for number in range(9)]
    for address in addresses[:6]:
        waiting.put(address)
    waiting.put(addresses[0], modified=NOW)
    waiting.put(addresses[1], size=9)
    decided = waiting.decided(*addresses, files=3)
    seen = seen_again.seen_again(waiting.run, decided, waiting.targets)
    found = waiting.waiting(seen.decided)
    assert set(found) == set(addresses[1:6])
    assert found[addresses[1]]["size_bytes"] == 9
    assert seen.figures["vanished"] == AmountFigures(objects=3, bytes=9)
    assert [row["fate"] for row in waiting.fates(seen.decided)] == ["young"]
