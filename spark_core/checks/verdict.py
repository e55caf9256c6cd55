"""The stored verdict: the results of a mark's checks, bound to the bytes of its tables.

A sweep needs a passed verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from spark_core import __version__, lakegc_keys
from spark_core import checks as guards
from spark_core.checks import CheckResult
from spark_core.checks.history import standing
from spark_core.errors import NotFoundError, ObjectExistsError, VerdictError
from spark_core.model import RunKey
from spark_core.plain_text import span_text
from spark_core.records import confirmation, tables
from spark_core.records.confirmation import Confirmation
from spark_core.records.figures import CommitsFigures, ExpiredFigures, ListedFigures, PolicyFigures
from spark_core.records.manifest import Manifest
from spark_core.records.reading import StoredTable
from spark_core.records.verdict_document import Verdict
from spark_core.run import Run, chain

_WAY_ON = "Mark again under a new run key."
# Begins the name under which a run remembers the verdict that it has stored itself.
_STORED = "stored "


def not_passed(
    repository_id: str, key: RunKey, failing: str, *, has_way_on: bool = False
) -> VerdictError:
    """Make the refusal of a mark whose checks failed.

    Args:
        repository_id: Repository name.
        key: Run key.
        failing: The failed checks and what each found.
        has_way_on: Whether `failing` says how to go on, as a check that can be confirmed does.
    """
    return VerdictError(
        f"the mark of run {key} of {repository_id} did not pass its checks: {failing.rstrip('. ')}",
        ""
        if has_way_on
        else f"Read its report (`lakegc report {repository_id} --run {key}`), mend what the checks "
        "name, and mark again under a new run key.",
    )


def load_mark(run: Run, *, anew: bool = False) -> dict[str, StoredTable]:
    """Read the manifests of a run's five tables, by name.

    Args:
        run: The run.
        anew: As for `Run.load`.

    Raises:
        ChainError: If a table is missing or belongs to another instance of the repository.
    """
    return {spec.name: run.load(spec, anew=anew) for spec in tables.MARK_TABLES}


def conclude(run: Run) -> tuple[Verdict, list[CheckResult]]:
    """Check a whole mark and store the verdict, passed or not; this closes the run.

    Called again for a run that has a verdict, it returns the stored verdict with the checks'
    present results.

    Args:
        run: The run; its five tables must be stored.

    Returns:
        The verdict as stored, and the results of the checks.

    Raises:
        ChainError: If a table is missing.
    """
    key = lakegc_keys.verdict_key(run.key)
    run.documents.pop(_STORED + key, None)
    # If another process replaced a table of this one since, the verdict names a manifest that is
    # not there, and nothing is swept by it. A run that begins from it reads what this one saved.
    stored = load_mark(run, anew=not run.is_of_this_process)
    manifests = {name: table.manifest for name, table in stored.items()}
    results = guards.check_mark(run, manifests)
    verdict = _verdict(run, manifests, results)
    run.store.small_files.end()
    try:
        run.store.put_if_absent(key, verdict.to_json())
    except ObjectExistsError:
        return load(run), results
    run.documents[_STORED + key] = verdict
    return verdict, results


def is_concluded(run: Run) -> bool:
    """Say whether this process stored the verdict of a run, and has read nothing anew since."""
    return _STORED + lakegc_keys.verdict_key(run.key) in run.documents


def stored_here(run: Run) -> Verdict:
    """Return the verdict that this process stored, else read it; to show it, not to act by it.

    Raises:
        VerdictError: As for `load`.
        CorruptTableError: As for `load`.
    """
    found: Verdict | None = run.documents.get(_STORED + lakegc_keys.verdict_key(run.key))
    return load(run) if found is None else found


def load(run: Run) -> Verdict:
    """Read a run's verdict.

    Raises:
        VerdictError: If there is none, or it is of another format.
        CorruptTableError: If it is not as it was written.
    """
    key = lakegc_keys.verdict_key(run.key)
    try:
        data = run.store.read(key)
    except NotFoundError as missing:
        raise VerdictError(
            f"run {run.key} of {run.repository.id} has no verdict ({key} does not exist): its mark "
            "did not end, or its checks were not run",
            "Mark first (`lakegc mark`), then sweep.",
        ) from missing
    return Verdict.from_json(data, name=key)


def results(run: Run) -> list[CheckResult]:
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


def require_sweepable(run: Run) -> tuple[Verdict, StoredTable]:
    """Return the verdict and the expired addresses of a mark that may be swept, or refuse.

    The caller is not trusted: verdict, manifests and hashes are read from the store, however the
    sweep was started. The verdict's text is not trusted either: every check is made again on the
    manifests that the verdict names. A check that failed then or fails now refuses the sweep,
    unless its finding was confirmed by name (`confirm`).

    Raises:
        VerdictError: If the verdict is missing, failed, too old or from the future. If it belongs
            to another instance, other options or other bytes. If a check fails now.
        CorruptTableError: If the verdict or a confirmation is not as it was written.
        ChainError: If a table of the mark is missing.
    """
    run.forget()
    verdict = load(run)
    if (
        verdict.repository != run.repository.id
        or verdict.instance != run.instance
        or verdict.run != str(run.key)
    ):
        raise VerdictError(
            f"the verdict of run {run.key} speaks of {verdict.instance!r}, run {verdict.run}; the "
            f"server now has {run.instance!r}",
            _WAY_ON,
        )
    _require_passed(run, verdict)
    require_recent(run, verdict)
    _require_same_decision(run, verdict)
    stored = load_mark(run, anew=True)
    _require_same_tables(run, verdict, stored)
    _require_within(run, stored[tables.NAMESPACE_SLICES.name].manifest)
    confirmed = confirmed_checks(run, verdict)
    failed = [
        result
        for result in guards.check_mark(
            run, {name: table.manifest for name, table in stored.items()}
        )
        if not result.allows and result.name not in confirmed
    ]
    if failed:
        names = "; ".join(f"{result.name}: {result.summary}" for result in failed)
        raise VerdictError(
            f"the verdict of run {run.key} of {run.repository.id} says passed, but checks fail "
            f"now: {names.rstrip('.')}",
            _WAY_ON,
        )
    return verdict, stored[tables.EXPIRED_ADDRESSES.name]


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
    failed = {str(found["name"]): found for found in verdict.failed}
    if check not in guards.CONFIRMABLE:
        lifted_by = (
            failed[check].get("lifted_by", guards.NOTHING_LIFTS_IT)
            if check in failed
            else guards.NOTHING_LIFTS_IT
        )
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
    written = Confirmation(
        repository=run.repository.id,
        run=str(run.key),
        check=check,
        verdict=verdict.digest,
        found=str(failed[check]["summary"]),
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
                _WAY_ON,
            ) from None
        return earlier
    return written


def confirmed_checks(run: Run, verdict: Verdict) -> frozenset[str]:
    """Return the names of failed checks whose findings were confirmed for this very verdict.

    Raises:
        CorruptTableError: If a confirmation is not as it was written.
    """
    return frozenset(
        str(check["name"])
        for check in verdict.failed
        if check["name"] in guards.CONFIRMABLE
        and confirmation.covers(run.store, run.key, verdict.digest, check)
    )


def _require_passed(run: Run, verdict: Verdict) -> None:
    confirmed = confirmed_checks(run, verdict)
    failed = [check for check in verdict.failed if check["name"] not in confirmed]
    if failed or verdict.passed == bool(verdict.failed):
        names = (
            "; ".join(f"{check['name']}: {check['summary']}" for check in failed)
            or "it did not pass"
        )
        raise not_passed(run.repository.id, run.key, names)
    found, wanted = (
        sorted(str(check["name"]) for check in verdict.checks),
        sorted(name for name, _, _ in guards.CHECKS),
    )
    if found != wanted:
        odd = ", ".join(sorted({*found} ^ {*wanted})) or "one of them twice"
        raise VerdictError(
            f"the verdict of run {run.key} of {run.repository.id} holds {len(found)} checks, a "
            f"mark has {len(wanted)} (they differ in {odd})",
            _WAY_ON,
        )


def require_recent(run: Run, verdict: Verdict) -> None:
    """Refuse a mark whose reading began long ago, even if it was concluded lately (safety 38)."""
    began = (datetime.fromisoformat(table["reading_began"]) for table in verdict.tables.values())
    age = run.now() - min([verdict.concluded_at, *began])
    if age > run.options.max_mark_age:
        raise VerdictError(
            f"the mark of run {run.key} is {span_text(age)} old, the limit "
            f"(max_mark_age_days) is {span_text(run.options.max_mark_age)}: objects may have come "
            "back to life",
            _WAY_ON,
        )
    ahead = verdict.concluded_at - run.now()
    if ahead > run.options.max_clock_skew:
        raise VerdictError(
            f"the verdict of run {run.key} was concluded at {verdict.concluded_at.isoformat()}, "
            f"which is {span_text(ahead)} ahead of this machine's clock (at most "
            f"{span_text(run.options.max_clock_skew)} is accepted): the age of the mark is "
            "unknown",
            "Set the clocks of the machines that mark and sweep, then mark again under a new run "
            "key.",
        )


def _require_same_decision(run: Run, verdict: Verdict) -> None:
    """Compare what decides about the objects with the verdict.

    That is the options, and the cutoff that follows from them and the run key.
    """
    differences = chain.other_options(run, verdict.options)
    if differences:
        raise VerdictError(
            f"run {run.key} of {run.repository.id} was marked under other options: {differences}",
            _WAY_ON,
        )
    if verdict.cutoff != run.cutoff.isoformat():
        raise VerdictError(
            f"run {run.key} of {run.repository.id} was marked with cutoff {verdict.cutoff}, now it "
            f"is {run.cutoff.isoformat()}",
            _WAY_ON,
        )


def _require_within(run: Run, slices: Manifest) -> None:
    """Refuse to sweep a whole mark if the sweep must stay within a mark of lakeFS's own job."""
    made_within = ListedFigures.of(slices).reference_mark
    if run.reference_mark not in (None, made_within):
        raise VerdictError(
            f"run {run.key} of {run.repository.id} was made to stay within "
            f"{'no mark of the reference job' if made_within is None else f'mark {made_within!r}'}"
            ", the sweep "
            f"is to stay within mark {run.reference_mark!r}: what that one does not name would go "
            "as well",
            _WAY_ON,
        )


