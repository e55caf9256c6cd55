"""The report of a mark, and of its sweep once there was one: bounded in size, stored as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from spark_core.errors import CorruptTableError
from spark_core.fates import Fate
from spark_core.json_and_toml import read_json
from spark_core.prices import Price
from spark_core.report.values import (
    Check,
    FailedObject,
    Group,
    Kind,
    Named,
    PastRun,
    PolicyTaken,
    ReferenceReport,
    Rules,
    Standing,
)

# The report's names for objects that nothing refers to and only a setting keeps.
KEPT_BY_SETTING = tuple(fate.sentence for fate in (Fate.STRANGER, Fate.INHERITED, Fate.UPLOADING))

_WAY_ON = (
    "This is a file of lakegc's own, not of the server: the report of a run for people. Delete "
    "it, and it is made again from the run's tables (`lakegc report`)."
)


@dataclass(frozen=True)
class Report:
    """A mark, and its sweep once there was one.

    Attributes:
        repository: Repository id.
        run: Run key.
        place: Root of the namespace, for people.
        cutoff: Objects written at or after it were left alone.
        mark: sha256 of the manifest of the expired addresses that this report describes.
        listed: All objects of the namespace, as listings and the index have them.
        expired: Objects that may go.
        by_reason: Objects that may go, by reason, most bytes first.
        by_age: Objects that may go, by age at the run's instant, youngest first.
        by_slice: Objects that may go, by slice, most bytes first; a last row sums the slices that
            are not shown.
        by_class: Objects that may go, by storage class, most bytes first; those whose class the
            store's listing does not say are left out.
        listed_by_class: Bytes of all objects by storage class, as far as classes are known.
        kept: All others, by why they stay. `expired` and these add up to `listed`.
        fates: Objects and bytes of each fate; they add up to `listed`.
        commits: Why commits keep their objects -> how many do, most first.
        largest: The largest objects that may go.
        passed: Whether the verdict allows the sweep; None without a verdict.
        refused: Name of each check that did not pass -> its sentence.
        sweep: sha256 of the manifest of the deletion report; None before a sweep.
        outcomes: What the sweep did, by outcome; None before one.
        failures: Objects that the sweep could not delete, at most as many as are named of the
            largest.
        spared: Objects that the sweep kept although the mark let them go, at most as many.
        cautions: What a reader must know about how the mark was made, in sentences; empty for an
            ordinary one.
        waiting: How much waits because branches could not be asked, and which setting lets it go;
            empty for nothing.
        reference: The mark of lakeFS's own job that the run stayed within; None if there was none.
        checks: Every check of the verdict with its limit; empty without one.
        undo: How what a sweep deleted comes back, in sentences; empty where it does not.
        rules: The rules that the mark was made under.
        by_prefix: Objects that may go, by folder at the top of the path in the last commit that had
            them, most bytes first; then the others, what was never committed and what is not known.
        by_branch: The same by the branch of that commit.
        kind: What the mark read.
        policy: The retention policy by which some of them go; None for none.
        past: What earlier runs came to, as `runs_to_keep` gives it: the next report need not read
            theirs.

    Examples:
        >>> from spark_core.report import load
        >>> load(run).listed.objects, load(run).sweep
        (2, None)
    """

    FORMAT: ClassVar[int] = 1

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
    failures: tuple[FailedObject, ...] = ()
    spared: tuple[FailedObject, ...] = ()
    cautions: tuple[str, ...] = ()
    reference: ReferenceReport | None = None
    checks: tuple[Check, ...] = ()
    undo: str = ""
    waiting: str = ""
    rules: Rules | None = None
    by_prefix: tuple[Group, ...] = ()
    by_branch: tuple[Group, ...] = ()
    kind: Kind | None = None
    policy: PolicyTaken | None = None
    past: tuple[PastRun, ...] = ()
    fates: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    by_class: tuple[Group, ...] = ()
    listed_by_class: Mapping[str, int] = field(default_factory=dict)

    def price_of_expired(self, price: Price) -> Price:
        """Return what a GB of the objects that may go costs on the average."""
        classes = {group.name: group.size_bytes for group in self.by_class}
        return price.over(classes, self.expired.size_bytes)

    def price_of_listed(self, price: Price) -> Price:
        """Return what a GB of all objects costs on the average."""
        return price.over(self.listed_by_class, self.listed.size_bytes)

    @property
    def swept(self) -> bool:
        """Whether a sweep is part of it."""
        return self.sweep is not None

    @property
    def kept_by_setting(self) -> tuple[Group, ...]:
        """Objects that nothing refers to and only a setting keeps, in the order of `kept`."""
        return tuple(group for group in self.kept if group.name in KEPT_BY_SETTING)

    def to_json(self) -> bytes:
        """Write the report."""
        document = {"format": self.FORMAT, **asdict(self)}
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
            document = read_json(data)
            if document.pop("format") != cls.FORMAT:
                raise CorruptTableError(name, None, f"not a report of format {cls.FORMAT}", _WAY_ON)
            for field in ("listed", "expired"):
                document[field] = Group(**document[field])
            for field in ("by_reason", "by_age", "by_slice", "kept"):
                document[field] = _groups(document[field])
            for field in ("by_prefix", "by_branch", "by_class"):
                document[field] = _groups(document.get(field, ()))
            document["outcomes"] = (
                None if document["outcomes"] is None else _groups(document["outcomes"])
            )
            document["largest"] = tuple(_named(row) for row in document["largest"])
            document["failures"] = tuple(FailedObject(**row) for row in document["failures"])
            document["spared"] = tuple(FailedObject(**row) for row in document.get("spared", ()))
            document["reference"] = _reference(document.get("reference"))
            document["checks"] = tuple(Check(**row) for row in document.get("checks", ()))
            document["cautions"] = tuple(document.get("cautions", ()))
            rules = document.get("rules")
            document["rules"] = None if rules is None else Rules(**rules)
            document["kind"] = _kind(document.get("kind"))
            document["policy"] = _policy(document.get("policy"))
            fates = document.get("fates", {})
            document["fates"] = {fate: tuple(amount) for fate, amount in fates.items()}
            document["past"] = tuple(PastRun(**row) for row in document.get("past", ()))
            document["cutoff"] = datetime.fromisoformat(document["cutoff"])
            return cls(**document)
        except (ValueError, KeyError, TypeError) as problem:
            raise CorruptTableError(
                name, None, f"not a report of lakegc ({problem!r})", _WAY_ON
            ) from problem


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


def _kind(found: Mapping[str, Any] | None) -> Kind | None:
    if found is None:
        return None
    return Kind(**{**found, "started": datetime.fromisoformat(found["started"])})


def _policy(found: Mapping[str, Any] | None) -> PolicyTaken | None:
    return None if found is None else PolicyTaken(**{**found, "by_rule": _groups(found["by_rule"])})


def _named(row: Mapping[str, Any]) -> Named:
    return Named(**{**row, "last_modified": datetime.fromisoformat(row["last_modified"])})
