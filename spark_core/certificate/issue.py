"""Issue a certificate: read what a run deleted, and ask what still holds the bytes.

`differences` asks the same again of a certificate that somebody shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import __version__, lakegc_keys
from spark_core.certificate import comparison, content
from spark_core.certificate.under_prefix import Once, UnderPrefix, under_prefix
from spark_core.checks import confirming, verdict
from spark_core.errors import ChainError, NotFoundError
from spark_core.model import RunKey
from spark_core.records import reading, tables
from spark_core.records.figures import ListedFigures
from spark_core.records.reading import StoredTable
from spark_core.records.swept import quarantined_runs
from spark_core.report.kind import kind_of
from spark_core.report.past_runs import past_runs, restored
from spark_core.run import Run
from spark_core.storage import ObjectStore
from spark_core.storage.after_deletion import AfterDeletion
from spark_core.storage.outcomes import GONE

# Objects of a run that are each looked for once more. For those beyond them the report counts.
LOOKED_FOR = 10_000
_AT_ONCE = 16
# Objects that were found again, and other runs whose quarantine has some, that are named.
_NAMED = 3


@dataclass(frozen=True)
class Holder:
    """What holds the bytes of an object.

    Attributes:
        words: It, as a certificate names it.
        kind: What holds an object `elsewhere` or in its `place`, a `quarantine`, or the `store`
            after the deletion.
        until: When the days of a quarantine are over; None if nobody knows.
        written: When an object in its place was written.
    """

    words: str
    kind: Literal["elsewhere", "place", "quarantine", "store"]
    until: datetime | None = None
    written: datetime | None = None


@dataclass(frozen=True)
class _Sources:
    """What a certificate is put together from; the arguments of `content.content`."""

    verdict: str
    deletion_report: str
    asked: Mapping[str, Any]


@dataclass
class _Deleted:
    """What the rows of a deletion report say.

    Attributes:
        objects: Objects by reason and outcome ...
        size_bytes: ... and their bytes.
        gone: Addresses that are gone, at most `LOOKED_FOR`.
        among: Those of the addresses asked for that are gone.
    """

    objects: Counter[tuple[str, str]] = field(default_factory=Counter)
    size_bytes: Counter[tuple[str, str]] = field(default_factory=Counter)
    gone: list[str] = field(default_factory=list)
    among: set[str] = field(default_factory=set)

    def add(self, batch: pa.RecordBatch, wanted: Container[str]) -> None:
        """Add some rows of `schemas.DELETION_REPORT`."""
        groups = pa.Table.from_batches([batch]).group_by(["reason", "outcome"])
        for row in groups.aggregate([("size_bytes", "sum"), ([], "count_all")]).to_pylist():
            self.objects[row["reason"], row["outcome"]] += row["count_all"]
            self.size_bytes[row["reason"], row["outcome"]] += row["size_bytes_sum"]
        left = LOOKED_FOR - len(self.gone)
        if left or wanted:
            is_gone = pc.is_in(batch.column("outcome"), pa.array(GONE))
            gone = batch.filter(is_gone).column("address").to_pylist()
            self.gone += gone[:left]
            self.among.update(address for address in gone if address in wanted)

    @property
    def by_reason(self) -> dict[str, dict[str, list[int]]]:
        """Reason -> outcome -> objects and bytes."""
        found: dict[str, dict[str, list[int]]] = {}
        for reason, outcome in sorted(self.objects):
            amount = [self.objects[reason, outcome], self.size_bytes[reason, outcome]]
            found.setdefault(reason, {})[outcome] = amount
        return found


def certificate(run: Run, prefix: str | None = None) -> dict[str, Any]:
    """Return the content of a certificate, without seal and signature.

    Args:
        run: The run that was swept.
        prefix: Also state what became of everything that ever had a path under this; not empty.

    Raises:
        ChainError: If the run was never swept, or belongs to another instance of the repository.
        VerdictError: If it has no verdict, or it is of another format, or verdict, report and its
            rows do not fit each other.
        LakegcError: If server or store cannot be read; nothing is certified then.
    """
    found = _sources(run, prefix)
    return content.content(found.verdict, found.deletion_report, found.asked)


def differences(run: Run, document: Mapping[str, Any]) -> list[str]:
    """Make a certificate anew and compare every field but `content.UNPROVEN`; empty if it holds.

    The verdict, the manifest and the parts of the deletion report are read and hashed again, and
    everything that may hold the bytes is asked again.

    Args:
        run: The run of the certificate, opened anew.
        document: The certificate, without seal and signature; one in which nothing is wrong by
            itself.

    Raises:
        LakegcError: As for `certificate`.
    """
    path = document.get("path")
    found = _sources(run, document["prefix"])
    asked = {**found.asked, **_unproven(document, "")}
    if path is not None:
        of = found.asked["path"]
        asked["path"] = {**of, **_unproven(path, "path.")}
        # There may be more commits now, and never fewer.
        asked["path"]["commits_read"] = min(path["commits_read"], of["commits_read"])
    made = content.content(found.verdict, found.deletion_report, asked)
    return comparison.differences(document, made, "the store now gives")


def _unproven(of: Mapping[str, Any], at: str) -> dict[str, Any]:
    inner = (name.removeprefix(at) for name in content.UNPROVEN if name.startswith(at))
    return {name: of[name] for name in inner if "." not in name}


def what_is_left(run: Run, under: UnderPrefix) -> dict[str, list[Holder]]:
    """Return the objects under a prefix of which something is left, as a certificate says.

    Args:
        run: Any run of the repository.
        under: What was found under the prefix.

    Returns:
        Address -> what holds it now, and what will once it is not in its place any more.
    """
    after, days = run.store.after_deletion(), timedelta(days=run.options.quarantine_days)
    ends = {
        each.run: max(
            (
                *filter(None, (each.quarantine_until,)),
                *(at + days for at in (each.swept_at, each.moved_at) if at),
            ),
            default=None,
        )
        for each in past_runs(run.store, run.now())
    }
    keeps = [] if after.keeps is False else [_kept_by_store(after)]
    return {
        address: [*held, *(keeps if under.objects[address].is_inside else ())]
        for address, held in _holders(run, under, after, ends).items()
        if held
    }


def _sources(run: Run, prefix: str | None) -> _Sources:
    found = verdict.load(run)
    report_key = tables.manifest_key(tables.DELETION_REPORT, run.key)
    if not run.store.exists(report_key):
        raise ChainError(
            f"run {run.key} of {run.repository.id} was not swept: there is nothing to certify",
            f"`lakegc runs {run.repository.id}` shows which runs were.",
        )
    report = run.load(tables.DELETION_REPORT, anew=True)
    under = None if prefix is None else under_prefix(run, prefix)
    deleted = _read(run, report, () if under is None else under.objects)
    after = run.store.after_deletion()
    asked = {
        "lakegc": __version__,
        "issued_at": run.now().isoformat(),
        "figures": _figures(run, deleted),
        "by_reason": deleted.by_reason,
        "after_deletion": {"keeps": after.keeps, "words": after.words},
        "mark": _mark(run),
        "confirmed": sorted(confirming.confirmed_checks(run, found)),
        "prefix": prefix,
        "path": None if under is None else _path(run, under, after, deleted.among),
    }
    return _Sources(
        run.store.read(lakegc_keys.verdict_key(run.key)).decode(),
        report.manifest.to_json().decode(),
        asked,
    )


def _mark(run: Run) -> dict[str, str]:
    """Say whether the mark read everything, or from which index it took what never changes."""
    kind = kind_of(run.load(tables.NAMESPACE_SLICES).manifest).name
    index = ListedFigures.of(run.load(tables.NAMESPACE_SLICES).manifest).index
    if index is None:
        return {"kind": kind}
    return {"kind": kind, "index": index.run, "saved": index.saved}


def _read(run: Run, report: StoredTable, wanted: Container[str]) -> _Deleted:
    """Read every row of a deletion report; each part is compared with its hash."""
    found = _Deleted()
    for part in report.manifest.parts:
        for batch in reading.read_part(run.store, tables.DELETION_REPORT.schema, part):
            found.add(batch, wanted)
    return found


def _figures(run: Run, deleted: _Deleted) -> dict[str, Any]:
    """Count what still holds objects that a run deleted."""
    aside = sum(batch.num_rows for batch in run.store.list(lakegc_keys.in_quarantine(run.key)))
    # A restore leaves the copy in quarantine, and a later run may then have deleted the object.
    others = _aside(run, deleted.gone, but=run.key)
    there = sorted(_existing(run, deleted.gone))
    return {
        "in_quarantine": aside,
        "in_other_quarantines": len(others),
        "other_quarantines": sorted({str(key) for keys in others.values() for key in keys})[
            :_NAMED
        ],
        "restored": len(restored(run.store, run.key)),
        "looked_for": len(deleted.gone),
        "found_again": len(there),
        "found_again_named": there[:_NAMED],
    }


def _existing(run: Run, keys: Sequence[str]) -> dict[str, datetime]:
    """Return when each object was written that is there."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        asked = pool.map(partial(_written_at, run.store), keys)
        return {key: at for key, at in zip(keys, asked, strict=True) if at is not None}


