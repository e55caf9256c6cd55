"""Issue a certificate: read what a run deleted, and ask what still holds the bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from spark_core import __version__, lakegc_keys
from spark_core.certificate.under_prefix import Once, UnderPrefix, under_prefix
from spark_core.checks import verdict
from spark_core.errors import ChainError
from spark_core.model import RunKey
from spark_core.records import reading, tables
from spark_core.records.figures import ListedFigures
from spark_core.records.reading import StoredTable
from spark_core.report.past_runs import outcomes_of, restored
from spark_core.run import Run
from spark_core.storage.after_deletion import AfterDeletion
from spark_core.sweep import quarantine

# Objects of a run that are each looked for once more. For a larger run the report counts.
LOOKED_FOR = 10_000
_AT_ONCE = 16

LIMITS = (
    "Versions and soft delete are stated as they were read when this was issued. Copies outside "
    "the bucket, replicas, backups and snapshots, and what a client downloaded, are unknown to "
    "lakegc."
)
PATH_LIMITS = (
    "Paths are those of every commit of the repository and of every branch now. An upload that was "
    "dropped from its branch before any commit has no path any more, and is not part of this. "
    "Entries that a branch shows are named by their address, so a copy under another path that is "
    "another object is not part of this."
)


@dataclass(frozen=True)
class _Held:
    """What still holds the bytes of a run: sentences, and figures for the file."""

    by: Sequence[str]
    figures: Mapping[str, Any]


def certificate(run: Run, prefix: str | None = None) -> dict[str, Any]:
    """Return the content of a certificate, without seal and signature.

    Args:
        run: The run that was swept.
        prefix: Also state what became of everything that ever had a path under this; not empty.

    Raises:
        ChainError: If the run was never swept, or belongs to another instance of the repository.
        VerdictError: If it has no verdict, or it is of another format.
        LakegcError: If server or store cannot be read; nothing is certified then.
    """
    found = verdict.load(run)
    if not run.store.exists(tables.manifest_key(tables.DELETION_REPORT, run.key)):
        raise ChainError(
            f"run {run.key} of {run.repository.id} was not swept: there is nothing to certify",
            f"`lakegc runs {run.repository.id}` shows which runs were.",
        )
    report = run.load(tables.DELETION_REPORT, anew=True)
    after = run.store.after_deletion()
    held = _held(run, report, after)
    outcomes = outcomes_of(report.manifest)
    content: dict[str, Any] = {
        "lakegc": __version__,
        "issued_at": run.now().isoformat(),
        "repository": run.repository.id,
        "instance": run.instance,
        "namespace": run.repository.storage_namespace,
        "run": str(run.key),
        "gone": not held.by,
        "held_by": list(held.by),
        "statement": _statement(run, outcomes, held.by),
        "outcomes": {name: list(figures) for name, figures in outcomes.items()},
        "after_deletion": {"keeps": after.keeps, "words": after.words},
        "figures": dict(held.figures),
        "rules": found.rules,
        "cutoff": found.cutoff,
        "options": found.options,
        "commits": _commits(found.tables),
        "mark": _mark(run),
        "checks": [
            {name: check.get(name) for name in ("name", "passed", "summary")}
            for check in found.checks
        ],
        "confirmed": sorted(verdict.confirmed_checks(run, found)),
        "tables": {name: dict(each) for name, each in found.tables.items()},
        "verdict": run.store.read(lakegc_keys.verdict_key(run.key)).decode(),
        "deletion_report": run.store.read(
            tables.manifest_key(tables.DELETION_REPORT, run.key)
        ).decode(),
        "limits": LIMITS,
    }
    if prefix is not None:
        content["path"] = path_statement(run, prefix, report, after)
    return content


def _commits(of: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Say which reading of the commits the mark was decided by."""
    table = of[tables.RETAINED_COMMITS.name]
    return {
        "retained": table["rows"],
        "manifest": table["manifest"],
        "read_from": table["reading_began"],
        "read_to": table["reading_ended"],
    }


def _mark(run: Run) -> dict[str, Any]:
    """Say whether the mark read everything, or which verdict its proof goes on from."""
    base = ListedFigures.of(run.load(tables.NAMESPACE_SLICES).manifest).base
    if base is None:
        return {"kind": "full"}
    return {"kind": "optimized", "base": base.run, "verdict_of_base": base.verdict}


def _statement(run: Run, outcomes: Mapping[str, tuple[int, int]], held: Sequence[str]) -> str:
    objects, size = outcomes.get("deleted", (0, 0))
    what = f"{objects:,} objects ({size:,} bytes) that run {run.key} of {run.repository.id} deleted"
    left = sum(outcomes.get(name, (0, 0))[0] for name in ("refused", "failed"))
    more = f" {left:,} others were to go and were not deleted; they are not part of this." * bool(
        left
    )
    if not objects:
        return f"Run {run.key} of {run.repository.id} deleted nothing.{more}"
    if held:
        return f"It is not certain that the {what} are gone: {'; '.join(held)}.{more}"
    return f"The {what} are gone.{more}"


