"""Findings of checks that a person confirmed by name.

A confirmation never changes the verdict: it is a document beside it (`records/confirmation.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_core import checks as guards
from spark_core import lakegc_keys
from spark_core.checks import CheckResult
from spark_core.checks.verdict import MARK_AGAIN, load, stored_here
from spark_core.did_you_mean import did_you_mean
from spark_core.errors import ObjectExistsError, VerdictError
from spark_core.model import RunKey
from spark_core.records import confirmation
from spark_core.records.confirmation import Confirmation
from spark_core.records.verdict_document import Verdict
from spark_core.run import Run
from spark_core.storage import ObjectStore


def confirm(run: Run, check: str, *, who: str) -> Confirmation:
    """Record that a finding of a check is right, so that the mark may be swept all the same.

    The verdict does not change. The confirmation names the verdict's digest, so it holds only for
    this mark. If the finding was confirmed before, the first confirmation stands.

    Args:
        run: The run; it must have a verdict.
        check: Name of a check that did not pass, one of `guards.CONFIRMABLE`.
        who: Account and machine, for the record.

    Raises:
        VerdictError: If there is no verdict, the check passed, or a person may not confirm this
            check.
        CorruptTableError: If the verdict is not as it was written.
    """
    verdict = load(run)
    finding = _finding(run, verdict, check)
    written = Confirmation(
        repository=run.repository.id,
        run=str(run.key),
        check=check,
        verdict=verdict.digest,
        found=str(finding["summary"]),
        who=who,
        confirmed_at=run.now(),
    )
    try:
        run.store.put_if_absent(lakegc_keys.confirmation_key(run.key, check), written.to_json())
    except ObjectExistsError:
        earlier = confirmation.load(run.store, run.key, check)
        if earlier is None or earlier.verdict != verdict.digest:
            raise VerdictError(
                f"{lakegc_keys.confirmation_key(run.key, check)} confirms another verdict "
                f"than the one of run {run.key}",
                MARK_AGAIN,
            ) from None
        return earlier
    return written


def _finding(run: Run, verdict: Verdict, check: str) -> Mapping[str, Any]:
    """Return the failed result of a check that a person may confirm.

    Raises:
        VerdictError: If the check passed, or a person may not confirm it.
    """
    failed = {str(found["name"]): found for found in verdict.failed}
    names = {name for name, _, _ in guards.CHECKS}
    if check not in names:
        raise VerdictError(
            f"there is no check {check}",
            did_you_mean(check, {*names, "policy_is_confirmed", "removal", "branches"})
            or f"Those that can be confirmed are {', '.join(sorted(guards.CONFIRMABLE))}.",
        )
    if check not in guards.CONFIRMABLE:
        lifted_by = failed.get(check, {}).get("lifted_by", guards.NOTHING_LIFTS_IT)
        raise VerdictError(
            f"{check} is not a check that can be confirmed (those are "
            f"{', '.join(sorted(guards.CONFIRMABLE))})",
            f"What lifts it: {lifted_by}.",
        )
    if check not in failed:
        raise VerdictError(
            f"{check} passed in the mark of run {run.key} of {run.repository.id}: there is nothing "
            "to confirm",
            f"What the mark found is in its report (`lakegc report {run.repository.id} --run "
            f"{run.key}`); if a sweep refuses it now, a limit became stricter since: mark again "
            "under a new run key.",
        )
    return failed[check]


def confirmed_checks(run: Run, verdict: Verdict) -> frozenset[str]:
    """Return the names of failed checks whose findings were confirmed for this very verdict.

    Raises:
        CorruptTableError: If a confirmation is not as it was written.
    """
    still = {str(check["name"]) for check in refusing(run.store, run.key, verdict)}
    return frozenset(str(check["name"]) for check in verdict.failed) - still


def refusing(store: ObjectStore, key: RunKey, verdict: Verdict) -> list[Mapping[str, Any]]:
    """Return the failed checks of a mark whose findings nobody confirmed for this very verdict.

    Raises:
        CorruptTableError: If a confirmation is not as it was written.
    """
    return [
        check
        for check in verdict.failed
        if check["name"] not in guards.CONFIRMABLE
        or not confirmation.covers(store, key, verdict.digest, check)
    ]


def confirmed_results(run: Run) -> list[CheckResult]:
    """Return the check results of a run's stored verdict; a confirmed finding counts as passed.

    The function decides nothing and writes nothing.

    Raises:
        VerdictError: If there is no verdict, or it is of another format.
        CorruptTableError: If the verdict or a confirmation is not as it was written.
    """
    verdict = stored_here(run)
    confirmed = confirmed_checks(run, verdict)
    return [_as_result(check, confirmed=check["name"] in confirmed) for check in verdict.checks]


def _as_result(check: Mapping[str, Any], *, confirmed: bool) -> CheckResult:
    words = f"confirmed by name: {check['summary']}" if confirmed else check["summary"]
    return CheckResult(
        **{
            "figures": {},
            "table": "",
            **check,
            "passed": check["passed"] or confirmed,
            "summary": words,
        }
    )