def _require_same_tables(run: Run, verdict: Verdict, stored: Mapping[str, StoredTable]) -> None:
    for name, table in stored.items():
        spoken = verdict.tables.get(name, {}).get("manifest")
        if spoken != table.manifest.sha256:
            raise VerdictError(
                f"{name} of run {run.key} is not the one that the verdict speaks of (manifest "
                f"{table.manifest.sha256[:12]}, the verdict says {str(spoken)[:12]})",
                _WAY_ON,
            )
    expired = stored[tables.EXPIRED_ADDRESSES.name].manifest
    if {part.key: part.sha256 for part in expired.parts} != dict(verdict.addresses):
        raise VerdictError(
            f"the parts of the expired addresses of run {run.key} are not those of the verdict",
            _WAY_ON,
        )
    if expired.rows != verdict.expired_objects:
        raise VerdictError(
            f"the expired addresses of run {run.key} have {expired.rows} rows, the verdict says "
            f"{verdict.expired_objects}",
            _WAY_ON,
        )


def _verdict(
    run: Run, manifests: Mapping[str, Manifest], results: Sequence[CheckResult]
) -> Verdict:
    expired = manifests[tables.EXPIRED_ADDRESSES.name]
    rules = CommitsFigures.of(manifests[tables.RETAINED_COMMITS.name]).rules
    return Verdict(
        repository=run.repository.id,
        instance=run.instance,
        namespace=run.repository.storage_namespace,
        run=str(run.key),
        passed=all(result.allows for result in results),
        concluded_at=run.now(),
        cutoff=run.cutoff.isoformat(),
        min_age_seconds=run.options.min_age.total_seconds(),
        rules=None if rules is None else rules.facts(),
        options=ListedFigures.of(manifests[tables.NAMESPACE_SLICES.name]).options,
        tables={
            **{name: _link(manifest) for name, manifest in manifests.items()},
            tables.EXPIRED_ADDRESSES.name: {
                **_link(expired),
                "saved": ExpiredFigures.of(expired).saved,
            },
        },
        addresses={part.key: part.sha256 for part in expired.parts},
        expired_objects=expired.rows,
        standing=standing(manifests),
        checks=[vars(result) for result in results],
        versions={
            "lakegc": __version__,
            **{name: _version(name) for name in ("pyspark", "pyarrow", "lakefs-sdk")},
        },
        policy=_policy(ExpiredFigures.of(expired).policy),
    )


def _policy(taken: PolicyFigures | None) -> Mapping[str, Any] | None:
    """Return the policy by which objects go; a repository has one, so its version names it."""
    if taken is None or not taken.objects:
        return None
    return {"name": lakegc_keys.policy_key(taken.version), **taken.facts()}


def _link(manifest: Manifest) -> Mapping[str, Any]:
    """Return what the chain of tables records about one table."""
    return {
        "manifest": manifest.sha256,
        "parents": dict(manifest.parents),
        "rows": manifest.rows,
        "size_bytes": manifest.size_bytes,
        "parts": len(manifest.parts),
        "reading_began": manifest.reading_began.isoformat(),
        "reading_ended": manifest.reading_ended.isoformat(),
    }


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        # lakegc may be shipped to a cluster without its metadata. The verdict only records the
        # version.
        return "unknown"
