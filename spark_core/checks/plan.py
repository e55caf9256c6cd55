"""Checks of the result: in which order it was made, and what would go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_core.checks.result import CheckResult, Manifests, confirmed_or, setting, share
from spark_core.errors import ChainError
from spark_core.plain_text import bytes_text
from spark_core.run import Run, chain

_TABLE = "expired_addresses"

# Of what nothing reaches so much (0 to 1) may wait for want of calls before a check says so.
MOST_WAITING = 0.01


def tables_were_made_in_order(run: Run, manifests: Manifests) -> CheckResult:
    """Listing, staged, commits, committed: one after the other, each from the one before (safety 6, 27)."""
    expired = manifests[_TABLE]
    try:
        chain.require_unbroken(run, [manifest for name, manifest in manifests.items() if name != expired.table])
        stale = [name for name, digest in expired.parents.items() if manifests[name].sha256 != digest]
        problem = (
            f"expired_addresses was made from another attempt of {', '.join(stale)}. Materialize it again."
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
        limit="each table made from the one before, after it had ended",
    )


def mark_is_recent(run: Run, manifests: Manifests) -> CheckResult:
    """The first of the tables was begun not long ago: its age is that of the mark (safety 38)."""
    began = min(manifest.reading_began for manifest in manifests.values())
    age, limit = run.now() - began, run.options.max_mark_age
    return CheckResult(
        "mark_is_recent",
        _TABLE,
        age <= limit,
        f"the mark was begun at {began.isoformat()}"
        if age <= limit
        else f"the mark was begun at {began.isoformat()}, which is {age} ago (at most {limit} is accepted): objects may have "
        "come back to life since. Mark again under a new run key.",
        {"began": began.isoformat(), "age_seconds": age.total_seconds(), "max_mark_age_seconds": limit.total_seconds()},
        limit=f"{limit} from the beginning of the first reading on",
        lifted_by=setting("max_mark_age_days"),
    )


def only_data_expires(run: Run, manifests: Manifests) -> CheckResult:
    """Nothing outside `data/` would go but flat names that were asked for, and nothing that is not lakeFS's (safety 7, 39)."""
    facts = manifests[_TABLE].facts
    elsewhere, others = facts.get("not_collectable", 0), facts.get("not_of_lakefs", 0)
    place = "data/ or are flat names" if run.options.flat else "data/"
    problems = [
        *([f"{elsewhere} objects that would go do not lie under {place}"] if elsewhere else ()),
        *(
            [f"{others} objects that would go were not named by lakeFS or are older than the repository"]
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
        else f"all that would go lie under {place}",
        {"not_collectable": elsewhere, "not_of_lakefs": others},
        limit=f"no object outside {place}; no stranger and nothing inherited where the settings keep them",
    )


def only_old_objects_expire(run: Run, manifests: Manifests) -> CheckResult:
    """Nothing written at or after the cutoff would go (safety 6)."""
    young = manifests[_TABLE].facts.get("too_young", 0)
    cutoff, now = manifests["namespace_slices"].facts["cutoff"], run.cutoff.isoformat()
    passed = young == 0 and cutoff == now
    return CheckResult(
        "only_old_objects_expire",
        _TABLE,
        passed,
        f"all that would go were written before {cutoff}"
        if passed
        else f"{young} objects that would go were written at or after the cutoff {cutoff} (this run's cutoff is {now}). "
        "Report it with this run's manifest.",
        {"too_young": young, "cutoff": cutoff},
        limit=f"no object written at or after {cutoff}",
        lifted_by=f"setting min_age_hours ({run.options.min_age} now) moves the cutoff of the next mark",
    )


def live_objects_are_listed(run: Run, manifests: Manifests) -> CheckResult:
    """What heads and staged entries reach is in the listing, but for a few that are lost or never existed (safety 5)."""
    listed = manifests["namespace_slices"].facts.get("objects", 0)
    facts = manifests[_TABLE].facts
    live, missing = facts["live_objects"], facts["missing_objects"]
    retained = manifests["committed_addresses"].facts.get("in_data", 0)
    found = share(missing, live)
    limit = run.options.max_missing_share
    empty = listed == 0 and (live > 0 or retained > 0)
    too_many = live >= run.options.share_from_objects and found > limit
    if empty:
        summary = (
            f"the listing of {run.store.root}data/ is empty, although {max(live, retained)} retained or staged addresses "
            "lie in it: this is not the place where the objects are. Check the store's settings "
            "(path, bucket, endpoint) with a look at one object's physical address."
        )
    elif too_many:
        summary = (
            f"{missing} of {live} objects that branches reach are not in the listing ({found:.1%}, limit {limit:.1%}), "
            f"for example {facts['missing_named'][0]}. {facts.get('missing_table') or 'The table'} names all of "
            "them: look for them; if they are lost for good, raise max_missing_share and mark under a new run key."
        )
    else:
        summary = f"{live - missing} of {live} objects that branches reach are in the listing"
        if missing:
            summary += f"; the others are named in {facts.get('missing_table') or 'the figures'}"
    return CheckResult(
        "live_objects_are_listed",
        _TABLE,
        not (empty or too_many),
        summary,
        {
            "listed": listed,
            "live": live,
            "missing": missing,
            "missing_share": found,
            "max_missing_share": limit,
            "share_from_objects": run.options.share_from_objects,
            "missing_named": facts["missing_named"],
            "missing_table": facts.get("missing_table"),
        },
        limit=f"{limit:.1%} of what branches reach, from {run.options.share_from_objects:,} on; never an empty listing",
        lifted_by=f"{setting('max_missing_share')}; nothing lifts an empty listing",
    )


def hidden_entries_were_asked(run: Run, manifests: Manifests) -> CheckResult:
    """Hardly anything is kept only because branches could not be asked whether they read from it (safety 44).

    It does not stand in the way of a sweep: what could not be asked about is kept.
    """
    found = manifests[_TABLE].facts.get("twins", {})
    waiting, of, size = (found.get(name, 0) for name in ("unchecked_objects", "candidates", "unchecked_bytes"))
    passed = share(waiting, of) <= MOST_WAITING
    summary = waiting_words(found) or f"branches were asked about all that might hide of {of:,} objects"
    without = found.get("without_bound", {})
    return CheckResult(
        "hidden_entries_were_asked",
        _TABLE,
        passed,
        summary,
        {
            "waiting_objects": waiting,
            "waiting_bytes": size,
            "waiting_share": share(waiting, of),
            "of_objects": of,
            **{
                name: found.get(name, 0)
                for name in ("calls", "objects_asked", "planned_calls", "twin_calls", "branches", "branches_asked")
            },
            "branches_without_bound": dict(without),
            "hidden_entries": run.options.hidden_entries,
        },
        limit=f"{MOST_WAITING:.0%} of what nothing reaches; above it the mark can be swept all the same",
        lifted_by=setting("twin_calls"),
    )


def waiting_words(twins: Mapping[str, Any]) -> str:
    """Say how much waits because branches could not be asked, and what lets it go; empty for nothing.

    Args:
        twins: Figures of the search for hidden entries.
    """
    waiting = twins.get("unchecked_objects", 0)
    if not waiting:
        return ""
    planned, limit = twins.get("planned_calls", 0), twins.get("twin_calls", 0)
    made = twins.get("calls", 0) + twins.get("objects_asked", 0)
    wait = (
        f"{waiting:,} object{'' if waiting == 1 else 's'} ({bytes_text(twins['unchecked_bytes'])}) "
        f"wait{'s' if waiting == 1 else ''}, because a branch may read from {'it' if waiting == 1 else 'them'}"
    )
    enough = f" (to about {planned:,})" if planned > limit else ""
    helps = []
    if planned > limit or made >= limit:
        helps.append((f"twin_calls = {limit:,} did not suffice to ask", f"raise twin_calls{enough}"))
    # A mark of an earlier version does not tell.
    if twins.get("is_held_up") or not helps:
        helps.append(("paths that are no UTF-8 hold up its listing", "rename those paths"))
    causes, ways = (" and ".join(words) for words in zip(*helps, strict=True))
    return f"{wait} and {causes}: {ways} and mark under a new run key"


def expired_share_is_plausible(run: Run, manifests: Manifests) -> CheckResult:
    """Not more than the limit's share of the objects, nor of the bytes, would go."""
    listing, expired = manifests["namespace_slices"].facts, manifests[_TABLE].facts
    objects, size = expired.get("expired_objects", 0), expired.get("expired_bytes", 0)
    listed, listed_bytes = listing.get("objects", 0), listing.get("object_bytes", 0)
    of_objects, of_bytes = share(objects, listed), share(size, listed_bytes)
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
            else f", above the limit of {limit:.1%}. Read the report; if it is right, as the first run of an old "
            f"repository may well be, confirm it by name (`lakegc confirm {run.repository.id} expired_share_is_plausible --run "
            f"{run.key}`) and sweep, or raise max_expired_share and mark under a new run key."
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
