"""What may ever be a candidate, slices, and the times inside names."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_core.addresses.collectable import (
    NOT_NAMEABLE,
    TABLE_FILES,
    files_of_tables,
    is_given_name,
    usual_seconds,
)
from spark_core.addresses.namespace import (
    collectable_batch,
    is_collectable,
    nested_repository,
    slice_batch,
    slice_of,
    xid_time_batch,
)
from spark_core.addresses.xids import ALPHABET, XID
from spark_core.storage.azure.store import AzureStore
from tests.support import golden
from tests.support.xid_times import xid_time

SLICE, OBJECT = "gqv3epl4fd2o8m3men70", "ce8co454fd2o8m3menag"
FLAT = "0123456789abcdef0123456789abcdef"

addresses = st.one_of(
    st.builds(
        "{}{}".format,
        st.sampled_from(["", "data/", "data//", "/data/", f"data/{SLICE}/", "data/!ab/c/",
                         "_lakefs/", "data/x/_lakefs/", "Data/"]),
        st.sampled_from([OBJECT, f"{OBJECT},s_-", f"{OBJECT}\n", f"x{OBJECT}", "", ".", "..", FLAT,
                         FLAT.upper(), f"{FLAT}-00001", "a b", "é", "a\nb", "\x7f"]),
    ),
    st.text(),
    st.text(alphabet=ALPHABET, min_size=20, max_size=20),
)  # fmt: skip


@pytest.mark.parametrize(
    "address",
    [
        f"data/{SLICE}/{OBJECT}",
        f"data/{SLICE}/{OBJECT},L9DicNePFg2yJNzjaDpGlYPNUILP3ZHNxSuF_7dh6OU",
        "data/!ab/c/bpel26ce4m36oefv1600/shardedobject",
        "data/direct-file",
        "data/repo-main:0c3e7a5c-1f0a/V1StGXR8_Z5jdHi6B-myT",
        "data/x#1",
        "data/dummy",
    ],
)
def test_data_is_collectable(address):
    assert is_collectable(address)
    assert is_collectable(address, flat=True)


@pytest.mark.parametrize(
    "address",
    [
        "_lakefs/dummy",
        "dummy",
        "_lakefs/data/x",
        "symlinks/repo/main/a/symlink.txt",
        "elsewhere/obj",
        "data",
        "data/",
        "data//x",
        "data/x/",
        "data/./x",
        "data/../_lakefs/x",
        "data/x\ny",
        "data/x\n",
        "data/\x7f",
        "/data/x",
        "database/x",
        "Data/x",
        "",
        "data/inner/_lakefs/abc",
        "data/_lakefs/abc",
        f"{FLAT}-00001",
        FLAT.upper(),
        FLAT[:-1],
        f"{FLAT}\n",
        f"x/{FLAT}",
    ],
)
def test_everything_else_is_protected(address):
    assert not is_collectable(address)
    assert not is_collectable(address, flat=True)


def test_a_flat_name_is_collectable_only_when_asked_for():
    assert not is_collectable(FLAT)
    assert is_collectable(FLAT, flat=True)


def test_the_tables_of_a_nested_repository_are_seen_under_either_prefix():
    assert nested_repository("data/inner/_lakefs/abc")
    assert not nested_repository("_lakefs/abc")
    assert not nested_repository("data/inner/meta/abc")
    assert nested_repository("data/inner/meta/abc", protected_prefix="meta")
    assert nested_repository("data/inner/_lakefs/abc", protected_prefix="meta")
    assert not is_collectable("data/inner/_lakefs/abc")


@settings(deadline=None)
@given(
    st.lists(st.one_of(addresses, st.none())),
    st.booleans(),
)
def test_collectable_batch_equals_its_rows(rows, flat):
    found = collectable_batch(pa.array(rows, pa.string()), flat=flat)
    assert found.to_pylist() == [
        None if row is None else is_collectable(row, flat=flat) for row in rows
    ]


@pytest.mark.parametrize(
    ("address", "name"),
    [
        (f"data/{SLICE}/{OBJECT}", SLICE),
        ("data/!ab/c/slice/object", "!ab"),
        ("data/direct-file", ""),
        ("data/repo-main:0c3e/name", "repo-main:0c3e"),
        (FLAT, ""),
        ("_lakefs/x/y", ""),
        ("x/data/y/z", ""),
    ],
)
def test_a_slice_is_the_direct_child_of_data(address, name):
    assert slice_of(address) == name


@settings(deadline=None)
@given(st.lists(st.one_of(addresses, st.none())))
def test_slice_batch_equals_its_rows(rows):
    assert slice_batch(pa.array(rows, pa.string())).to_pylist() == [
        None if row is None else slice_of(row) for row in rows
    ]


SIGNED = f"data/{SLICE}/{OBJECT},L9DicNePFg2yJNzjaDpGlYPNUILP3ZHNxSuF_7dh6OU"
USUAL = re.compile(rf"data/{XID}/{XID}(?:,[0-9A-Za-z_-]{{43}})?")


@pytest.mark.parametrize("name", [f"data/{SLICE}/{OBJECT}", SIGNED])
def test_usual_names_are_told_from_all_that_differ_from_one_in_a_letter(name):
    letters = [chr(number) for number in range(256)]
    names = [
        *(f"{name[:at]}{letter}{name[at + 1 :]}" for at in range(len(name)) for letter in letters),
        *(f"{name[:at]}{letter}{name[at:]}" for at in range(len(name) + 1) for letter in "a/,.0"),
        *(name[:at] + name[at + 1 :] for at in range(len(name))),
    ]
    seconds = usual_seconds(pa.array(names, pa.string())).tolist()
    wanted = [USUAL.fullmatch(one) is not None for one in names]
    assert [one >= 0 for one in seconds] == wanted
    assert sum(wanted) > 1_000
    for one, found in zip(names, seconds, strict=True):
        assert found < 0 or xid_time(one) == datetime.fromtimestamp(found, UTC)


def test_what_is_said_of_usual_names_is_what_each_rule_says():
    names = [f"data/{SLICE}/{OBJECT}", SIGNED, f"data/{OBJECT}/{SLICE}"]
    column = pa.array(names)
    assert (usual_seconds(column) >= 0).all()
    for name in names:
        assert is_collectable(name)
        assert is_given_name(name)
        assert not nested_repository(name)
        for unsafe in (NOT_NAMEABLE, AzureStore.unsafe_names):
            assert re.search(unsafe, name) is None
    for kind in TABLE_FILES:
        assert not any(files_of_tables(column, kind).to_pylist())


def test_names_of_both_kinds_in_one_column_and_in_a_part_of_it_keep_their_rows():
    names = [f"data/{SLICE}/{OBJECT}", None, "x", SIGNED, f"{SIGNED}_id", f"data/{SLICE}/{OBJECT}"]
    whole = pa.array(names)
    assert (usual_seconds(whole) >= 0).tolist() == [True, False, False, True, False, True]
    assert (usual_seconds(whole.slice(2, 3)) >= 0).tolist() == [False, True, False]
    assert slice_batch(whole).to_pylist() == [SLICE, None, "", SLICE, SLICE, SLICE]


def test_the_recorded_id_has_the_recorded_time():
    assert xid_time(OBJECT) == datetime(2022, 12, 7, 17, 23, 28, tzinfo=UTC)
    assert xid_time(f"data/{SLICE}/{OBJECT},sig") == datetime(2022, 12, 7, 17, 23, 28, tzinfo=UTC)


@pytest.mark.parametrize(
    "name",
    ["", "x", OBJECT[:-1], f"{OBJECT}0", OBJECT.upper(), f"{OBJECT[:-1]}h", "wxyz0454fd2o8m3menag",
     "!ab", f"{OBJECT}\n", f",{OBJECT}", f"{OBJECT}/"],
)  # fmt: skip
def test_a_name_that_is_no_id_has_no_time(name):
    assert xid_time(name) is None
    assert xid_time_batch(pa.array([name])).to_pylist() == [None]


@settings(deadline=None)
@given(st.lists(st.one_of(addresses, st.none())))
def test_xid_time_batch_equals_its_rows(rows):
    found = xid_time_batch(pa.array(rows, pa.string()))
    assert found.type == pa.timestamp("us", tz="UTC")
    assert found.to_pylist() == [None if row is None else xid_time(row) for row in rows]


def test_recorded_objects_were_allocated_before_they_were_written():
    checked = 0
    for name in golden.REPOSITORIES:
        for address, _, modified in golden.expected(name).get("listing", []):
            allocated = xid_time(address)
            if allocated is None:
                continue
            checked += 1
            # A file system stamps files with the kernel's last tick, some milliseconds before the
            # clock that ids use.
            assert allocated - timedelta(milliseconds=10) <= datetime.fromtimestamp(modified, UTC)
    assert checked > 3000
