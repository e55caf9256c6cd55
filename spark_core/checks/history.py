"""The check that looks back: what changed suddenly since the last run that passed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_core import layout
from spark_core.checks import confirmation
from spark_core.checks.result import ADVISORY, CheckResult, Manifests, confirmed_or, share
from spark_core.errors import CorruptTableError, NotFoundError, VerdictError
from spark_core.model import RunKey
from spark_core.records import sealed, tables
from spark_core.run import Run

VERDICT_FORMAT = 3
# Compared with, though not swept by: every format of a release (see `sealed`). 3: 0.1.0; 1 and 2 were never released.
VERDICT_FORMATS = (3,)

# Commits come and go in bursts: of fewer than these, half is no sign of anything.
FROM_COMMITS = 100

_NAME = "nothing_changed_suddenly"
_TABLE = "expired_addresses"


@dataclass(frozen=True)
class _Past:
    """The last run that passed or was confirmed, if any, and what was passed over on the way to it."""

    run: str | None = None
    standing: Mapping[str, int] | None = None
    not_passed: int = 0
    not_comparable: int = 0
    damaged: tuple[str, ...] = ()


def standing(manifests: Manifests) -> dict[str, int]:
    """Return the figures of a mark that a later one is compared with."""
    listing, expired = manifests["namespace_slices"].facts, manifests[_TABLE].facts
    # What lakegc would let go by itself, where the run stays within a mark of lakeFS's own job.
    going = expired.get("reference", {}).get("eligible_objects", expired.get("expired_objects", 0))
    return {
        "listed_objects": listing.get("objects", 0),
        "live_objects": expired["live_objects"],
        "retained_commits": manifests["retained_commits"].rows,
        "expired_objects": going,
    }


def nothing_changed_suddenly(run: Run, manifests: Manifests) -> CheckResult:
    """Objects, live objects and retained commits did not drop, nor the share that would go jump, since the last run that passed.

    A listing of another place, rules that lost a digit and a branch list that
    broke off can each pass every other check. Compared is with the last run of
    the same instance that passed or was confirmed; one that was refused is no
    measure, else asking twice would do. What that run itself would delete may
    be missing from the listing now.
    """
    now, past = standing(manifests), _last(run)
    options = run.options
    drop, rise, floor = options.max_sudden_drop, options.max_expired_rise, options.share_from_objects
    changes = [] if past.standing is None else _changes(run, now, past.standing)
    if past.damaged:
        summary = (
            f"the verdict of an earlier run cannot be read, so what changed since is unknown: {'; '.join(past.damaged)}. "
            "Bring that file back, or take it away if its run no longer matters, and mark again under a new run key."
        )
    elif past.standing is None:
        summary = "no earlier run of this repository passed, so there is nothing to compare with" + (
            f" ({past.not_comparable} are of another instance or an earlier lakegc)" if past.not_comparable else ""
        )
    elif changes:
        summary = (
            f"since run {past.run}: {'; '.join(changes)}. Find out why (rules, branches, the store's settings); "
            f"if it is right, confirm it by name (`lakegc confirm {run.repository.id} {_NAME} --run {run.key}`) and sweep."
        )
    else:
        summary = f"compared with run {past.run}: {now['listed_objects']} objects listed, {past.standing['listed_objects']} then"
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
        limit=f"a drop by {drop:.0%} of objects, live objects or (from {FROM_COMMITS} on) retained commits, {rise:.0%} more of the objects "
        f"going; from {floor:,} objects on",
        lifted_by=confirmed_or("max_sudden_drop or max_expired_rise", run, _NAME),
    )


def _changes(run: Run, now: Mapping[str, int], then: Mapping[str, int]) -> list[str]:
    options = run.options
    if max(now["listed_objects"], then["listed_objects"]) < options.share_from_objects:
        return []
    found = []
    # What the earlier run named may have been swept since.
    least = {
        "listed_objects": max(0, then["listed_objects"] - then["expired_objects"]),
        "live_objects": then["live_objects"],
        "retained_commits": then["retained_commits"] if then["retained_commits"] >= FROM_COMMITS else 0,
    }
    for figure, expected in least.items():
        if now[figure] < expected * (1 - options.max_sudden_drop):
            found.append(
                f"{figure.replace('_', ' ')} dropped from {then[figure]} to {now[figure]}, by more than {options.max_sudden_drop:.0%}"
            )
    shares = [share(figures["expired_objects"], figures["listed_objects"]) for figures in (then, now)]
    if shares[1] - shares[0] > options.max_expired_rise:
        found.append(
            f"the share that would go rose from {shares[0]:.1%} to {shares[1]:.1%}, by more than {options.max_expired_rise:.0%}"
        )
    return found


def _last(run: Run) -> _Past:
    """Look from the newest earlier run back for one that passed or was confirmed."""
    not_passed = not_comparable = 0
    for key in (key for key in tables.runs(run.store) if key < run.key):
        where = layout.verdict_key(key)
        try:
            document = sealed.unseal(run.store.read(where), name=where, formats=VERDICT_FORMATS)
            if document["instance"] != run.instance:
                not_comparable += 1
            elif _accepted(run, key, document):
                figures = {name: int(count) for name, count in document["standing"].items()}
                return _Past(str(key), figures, not_passed, not_comparable)
            else:
                not_passed += 1
        except NotFoundError:
            not_passed += 1  # its mark did not end
        except VerdictError:
            not_comparable += 1
        except CorruptTableError as damaged:
            return _Past(None, None, not_passed, not_comparable, damaged=(damaged.found,))
        except (KeyError, TypeError, ValueError) as problem:
            return _Past(None, None, not_passed, not_comparable, damaged=(f"{where}: {problem}",))
    return _Past(None, None, not_passed, not_comparable)


def _accepted(run: Run, key: RunKey, document: Mapping[str, Any]) -> bool:
    digest = sealed.digest(document)
    failed = [check for check in document["checks"] if check["passed"] is not True and check["name"] not in ADVISORY]
    return all(confirmation.covers(run.store, key, digest, check) for check in failed)
