"""The sums of the objects that may go, added up while they are written.

They have all that a report needs.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses import candidates as rule
from spark_core.addresses.candidates import Limits
from spark_core.records.figures import AmountFigures, Groups, SumFigures

# What is summed up.
SUMMED = pa.schema([*schemas.EXPIRED_ADDRESSES, schemas.STORAGE_CLASS])
# Number of the largest objects that are named, and number of the slices that are.
NAMED = 100
TOP = 20

# Upper ends of the age groups, in days.
AGES = (
    (1, "under a day"),
    (7, "1 to 7 days"),
    (30, "7 to 30 days"),
    (90, "30 to 90 days"),
    (365, "90 days to a year"),
)
OLDEST = "over a year"


@dataclass
class Sums:
    """Sums over rows of `SUMMED`; their size is bounded by the slices.

    Attributes:
        objects: Number of objects, by kind and name: ("reason", ...), ("age", ...), ("slice", ...),
            ("standing", ...), ("class", ...).
        size_bytes: Their bytes, by kind and name.
        largest: Bytes, address, date and reason of the largest objects.
        committed: Path and last commit of those of them that were explained, by address.
    """

    objects: Counter[tuple[str, str]] = field(default_factory=Counter)
    size_bytes: Counter[tuple[str, str]] = field(default_factory=Counter)
    largest: list[tuple[int, str, str, str]] = field(default_factory=list)
    committed: dict[str, tuple[str, str]] = field(default_factory=dict)

    def add(self, batch: pa.RecordBatch, instant: datetime, limits: Limits) -> None:
        """Add some rows.

        Args:
            batch: Columns of `SUMMED`.
            instant: The run's instant, from which ages count back.
            limits: The limits that name and age are compared with once more.
        """
        # Older Arrow (20 to 22 at least) does not find the largest of no rows.
        if not batch.num_rows:
            return
        sizes = batch.column("size_bytes")
        for kind, names in (
            ("reason", batch.column("reason")),
            ("age", _ages(batch.column("last_modified"), instant)),
            ("slice", batch.column("slice")),
            ("standing", rule.standings_of(batch, limits)),
            ("class", batch.column("storage_class")),
        ):
            summed = (
                pa.table({"name": names, "size": sizes})
                .group_by("name")
                .aggregate([("size", "sum"), ([], "count_all")])
            )
            for row in summed.filter(pc.is_valid(summed["name"])).to_pylist():
                self.objects[kind, row["name"]] += row["count_all"]
                self.size_bytes[kind, row["name"]] += row["size_sum"]
        first = pc.select_k_unstable(
            batch, NAMED, [("size_bytes", "descending"), ("address", "ascending")]
        )
        self._name(
            (row["size_bytes"], row["address"], row["last_modified"].isoformat(), row["reason"])
            for row in batch.select(["size_bytes", "address", "last_modified", "reason"])
            .take(first)
            .to_pylist()
        )

    def merge(self, other: Sums) -> None:
        """Add the sums of another task."""
        self.objects.update(other.objects)
        self.size_bytes.update(other.size_bytes)
        self._name(other.largest)

    def explain(self, explanations: Mapping[str, tuple[str, str, str]]) -> None:
        """Give the largest objects their explanations in place of their reasons.

        Args:
            explanations: Sentence, path and commit by address.
        """
        self.largest = [
            (size, address, modified, explanations.get(address, (reason,))[0])
            for size, address, modified, reason in self.largest
        ]
        self.committed = {
            address: (path, commit) for address, (_, path, commit) in explanations.items()
        }

    def _name(self, more: Iterable[tuple[int, str, str, str]]) -> None:
        self.largest = heapq.nsmallest(
            NAMED, [*self.largest, *more], key=lambda row: (-row[0], row[1])
        )

    @property
    def total(self) -> tuple[int, int]:
        """Objects and bytes."""
        return self._of("reason")

    def _of(self, kind: str, *names: str) -> tuple[int, int]:
        chosen = [key for key in self.objects if key[0] == kind and (not names or key[1] in names)]
        return sum(self.objects[key] for key in chosen), sum(self.size_bytes[key] for key in chosen)

    @property
    def figures(self) -> SumFigures:
        """The sums as figures of the table."""
        objects, size = self.total
        slices = sorted(
            (key[1] for key in self.objects if key[0] == "slice"),
            key=lambda name: (-self.size_bytes["slice", name], name),
        )
        return SumFigures(
            expired_objects=objects,
            expired_bytes=size,
            not_collectable=self._of("standing", rule.PROTECTED)[0],
            too_young=self._of("standing", rule.YOUNG, rule.UPLOAD)[0],
            not_of_lakefs=self._of("standing", rule.STRANGER, rule.INHERITED)[0],
            by_reason=self._groups("reason"),
            by_age=self._groups("age"),
            by_slice=self._groups("slice", slices[:TOP]),
            by_class=self._groups("class") or None,
            slices_with_expired=len(slices),
            other_slices=self._in_slices(slices[TOP:]) if slices[TOP:] else None,
            largest=tuple(self.largest),
            largest_committed=dict(sorted(self.committed.items())),
        )

    def _in_slices(self, names: Sequence[str]) -> AmountFigures:
        return AmountFigures(
            objects=sum(self.objects["slice", name] for name in names),
            bytes=sum(self.size_bytes["slice", name] for name in names),
        )

    def _groups(self, kind: str, names: Iterable[str] | None = None) -> Groups:
        chosen = sorted(name for of, name in self.objects if of == kind) if names is None else names
        return tuple(
            (name, self.objects[kind, name], self.size_bytes[kind, name]) for name in chosen
        )


def _ages(modified: pa.TimestampArray, instant: datetime) -> pa.StringArray:
    """Name the age group of each instant, as seen from another."""
    limits = [
        pc.greater(modified, pa.scalar(instant - timedelta(days=days), schemas.INSTANT))
        for days, _ in AGES
    ]
    names = [label for _, label in AGES]
    return pc.case_when(pa.StructArray.from_arrays(limits, names=names), *names, OLDEST)
