"""The check that compares a mark with the last runs that passed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spark_core import lakegc_keys
from spark_core.checks.result import CheckResult, Manifests, confirmed_or, share
from spark_core.errors import CorruptTableError, NotFoundError, VerdictError
from spark_core.model import RunKey
from spark_core.records import confirmation, tables
from spark_core.records.figures import Collects, ExpiredFigures, ListedFigures
from spark_core.records.verdict_document import Verdict
from spark_core.run import Run

# Commits come and go in bursts. With fewer commits than this, a drop by half is no sign of
# anything.
FROM_COMMITS = 100

_NAME = "nothing_changed_suddenly"
_TABLE = "expired_addresses"

# The name of what would go in the figures that later runs are compared with. Kinds of one name are
# compared: within a mark of lakeFS's own job it is what lakegc alone would let go.
_GOING: Mapping[Collects, str] = {
    "all": "expired_objects",
    "reference mark": "expired_objects",
    "policies": "policy_objects",
}


@dataclass(frozen=True)
class _Baseline:
    """A run that passed or was confirmed.

    Attributes:
        run: Run key.
        standing: Its figures.
        named: Objects that it named, so that its sweep may have taken them since.
    """

    run: str
    standing: Mapping[str, int]
    named: int


@dataclass(frozen=True)
class _Past:
    """What a mark is compared with.

    Attributes:
        last: The last run that passed or was confirmed, of any kind.
        alike: The last one that lets go what this one does.
        not_passed: Newer runs that did not pass.
        not_comparable: Newer runs of another instance or another lakegc.
        damaged: What cannot be read of them.
    """

    last: _Baseline | None = None
    alike: _Baseline | None = None
    not_passed: int = 0
    not_comparable: int = 0
    damaged: tuple[str, ...] = ()


def figures_to_compare(manifests: Manifests) -> dict[str, int]:
    """Return the figures of a mark that later runs are compared with."""
    expired = ExpiredFigures.of(manifests[_TABLE])
    within = expired.reference
    return {
        "listed_objects": ListedFigures.of(manifests["namespace_slices"]).objects,
        "live_objects": expired.live_objects,
        "retained_commits": manifests["retained_commits"].rows,
        _GOING[expired.collects]: expired.expired_objects
        if within is None
        else within.eligible_objects,
    }


def nothing_changed_suddenly(run: Run, manifests: Manifests) -> CheckResult:
    """The figures of the mark did not change suddenly since the last run that passed.

    Listed objects, live objects and retained commits must not drop. The share that would go must
    not jump.

    A listing of another place, rules that lost a digit and a branch list that broke off can each
    pass every other check. The baseline is the last run of the same instance that passed or was
    confirmed. A refused run is no baseline, because marking twice would then be enough to pass. The
    objects that the baseline run named may be missing from the listing now. What would go is
    compared with the last such run of the same kind (safety 61): a run that takes only what
    policies name says nothing about what nothing reaches.
    """
    now = figures_to_compare(manifests)
    going = _GOING[ExpiredFigures.of(manifests[_TABLE]).collects]
    past = _last(run, going)
    drop, rise, floor = (
        run.options.max_sudden_drop,
        run.options.max_expired_rise,
        run.options.share_from_objects,
    )
    changes = _drops(run, now, past.last) + _rise(run, now, past.alike, going)
    return CheckResult(
        _NAME,
        _TABLE,
        not changes and not past.damaged,
        _summary(run, now, past, changes),
        {
            "compared_with": "nothing" if past.last is None else past.last.run,
            "share_compared_with": "nothing" if past.alike is None else past.alike.run,
            "now": now,
            "then": {} if past.last is None else dict(past.last.standing),
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


def _summary(run: Run, now: Mapping[str, int], past: _Past, changes: list[str]) -> str:
    """Say what changed, or what the mark was compared with."""
    if past.damaged:
        return (
            "the verdict of an earlier run cannot be read, so what changed since is unknown: "
            f"{'; '.join(past.damaged)}. Bring that file back, or take it away if its run no "
            "longer matters, and mark again under a new run key."
        )
    if past.last is None:
        incomparable = (
            f" ({past.not_comparable} are of another instance or version of lakegc)"
            if past.not_comparable
            else ""
        )
        return (
            "no earlier run of this repository passed, so there is nothing to compare with"
            f"{incomparable}"
        )
    if changes:
        return (
            f"{'; '.join(changes)}. Find out why (rules, branches, the "
            "store's settings); if it is right, confirm it by name (`lakegc confirm "
            f"{run.repository.id} {_NAME} --run {run.key}`) and sweep."
        )
    return _baseline_words(now, past.last, past.alike)


def _baseline_words(now: Mapping[str, int], last: _Baseline, alike: _Baseline | None) -> str:
    """Name the runs that a mark without sudden changes was compared with."""
    words = (
        f"run {last.run} is the baseline: it listed {last.standing['listed_objects']} objects, "
        f"this run listed {now['listed_objects']}"
    )
    if alike is None:
        return (
            f"{words}; no run of this kind passed before, so there is nothing to compare what "
            "would go with"
        )
    return words if alike == last else f"{words}; what would go is compared with run {alike.run}"


def _drops(run: Run, now: Mapping[str, int], past: _Baseline | None) -> list[str]:
    """Say what dropped since a run of any kind: each reads the same repository."""
    if past is None or _are_few(run, now, past):
        return []
    then = past.standing
    # The objects that the earlier run named may have been swept since.
    least = {
        "listed_objects": max(0, then["listed_objects"] - past.named),
        "live_objects": then["live_objects"],
        "retained_commits": then["retained_commits"]
        if then["retained_commits"] >= FROM_COMMITS
        else 0,
    }
    limit = run.options.max_sudden_drop
    return [
        f"since run {past.run}: {figure.replace('_', ' ')} dropped from {then[figure]} to "
        f"{now[figure]}, by more than {limit:.0%}"
        for figure, expected in least.items()
        if now[figure] < expected * (1 - limit)
    ]


def _rise(run: Run, now: Mapping[str, int], past: _Baseline | None, going: str) -> list[str]:
    """Say how the share that would go rose since a run that lets the same go."""
    if past is None or _are_few(run, now, past):
        return []
    before, after = (
        share(figures[going], figures["listed_objects"]) for figures in (past.standing, now)
    )
    limit = run.options.max_expired_rise
    words = (
        f"since run {past.run}: the share that would go rose from {before:.1%} to {after:.1%}, by "
        f"more than {limit:.0%}"
    )
    return [words] if after - before > limit else []


def _are_few(run: Run, now: Mapping[str, int], past: _Baseline) -> bool:
    most = max(now["listed_objects"], past.standing["listed_objects"])
    return most < run.options.share_from_objects


def _last(run: Run, going: str) -> _Past:
    """Search the earlier runs, newest first, for those that passed or were confirmed.

    Args:
        run: The run.
        going: The figure that a run must have whose share is compared.
    """
    not_passed = not_comparable = 0
    last: _Baseline | None = None
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
                found = _Baseline(str(key), verdict.standing, verdict.expired_objects)
                last = last or found
                if going in verdict.standing:
                    return _Past(last, found, not_passed, not_comparable)
            else:
                not_passed += 1
        except NotFoundError:
            not_passed += 1  # its mark did not end
        except VerdictError:
            not_comparable += 1
        except CorruptTableError as damaged:
            return _Past(last, None, not_passed, not_comparable, damaged=(damaged.found,))
    return _Past(last, None, not_passed, not_comparable)


def _marked(run: Run) -> list[RunKey]:
    """Return the runs that may have expired addresses, newest first.

    An optimized mark knows those that are newer than the one whose index it takes from, and that
    one is the baseline.
    """
    if run.is_of_this_process and run.earlier:
        listed = run.load(tables.NAMESPACE_SLICES).manifest
        if ListedFigures.of(listed).index is not None:
            return run.earlier
    return tables.runs(run.store)


def _accepted(run: Run, key: RunKey, verdict: Verdict) -> bool:
    return all(
        confirmation.covers(run.store, key, verdict.digest, check) for check in verdict.failed
    )
