"""The check of a full run that compares the optimized runs before it with what it finds."""

from __future__ import annotations

from spark_core.checks.result import CheckResult, Manifests
from spark_core.plain_text import counted
from spark_core.records.figures import AuditFigures, ExpiredFigures, ListedFigures
from spark_core.run import Run

_NAME = "optimized_runs_were_right"


def optimized_runs_were_right(run: Run, manifests: Manifests) -> CheckResult:
    """Nothing that optimized runs deleted since the last full run is referenced (safety 53).

    A full run reads everything. An object that it finds alive, and that an optimized run deleted,
    was lost, or somebody has brought back an entry of it since. Where only commits that had expired
    by then had it, the run was right, and the object is counted and named. Otherwise each run is a
    full one until a person has confirmed that this is understood. Garbage that optimized runs did
    not name is shown, and goes now.
    """
    found = ExpiredFigures.of(manifests["expired_addresses"]).audit
    base = ListedFigures.of(manifests["namespace_slices"]).base
    if base is not None:
        summary = (
            f"this run is an optimized one, from run {base.run}: the next full one compares what "
            "optimized runs deleted"
        )
    elif found is None:
        summary = "no optimized run was made since the last full one"
    elif not found.runs:
        summary = "no optimized run has deleted anything since the last full one"
    else:
        summary = (
            f"nothing that {counted(len(found.runs), 'optimized run')} deleted is referenced "
            f"({counted(found.deleted_objects, 'object')})"
        )
    if found is not None and found.brought_back_objects:
        summary += (
            f", but for {found.brought_back_objects} brought back from expired commits since, "
            f"{found.brought_back_named[0]} among them: it is gone for whoever reads it, and "
            f"`lakegc explain {run.repository.id} {found.brought_back_named[0]}` says which commit "
            "had it and what can bring it back"
        )
    if found is not None and found.missed_objects:
        summary += (
            f"; {found.missed_objects} objects may go that the last of them did not name: "
            "they became garbage since, or are in slices that it did not list"
        )
    alive = 0 if found is None else found.alive_objects
    if found is not None and alive:
        summary = (
            f"{alive} objects that optimized runs deleted are referenced, for example "
            f"{found.alive_named[0]} (runs {', '.join(found.runs)}), and nothing shows that only "
            "expired commits had them. Find out whether a revert, a cherry-pick or staging has "
            "brought back entries of them since; look at `lakegc explain "
            f"{run.repository.id} {found.alive_named[0]}`, bring back what you can (`lakegc "
            "restore`), and report it with this run's manifests. Then confirm it by name (`lakegc "
            f"confirm {run.repository.id} {_NAME} --run {run.key}`); until then every run is full."
        )
    return CheckResult(
        _NAME,
        "expired_addresses",
        not alive,
        summary,
        (found or AuditFigures(runs=())).facts(),
        limit="no object that an optimized run deleted is referenced",
        lifted_by=f"`lakegc confirm {run.repository.id} {_NAME} --run {run.key}`",
    )
