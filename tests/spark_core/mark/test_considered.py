"""What may be considered at all: the right place, and old by both clocks."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from spark_core import schemas
from spark_core.collectable import NOT_NAMEABLE
from spark_core.mark.expired import _map_safely_named, considered, keep_considered, safely_named
from spark_core.mark.slices import _measure
from spark_core.model import RunKey
from spark_core.report.cautions import cautions

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


def test_what_a_store_would_take_for_another_name_is_no_candidate():
    listing = _listing(("data/s/a\\b", CUTOFF), ("data/s/ab", CUTOFF))
    (kept,) = _map_safely_named(rf"{NOT_NAMEABLE}|\\", iter([listing]))
    assert kept.column("address").to_pylist() == ["data/s/ab"]


def test_the_common_rule_of_names_needs_no_step_of_its_own():
    listing = object()
    assert safely_named(NOT_NAMEABLE)(listing) is listing
    assert _kept(_listing(("data/s/../x", CUTOFF - MOMENT), ("data/s/a\tb", CUTOFF - MOMENT))) == []


def test_objects_whose_name_is_unsafe_are_counted_with_their_bytes():
    listing = _listing(
        *((key, CUTOFF) for key in ("data//x", "data/s/a\tb", "data/s/", "data/s/plain", "data/s/sp ace"))
    )
    figures = _measure(CUTOFF, "_lakefs", NOT_NAMEABLE, listing)
    assert (figures["objects"], figures["unsafe_name_objects"], figures["unsafe_name_bytes"]) == (5, 3, 3)
    said = cautions({**figures, "unsafe_name_bytes": 1_500}, {})
    assert len(said) == 1
    assert said[0].startswith("3 objects (1.5 kB) have names that some client would take for another")
    assert cautions({**figures, "unsafe_name_objects": 0}, {}) == ()
