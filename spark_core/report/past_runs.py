"""Every run of a repository with its state and figures, read from what the runs left in the store.

A run leaves a verdict, the manifests of its tables, and the reports of its restores. They stay when
house-keeping prunes the tables, so the list goes back to the first run. Nothing here decides: a
document that cannot be read is a line of the list, not an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pyarrow.compute as pc

from spark_core import checks as guards
from spark_core import lakegc_keys
from spark_core.checks.confirming import refusing
from spark_core.errors import ChainError, LakegcError, NotFoundError
from spark_core.model import RunKey
from spark_core.records import journal, tables
from spark_core.records.figures import (
    AmountFigures,
    DeletionFigures,
    ExpiredFigures,
    ListedFigures,
)
from spark_core.records.manifest import Manifest
from spark_core.records.reading import load_table
from spark_core.records.swept import OUTCOMES, left_by_sweep, quarantine_ends_at, quarantined_runs
from spark_core.records.verdict_document import Verdict
from spark_core.report.fate_counts import Amount, fates_of, total
from spark_core.report.kind import kind_of
from spark_core.report.past_run import PastRun, State
from spark_core.storage import ObjectStore

# The folders that a run may have left, whichever of them is there.
_FOLDERS = (lakegc_keys.SLICES, lakegc_keys.ADDRESSES, lakegc_keys.REPORTS)
# Runs that are read side by side; each costs up to five small requests.
_AT_ONCE = 16


def run_keys(store: ObjectStore) -> list[RunKey]:
    """Return every run that left something, newest first; a few requests.

    Args:
        store: Rooted at the namespace.
    """
    return sorted({key for kind in _FOLDERS for key in tables.runs(store, kind)}, reverse=True)


def require_known(store: ObjectStore, repository_id: str, key: RunKey) -> None:
    """Refuse a run key under which nothing is stored, and name the runs there are.

    Args:
        store: Rooted at the namespace.
        repository_id: Repository name, for the message.
        key: What a person named.

    Raises:
        NotFoundError: If there is no such run.
    """
    known = run_keys(store)
    if key in known:
        return
    if not known:
        raise NotFoundError(
            f"there is no run {key} of {repository_id}: it has no runs yet",
            f"Mark it first (`lakegc mark {repository_id}`).",
        )
    named = ", ".join(str(each) for each in known[:10])
    more = f" and {len(known) - 10:,} older ones" if len(known) > 10 else ""
    raise NotFoundError(
        f"there is no run {key} of {repository_id}; its runs are {named}{more}",
        f"`lakegc runs {repository_id}` shows them all.",
    )


def past_runs(store: ObjectStore, now: datetime, *, newest: int | None = None) -> list[PastRun]:
    """Read every run of a repository, newest first; no Spark, and no table of objects.

    Args:
        store: Rooted at the namespace.
        now: The time.
        newest: Only so many of the newest runs.
    """
    keys = run_keys(store)[:newest]
    there = _Folders(
        frozenset(tables.runs(store, lakegc_keys.JOURNAL)),
        _named(store, lakegc_keys.RESTORES),
        frozenset(quarantined_runs(store)),
    )
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = list(pool.map(lambda key: _read(store, key, there, now), keys))
    return [_since(run, found[:at]) for at, run in enumerate(found)]


def _since(run: PastRun, later: Sequence[PastRun]) -> PastRun:
    """Return a run as the later ones leave it: one that did not end has its work done by another.

    What a mark collects that did not end is not known; only a sweep of everything does its work.
    """
    did_not_end = run.state in {"unfinished", "sweep unfinished"}
    done = any(
        one.swept
        and one.state != "swept in part"
        and not one.not_swept[0]
        and one.collects in ("all", run.collects)
        for one in later
    )
    return replace(run, state="superseded") if did_not_end and done else run


@dataclass(frozen=True)
class _Folders:
    """The runs that have a folder of a kind."""

    journals: frozenset[RunKey]
    restores: frozenset[RunKey]
    quarantine: frozenset[RunKey]


def _named(store: ObjectStore, folder: str) -> frozenset[RunKey]:
    found = (lakegc_keys.run_of(prefix) for prefix in store.children(folder)[0])
    return frozenset(key for key in found if key is not None)


def _read(store: ObjectStore, key: RunKey, there: _Folders, now: datetime) -> PastRun:
    try:
        return _past_run(store, key, there, now)
    except LakegcError as problem:
        return PastRun(str(key), "unreadable", problem=problem.found)


def _past_run(store: ObjectStore, key: RunKey, there: _Folders, now: datetime) -> PastRun:
    verdict = _verdict(store, key)
    slices = _slices(store, key)
    kind = {} if slices is None else _kind(slices)
    if verdict is None:
        return PastRun(str(key), began=None if slices is None else slices.reading_began, **kind)
    manifest = load_table(store, tables.EXPIRED_ADDRESSES, key).manifest
    expired = ExpiredFigures.of(manifest)
    swept = _swept(store, key)
    has_ended = key not in there.journals or (swept is not None and not any(left_by_sweep(swept)))
    end = None if has_ended else journal.ended(store, key)
    open_checks = {check["name"]: check for check in refusing(store, key, verdict)}
    back = list(restored(store, key).values()) if key in there.restores else []
    readings = [each["reading_began"] for each in verdict.tables.values()]
    began = min(map(datetime.fromisoformat, readings), default=manifest.reading_began)
    return PastRun(
        str(key),
        state=_state(
            swept, refused=bool(open_checks), journal=key in there.journals, back=len(back)
        ),
        refused={name: check["summary"] for name, check in open_checks.items()},
        confirmable=tuple(name for name in open_checks if name in guards.CONFIRMABLE),
        lifted_by={name: check.get("lifted_by", "") for name, check in open_checks.items()},
        began=began,
        concluded_at=verdict.concluded_at,
        swept_at=None if swept is None else swept.reading_ended,
        mark_seconds=_seconds(began, verdict.concluded_at),
        sweep_seconds=None if swept is None else _seconds(swept.reading_began, swept.reading_ended),
        listed_objects=verdict.standing.get("listed_objects"),
        expired_objects=verdict.expired_objects,
        expired_bytes=expired.expired_bytes,
        expired_by_class=expired.bytes_by_class,
        listed_by_class={} if slices is None else ListedFigures.of(slices).by_class or {},
        collects=expired.collects,
        fates=fates_of(expired),
        deleted_before=_amount(expired.deleted_before),
        outcomes={} if swept is None else outcomes_of(swept),
        restored=(len(back), sum(back)),
        quarantine_until=max(
            filter(None, (_promised(swept), end.until if end else None)), default=None
        ),
        moved_at=end.until - timedelta(seconds=end.kept_seconds) if end and end.until else None,
        ended_by="" if end is None else end.ended_by,
        in_quarantine=_in_quarantine(store, key, swept, now) if key in there.quarantine else (0, 0),
        **kind,
    )


def _promised(swept: Manifest | None) -> datetime | None:
    return None if swept is None else quarantine_ends_at(swept)


def _seconds(began: datetime, ended: datetime) -> float:
    return (ended - began).total_seconds()


def _amount(figures: AmountFigures | None) -> Amount:
    return (0, 0) if figures is None else (figures.objects, figures.bytes)


def _state(swept: Manifest | None, *, refused: bool, journal: bool, back: int) -> State:
    if back:
        return "restored"
    if swept is not None:
        return "swept in part" if any(left_by_sweep(swept)) else "swept"
    if journal:
        return "sweep unfinished"
    return "refused" if refused else "marked"


def _kind(slices: Manifest) -> dict[str, Any]:
    """Return what a mark read, as values of `PastRun`."""
    kind = kind_of(slices)
    return {"kind": kind.name, "index": kind.index, "why_full": kind.why_full}


def outcomes_of(swept: Manifest) -> dict[str, tuple[int, int]]:
    """Return objects and bytes of each outcome that a sweep had, from its report's manifest."""
    figures = vars(DeletionFigures.of(swept))
    found = {name: (figures[f"{name}_objects"] or 0, figures[f"{name}_bytes"]) for name in OUTCOMES}
    return {name: figures for name, figures in found.items() if figures[0]}


