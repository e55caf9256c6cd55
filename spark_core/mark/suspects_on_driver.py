"""Candidates and entries of one size, where the driver holds both.

The driver then finds out who may hide where without a job for each question.

The results equal those of the frames of `suspects`, which are for what is too much for the driver.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.functions as sf

from spark_core.addresses.address_hashes import hashed
from spark_core.mark.sizes import HeadEntries
from spark_core.mark.suspects import ANY, DISHONEST, MD5, SIZED, SUSPECTS
from spark_core.spark.rows import as_frame, is_among
from spark_core.spark.tasks import frame_of

_ENTRIES = pa.schema(
    [
        pa.field("head_path", pa.binary(), nullable=False),
        pa.field("address", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("checksum", pa.string()),
        # Whether a candidate has the entry's size.
        pa.field("is_sized", pa.bool_(), nullable=False),
        pa.field("is_outside", pa.bool_(), nullable=False),
        pa.field("is_absent", pa.bool_(), nullable=False),
    ]
)

# What a candidate and an entry must share: the size, and the content if it is known (None: a
# checksum that is no MD5).
_Key = tuple[int] | tuple[int, str | None]


@dataclass(frozen=True)
class Alike:
    """Candidates, and the entries of heads that may hide one.

    Attributes:
        candidates: Columns of `suspects.CANDIDATES`, key address.
        entries: Columns of `_ENTRIES`.
        branches: Number of branches.
        contents: Address -> MD5 of its content; for candidates that the store was asked about and
            could answer.
        numbers: Keys -> the numbers that stand for them in `SUSPECTS`.
    """

    candidates: pa.Table
    entries: pa.Table
    branches: int
    contents: Mapping[str, str] = field(default_factory=dict)
    numbers: dict[_Key, int] = field(default_factory=dict)

    @classmethod
    def read(
        cls, candidates: pa.Table, heads: HeadEntries, *, branches: int, at_most: int
    ) -> Alike | None:
        """Find the entries that may hide one of the candidates; one query if executors hold them.

        Args:
            candidates: Columns of `suspects.CANDIDATES`.
            heads: The entries of branch heads.
            branches: Number of branches.
            at_most: Entries that the driver may hold.

        Returns:
            Candidates and entries; None if there are more entries than that.
        """
        honest = candidates.filter(pc.invert(candidates["is_dishonest"]))
        sizes = honest["size_bytes"].unique()
        any_dishonest = honest.num_rows < candidates.num_rows
        entries = (
            _of_held(heads.rows, heads.absent, sizes, any_dishonest=any_dishonest)
            if isinstance(heads.rows, pa.Table)
            and (heads.absent is None or isinstance(heads.absent, pa.Table))
            else _of_frame(heads, sizes, any_dishonest=any_dishonest, at_most=at_most)
        )
        return cls(candidates, entries, branches) if entries.num_rows <= at_most else None

    def suspects(self) -> pa.Table:
        """Return what `suspects.suspects_of` does; keys are numbers of this process."""
        reach: dict[int, int] = {}
        # The only candidate with a key, or None if several have it.
        only: dict[int, str | None] = {}
        for address, size, branches, is_dishonest in self._candidates():
            if not is_dishonest:
                for key in self._keys_of_candidate(address, size):
                    reach[key] = max(reach.get(key, 0), branches)
                    only[key] = None if key in only else address
        has_dishonest = pc.any(self.candidates["is_dishonest"]).as_py()
        found: dict[tuple[bytes, int, int], tuple[int, bool]] = {}

        def add(path: bytes, hides: int, key: int, branches: int, *, is_outside: bool) -> None:
            before, outside = found.get((path, hides, key), (0, False))
            found[path, hides, key] = (max(before, branches), outside or is_outside)

        columns = (self.entries[name].to_pylist() for name in _ENTRIES.names)
        for row in zip(*columns, strict=True):
            path, own, size, checksum, is_sized, is_outside, is_absent = row
            # Nobody compared the checksum of an object that lies outside.
            believed = None if is_outside else checksum
            for key in self._keys_of_entry(size, believed) if is_sized else ():
                branches = self.branches if is_outside else reach.get(key, 0)
                if key in reach and branches > 0 and only[key] != own:
                    add(path, SIZED, key, branches, is_outside=is_outside)
            if is_absent:
                add(path, ANY, 0, self.branches, is_outside=is_outside)
            if is_outside and has_dishonest:
                add(path, DISHONEST, 0, self.branches, is_outside=True)
        rows = [(*which, *where) for which, where in found.items()]
        return pa.Table.from_arrays(
            [
                pa.array(column, kind.type)
                for column, kind in zip(_columns(rows), SUSPECTS, strict=True)
            ],
            schema=SUSPECTS,
        )

    def doubted(self, suspects: pa.Table) -> list[str]:
        """Return the honest candidates that share their size with a suspect path."""
        keys = set(suspects.filter(pc.equal(suspects["hides"], SIZED))["key"].to_pylist())
        return [
            address
            for address, size, _, is_dishonest in self._candidates()
            if not is_dishonest and self._number((size,)) in keys
        ]

    def undecided(self, unasked: Iterable[tuple[int, int, bool]]) -> list[str]:
        """Return the honest candidates that may hide under paths that were not asked about.

        Args:
            unasked: Key, first branch that was not asked, and whether an entry lies outside; a key
                may repeat.
        """
        first: dict[int, tuple[int, bool]] = {}
        for key, number, is_outside in unasked:
            before, outside = first.get(key, (number, False))
            first[key] = (min(before, number), outside or is_outside)
        return [
            address
            for address, size, branches, is_dishonest in self._candidates()
            if not is_dishonest
            and any(
                first[key][1] or branches > first[key][0]
                for key in self._keys_of_candidate(address, size)
                if key in first
            )
        ]

    def _candidates(self) -> Iterable[tuple[str, int, int, bool]]:
        names = ("address", "size_bytes", "branches", "is_dishonest")
        return zip(*(self.candidates[name].to_pylist() for name in names), strict=True)

    def _number(self, key: _Key) -> int:
        return self.numbers.setdefault(key, len(self.numbers))

    def _keys_of_candidate(self, address: str, size: int) -> list[int]:
        content = self.contents.get(address)
        if content is None:
            return [self._number((size,))]
        return [self._number((size, content)), self._number((size, None))]

    def _keys_of_entry(self, size: int, checksum: str | None) -> list[int]:
        md5 = checksum if checksum is not None and re.fullmatch(MD5, checksum) else None
        return [self._number((size,)), self._number((size, md5))]


def _of_held(
    rows: pa.Table, absent: pa.Table | None, sizes: pa.Array, *, any_dishonest: bool
) -> pa.Table:
    """Return the entries (columns of `_ENTRIES`) that may hide a candidate, of those held here.

    Args:
        rows: The entries of heads.
        absent: Those of them whose object is not in the store, as `HeadEntries` has them.
        sizes: Sizes of the candidates that are not dishonest.
        any_dishonest: Whether a candidate may be dishonest.
    """
    is_sized = pc.is_in(rows["size_bytes"], value_set=sizes)
    is_outside = pc.invert(pc.starts_with(rows["address"], "data/"))
    is_absent = pa.chunked_array([pa.repeat(pa.scalar(False), rows.num_rows)])
    if absent is not None:
        hashes = pa.chunked_array([hashed(rows["address"].combine_chunks())])
        is_absent = is_among(hashes, absent["address_hash"])
    marks = {"is_sized": is_sized, "is_outside": is_outside, "is_absent": is_absent}
    for name, column in marks.items():
        rows = rows.append_column(name, column)
    wanted = pc.or_(is_sized, is_absent)
    if any_dishonest:
        wanted = pc.or_(wanted, is_outside)
    return rows.filter(wanted).select(_ENTRIES.names).cast(_ENTRIES)


def _of_frame(
    heads: HeadEntries, sizes: pa.Array, *, any_dishonest: bool, at_most: int
) -> pa.Table:
    """Return the entries as `_of_held` does; one more than `at_most` if there are more."""
    spark = heads.spark()
    sized = frame_of(spark, pa.table({"size_bytes": sizes})).withColumn("is_sized", sf.lit(True))
    found = heads.frame.join(sf.broadcast(sized), on="size_bytes", how="left").select(
        "head_path",
        "address",
        "size_bytes",
        "checksum",
        sf.col("is_sized").isNotNull().alias("is_sized"),
        (~sf.col("address").startswith("data/")).alias("is_outside"),
        sf.lit(False).alias("is_absent")
        if heads.absent is None
        else sf.xxhash64("address").alias("address_hash"),
    )
    wanted = sf.col("is_sized") | sf.col("is_absent")
    if heads.absent is not None:
        lost = as_frame(spark, heads.absent).select("address_hash").distinct()
        found = found.join(
            lost.withColumn("is_lost", sf.lit(True)), on="address_hash", how="left"
        ).withColumn("is_absent", sf.col("is_lost").isNotNull())
    if any_dishonest:
        wanted = wanted | sf.col("is_outside")
    return found.where(wanted).select(*_ENTRIES.names).limit(at_most + 1).toArrow().cast(_ENTRIES)


def _columns(rows: list[tuple[bytes, int, int, int, bool]]) -> list[tuple[object, ...]]:
    return list(zip(*rows, strict=True)) or [()] * len(SUSPECTS)
