"""The stored verdict: the results of a mark's checks, bound to the bytes of its tables.

A sweep needs a passed verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from spark_core import __version__, lakegc_keys
from spark_core import checks as guards
from spark_core.checks import CheckResult
from spark_core.errors import NotFoundError, ObjectExistsError, VerdictError
from spark_core.model import RunKey
from spark_core.phases import NOTHING_DELETED, add_state
from spark_core.records import tables
from spark_core.records.figures import CommitsFigures, ExpiredFigures, ListedFigures, PolicyFigures
from spark_core.records.manifest import Manifest
from spark_core.records.reading import StoredTable
from spark_core.records.verdict_document import Verdict
from spark_core.run import Run

# What to do about a mark that is not to be swept.
MARK_AGAIN = "Mark again under a new run key."
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


def refusal_of(
    repository_id: str, key: RunKey, results: Sequence[CheckResult]
) -> VerdictError | None:
    """Return the refusal by checks of a mark that failed; None if they all allow a sweep.

    Args:
        repository_id: Repository name.
        key: Run key.
        results: What the checks found.
    """
    failed = [result for result in results if not result.allows]
    if not failed:
        return None
    found = "; ".join(f"{result.name}: {result.summary}" for result in failed)
    has_way_on = {result.name for result in failed} <= guards.CONFIRMABLE
    refused = not_passed(repository_id, key, found, has_way_on=has_way_on)
    return add_state(refused, NOTHING_DELETED)


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


def _verdict(
    run: Run, manifests: Mapping[str, Manifest], results: Sequence[CheckResult]
) -> Verdict:
    from spark_core.checks.last_runs_compared import figures_to_compare

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
        standing=figures_to_compare(manifests),
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
