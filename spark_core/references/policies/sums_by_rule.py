"""What the rules of a policy name, added up."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from spark_core.references.policies.document import UNCOMMITTED

# Objects that are named for each rule: the largest, and the newest.
NAMED = 10


@dataclass
class NamedByRules:
    """What the rules name, added up.

    Attributes:
        objects: Objects by rule and branch ("" where it is undecided).
        size_bytes: Their bytes.
        largest: By rule: bytes, address, branch, path and date of the largest objects.
        newest: By rule: date, address, branch, path and bytes of the newest objects.
        names: Names of listed, old objects: `placed` on a branch, or `undecided`.
        staged: Objects by rule that go although they are staged.
        staged_bytes: Their bytes.
        came: Rows that came out of their comparison, by source; ranges apart from entries.
        inside: Entries that those ranges have in the namespace.
        unread: Numbers of the ranges that cannot be read.
    """

    objects: Counter[tuple[int, str]] = field(default_factory=Counter)
    size_bytes: Counter[tuple[int, str]] = field(default_factory=Counter)
    largest: dict[int, list[tuple[Any, ...]]] = field(default_factory=dict)
    newest: dict[int, list[tuple[Any, ...]]] = field(default_factory=dict)
    names: Counter[str] = field(default_factory=Counter)
    staged: Counter[int] = field(default_factory=Counter)
    staged_bytes: Counter[int] = field(default_factory=Counter)
    came: Counter[str] = field(default_factory=Counter)
    inside: int = 0
    unread: set[int] = field(default_factory=set)

    def add(self, row: Mapping[str, Any]) -> None:
        """Add an object that is named: a row of `schemas.POLICY_EXPIRATIONS`."""
        number, branch = row["rule"], row["branch"] or ""
        self.objects[number, branch] += 1
        self.size_bytes[number, branch] += row["size_bytes"]
        if row["action"] == UNCOMMITTED:
            self.staged[number] += 1
            self.staged_bytes[number] += row["size_bytes"]
        path = row["path"].decode(errors="replace")
        date = row["last_modified"].isoformat()
        self._name(self.largest, number, [(row["size_bytes"], row["address"], branch, path, date)])
        self._name(self.newest, number, [(date, row["address"], branch, path, row["size_bytes"])])

    def merge(self, other: NamedByRules) -> None:
        """Add what was found in another bucket."""
        self.objects.update(other.objects)
        self.size_bytes.update(other.size_bytes)
        for mine, theirs in ((self.largest, other.largest), (self.newest, other.newest)):
            for number, rows in theirs.items():
                self._name(mine, number, rows)
        self.names.update(other.names)
        self.staged.update(other.staged)
        self.staged_bytes.update(other.staged_bytes)
        self.came.update(other.came)
        self.inside += other.inside
        self.unread |= other.unread

    @staticmethod
    def _name(
        into: dict[int, list[tuple[Any, ...]]], number: int, rows: Iterable[tuple[Any, ...]]
    ) -> None:
        into[number] = heapq.nlargest(NAMED, [*into.get(number, ()), *rows])

    @property
    def total(self) -> tuple[int, int]:
        """Objects and bytes."""
        return sum(self.objects.values()), sum(self.size_bytes.values())