def _held(run: Run, report: StoredTable, after: AfterDeletion) -> _Held:
    """Find what still holds objects that a run deleted."""
    held, figures = list[str](), dict[str, Any]()
    in_quarantine = sum(
        batch.num_rows for batch in run.store.list(lakegc_keys.in_quarantine(run.key))
    )
    figures["in_quarantine"] = in_quarantine
    if in_quarantine:
        until = quarantine.ends_at(report.manifest)
        ends = "" if until is None else f" until {until:%Y-%m-%d %H:%M} UTC"
        held.append(
            f"{in_quarantine:,} lie in quarantine under {lakegc_keys.in_quarantine(run.key)}{ends}"
        )
    back = restored(run.store, run.key)
    figures["restored"] = len(back)
    if back:
        held.append(f"{len(back):,} {'was' if len(back) == 1 else 'were'} restored")
    if after.keeps is not False:
        held.append(_store_words(after))
    figures["looked_for"] = 0
    if report.manifest.rows <= LOOKED_FOR:
        deleted = list(_deleted(report))
        figures["looked_for"] = len(deleted)
        there = _existing(run, deleted)
        figures["found_again"] = len(there)
        if there and not back:
            named = ", ".join(sorted(there)[:3])
            held.append(f"{len(there):,} are in their place again ({named})")
    return _Held(held, figures)


def _store_words(after: AfterDeletion) -> str:
    return (
        after.words if after.keeps else f"it is not known that the store keeps none: {after.words}"
    )


def _deleted(report: StoredTable) -> Iterator[str]:
    for batch in report.batches(["address", "outcome"]):
        for row in batch.to_pylist():
            if row["outcome"] in {"deleted", "already_gone"}:
                yield row["address"]


def _existing(run: Run, keys: Sequence[str]) -> set[str]:
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return {
            key for key, there in zip(keys, pool.map(run.store.exists, keys), strict=True) if there
        }


def path_statement(
    run: Run, prefix: str, report: StoredTable, after: AfterDeletion
) -> dict[str, Any]:
    """State whether everything that ever had a path under a prefix is gone.

    Args:
        run: The run that is certified.
        prefix: Beginning of the paths.
        report: Its deletion report.
        after: What the store says that it keeps.
    """
    found = under_prefix(run, prefix)
    by_this_run = set(found.objects) & set(_deleted(report))
    inside = [address for address, once in found.objects.items() if once.is_inside]
    there, aside = _existing(run, inside), _aside(run, inside)
    objects = [
        _of_object(once, there, aside, after, by_this_run)
        for _, once in sorted(found.objects.items())
    ]
    left = [each for each in objects if not each["gone"]]
    return {
        "prefix": prefix,
        "gone": not left and bool(objects),
        "statement": _path_statement(prefix, found, len(objects), len(left)),
        "objects": objects,
        "commits_read": found.commits,
        "read_at": found.read_at.isoformat(),
        "limits": PATH_LIMITS,
    }


def _path_statement(prefix: str, found: UnderPrefix, objects: int, left: int) -> str:
    read = f"all {found.commits:,} commits and every branch were read"
    if not objects:
        return f"Nothing has or had a path under {prefix!r} ({read})."
    if left:
        return (
            f"{left:,} of {objects:,} objects that have or had a path under {prefix!r} are not "
            f"known to be gone ({read})."
        )
    gone = f"All {objects:,} objects" if objects > 1 else "The one object"
    verb = "are" if objects > 1 else "is"
    return f"{gone} that had a path under {prefix!r} {verb} gone ({read})."


def _aside(run: Run, addresses: Sequence[str]) -> dict[str, RunKey]:
    """Return the addresses that lie in the quarantine of any run, with the run."""
    wanted, found = set(addresses), dict[str, RunKey]()
    for key in quarantine.runs(run.store):
        where = lakegc_keys.in_quarantine(key)
        for batch in run.store.list(where):
            for name in batch.column("key").to_pylist():
                if name.removeprefix(where) in wanted:
                    found[name.removeprefix(where)] = key
    return found


def _of_object(
    once: Once,
    there: set[str],
    aside: Mapping[str, RunKey],
    after: AfterDeletion,
    by_this_run: set[str],
) -> dict[str, Any]:
    by = []
    if not once.is_inside:
        by.append("it lies outside the namespace, where lakegc deletes nothing")
    elif once.address in there:
        by += [f"branch {name}" for name in once.branches]
        if once.kept_by:
            by.append(once.kept_by)
        if not by:
            by.append("nothing refers to it under the prefix any more, and no sweep took it yet")
    if once.address in aside:
        by.append(f"the quarantine of run {aside[once.address]}")
    if once.is_inside and once.address not in there and after.keeps is not False:
        by.append(_store_words(after))
    return {
        "address": once.address,
        "path": once.path,
        "last_commit": None if once.commit is None else once.commit.id,
        "deleted_by_this_run": once.address in by_this_run,
        "gone": not by,
        "held_by": by,
    }


def differences(run: Run, document: Mapping[str, Any]) -> list[str]:
    """Compare a certificate with the store as it is now; empty if it still holds.

    The verdict, the manifest and the parts of the deletion report are read and hashed again, and
    everything that may hold the bytes is asked again.

    Args:
        run: The run of the certificate, opened anew.
        document: The certificate.
    """
    found = []
    for name, key in (
        ("verdict", lakegc_keys.verdict_key(run.key)),
        ("deletion_report", tables.manifest_key(tables.DELETION_REPORT, run.key)),
    ):
        if run.store.read(key).decode(errors="replace") != document[name]:
            found.append(f"{key} is not what the certificate holds")
    if run.instance != document["instance"]:
        found.append(f"the repository is now {run.instance}")
    report = run.load(tables.DELETION_REPORT, anew=True)
    for part in report.manifest.parts:
        for _ in reading.read_part(run.store, tables.DELETION_REPORT.schema, part):
            pass
    after = run.store.after_deletion()
    held = _held(run, report, after)
    if document["gone"]:
        found += held.by
    path = document.get("path")
    if path is not None and path["gone"]:
        now = path_statement(run, path["prefix"], report, after)
        if not now["gone"]:
            found.append(now["statement"])
    return found
