"""Decide by its relative address whether an object may ever be collected, and name its slice."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core.addresses.address_hashes import over_bytes
from spark_core.addresses.xids import XID

DEFAULT_PROTECTED_PREFIX = "_lakefs"

# A segment that a file system folds away, and that not every client can name on an object store.
FOLDED_SEGMENT = r"(?:^|/)\.{0,2}(?:/|$)"
# Control characters, and the two characters that XML cannot hold. One of them would fail a whole
# delete request with its thousand other keys.
_CONTROL = "[\\x00-\\x1f\\x7f\ufffe\uffff]"
NOT_NAMEABLE = rf"{FOLDED_SEGMENT}|{_CONTROL}"
_FLAT = r"^[0-9a-f]{32}$"


def arrow_pattern(text: str) -> re.Pattern[str]:
    """Compile a pattern so that `$` means what it means to Arrow's engine: the very end."""
    return re.compile(text.replace("$", r"\Z"), re.DOTALL)


FOLDED_SEGMENT_PATTERN = arrow_pattern(FOLDED_SEGMENT)
CONTROL_PATTERN = arrow_pattern(_CONTROL)
NOT_NAMEABLE_PATTERN = arrow_pattern(NOT_NAMEABLE)
_FLAT_PATTERN = arrow_pattern(_FLAT)


def nested_repository(address: str, *, protected_prefix: str = DEFAULT_PROTECTED_PREFIX) -> bool:
    """Say whether a key below `data/` is a table of another repository inside this one."""
    return address.startswith("data/") and any(
        f"/{prefix}/" in address for prefix in {DEFAULT_PROTECTED_PREFIX, protected_prefix}
    )


def is_collectable(address: str, *, flat: bool = False) -> bool:
    """Say whether an object may ever be a candidate: only data with a name that is safe to use.

    Everything else is protected: the server's tables, `dummy`, multipart parts at the root, and
    whatever somebody put beside them. Clients name keys with folded segments or control characters
    in different ways, so these keys are protected too.

    Args:
        address: Relative address.
        flat: Whether the old layout is collected too: exactly 32 lower-case hex digits at the root.

    Examples:
        >>> is_collectable("data/gqv3epl4fd2o8m3men70/ce8co454fd2o8m3menag")
        True
        >>> is_collectable("_lakefs/dummy"), is_collectable("data/"), is_collectable("data/a/../b")
        (False, False, False)
    """
    if flat and _FLAT_PATTERN.search(address):
        return True
    return (
        address.startswith("data/")
        and not NOT_NAMEABLE_PATTERN.search(address)
        and not nested_repository(address)
    )


def collectable_batch(addresses: pa.StringArray, *, flat: bool = False) -> pa.BooleanArray:
    """Apply `is_collectable` to a whole column; null addresses give null."""
    kept = pc.and_not(
        pc.starts_with(addresses, "data/"), pc.match_substring_regex(addresses, NOT_NAMEABLE)
    )
    kept = pc.and_not(kept, pc.match_substring(addresses, f"/{DEFAULT_PROTECTED_PREFIX}/"))
    return pc.or_(kept, pc.match_substring_regex(addresses, _FLAT)) if flat else kept


SIGNATURE = "(?:,[0-9A-Za-z_-]{43})"
_LEGACY_NAME = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/[0-9A-Za-z_-]{21}"

# What the server's gateway keeps beside the address of an upload in parts until the upload is
# completed.
# References: lakeFS v1.84 pkg/block/gs/adapter.go and compose.go (marker, parts, and parts that
# are joined), pkg/block/azure/multipart_block_writer.go (lists of blocks and of their sizes).
LEFT_BY_UPLOAD = r"(?:\.multipart|\.part_[0-9]{5}(?:_[0-9]+)*|_id|_size)"

# Exactly the names that lakeFS gives below `data/`: slice and object, signed or not, sharded or
# not; what an upload in parts keeps beside it; and the folders that old versions named after a
# staging token. Only the reference job's tests show how names are sharded (lakefs-facts 1.2), so
# only that one shape counts as the server's.
_GIVEN_NAME = (
    rf"^data/(?:(?:![0-9A-Za-z]+/[0-9A-Za-z]+/)?{XID}/{XID}{SIGNATURE}?{LEFT_BY_UPLOAD}?"
    rf"|[^/:]+:{_LEGACY_NAME})$"
)
_GIVEN_NAME_PATTERN = arrow_pattern(_GIVEN_NAME)


def is_given_name(address: str, *, flat: bool = False) -> bool:
    """Say whether an address has a form that lakeFS itself gives to objects.

    Args:
        address: Relative address.
        flat: Whether the old layout counts too: exactly 32 lower-case hex digits at the root.

    Examples:
        >>> is_given_name("data/gqv3epl4fd2o8m3men70/ce8co454fd2o8m3menag")
        True
        >>> is_given_name("data/backup/file.csv"), is_given_name("data/ce8co454fd2o8m3menag")
        (False, False)
    """
    return bool(_GIVEN_NAME_PATTERN.search(address) or (flat and _FLAT_PATTERN.search(address)))


def given_name_batch(addresses: pa.StringArray, *, flat: bool = False) -> pa.BooleanArray:
    """Apply `is_given_name` to a whole column; null addresses give null."""
    given = pc.match_substring_regex(addresses, _GIVEN_NAME)
    return pc.or_(given, pc.match_substring_regex(addresses, _FLAT)) if flat else given