def _written_at(store: ObjectStore, key: str) -> datetime | None:
    try:
        return store.head(key).last_modified
    except NotFoundError:
        return None


def _path(
    run: Run, found: UnderPrefix, after: AfterDeletion, by_this_run: set[str]
) -> dict[str, Any]:
    """Find what still holds each object that ever had a path under a prefix."""
    holders = _holders(run, found, after, {})
    return {
        "objects": [
            {
                "address": once.address,
                "path": once.path,
                "last_commit": None if once.commit is None else once.commit.id,
                "deleted_by_this_run": once.address in by_this_run,
                "held_by": [each.words for each in holders[address]],
            }
            for address, once in sorted(found.objects.items())
        ],
        "commits_read": found.commits,
        "read_at": found.read_at.isoformat(),
    }


def _holders(
    run: Run, found: UnderPrefix, after: AfterDeletion, ends: Mapping[str, datetime | None]
) -> dict[str, list[Holder]]:
    """Find what holds each object under a prefix."""
    inside = [address for address, once in found.objects.items() if once.is_inside]
    there = _existing(run, inside)
    aside = {
        address: [
            Holder(f"the quarantine of run {key}", "quarantine", ends.get(str(key))) for key in keys
        ]
        for address, keys in _aside(run, inside).items()
    }
    return {
        address: list(_held_by(once, there, aside, after))
        for address, once in found.objects.items()
    }


