"""Decide by name and age which listed objects are candidates, and why the others are not.

The mark decides by it, the sweep applies it again to every row of its plan, and the reports count
by it. It does not look at what refers to an object.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses.collectable import (
    LEFT_BY_UPLOAD,
    SIGNATURE,
    collectable_batch,
    fill_others,
    given_name_batch,
    usual_seconds,
)
from spark_core.addresses.xids import XID, xid_time_batch

CANDIDATE = "candidate"
PROTECTED = "protected"
YOUNG = "young"
UPLOAD = "upload"
STRANGER = "stranger"
INHERITED = "inherited"

STANDINGS = (CANDIDATE, PROTECTED, YOUNG, UPLOAD, STRANGER, INHERITED)
_CANDIDATE, _YOUNG, _INHERITED = map(STANDINGS.index, (CANDIDATE, YOUNG, INHERITED))

_UPLOAD = rf"/{XID}{SIGNATURE}?{LEFT_BY_UPLOAD}$"
_ENDING = f"{LEFT_BY_UPLOAD}$"


@dataclass(frozen=True)
class Limits:
    """The limits for an object's name and age, applied in the mark and again before deleting.

    Attributes:
        cutoff: Objects whose name or date is at or after this instant are left alone.
        uploads_cutoff: The cutoff for what an upload in parts keeps beside its address; not after
            `cutoff`.
        created: Objects whose name or date is before this instant are older than the repository.
        flat: Whether flat names of old versions, at the namespace's root, are considered too.
        strangers: Whether objects whose names lakeFS did not give are kept or collected.
        inherited: Whether objects that are older than the repository are kept or collected.
    """

    cutoff: datetime
    uploads_cutoff: datetime
    created: datetime
    flat: bool
    strangers: Literal["keep", "collect"]
    inherited: Literal["keep", "collect"]

    def __post_init__(self) -> None:
        if any(limit.tzinfo is None for limit in (self.cutoff, self.uploads_cutoff, self.created)):
            raise ValueError("the cutoff and the creation of the repository need a timezone")


def standings(
    addresses: pa.StringArray, modified: pa.TimestampArray, limits: Limits
) -> pa.StringArray:
    """Say by name and age whether each object is a candidate, or else why not.

    An object has two times: the store's date, and the time in its name, when the address was given
    out. An upload in flight has no reference yet, so the later of the two must be before the
    cutoff. An object from before the repository was never lakeFS's, or belongs to an earlier
    repository at this place, so the earlier of the two must not be before `created`. Legacy names
    hold no time: only their date counts.

    Args:
        addresses: Relative addresses, no nulls.
        modified: When the store says that they were written; microseconds in UTC, no nulls.
        limits: The limits that they are compared with.

    Returns:
        For each the first that holds of `PROTECTED` (never collected), `YOUNG`, `UPLOAD` (kept
        beside an upload that may not have ended), `STRANGER` (a name that lakeFS does not give) and
        `INHERITED` (older than the repository); else `CANDIDATE`. Where strangers are collected,
        those that are older than the repository count as inherited.
    """
    named = usual_seconds(addresses)
    is_usual, when = named >= 0, modified.cast(pa.int64()).to_numpy()
    named = np.where(is_usual, named * 1_000_000, when)
    is_young = np.maximum(named, when) >= _micros(limits.cutoff).as_py()
    is_older = np.minimum(named, when) < _micros(limits.created).as_py()
    places = np.where(
        is_young, _YOUNG, np.where(is_older & (limits.inherited == "keep"), _INHERITED, _CANDIDATE)
    )
    usual = pa.array(STANDINGS).take(pa.array(places))
    return fill_others(is_usual, usual, partial(_by_form, limits), addresses, modified)


def _by_form(
    limits: Limits, addresses: pa.StringArray, modified: pa.TimestampArray
) -> pa.StringArray:
    left = pc.match_substring_regex(addresses, _UPLOAD)
    times = _times(addresses, modified, left)
    latest, earliest = pc.max_element_wise(*times), pc.min_element_wise(*times)
    stranger = pc.invert(given_name_batch(addresses, flat=limits.flat))
    choices = pa.StructArray.from_arrays(
        [
            pc.invert(collectable_batch(addresses, flat=limits.flat)),
            pc.greater_equal(latest, _micros(limits.cutoff)),
            pc.and_(left, pc.greater_equal(latest, _micros(limits.uploads_cutoff))),
            pc.and_(stranger, limits.strangers == "keep"),
            pc.and_(pc.less(earliest, _micros(limits.created)), limits.inherited == "keep"),
        ],
        names=[PROTECTED, YOUNG, UPLOAD, STRANGER, INHERITED],
    )
    return pc.case_when(choices, PROTECTED, YOUNG, UPLOAD, STRANGER, INHERITED, CANDIDATE)


def latest_times(addresses: pa.StringArray, modified: pa.TimestampArray) -> pa.Int64Array:
    """Return the later of the two times of each object, in microseconds since 1970 in UTC.

    Args:
        addresses: As for `standings`.
        modified: As for `standings`.
    """
    named = usual_seconds(addresses)
    usual = np.maximum(named * 1_000_000, modified.cast(pa.int64()).to_numpy())
    return fill_others(named >= 0, pa.array(usual), _latest_by_form, addresses, modified)


def _latest_by_form(addresses: pa.StringArray, modified: pa.TimestampArray) -> pa.Int64Array:
    left = pc.match_substring_regex(addresses, _UPLOAD)
    return pc.max_element_wise(*_times(addresses, modified, left))


def _times(
    addresses: pa.StringArray, modified: pa.TimestampArray, left: pa.BooleanArray
) -> tuple[pa.Int64Array, pa.Int64Array]:
    """Return both times of each object; that of its name is null where it tells none."""
    uploads = (
        pc.replace_substring_regex(addresses, _ENDING, "") if pc.any(left).as_py() else addresses
    )
    named = xid_time_batch(pc.if_else(left, uploads, addresses))
    # Arrow compares instants, but finds the later of two only among numbers.
    return modified.cast(pa.int64()), named.cast(pa.int64())


def standings_of(batch: pa.RecordBatch, limits: Limits) -> pa.StringArray:
    """Apply `standings` to the columns address and last_modified of a batch."""
    return standings(
        batch.column("address").cast(pa.string()), batch.column("last_modified"), limits
    )


def _micros(limit: datetime) -> pa.Int64Scalar:
    return pa.scalar(limit, schemas.INSTANT).cast(pa.int64())
