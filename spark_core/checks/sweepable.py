"""What a sweep asks of a mark before it deletes: a verdict that holds, for these very bytes.

Everything is read and checked again here: neither the caller nor the verdict's text is trusted.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from spark_core import checks as guards
from spark_core.checks.confirming import confirmed_checks, refusing
from spark_core.checks.verdict import MARK_AGAIN, load, load_mark, not_passed
from spark_core.clocks import MAX_CLOCK_SKEW
from spark_core.errors import VerdictError
from spark_core.plain_text import span_text
from spark_core.records import tables
from spark_core.records.figures import ExpiredFigures, ListedFigures
from spark_core.records.manifest import Manifest
from spark_core.records.reading import StoredTable
from spark_core.records.verdict_document import Verdict
from spark_core.run import Run, chain


def require_sweepable(run: Run) -> tuple[Verdict, StoredTable]:
    """Return the verdict and the expired addresses of a mark that may be swept, or refuse.

    The caller is not trusted: verdict, manifests and hashes are read from the store, however the
    sweep was started. The verdict's text is not trusted either: every check is made again on the
    manifests that the verdict names. A check that failed then or fails now refuses the sweep,
    unless its finding was confirmed by name (`confirm`).

    Raises:
        VerdictError: If the verdict is missing, failed, too old or from the future. If it belongs
            to another instance, other options or other bytes. If it names more than the settings
            now let go. If a check fails now.
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
            MARK_AGAIN,
        )
    _require_passed(run, verdict)
    require_recent(run, verdict)
    _require_same_decision(run, verdict)
    stored = load_mark(run, anew=True)
    _require_same_tables(run, verdict, stored)
    _require_within(run, stored[tables.NAMESPACE_SLICES.name].manifest)
    _require_no_more(run, stored[tables.EXPIRED_ADDRESSES.name].manifest)
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
            MARK_AGAIN,
        )
    return verdict, stored[tables.EXPIRED_ADDRESSES.name]


def _require_passed(run: Run, verdict: Verdict) -> None:
    failed = refusing(run.store, run.key, verdict)
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
            MARK_AGAIN,
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
            MARK_AGAIN,
        )
    ahead = verdict.concluded_at - run.now()
    if ahead > MAX_CLOCK_SKEW:
        raise VerdictError(
            f"the verdict of run {run.key} was concluded at {verdict.concluded_at.isoformat()}, "
            f"which is {span_text(ahead)} ahead of this machine's clock (at most "
            f"{span_text(MAX_CLOCK_SKEW)} is accepted): the age of the mark is "
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
            MARK_AGAIN,
        )
    if verdict.cutoff != run.cutoff.isoformat():
        raise VerdictError(
            f"run {run.key} of {run.repository.id} was marked with cutoff {verdict.cutoff}, now it "
            f"is {run.cutoff.isoformat()}",
            MARK_AGAIN,
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
            MARK_AGAIN,
        )


def _require_no_more(run: Run, expired: Manifest) -> None:
    """Refuse a mark of what nothing reaches, where the settings by now leave that to others."""
    if not run.options.collects_unreachable and not ExpiredFigures.of(expired).policy_only:
        raise VerdictError(
            f"run {run.key} of {run.repository.id} was marked to let go what nothing reaches, and "
            'now its settings say `policies = "only"`',
            MARK_AGAIN,
        )


def _require_same_tables(run: Run, verdict: Verdict, stored: Mapping[str, StoredTable]) -> None:
    for name, table in stored.items():
        spoken = verdict.tables.get(name, {}).get("manifest")
        if spoken != table.manifest.sha256:
            raise VerdictError(
                f"{name} of run {run.key} is not the one that the verdict speaks of (manifest "
                f"{table.manifest.sha256[:12]}, the verdict says {str(spoken)[:12]})",
                MARK_AGAIN,
            )
    expired = stored[tables.EXPIRED_ADDRESSES.name].manifest
    if {part.key: part.sha256 for part in expired.parts} != dict(verdict.addresses):
        raise VerdictError(
            f"the parts of the expired addresses of run {run.key} are not those of the verdict",
            MARK_AGAIN,
        )
    if expired.rows != verdict.expired_objects:
        raise VerdictError(
            f"the expired addresses of run {run.key} have {expired.rows} rows, the verdict says "
            f"{verdict.expired_objects}",
            MARK_AGAIN,
        )