def _aside(
    run: Run, addresses: Sequence[str], but: RunKey | None = None
) -> dict[str, list[RunKey]]:
    """Return the addresses that lie in the quarantine of any run but one, with the runs."""
    wanted, found = set(addresses), dict[str, list[RunKey]]()
    for key in quarantined_runs(run.store):
        if key == but:
            continue
        where = lakegc_keys.in_quarantine(key)
        for batch in run.store.list(where):
            for name in batch.column("key").to_pylist():
                if name.removeprefix(where) in wanted:
                    found.setdefault(name.removeprefix(where), []).append(key)
    return found


def _held_by(
    once: Once,
    there: Mapping[str, datetime],
    aside: Mapping[str, Sequence[Holder]],
    after: AfterDeletion,
) -> Iterator[Holder]:
    if not once.is_inside:
        yield Holder("it lies outside the namespace, where lakegc deletes nothing", "elsewhere")
    elif once.address in there:
        by = [f"branch {name}" for name in once.branches]
        by += [why for why in (once.kept_by, once.held_by) if why]
        nobody = "nothing refers to it under the prefix any more, and no sweep took it yet"
        yield from (Holder(words, "place", written=there[once.address]) for words in by or [nobody])
    yield from aside.get(once.address, ())
    if once.is_inside and once.address not in there and after.keeps is not False:
        yield _kept_by_store(after)


def _kept_by_store(after: AfterDeletion) -> Holder:
    return Holder(content.store_words(after.words, keeps=after.keeps), "store")
