"""Whether the last holder of the lease has ended, and who may go on after one that did not say so.

Nobody goes on before the lease of a holder that did not release it has run out, with one exception.
Who may go on then:

* The same run doing the same work. The command names the run. Where the kernel of the machine that
  both ran on knows that none of the holder's processes is left (`processes`), it need not wait for
  the end of the lease: only for what they had sent, as long as they themselves would have waited
  for an answer, and half a minute; for nothing on a disk of this machine. Others wait as ever, also
  for what that holder had sent.
* Anything else only with `take_over` naming the dead run: somebody must have looked why it died.
* Anybody, if the holder ended by itself, or did house-keeping or undid a removal, which nobody has
  to finish.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from spark_core import lakegc_keys
from spark_core.clocks import MAX_CLOCK_SKEW
from spark_core.errors import LeaseHeldError, SameWorkError
from spark_core.lock import processes
from spark_core.lock.lease_log import LeaseRecord, Owner
from spark_core.run import Run

# No settings make a lease good for longer (`lease_ttl_seconds`). It matters only if a clock was
# ahead.
LONGEST_TTL = timedelta(hours=1)
# Instants are shown in whole seconds, and nobody is told one that is too early.
_ALMOST_A_SECOND = timedelta(microseconds=999_999)
# Added to the longest time for which a request may be under way.
_REQUEST_MARGIN = timedelta(seconds=30)


def require_ended(run: Run, last: LeaseRecord, owner: Owner, take_over: str | None) -> None:
    """Refuse while the last holder may be at work, or somebody has to look at it first.

    Args:
        run: The run that wants the lease.
        last: The last record of the newest log.
        owner: Who wants it.
        take_over: Key of the dead run whose lease may be taken over.

    Raises:
        LeaseHeldError: With who has it, and what to do.
    """
    if last.under_way_until is None:
        return
    until, now = last.under_way_until, run.now()
    same = owner.does_the_same_as(last.owner)
    from_then_on = until + MAX_CLOCK_SKEW
    left = _left_to_wait(run, last) if same else None
    if left is not None:
        from_then_on = min(from_then_on, now + left)
    needs_a_name = _needs_a_name(last, same=same)
    by_name = f"take it over by name with --take-over {last.owner.run}"
    if now < from_then_on:
        why = _why_under_way(last, may_live=left is None)
        if left is None and _is_beyond_any_lease(run, until, now):
            raise not_free(run, last, why, _clock_was_ahead(until))
        at = f"at {in_seconds(from_then_on + _ALMOST_A_SECOND)} or later"
        what = f"Run again {at}."
        if left is None and last.state == "held":
            next_step = by_name if needs_a_name else "run again"
            what = f"Wait until it has ended. If it is dead: {at}, {next_step}."
        raise not_free(run, last, why, what, same=same)
    if needs_a_name and take_over != last.owner.run:
        named = (
            ""
            if take_over is None
            else f", and it is not run {take_over}, the one to be taken over"
        )
        raise not_free(
            run,
            last,
            f"its lease ran out at {in_seconds(last.expires_at)}, so it died or "
            f"lost the store{named}",
            "Look at what it left undone; run the same command as it did to finish it, or "
            f"{by_name}.",
        )


def _needs_a_name(last: LeaseRecord, *, same: bool) -> bool:
    """Say whether a person must name the run whose lease ran out while it was held."""
    nobody_waits = last.owner.work in ("prune", "undo")
    return last.state == "held" and not nobody_waits and not same


def _why_under_way(last: LeaseRecord, *, may_live: bool) -> str:
    """Say why the last holder, or what it sent, may be at work still.

    Args:
        last: The last lease.
        may_live: Whether a process of the holder may be left.
    """
    if not may_live:
        return (
            "none of its processes is left on this machine, and what they had sent may be under "
            "way still"
        )
    if last.state == "held":
        return (
            "it renews its lease while it lives, and did so last until "
            f"{in_seconds(last.expires_at)}; clocks may differ by {MAX_CLOCK_SKEW}"
        )
    return "it has ended, and what it or the one before it had sent may be under way still"


def _is_beyond_any_lease(run: Run, until: datetime, now: datetime) -> bool:
    """Say whether a lease ends later than any lease can that was written by a right clock."""
    return until > now + max(LONGEST_TTL, run.options.lease_ttl) + MAX_CLOCK_SKEW


def _clock_was_ahead(until: datetime) -> str:
    return (
        f"No lease is good until {in_seconds(until)}: a clock was ahead when "
        "that was written. Set the clocks right (NTP); once you are sure that nobody "
        f"collects, delete the objects under {lakegc_keys.LEASE}, all of them, and run "
        "again."
    )


def still_waited_for(last: LeaseRecord | None, now: datetime) -> datetime | None:
    """Return until when something of earlier holders is waited for by those who come later."""
    until = None if last is None else last.under_way_until
    return None if until is None or now >= until + MAX_CLOCK_SKEW else until


def _left_to_wait(run: Run, last: LeaseRecord) -> timedelta | None:
    """Return how long what a holder had sent may still be under way, if its processes are gone.

    Returns:
        None if nobody can tell.
    """
    longest = run.store.longest_request
    gone = None if longest is None else processes.ended_for(last.owner.id)
    if longest is None or gone is None:
        return None
    # A call on a disk of this machine has ended with its process.
    longest += _REQUEST_MARGIN if longest else longest
    return max(longest - gone, timedelta())


def not_free(
    run: Run, record: LeaseRecord, why: str, what: str, *, same: bool = False
) -> LeaseHeldError:
    """Return the error that says who has the lease, why it is not free, and what to do.

    Args:
        run: The run that wants it.
        record: The lease.
        why: Why it is not free.
        what: What to do.
        same: Whether its holder does the same work of the same run.
    """
    kind = SameWorkError if same else LeaseHeldError
    return kind(
        f"{run.store.root}: the lease is that of the {record.owner}, since "
        f"{in_seconds(record.since)}: {why}",
        what,
    )


def in_seconds(instant: datetime) -> str:
    """Show an instant in whole seconds."""
    return instant.replace(microsecond=0).isoformat()
