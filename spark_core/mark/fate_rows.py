"""What comes of the decision: rows of the table `fates` and of table 5, and their sums."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses import candidates as rule
from spark_core.addresses.candidates import Limits
from spark_core.fates import Fate
from spark_core.fates.deciding import CODES, FATES, MAY_GO
from spark_core.mark.compared import ALONE, NAMING, PLACE
from spark_core.mark.expired_sums import Sums
from spark_core.records import writing
from spark_core.records.manifest import Part
from spark_core.records.writing import Receipt, Target

_BITS = pa.field("bits", pa.int16(), nullable=False)
# An object that no retained commit reaches, or that a policy names.
SENT = pa.schema(
    [
        pa.field("address_hash", pa.int64(), nullable=False),
        *PLACE,
        pa.field("size_bytes", pa.int64(), nullable=False),
        ALONE,
        _BITS,
        *NAMING,
        # The hold that keeps it by a path; null if none does.
        pa.field("held_by", pa.string()),
    ]
)
# An object that may go unless a branch reads it.
WAITING = pa.schema(
    [
        *schemas.EXPIRED_ADDRESSES,
        pa.field("address_hash", pa.int64(), nullable=False),
        schemas.NAMESPACE_SLICES.field("checksum"),
        ALONE,
        _BITS,
        schemas.STORAGE_CLASS,
    ]
)
# Numbers of the fates that let an object go, and those of a candidate that something else keeps:
# their addresses are noted.
_NAMED = [*MAY_GO, *(CODES[fate] for fate in (Fate.HELD, Fate.READ_BY_BRANCH, Fate.MAY_HIDE))]
_SENTENCES = pa.array([fate.sentence for fate in FATES])
VALUES = pa.array([fate.value for fate in FATES])
# Stands for no moment.
_NEVER = np.iinfo(np.int64).min
# What waits for answers is held by a driver that does the work itself, up to so much a file.
_HELD_BYTES = 2**27


@dataclass
class Decided:
    """The decision about all objects, in figures.

    Attributes:
        expired: Parts of table 5.
        fates: Parts of the table `fates`.
        waiting: Parts of the objects that may go unless a branch reads them; none at the end.
        sums: Figures of the objects that may go.
        taken: The same for those that a policy takes.
        objects: Number of objects, by fate.
        size_bytes: Their bytes, by fate.
        live: Objects that branches and staged entries read from, listed or not.
        missing: Hashes of those live objects that are not listed: 8 bytes for each.
        other_sizes: Listed objects for which an entry gives another size.
        references: Rows that were compared with the listing.
    """

    expired: list[Receipt] = field(default_factory=list)
    fates: list[Receipt] = field(default_factory=list)
    waiting: list[Receipt] = field(default_factory=list)
    sums: Sums = field(default_factory=Sums)
    taken: Sums = field(default_factory=Sums)
    objects: Counter[Fate] = field(default_factory=Counter)
    size_bytes: Counter[Fate] = field(default_factory=Counter)
    live: int = 0
    missing: list[Any] = field(default_factory=list)
    other_sizes: int = 0
    references: int = 0

    def count(self, codes: Any, sizes: Any) -> None:
        """Count objects.

        Args:
            codes: Numbers of their fates.
            sizes: Their bytes.
        """
        objects = np.bincount(codes, minlength=len(FATES))
        for code in np.flatnonzero(objects):
            self.objects[FATES[code]] += int(objects[code])
            self.size_bytes[FATES[code]] += int(sizes[codes == code].sum(dtype=np.int64))

    def merge(self, other: Decided) -> None:
        """Add what another task decided."""
        self.expired += other.expired
        self.fates += other.fates
        self.waiting += other.waiting
        self.sums.merge(other.sums)
        self.taken.merge(other.taken)
        self.objects.update(other.objects)
        self.size_bytes.update(other.size_bytes)
        self.live += other.live
        self.missing += other.missing
        self.other_sizes += other.other_sizes
        self.references += other.references

    @property
    def waiting_parts(self) -> tuple[Part, ...]:
        """The files of what waits for the answers of branches."""
        return writing.parts_of(self.waiting)


@dataclass(frozen=True)
class FateTargets:
    """Where the rows of an attempt are written.

    Attributes:
        expired: Table 5.
        fates: The table `fates`.
    """

    expired: Target
    fates: Target

    @property
    def waiting(self) -> Target:
        """Where objects wait until branches have answered."""
        return replace(self.expired, name="_waiting", schema=WAITING, holds=_HELD_BYTES)


def until_of(
    codes: Any, listed: pa.RecordBatch, limits: Limits, instant: datetime
) -> pa.TimestampArray:
    """Return when time alone could change the fates of some objects; null where it cannot.

    Args:
        codes: Numbers of the fates.
        listed: Columns address and last_modified of the objects.
        limits: The limits of the run.
        instant: The run's instant.
    """
    latest = rule.latest_times(
        listed.column("address").cast(pa.string()), listed.column("last_modified")
    ).to_numpy(zero_copy_only=False)
    moments = np.full(len(codes), _NEVER, np.int64)
    for which, cutoff in ((Fate.YOUNG, limits.cutoff), (Fate.UPLOADING, limits.uploads_cutoff)):
        waits = (instant - cutoff) // timedelta(microseconds=1)
        moments = np.where(codes == CODES[which], latest + waits, moments)
    return pa.array(moments, pa.int64(), mask=moments == _NEVER).cast(schemas.INSTANT)


def rows_of_fates(
    hashes: Any,
    codes: Any,
    sizes: Any,
    *,
    why: pa.Array | None = None,
    until: pa.Array | None = None,
    addresses: pa.Array | None = None,
) -> pa.RecordBatch:
    """Make rows of the table `fates`.

    Args:
        hashes: Hashes of addresses.
        codes: Numbers of the fates.
        sizes: Bytes.
        why: Reasons; null, or None, stands for what the fate says by itself.
        until: Instants; None for none.
        addresses: The addresses, of which those are noted that may be wanted; None for none.
    """
    numbers, count = pa.array(codes), len(codes)
    sentences = _SENTENCES.take(numbers)
    if addresses is not None:
        addresses = pc.if_else(pa.array(np.isin(codes, _NAMED)), addresses, None)
    columns = [
        pa.array(hashes),
        VALUES.take(numbers),
        sentences if why is None else pc.coalesce(why, sentences),
        pa.nulls(count, schemas.INSTANT) if until is None else until,
        pa.array(sizes),
        pa.nulls(count, pa.string()) if addresses is None else addresses,
    ]
    return pa.record_batch(columns, schema=schemas.FATES)
