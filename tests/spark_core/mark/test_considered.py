"""What may be considered at all: the right place, a name of lakeFS, and old by both clocks, but not
older than the repository.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_core import schemas
from spark_core.addresses import candidates
from spark_core.addresses.address_hashes import hashed
from spark_core.addresses.candidates import (
    CANDIDATE,
    INHERITED,
    PROTECTED,
    STRANGER,
    UPLOAD,
    YOUNG,
    Limits,
    standings,
)
from spark_core.addresses.collectable import NOT_NAMEABLE
from spark_core.addresses.namespace import slice_of
from spark_core.mark.listed_rows import add_standings, measure
from spark_core.model import RunKey
from spark_core.records.figures import CommitsFigures, ExpiredFigures, ListedFigures
from spark_core.report.cautions import cautions
from spark_core.run.cutoff import before
from tests.support.figures import read
from tests.support.standing import standing

CUTOFF = datetime(2026, 11, 20, 2, tzinfo=UTC)
MOMENT = timedelta(microseconds=1)
DIGITS = "0123456789abcdefghijklmnopqrstuv"


def _xid(instant):
    value = int.from_bytes(int(instant.timestamp()).to_bytes(4, "big") + bytes(8), "big") << 4
    return "".join(DIGITS[(value >> shift) & 31] for shift in range(95, -1, -5))


def _listing(*rows):
    return pa.RecordBatch.from_pylist(
        [
            {
                "slice": "s",
                "address": address,
                "size_bytes": 1,
                "last_modified": modified,
                "checksum": None,
            }
            for address, modified in rows
        ],
        schema=pa.schema(list(schemas.NAMESPACE_SLICES)[:5]),
    )


CREATED = CUTOFF - timedelta(days=1_000)
LIMITS = Limits(
    CUTOFF, CUTOFF - timedelta(days=6), CREATED, flat=False, strangers="collect", inherited="keep"
)
SLICE, OBJECT = "gqv3epl4fd2o8m3men70", _xid(CUTOFF - timedelta(days=30))
SIGNATURE = ",L9DicNePFg2yJNzjaDpGlYPNUILP3ZHNxSuF_7dh6OU"
LEGACY = "data/repo-main:b40b9540-91f0-4add-96ba-205f17e03c57/77I_VsbUg1vU05hWRnTlw"
FLAT = "0123456789abcdef0123456789abcdef"


def _kept(batch, **options):
    found = candidates.standings_of(batch, replace(LIMITS, **options))
    return batch.filter(pc.equal(found, CANDIDATE)).column("address").to_pylist()


@pytest.mark.parametrize(
    ("modified", "considered"), [(CUTOFF - MOMENT, True), (CUTOFF, False), (CUTOFF + MOMENT, False)]
)
def test_an_object_written_at_the_cutoff_or_after_is_left_alone(modified, considered):
    assert bool(_kept(_listing(("data/s/plain", modified)))) is considered


@pytest.mark.parametrize(
    ("allocated", "considered"),
    [
        (CUTOFF - timedelta(seconds=1), True),
        (CUTOFF, False),
        (CUTOFF + timedelta(seconds=1), False),
    ],
)
def test_an_address_given_out_at_the_cutoff_or_after_is_left_alone_however_old_the_file_looks(
    allocated, considered
):
    batch = _listing((f"data/s/{_xid(allocated)}", CUTOFF - timedelta(days=900)))
    assert bool(_kept(batch)) is considered


@pytest.mark.parametrize(
    "fraction", [timedelta(0), timedelta(milliseconds=1), timedelta(milliseconds=500), MOMENT]
)
@pytest.mark.parametrize(
    "written_after", [timedelta(0), MOMENT, timedelta(milliseconds=400), timedelta(seconds=1)]
)
def test_a_time_that_the_store_cut_to_seconds_never_makes_an_object_older_than_the_minimum_age(
    fraction, written_after
):
    key = RunKey.at(CUTOFF + timedelta(days=1))
    min_age = timedelta(days=1) - fraction
    written = key.instant - min_age + written_after
    shown = written.replace(microsecond=0)
    batch = _listing(("data/s/plain", shown), (f"data/s/{_xid(written)}", shown))
    assert _kept(batch, cutoff=before(key, min_age)) == []


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
        replace(LIMITS, cutoff=datetime(2026, 11, 20))  # noqa: DTZ001 - the fault under test


def _standing(address, modified=CUTOFF - timedelta(days=30), **options):
    chosen = replace(LIMITS, **{"strangers": "keep", **options})
    (batch,) = standings(
        pa.array([address]), pa.array([modified], schemas.INSTANT), chosen
    ).to_pylist()
    assert batch == standing(address, modified, chosen)
    return batch


@pytest.mark.parametrize(
    "address",
    [
        f"data/{SLICE}/{OBJECT}",
        f"data/{SLICE}/{OBJECT}{SIGNATURE}",
        f"data/!ab/c/{SLICE}/{OBJECT}",
        f"data/!ab/c/{SLICE}/{OBJECT}{SIGNATURE}",
        LEGACY,
    ],
)
def test_every_name_that_lakefs_gives_is_a_candidates_name(address):
    assert _standing(address) == CANDIDATE


@pytest.mark.parametrize(
    "address",
    [
        "data/part-00000-b40b9540-91f0-4add-96ba-205f17e03c57-c000.snappy.parquet",
        "data/year=2023/part-00000.parquet",
        "data/backup/file.csv",
        # Directly under data/ lakeFS puts nothing, whatever it is called.
        f"data/{OBJECT}",
        f"data/{FLAT}",
        # Almost a name: the slice is no id, or the object, or there is more below it.
        f"data/slice/{OBJECT}",
        f"data/{SLICE}/object",
        f"data/{SLICE}/{OBJECT}/part",
        f"data/{SLICE}/{OBJECT[:-1]}h",
        f"data/{SLICE}/{OBJECT},signature",
        f"data/{SLICE}/{OBJECT}.parquet",
        f"data/backup/{SLICE}/{OBJECT}",
        f"data/!ab/{SLICE}/{OBJECT}",
        "data/repo-main/77I_VsbUg1vU05hWRnTlw",
        f"{LEGACY}x",
    ],
)
def test_a_file_that_lakefs_never_named_is_a_stranger_and_goes_only_when_strangers_are_collected(
    address,
):
    assert _standing(address) == STRANGER
    assert _standing(address, strangers="collect") == CANDIDATE


def test_a_flat_name_is_one_of_lakefss_where_flat_names_are_collected():
    assert _standing(FLAT) == PROTECTED
    assert _standing(FLAT, flat=True) == CANDIDATE


@pytest.mark.parametrize(("later", "found"), [(-1, INHERITED), (0, CANDIDATE), (1, CANDIDATE)])
@pytest.mark.parametrize("which", ["name", "date", "legacy"])
def test_what_is_older_than_the_repository_by_its_name_or_its_date_is_inherited(
    which, later, found
):
    at = CREATED + timedelta(seconds=later)
    address = (
        LEGACY if which == "legacy" else f"data/{SLICE}/{_xid(at if which == 'name' else CREATED)}"
    )
    modified = CREATED if which == "name" else at
    assert _standing(address, modified) == found
    assert _standing(address, modified, inherited="collect") == CANDIDATE


def test_a_stranger_that_is_older_than_the_repository_needs_both_settings():
    old = CREATED - timedelta(seconds=1)
    assert _standing("data/backup/file.csv", old) == STRANGER
    assert _standing("data/backup/file.csv", old, inherited="collect") == STRANGER
    assert _standing("data/backup/file.csv", old, strangers="collect") == INHERITED
    assert (
        _standing("data/backup/file.csv", old, strangers="collect", inherited="collect")
        == CANDIDATE
    )


@pytest.mark.parametrize(
    "ending", [".multipart", ".part_00001", ".part_10000", ".part_00033_1_2", "_id", "_size"]
)
@pytest.mark.parametrize(("later", "found"), [(-1, CANDIDATE), (0, UPLOAD), (1, UPLOAD)])
def test_what_an_upload_in_parts_keeps_beside_its_address_goes_only_after_the_longest_upload(
    ending, later, found
):
    at = LIMITS.uploads_cutoff + timedelta(seconds=later)
    begun = _xid(LIMITS.uploads_cutoff - timedelta(days=1))
    assert _standing(f"data/{SLICE}/{begun}{ending}", at) == found
    assert (
        _standing(f"data/{SLICE}/{_xid(at)}{ending}", LIMITS.uploads_cutoff - timedelta(days=1))
        == found
    )
    assert _standing(f"data/{SLICE}/{begun}{ending}", CUTOFF) == YOUNG
    assert _standing(f"data/{SLICE}/{_xid(CREATED - timedelta(seconds=1))}{ending}") == INHERITED


@pytest.mark.parametrize(
    "ending", [".part_1", ".part_000001", ".part_00001_", ".multipart.part_00001", ".parts", "_ids"]
)
def test_what_only_looks_like_a_part_of_an_upload_is_a_stranger(ending):
    assert _standing(f"data/{SLICE}/{OBJECT}{ending}") == STRANGER


_INSTANTS = st.sampled_from(
    [
        limit + timedelta(seconds=later)
        for limit in (LIMITS.created, LIMITS.uploads_cutoff, LIMITS.cutoff)
        for later in (-1, 0, 1)
    ]
)
_FOLDERS = [
    f"data/{SLICE}/",
    f"data/!ab/c/{SLICE}/",
    "data/",
    "data/s/",
    "data//",
    "_lakefs/",
    "data/a/_lakefs/",
]
_SUFFIXES = ["", ".multipart", ".part_00001", ".part_00001_1", "_id", "_size", ".part_1", "\n"]
_NAMES = st.one_of(
    st.builds(
        "{}{}{}{}".format,
        st.sampled_from(_FOLDERS),
        st.one_of(_INSTANTS.map(_xid), st.sampled_from(["object", FLAT, ""])),
        st.sampled_from(["", SIGNATURE, ",short"]),
        st.sampled_from(_SUFFIXES),
    ),
    st.sampled_from([LEGACY, FLAT, "dummy"]),
    st.text(),
)  # fmt: skip


@settings(deadline=None)
@given(
    st.lists(st.tuples(_NAMES, _INSTANTS)),
    st.booleans(),
    st.sampled_from(["keep", "collect"]),
    st.sampled_from(["keep", "collect"]),
)
def test_a_column_of_standings_equals_its_rows(rows, flat, strangers, inherited):
    limits = replace(LIMITS, flat=flat, strangers=strangers, inherited=inherited)
    addresses = pa.array([address for address, _ in rows], pa.string())
    modified = pa.array([modified for _, modified in rows], schemas.INSTANT)
    assert standings(addresses, modified, limits).to_pylist() == [
        standing(*row, limits) for row in rows
    ]


def _judge(listing, limits, unsafe_names=NOT_NAMEABLE):
    """Judge objects as a task does that lists them; address -> standing."""
    columns = [
        *(listing.column(name) for name in ("address", "size_bytes", "last_modified", "checksum")),
        pa.nulls(listing.num_rows, pa.string()),
    ]
    found = add_standings(
        pa.record_batch(columns, schema=schemas.OBJECT_LISTING),
        SimpleNamespace(unsafe_names=unsafe_names),
        limits,
    )
    assert found.column("address_hash").equals(hashed(found.column("address")))
    assert found.column("slice").to_pylist() == [
        slice_of(address) for address in found.column("address").to_pylist()
    ]
    return dict(
        zip(found.column("address").to_pylist(), found.column("standing").to_pylist(), strict=True)
    )


def test_how_an_object_stands_is_told_when_it_is_listed():
    old = CUTOFF - timedelta(days=30)
    young = f"data/{SLICE}/{_xid(CUTOFF)}"
    part = f"data/{SLICE}/{_xid(CUTOFF - timedelta(days=3))}.part_00001"
    own = f"data/{SLICE}/{OBJECT}"
    listing = _listing(
        (own, old),
        ("data/x.csv", old),
        (part, CUTOFF - timedelta(days=2)),
        (young, old),
        ("dummy", old),
    )
    assert _judge(listing, replace(LIMITS, strangers="keep")) == {
        own: CANDIDATE,
        "data/x.csv": STRANGER,
        part: UPLOAD,
        young: YOUNG,
        "dummy": PROTECTED,
    }


def test_what_a_store_would_take_for_another_name_is_no_candidate():
    old = CUTOFF - timedelta(days=30)
    listing = _listing(("data/s/a\\b", old), ("data/s/ab", old))
    assert _judge(listing, LIMITS, rf"{NOT_NAMEABLE}|\\") == {
        "data/s/a\\b": PROTECTED,
        "data/s/ab": CANDIDATE,
    }


def test_what_no_client_names_safely_is_no_candidate_anywhere():
    assert _kept(_listing(("data/s/../x", CUTOFF - MOMENT), ("data/s/a\tb", CUTOFF - MOMENT))) == []


def test_objects_whose_name_is_unsafe_are_counted_with_their_bytes():
    listing = _listing(
        *(
            (key, CUTOFF)
            for key in ("data//x", "data/s/a\tb", "data/s/", "data/s/plain", "data/s/sp ace")
        )
    )
    listing = listing.append_column("standing", pa.array(["candidate"] * listing.num_rows))
    listing = listing.append_column(schemas.STORAGE_CLASS, pa.nulls(listing.num_rows, pa.string()))
    counted = measure(CUTOFF, "_lakefs", NOT_NAMEABLE, listing)
    figures = {name: count for name, count in counted.items() if not name.startswith("new_")}
    assert (figures["objects"], figures["unsafe_name_objects"], figures["unsafe_name_bytes"]) == (
        5,
        3,
        3,
    )
    said = _cautions(**{**figures, "unsafe_name_bytes": 1_500})
    assert len(said) == 1
    assert said[0].startswith(
        "3 objects (1.5 kB) have names that some client would take for another"
    )
    assert _cautions(**{**figures, "unsafe_name_objects": 0}) == ()


def _cautions(**listed):
    return cautions(read(ListedFigures, **listed), read(CommitsFigures), read(ExpiredFigures))
