"""The check of a clean run that compares the optimized runs before it with what it finds."""

from __future__ import annotations

from spark_core.checks.result import CheckResult, Manifests
from spark_core.plain_text import counted
from spark_core.records.figures import AuditFigures, ExpiredFigures, ListedFigures
from spark_core.run import Run

_NAME = "optimized_runs_were_right"


def optimized_runs_were_right(run: Run, manifests: Manifests) -> CheckResult:
    """Nothing that optimized runs deleted since the last clean run is referenced (safety 53).

    A clean run reads everything. An object that it finds alive, and that an optimized run deleted,
    was lost, or somebody has brought back an entry of it since. Where only commits that had expired
    by then had it, the run was right, and the object is counted and named. Otherwise each run is a
    clean one until a person has confirmed that this is understood. Garbage that optimized runs did
    not name is shown, and goes now. So is where the index differs from the listing of this run.
    """
    figures = ExpiredFigures.of(manifests["expired_addresses"])
    found = figures.audit or AuditFigures(runs=())
    index = ListedFigures.of(manifests["namespace_slices"]).index
    if found.alive_objects:
        summary = _alive(run, found)
    elif index is not None:
        summary = (
            f"this run is an optimized one, with the index of run {index.run}: the next clean one "
            "compares what optimized runs deleted"
        )
    elif figures.audit is None:
        summary = "no optimized run was made since the last clean one"
    elif not found.runs:
        summary = "no optimized run has deleted anything since the last clean one"
    else:
        summary = (
            f"nothing that {counted(len(found.runs), 'optimized run')} deleted is referenced "
            f"({counted(found.deleted_objects, 'object')})"
        )
    return CheckResult(
        _NAME,
        "expired_addresses",
        not found.alive_objects,
        summary + ("" if found.alive_objects else _shown(run, figures, found)),
        found.facts(),
        limit="no object that an optimized run deleted is referenced",
        lifted_by=f"`lakegc confirm {run.repository.id} {_NAME} --run {run.key}`",
    )


def _alive(run: Run, found: AuditFigures) -> str:
    return (
        f"{found.alive_objects} objects that optimized runs deleted are referenced, for example "
        f"{found.alive_named[0]} (runs {', '.join(found.runs)}), and nothing shows that only "
        "expired commits had them. Find out whether a revert, a cherry-pick or staging has "
        "brought back entries of them since; look at `lakegc explain "
        f"{run.repository.id} {found.alive_named[0]}`, bring back what you can (`lakegc "
        "restore`), and report it with this run's manifests. Then confirm it by name (`lakegc "
        f"confirm {run.repository.id} {_NAME} --run {run.key}`); until then every run is clean."
    )


def _shown(run: Run, figures: ExpiredFigures, found: AuditFigures) -> str:
    """Say what fails nothing."""
    words = ""
    if found.brought_back_objects:
        words += (
            f", but for {found.brought_back_objects} brought back from expired commits since, "
            f"{found.brought_back_named[0]} among them: it is gone for whoever reads it, and "
            f"`lakegc explain {run.repository.id} {found.brought_back_named[0]}` says which commit "
            "had it and what can bring it back"
        )
    if found.runs and found.missed_objects is None:
        words += (
            "; whether the last of them named all that may go is not known: not all can be read"
        )
    elif found.missed_objects:
        words += (
            f"; {found.missed_objects} objects may go that the last of them did not name: "
            "they became garbage since, or the index lacked them"
        )
    compared = figures.compared
    if compared is not None:
        differing = (
            (compared.lacking_objects, "lacked"),
            (compared.extra_objects, "had and that are not there"),
            (compared.other_objects, "had with another size, date or checksum"),
        )
        said = [f"{count} that it {what}" for count, what in differing if count]
        words += (
            f"; of closed slices the index of run {compared.run} had "
            f"{counted(compared.objects, 'object')}"
            + (f", and there are {', '.join(said)}" if said else ", as they are listed")
        )
    return words
