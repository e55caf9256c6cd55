"""The check that compares a mark with the last run that passed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spark_core import lakegc_keys
from spark_core.checks.result import CheckResult, Manifests, confirmed_or, share
from spark_core.errors import CorruptTableError, NotFoundError, VerdictError
from spark_core.model import RunKey
from spark_core.records import confirmation, tables
from spark_core.records.figures import ExpiredFigures, ListedFigures
from spark_core.records.verdict_document import Verdict
from spark_core.run import Run

# Commits come and go in bursts. With fewer commits than this, a drop by half is no sign of
# anything.
FROM_COMMITS = 100

_NAME = "nothing_changed_suddenly"
_TABLE = "expired_addresses"


@dataclass(frozen=True)
class _Past:
    """The last run that passed or was confirmed, if any, and the newer runs that were skipped."""

    run: str | None = None
    standing: Mapping[str, int] | None = None
    not_passed: int = 0
    not_comparable: int = 0
    damaged: tuple[str, ...] = ()


def standing(manifests: Manifests) -> dict[str, int]:
    """Return the figures of a mark that later runs are compared with."""
    expired = ExpiredFigures.of(manifests[_TABLE])
    # Where the run stays within a mark of lakeFS's own job: what lakegc alone would let go.
    within = expired.reference
    return {
        "listed_objects": ListedFigures.of(manifests["namespace_slices"]).all_objects,
        "live_objects": expired.live_objects,
        "retained_commits": manifests["retained_commits"].rows,
        "expired_objects": expired.expired_objects if within is None else within.eligible_objects,
    }


def nothing_changed_suddenly(run: Run, manifests: Manifests) -> CheckResult:
    """The figures of the mark did not change suddenly since the last run that passed.

    Listed objects, live objects and retained commits must not drop. The share that would go must
    not jump.

    A listing of another place, rules that lost a digit and a branch list that broke off can each
    pass every other check. The baseline is the last run of the same instance that passed or was
    confirmed. A refused run is no baseline, because marking twice would then be enough to pass. The
    objects that the baseline run named may be missing from the listing now.
    """
    now, past = standing(manifests), _last(run)
    options = run.options
    drop, rise, floor = (
        options.max_sudden_drop,
        options.max_expired_rise,
        options.share_from_objects,
    )
    changes = [] if past.standing is None else _changes(run, now, past.standing)
    if past.damaged:
        summary = (
            "the verdict of an earlier run cannot be read, so what changed since is unknown: "
            f"{'; '.join(past.damaged)}. Bring that file back, or take it away if its run no "
            "longer matters, and mark again under a new run key."
        )
    elif past.standing is None:
        summary = (
            "no earlier run of this repository passed, so there is nothing to compare with"
            + (
                f" ({past.not_comparable} are of another instance or an earlier lakegc)"
                if past.not_comparable
                else ""
            )
        )
    elif changes:
        summary = (
            f"since run {past.run}: {'; '.join(changes)}. Find out why (rules, branches, the "
            "store's settings); if it is right, confirm it by name (`lakegc confirm "
            f"{run.repository.id} {_NAME} --run {run.key}`) and sweep."
        )
    else:
        summary = (
            f"run {past.run} is the baseline: it listed {past.standing['listed_objects']} objects, "
            f"this run listed {now['listed_objects']}"
        )
    return CheckResult(
        _NAME,
        _TABLE,
        not changes and not past.damaged,
        summary,
        {
            "compared_with": past.run or "nothing",
            "now": now,
            "then": dict(past.standing or {}),
            "max_sudden_drop": drop,
            "max_expired_rise": rise,
            "share_from_objects": floor,
            "runs_not_passed_since": past.not_passed,
            "runs_not_comparable": past.not_comparable,
        },
        limit=f"a drop by {drop:.0%} of listed objects, live objects or (from {FROM_COMMITS} on) "
        f"retained commits; a share to go that is {rise:.0%} larger; from {floor:,} objects on",
        lifted_by=confirmed_or("max_sudden_drop or max_expired_rise", run, _NAME),
    )


def _changes(run: Run, now: Mapping[str, int], then: Mapping[str, int]) -> list[str]:
    options = run.options
    if max(now["listed_objects"], then["listed_objects"]) < options.share_from_objects:
        return []
    found = []
    # The objects that the earlier run named may have been swept since.
    least = {
        "listed_objects": max(0, then["listed_objects"] - then["expired_objects"]),
        "live_objects": then["live_objects"],
        "retained_commits": then["retained_commits"]
        if then["retained_commits"] >= FROM_COMMITS
        else 0,
    }
    for figure, expected in least.items():
        if now[figure] < expected * (1 - options.max_sudden_drop):
            found.append(
                f"{figure.replace('_', ' ')} dropped from {then[figure]} to {now[figure]}, by more "
                f"than {options.max_sudden_drop:.0%}"
            )
    shares = [
        share(figures["expired_objects"], figures["listed_objects"]) for figures in (then, now)
    ]
    if shares[1] - shares[0] > options.max_expired_rise:
        found.append(
            f"the share that would go rose from {shares[0]:.1%} to {shares[1]:.1%}, by more than "
            f"{options.max_expired_rise:.0%}"
        )
    return found


def _last(run: Run) -> _Past:
    """Search the earlier runs, newest first, for one that passed or was confirmed."""
    not_passed = not_comparable = 0
    run.marked[:] = _marked(run)
    for key in (key for key in run.marked if key < run.key):
        where = lakegc_keys.verdict_key(key)
        try:
            verdict = run.documents.get(where)
            if verdict is None:
                verdict = Verdict.from_json(run.store.read(where), name=where)
            if verdict.instance != run.instance:
                not_comparable += 1
            elif _accepted(run, key, verdict):
                return _Past(str(key), verdict.standing, not_passed, not_comparable)
            else:
                not_passed += 1
        except NotFoundError:
            not_passed += 1  # its mark did not end
        except VerdictError:
            not_comparable += 1
        except CorruptTableError as damaged:
            return _Past(None, None, not_passed, not_comparable, damaged=(damaged.found,))
    return _Past(None, None, not_passed, not_comparable)


def _marked(run: Run) -> list[RunKey]:
    """Return the runs that may have expired addresses, newest first.

    An optimized mark knows the newer ones than its base, and the base is the baseline.
    """
    if run.is_of_this_process and run.earlier:
        listed = run.load(tables.NAMESPACE_SLICES).manifest
        if ListedFigures.of(listed).base is not None:
            return run.earlier
    return tables.runs(run.store)


def _accepted(run: Run, key: RunKey, verdict: Verdict) -> bool:
    return all(
        confirmation.covers(run.store, key, verdict.digest, check) for check in verdict.failed
    )
