"""Checks of table 5: made in order, recent, and what would go."""

from __future__ import annotations

from spark_core.checks.result import CheckResult, Manifests, confirmed_or, setting, share
from spark_core.errors import ChainError
from spark_core.fates import Fate
from spark_core.plain_text import bytes_text, counted, span_text
from spark_core.records import tables
from spark_core.records.figures import (
    ExpiredFigures,
    ListedFigures,
    TwinFigures,
)
from spark_core.records.manifest import ENCLOSED
from spark_core.run import Run, chain

_TABLE = "expired_addresses"

# Largest share (0 to 1) of the unreachable objects that may stay unchecked; above it, the check
# fails.
MOST_WAITING = 0.01


def tables_were_made_in_order(run: Run, manifests: Manifests) -> CheckResult:
    """Each table was made after and from the one before it (safety 6, 27).

    The order is listing, staged entries, commits, committed addresses.
    """
    expired = manifests[_TABLE]
    try:
        chain.require_unbroken(
            run, [manifest for name, manifest in manifests.items() if name != expired.table]
        )
        stale = [
            name for name, digest in expired.parents.items() if manifests[name].sha256 != digest
        ]
        problem = (
            f"expired_addresses was made from another attempt of {', '.join(stale)}. Materialize "
            "it again."
            if stale
            else ""
        )
    except ChainError as refusal:
        problem = str(refusal)
    return CheckResult(
        "tables_were_made_in_order",
        expired.table,
        not problem,
        problem or "the chain of tables is unbroken",
        {"manifests": {name: manifest.sha256 for name, manifest in manifests.items()}},
        limit="each table is made from the one before it, after that one ended",
    )


def mark_is_recent(run: Run, manifests: Manifests) -> CheckResult:
    """The first table was begun recently; its age is the age of the mark (safety 38)."""
    began = min(manifest.reading_began for manifest in manifests.values())
    age, limit = run.now() - began, run.options.max_mark_age
    return CheckResult(
        "mark_is_recent",
        _TABLE,
        age <= limit,
        f"the mark was begun at {began.isoformat()}"
        if age <= limit
        else f"the mark was begun at {began.isoformat()}, {span_text(age)} before this check (at "
        f"most {span_text(limit)} is accepted): objects may have come back to life since. Mark "
        "again under a new run key.",
        {
            "began": began.isoformat(),
            "age_seconds": age.total_seconds(),
            "max_mark_age_seconds": limit.total_seconds(),
        },
        limit=f"{span_text(limit)} since the first reading began",
        lifted_by=setting("max_mark_age_days"),
    )


def plan_is_a_selection_of_fates(run: Run, manifests: Manifests) -> CheckResult:
    """What may go is what the stored fates of all listed objects let go, no more and no less."""
    del run
    table = manifests[_TABLE]
    amounts = ExpiredFigures.of(table).by_fate
    is_stored = tables.FATES.name in table.facts.get(ENCLOSED, {})
    may_go = sum(objects for fate, (objects, _) in amounts.items() if Fate(fate).may_go)
    if not is_stored:
        problem = "the fates of the objects are not stored. Mark again under a new run key."
    elif may_go != table.rows:
        problem = (
            f"the fates let {may_go} objects go, and the table names {table.rows}. Report it with "
            "this run's manifest."
        )
    else:
        problem = ""
    return CheckResult(
        "plan_is_a_selection_of_fates",
        _TABLE,
        not problem,
        problem or f"the fates of all listed objects let {may_go} go, and the table names them",
        {"may_go": may_go, "named": table.rows},
        limit="one fate for each listed object; the table names those that their fates let go",
    )


def only_data_expires(run: Run, manifests: Manifests) -> CheckResult:
    """Only lakeFS's own data would go (safety 7, 39).

    That is objects below `data/`, and flat names where the options ask for them.
    """
    figures = ExpiredFigures.of(manifests[_TABLE])
    elsewhere, others = figures.not_collectable, figures.not_of_lakefs
    place = "data/ or are flat names" if run.options.flat else "data/"
    problems = [
        *([f"{elsewhere} objects that would go do not lie under {place}"] if elsewhere else ()),
        *(
            [
                (
                    f"{others} objects that would go were not named by lakeFS or are older than "
                    "the repository"
                )
            ]
            if others
            else ()
        ),
    ]
    return CheckResult(
        "only_data_expires",
        _TABLE,
        not problems,
        f"{'; '.join(problems)}. Report it with this run's manifest."
        if problems
        else f"all objects that would go lie under {place}",
        {"not_collectable": elsewhere, "not_of_lakefs": others},
        limit=f"no object outside {place}; no stranger and nothing inherited where the settings "
        "keep them",
    )


