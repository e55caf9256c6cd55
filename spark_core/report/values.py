"""The values of a report: bounded in size whatever the repository holds, and the same after a trip through JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from spark_core.addresses.candidates import INHERITED, STRANGER, UPLOAD
from spark_core.errors import CorruptTableError
from spark_core.plain_text import bytes_text

__all__ = [
    "Check",
    "Failure",
    "Group",
    "Named",
    "ReferenceReport",
    "Report",
    "Standing",
    "bytes_text",
]

REPORT_FORMAT = 1
# Read as well: every format of a release. 1: 0.1.0.
REPORT_FORMATS = (1,)

# What nothing refers to, and only a setting keeps: how the report calls it.
KEPT_BY_SETTING = {
    STRANGER: 'a name that lakeFS does not give (strangers = "keep")',
    INHERITED: 'older than the repository (inherited = "keep")',
    UPLOAD: "of an upload that may still go on (longest_upload_days)",
}

_WAY_ON = (
    "This is a file of lakegc's own, not of the server: the report of a run for people. Delete it, and it is made again from "
    "the run's tables (`lakegc report`)."
)


@dataclass(frozen=True)
class Group:
    """Objects that have something in common.

    Attributes:
        name: What they have in common, in words for people.
        objects: How many.
        size_bytes: Their bytes.
    """

    name: str
    objects: int
    size_bytes: int

    def __str__(self) -> str:
        return f"{self.objects:,} object{'' if self.objects == 1 else 's'}, {bytes_text(self.size_bytes)}"


@dataclass(frozen=True)
class Named:
    """One object that may go.

    Attributes:
        address: Relative address.
        size_bytes: Its bytes.
        last_modified: When the store says it was written.
        reason: Why it may go.
    """

    address: str
    size_bytes: int
    last_modified: datetime
    reason: str


@dataclass(frozen=True)
class Failure:
    """One object that a sweep did not delete.

    Attributes:
        address: Relative address.
        outcome: `refused`, `failed` or `kept`.
        error: What the store said, or why it is kept.
    """

    address: str
    outcome: str
    error: str


@dataclass(frozen=True)
class Standing:
    """One address of a mark of lakeFS's own job that is kept.

    Attributes:
        address: As the mark has it; empty where it has none.
        standing: Why it stays.
    """

    address: str
    standing: str


@dataclass(frozen=True)
class Check:
    """One check of the verdict.

    Attributes:
        name: Its name.
        passed: Whether the mark passed it.
        summary: What was found, and for one that failed the way on.
        limit: Up to where it passes.
        lifted_by: Which setting or command lifts it.
        confirmed: Who confirmed its finding, and when; empty where nobody did.
        blocks: Whether a mark that fails it cannot be swept.
    """

    name: str
    passed: bool
    summary: str
    limit: str
    lifted_by: str
    confirmed: str = ""
    blocks: bool = True

    @property
    def standing(self) -> str:
        """The result in a word or two."""
        if self.passed:
            return "passed"
        if not self.blocks:
            return "noticed"
        return f"confirmed by {self.confirmed}" if self.confirmed else "refused"


@dataclass(frozen=True)
class ReferenceReport:
    """What became of a mark of lakeFS's own job that was verified.

    Attributes:
        mark_id: Its id.
        addresses: How many it names.
        eligible: What lakegc would let go without regard to that mark.
        standings: Its different addresses, by how they stand today; what may go comes first.
        kept: Some of those that are kept, live ones first.
    """

    mark_id: str
    addresses: int
    eligible: Group
    standings: tuple[Group, ...]
    kept: tuple[Standing, ...]


@dataclass(frozen=True)
class Report:
    """A mark, and its sweep once there was one.

    Attributes:
        repository: Repository id.
        run: Run key.
        place: Root of the namespace, for people.
        cutoff: Objects written at or after it were left alone.
        mark: sha256 of the manifest of the expired addresses that this speaks of.
        listed: All objects of the listing.
        expired: Those that may go.
        by_reason: Those that may go, by reason, most bytes first.
        by_age: Those that may go, by age at the run's instant, youngest first.
        by_slice: Those that may go, by slice, most bytes first; a last row sums the slices that are not shown.
        kept: All others of the listing, by why they stay. `expired` and these add up to `listed`.
        commits: Why commits keep their objects -> how many do, most first.
        largest: The largest objects that may go.
        passed: Whether the verdict allows the sweep; None without a verdict.
        refused: Name of each check that did not pass -> its sentence.
        sweep: sha256 of the manifest of the deletion report; None before a sweep.
        outcomes: What the sweep did, by outcome; None before one.
        failures: Objects that the sweep could not delete, at most as many as are named of the largest.
        spared: Objects that the sweep kept although the mark let them go, at most as many.
        cautions: What a reader must know about how the mark was made, in sentences; empty for an ordinary one.
        waiting: How much waits because branches could not be asked, and which setting lets it go; empty for nothing.
        reference: The mark of lakeFS's own job that the run stayed within; None when there was none.
        checks: Every check of the verdict with its limit; empty without one.
        undo: How what a sweep deleted comes back, in sentences; empty where it does not.
    """

    repository: str
    run: str
    place: str
    cutoff: datetime
    mark: str
    listed: Group
    expired: Group
    by_reason: tuple[Group, ...]
    by_age: tuple[Group, ...]
    by_slice: tuple[Group, ...]
    kept: tuple[Group, ...]
    commits: Mapping[str, int]
    largest: tuple[Named, ...]
    passed: bool | None
    refused: Mapping[str, str]
    sweep: str | None = None
    outcomes: tuple[Group, ...] | None = None
    failures: tuple[Failure, ...] = ()
    spared: tuple[Failure, ...] = ()
    cautions: tuple[str, ...] = ()
    reference: ReferenceReport | None = None
    checks: tuple[Check, ...] = ()
    undo: str = ""
    waiting: str = ""

    @property
    def swept(self) -> bool:
        """Whether a sweep is part of it."""
        return self.sweep is not None

    @property
    def kept_by_setting(self) -> tuple[Group, ...]:
        """What nothing refers to and only a setting keeps, in the order of `kept`."""
        return tuple(group for group in self.kept if group.name in KEPT_BY_SETTING.values())

    def to_json(self) -> bytes:
        """Write the report."""
        document = {"format": REPORT_FORMAT, **asdict(self)}
        return json.dumps(document, indent=1, default=datetime.isoformat).encode()

    @classmethod
    def from_json(cls, data: bytes, *, name: str) -> Report:
        """Read a report back.

        Args:
            data: The bytes as stored.
            name: Key, for the message.

        Raises:
            CorruptTableError: If it is not a report of this format.
        """
        try:
            document = json.loads(data)
            if document.pop("format") not in REPORT_FORMATS:
                raise CorruptTableError(name, None, f"not a report of format {REPORT_FORMAT}", _WAY_ON)
            for field in ("listed", "expired"):
                document[field] = Group(**document[field])
            for field in ("by_reason", "by_age", "by_slice", "kept"):
                document[field] = _groups(document[field])
            document["outcomes"] = None if document["outcomes"] is None else _groups(document["outcomes"])
            document["largest"] = tuple(_named(row) for row in document["largest"])
            document["failures"] = tuple(Failure(**row) for row in document["failures"])
            document["spared"] = tuple(Failure(**row) for row in document.get("spared", ()))
            document["reference"] = _reference(document.get("reference"))
            document["checks"] = tuple(Check(**row) for row in document.get("checks", ()))
            document["cautions"] = tuple(document.get("cautions", ()))
            document["cutoff"] = datetime.fromisoformat(document["cutoff"])
            return cls(**document)
        except (ValueError, KeyError, TypeError) as problem:
            raise CorruptTableError(name, None, f"not a report of lakegc ({problem!r})", _WAY_ON) from problem


def _groups(rows: Sequence[Mapping[str, Any]]) -> tuple[Group, ...]:
    return tuple(Group(**row) for row in rows)


def _reference(found: Mapping[str, Any] | None) -> ReferenceReport | None:
    if found is None:
        return None
    return ReferenceReport(
        **{
            **found,
            "eligible": Group(**found["eligible"]),
            "standings": _groups(found["standings"]),
            "kept": tuple(Standing(**row) for row in found["kept"]),
        }
    )


def _named(row: Mapping[str, Any]) -> Named:
    return Named(**{**row, "last_modified": datetime.fromisoformat(row["last_modified"])})
