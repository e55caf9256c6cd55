"""What may be considered at all: the right place, and old by both clocks."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from spark_core import schemas
from spark_core.mark.expired import considered, keep_considered
from spark_core.model import RunKey

CUTOFF = datetime(2026, 11, 20, 2, tzinfo=UTC)
MOMENT = timedelta(microseconds=1)
DIGITS = "0123456789abcdefghijklmnopqrstuv"


def _xid(instant):
    value = int.from_bytes(int(instant.timestamp()).to_bytes(4, "big") + bytes(8), "big") << 4
    return "".join(DIGITS[(value >> shift) & 31] for shift in range(95, -1, -5))


def _listing(*rows):
    return pa.RecordBatch.from_pylist(
        [
            {"slice": "s", "address": address, "size_bytes": 1, "last_modified": modified, "checksum": None}
            for address, modified in rows
        ],
        schema=schemas.NAMESPACE_SLICES,
    )


def _kept(batch, **options):
    return keep_considered(batch, CUTOFF, **{"flat": False, **options}).column("address").to_pylist()


@pytest.mark.parametrize(
    ("modified", "considered"), [(CUTOFF - MOMENT, True), (CUTOFF, False), (CUTOFF + MOMENT, False)]
)
def test_an_object_written_at_the_cutoff_or_after_is_left_alone(modified, considered):
    assert bool(_kept(_listing(("data/s/plain", modified)))) is considered


@pytest.mark.parametrize(
    ("allocated", "considered"),
    [(CUTOFF - timedelta(seconds=1), True), (CUTOFF, False), (CUTOFF + timedelta(seconds=1), False)],
)
def test_an_address_given_out_at_the_cutoff_or_after_is_left_alone_however_old_the_file_looks(allocated, considered):
    batch = _listing((f"data/s/{_xid(allocated)}", CUTOFF - timedelta(days=900)))
    assert bool(_kept(batch)) is considered


@pytest.mark.parametrize("fraction", [timedelta(0), timedelta(milliseconds=1), timedelta(milliseconds=500), MOMENT])
@pytest.mark.parametrize("written_after", [timedelta(0), MOMENT, timedelta(milliseconds=400), timedelta(seconds=1)])
def test_a_time_that_the_store_cut_to_seconds_never_makes_an_object_older_than_the_minimum_age(fraction, written_after):
    key = RunKey.at(CUTOFF + timedelta(days=1))
    min_age = timedelta(days=1) - fraction
    written = key.instant - min_age + written_after
    shown = written.replace(microsecond=0)
    batch = _listing(("data/s/plain", shown), (f"data/s/{_xid(written)}", shown))
    assert keep_considered(batch, key.cutoff(min_age), flat=False).num_rows == 0


@pytest.mark.parametrize(
    "address",
    [
        "_lakefs/0123",
        "_lakefs/retention/gc/rules/config.json",
        "dummy",
        "symlinks/repo/main/symlink.txt",
        "database/x",
        "data",
        "0123456789abcdef0123456789abcdef",
        "38b369f67c2a414783acb9b463efa8f7-00001",
    ],
)
def test_nothing_outside_data_is_ever_considered(address):
    assert _kept(_listing((address, CUTOFF - timedelta(days=900)))) == []


def test_flat_names_are_considered_only_when_asked_for_and_only_when_exact():
    old = CUTOFF - timedelta(days=900)
    batch = _listing(
        ("0123456789abcdef0123456789abcdef", old),
        ("38b369f67c2a414783acb9b463efa8f7-00001", old),
        ("0123456789ABCDEF0123456789abcdef", old),
    )
    assert _kept(batch, flat=True) == ["0123456789abcdef0123456789abcdef"]


def test_a_cutoff_without_a_timezone_is_refused():
    with pytest.raises(ValueError, match="timezone"):
        considered(datetime(2026, 11, 20), flat=False)  # noqa: DTZ001 - the fault under test