def usual_seconds(addresses: pa.StringArray) -> Any:
    """Return the time in each usual name: that of a whole object below a slice, signed or not.

    Nearly all listed names are usual ones, and one look tells it: such a name may be collected,
    lakeFS gave it, each store and client can name it, it is no part of an upload, of a table or of
    a repository inside this one, and its slice is its second part. Only other names are compared
    with the pattern of each rule.

    Args:
        addresses: Relative addresses.

    Returns:
        int64 array of unix seconds; -1 for any other name, and for null.

    Examples:
        >>> usual = "data/gqv3epl4fd2o8m3men70/ce8co454fd2o8m3menag"
        >>> usual_seconds(pa.array([usual, f"{usual}_id", "data/backup/file.csv"])).tolist()
        [1670433808, -1, -1]
    """
    # As for hashes: not everybody who loads this needs numba.
    from spark_core.addresses.name_loops import seconds_of_all

    return over_bytes(addresses, seconds_of_all, of_null=-1)


def fill_others(
    is_usual: Any,
    usual: pa.Array | pa.Scalar,
    rule: Callable[..., pa.Array],
    *columns: pa.Array,
) -> pa.Array:
    """Apply a rule to the rows whose names are not usual, of some columns.

    Args:
        is_usual: Array of booleans, one for each row.
        usual: What holds for usual rows: a value for each row, or one for all.
        rule: Makes a column of the columns.
        columns: The columns of all rows.
    """
    if isinstance(usual, pa.Scalar):
        usual = pa.repeat(usual, len(is_usual))
    if is_usual.all():
        return usual
    is_other = pa.array(np.logical_not(is_usual))
    found = rule(*(column.filter(is_other) for column in columns))
    return pc.replace_with_mask(usual, is_other, found)


# Files that tell where a table lies that was written past lakeFS, by the folder that each format
# keeps them in: what is common to all, and the form of each.
# References: Iceberg's table spec, "File System Tables"; Delta's protocol, "Delta Log Entries".
TABLE_FILES = {
    "iceberg": (
        "/metadata/",
        r"^data/.*/metadata/(?:[^/]+\.metadata\.json(?:\.gz)?|[^/]+\.avro|version-hint\.text)$",
    ),
    "delta": ("/_delta_log/", r"^data/.*/_delta_log/[^/]+\.(?:json|checkpoint.*\.parquet|crc)$"),
}


def files_of_tables(addresses: pa.StringArray, kind: str) -> pa.BooleanArray:
    """Say which addresses are those of metadata of a kind of `TABLE_FILES`.

    lakeFS gives no such name: they were put there without it.

    Examples:
        >>> names = ["data/t/metadata/v3.metadata.json", "data/t/data/0.parquet", "metadata/a.avro"]
        >>> files_of_tables(pa.array(names), "iceberg").to_pylist()
        [True, False, False]
        >>> log = ["data/t/_delta_log/00000000000000000001.json", "data/t/_delta_log/"]
        >>> files_of_tables(pa.array(log), "delta").to_pylist()
        [True, False]
    """
    common, form = TABLE_FILES[kind]
    may_be = pc.match_substring(addresses, common)
    # Hardly any listing has one, and the form takes longer to compare.
    return pc.match_substring_regex(addresses, form) if pc.any(may_be).as_py() else may_be


# How lakeFS names an object, behind any prefix: shards, reverse time of a slice, time of the upload
# and a signature, or a folder of an old version. No two objects anywhere share such a name. So an
# outside address that ends in one may name an object of this namespace through another name of the
# store: an access point, a domain of its own, a link to the folder. The pattern is wider than
# `is_given_name`, because what it recognises is kept.
OWN_NAME = (
    "data/(?:(?:![^/]+/(?:[^/]+/){0,3})?[0-9a-v]{20}/[0-9a-v]{20}(?:,[^/]*)?"
    f"|[^/]+:{_LEGACY_NAME})"
)


def may_be_own(addresses: pa.StringArray) -> pa.BooleanArray:
    """Say whether outside addresses end like an object of the namespace; null gives null."""
    return pc.match_substring_regex(addresses, f"/{OWN_NAME}$")


_OWN_NAME_PATTERN = re.compile(rf".*/({OWN_NAME})\Z", re.DOTALL)


def own_name(uri: str) -> str | None:
    """Return the relative address of the object that an outside address may be.

    The address may use another name of the same store.

    Examples:
        >>> own_name("s3://an-access-point/repo/data/gqv3epl4fd2o8m3men70/ce8co454fd2o8m3menag")
        'data/gqv3epl4fd2o8m3men70/ce8co454fd2o8m3menag'
        >>> own_name("s3://elsewhere/photo.jpg") is None
        True
    """
    found = _OWN_NAME_PATTERN.match(uri)
    return found[1] if found else None


def slice_of(address: str) -> str:
    """Return the slice of an address: the direct child directory of `data/`, or the shard.

    Returns:
        Its name; empty for a file directly under `data/`, for flat names and for anything outside
        `data/`.

    Examples:
        >>> slice_of("data/gqv3epl4fd2o8m3men70/ce8co454fd2o8m3menag")
        'gqv3epl4fd2o8m3men70'
        >>> slice_of("data/!ab/c/x/y"), slice_of("data/x")
        ('!ab', '')
    """
    name, slash, _ = address.removeprefix("data/").partition("/")
    return name if slash and address.startswith("data/") else ""


def slice_batch(addresses: pa.StringArray) -> pa.StringArray:
    """Apply `slice_of` to a whole column; null addresses give null."""
    is_usual = usual_seconds(addresses) >= 0
    return fill_others(is_usual, pc.utf8_slice_codeunits(addresses, 5, 25), _slices, addresses)


def _slices(addresses: pa.StringArray) -> pa.StringArray:
    names = pc.struct_field(pc.extract_regex(addresses, r"^data/(?P<slice>[^/]*)/"), "slice")
    return pc.if_else(pc.is_null(addresses), pa.scalar(None, pa.string()), pc.fill_null(names, ""))