def _in_quarantine(
    store: ObjectStore, key: RunKey, swept: Manifest | None, now: datetime
) -> Amount:
    """Count what lies in quarantine of a run.

    As long as no purge may begin, it is what a sweep that ended moved there. After that only the
    store knows, which costs a request for each thousand objects that are left.
    """
    until = _promised(swept)
    if swept is not None and until is not None and now < until and not any(left_by_sweep(swept)):
        return outcomes_of(swept).get("deleted", (0, 0))
    return total(
        (batch.num_rows, pc.sum(batch.column("size_bytes")).as_py() or 0)
        for batch in store.list(lakegc_keys.in_quarantine(key))
    )


def _verdict(store: ObjectStore, key: RunKey) -> Verdict | None:
    where = lakegc_keys.verdict_key(key)
    try:
        return Verdict.from_json(store.read(where), name=where)
    except NotFoundError:
        return None


def _slices(store: ObjectStore, key: RunKey) -> Manifest | None:
    """Return the manifest of the first table; None if there is none."""
    try:
        return load_table(store, tables.NAMESPACE_SLICES, key).manifest
    except ChainError:
        return None


def _swept(store: ObjectStore, key: RunKey) -> Manifest | None:
    try:
        return load_table(store, tables.DELETION_REPORT, key).manifest
    except ChainError as missing:
        if isinstance(missing.__cause__, NotFoundError):
            return None
        raise


def restored(store: ObjectStore, key: RunKey) -> dict[str, int]:
    """Return the addresses that restores of a run brought back, with their bytes."""
    keys = [
        name
        for batch in store.list(f"{lakegc_keys.RESTORES}run_id={key}/")
        for name in batch.column("key").to_pylist()
        if name.endswith(".parquet")
    ]
    return {
        row["address"]: row["size_bytes"]
        for name in keys
        for batch in store.read_parquet(name)
        for row in batch.to_pylist()
        if row["outcome"] == "restored"
    }


def refusals(runs: Sequence[PastRun]) -> Counter[str]:
    """Count the runs that each check refuses."""
    return Counter(name for run in runs for name in run.refused)