def only_old_objects_expire(run: Run, manifests: Manifests) -> CheckResult:
    """Nothing written at or after the cutoff would go (safety 6)."""
    young = ExpiredFigures.of(manifests[_TABLE]).too_young
    cutoff, now = ListedFigures.of(manifests["namespace_slices"]).cutoff, run.cutoff.isoformat()
    passed = young == 0 and cutoff == now
    return CheckResult(
        "only_old_objects_expire",
        _TABLE,
        passed,
        f"all objects that would go were written before {cutoff}"
        if passed
        else f"{young} objects that would go were written at or after the cutoff {cutoff} (this "
        f"run's cutoff is {now}). Report it with this run's manifest.",
        {"too_young": young, "cutoff": cutoff},
        limit=f"no object written at or after {cutoff}",
        lifted_by=f"setting min_age_hours ({run.options.min_age} now) moves the cutoff of the next "
        "mark",
    )


def hidden_entries_were_asked(run: Run, manifests: Manifests) -> CheckResult:
    """Few objects are kept only because branches could not be asked about them (safety 44).

    This check does not stop a sweep, because the objects in question are kept.
    """
    found = ExpiredFigures.of(manifests[_TABLE]).twins
    waiting, of = found.unchecked_objects, found.candidates
    passed = share(waiting, of) <= MOST_WAITING
    summary = (
        waiting_words(found)
        or f"branches were asked about every object that they might hide ({of:,} unreachable ones)"
    )
    return CheckResult(
        "hidden_entries_were_asked",
        _TABLE,
        passed,
        summary,
        {
            "waiting_objects": waiting,
            "waiting_bytes": found.unchecked_bytes,
            "waiting_share": share(waiting, of),
            "of_objects": of,
            **{
                name: getattr(found, name)
                for name in (
                    "calls",
                    "objects_asked",
                    "planned_calls",
                    "twin_calls",
                    "branches",
                    "branches_asked",
                )
            },
            "branches_without_bound": dict(found.without_bound),
            "hidden_entries": run.options.hidden_entries,
        },
        limit=f"{MOST_WAITING:.0%} of the unreachable objects; a mark above it can still be swept",
        lifted_by=setting("twin_calls"),
    )


def waiting_words(twins: TwinFigures) -> str:
    """Say how many objects are kept because branches were not asked, and what lets them go.

    Args:
        twins: Figures of the search for hidden entries.

    Returns:
        A sentence; empty if there are none.
    """
    waiting = twins.unchecked_objects
    if not waiting:
        return ""
    planned, limit = twins.planned_calls, twins.twin_calls
    made = twins.calls + twins.objects_asked
    wait = (
        f"{counted(waiting, 'object')} ({bytes_text(twins.unchecked_bytes)}) "
        f"wait{'s' if waiting == 1 else ''}, because a branch may read from "
        f"{'it' if waiting == 1 else 'them'}"
    )
    enough = f" (to about {planned:,})" if planned > limit else ""
    helps = []
    if planned > limit or made >= limit:
        helps.append(
            (f"twin_calls = {limit:,} did not suffice to ask", f"raise twin_calls{enough}")
        )
    if twins.is_late:
        helps = [("the time for asking (twin_time_minutes) was over", "raise twin_time_minutes")]
    if twins.is_held_up or not helps:
        helps.append(("paths that are not UTF-8 block its listing", "rename those paths"))
    causes, ways = (" and ".join(words) for words in zip(*helps, strict=True))
    return f"{wait} and {causes}: {ways} and mark under a new run key"


def expired_share_is_plausible(run: Run, manifests: Manifests) -> CheckResult:
    """No larger share of the objects, or of the bytes, would go than the limit allows."""
    listing = ListedFigures.of(manifests["namespace_slices"])
    expired = ExpiredFigures.of(manifests[_TABLE])
    objects, size, listed = expired.expired_objects, expired.expired_bytes, listing.objects
    of_objects, of_bytes = share(objects, listed), share(size, listing.object_bytes)
    limit, floor = run.options.max_expired_share, run.options.share_from_objects
    passed = listed < floor or max(of_objects, of_bytes) <= limit
    lifted_by = confirmed_or("max_expired_share", run, "expired_share_is_plausible")
    return CheckResult(
        "expired_share_is_plausible",
        _TABLE,
        passed,
        f"{objects} of {listed} objects ({of_objects:.1%}) and {of_bytes:.1%} of the bytes would go"
        + (
            ""
            if passed
            else f", above the limit of {limit:.1%}. Read the report; if it is right, as the first "
            "run of an old repository may well be, confirm it by name (`lakegc confirm "
            f"{run.repository.id} expired_share_is_plausible --run {run.key}`) and sweep, or raise "
            "max_expired_share and mark under a new run key."
        ),
        {
            "expired_objects": objects,
            "expired_bytes": size,
            "expired_share": of_objects,
            "expired_bytes_share": of_bytes,
            "max_expired_share": limit,
            "share_from_objects": floor,
        },
        limit=f"{limit:.1%} of the objects and of the bytes, from {floor:,} objects on",
        lifted_by=lifted_by,
    )
