"""The stored verdict: what a mark's checks said, bound to its bytes; the lock that the sweep opens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from spark_core import __version__, layout
from spark_core import checks as guards
from spark_core.checks import CheckResult, confirmation
from spark_core.checks.confirmation import Confirmation
from spark_core.checks.history import VERDICT_FORMAT, standing
from spark_core.errors import OF_A_RUN, CorruptTableError, NotFoundError, ObjectExistsError, VerdictError
from spark_core.model import RunKey
from spark_core.records import sealed, tables
from spark_core.records.tables import Manifest, StoredTable
from spark_core.run import Run, chain

_WAY_ON = "Mark again under a new run key."

_CHECK_FIELDS = {"name", "passed", "summary"}


@dataclass(frozen=True)
class Verdict:
    """What was found about a mark.

    Attributes:
        repository: Repository id.
        instance: Which instance of it.
        namespace: Its storage namespace.
        run: Run key.
        passed: Whether every check that can stand in the way passed.
        concluded_at: When it was written.
        cutoff: The mark's cutoff.
        min_age_seconds: The minimum age that the cutoff follows from.
        rules: Retention rules as the server showed them; None without any.
        options: Those that decided what may go.
        tables: Table name -> sha256 of its manifest (`manifest`), manifests that it was made from (`parents`), rows, bytes,
            parts, and when its reading began and ended: the chain.
        addresses: Key of each Parquet part of the expired addresses -> its sha256.
        expired_objects: Rows of the expired addresses.
        standing: Figures that later runs are compared with.
        checks: Each check's name, table, result, sentence, figures, limit, and who may lift it.
        versions: Of lakegc and what it decides with.
    """

    repository: str
    instance: str
    namespace: str
    run: str
    passed: bool
    concluded_at: datetime
    cutoff: str
    min_age_seconds: float
    rules: Mapping[str, Any] | None
    options: Mapping[str, Any]
    tables: Mapping[str, Mapping[str, Any]]
    addresses: Mapping[str, str]
    expired_objects: int
    standing: Mapping[str, int]
    checks: Sequence[Mapping[str, Any]]
    versions: Mapping[str, str]

    @property
    def document(self) -> Mapping[str, Any]:
        """What is stored of it, without the digest."""
        return {"format": VERDICT_FORMAT, **vars(self), "concluded_at": self.concluded_at.isoformat()}

    @property
    def digest(self) -> str:
        """Hex digest by which confirmations name it."""
        return sealed.digest(self.document)

    @property
    def failed(self) -> list[Mapping[str, Any]]:
        """The checks that did not pass, and stand in the way."""
        return [check for check in self.checks if check["passed"] is not True and check["name"] not in guards.ADVISORY]

    def to_json(self) -> bytes:
        """Write the verdict, with the digest of itself."""
        return sealed.seal(self.document)

    @classmethod
    def from_json(cls, data: bytes, *, name: str) -> Verdict:
        """Read a verdict back.

        Raises:
            VerdictError: If it was written in another format.
            CorruptTableError: If it is not a verdict, or not as it was written.
        """
        document = sealed.unseal(data, name=name, formats=VERDICT_FORMAT)
        del document["format"]
        try:
            if not isinstance(document["passed"], bool):
                raise CorruptTableError(
                    name, None, f"`passed` is {document['passed']!r}, wanted true or false", OF_A_RUN
                )
            for check in document["checks"]:
                if not isinstance(check, dict) or not check.keys() >= _CHECK_FIELDS:
                    raise CorruptTableError(name, None, f"{check!r} is not the result of a check", OF_A_RUN)
            concluded_at = datetime.fromisoformat(document["concluded_at"])
            if concluded_at.tzinfo is None:
                raise CorruptTableError(
                    name, None, f"`concluded_at` is {concluded_at}, wanted a time with its zone", OF_A_RUN
                )
            return cls(**{**document, "concluded_at": concluded_at})
        except (ValueError, KeyError, TypeError) as problem:
            raise CorruptTableError(name, None, f"not a verdict of a lakegc mark ({problem!r})", OF_A_RUN) from problem


def not_passed(repository_id: str, key: RunKey, failing: str) -> VerdictError:
    """Make the refusal of a mark whose checks failed.

    Args:
        repository_id: Repository name.
        key: Of the run.
        failing: The checks and what each found.
    """
    return VerdictError(
        f"the mark of run {key} of {repository_id} did not pass its checks: {failing.rstrip('. ')}",
        "Read its "
        f"report (`lakegc report {repository_id} --run {key}`), mend what the checks name, and mark again under a new run key.",
    )


def load_mark(run: Run, *, anew: bool = False) -> dict[str, StoredTable]:
    """Read the manifests of a run's five tables, by name.

    Args:
        run: The run.
        anew: As for `Run.load`.

    Raises:
        ChainError: If one is missing or of another instance of the repository.
    """
    return {spec.name: run.load(spec, anew=anew) for spec in tables.MARK_TABLES}


def conclude(run: Run) -> tuple[Verdict, list[CheckResult]]:
    """Check a whole mark and store the verdict, passed or not; the run is closed by it.

    Called again for a run that has a verdict, it returns the stored one with
    the checks as they come out now.

    Args:
        run: The run; its five tables must be stored.

    Returns:
        The verdict as stored, and the results of the checks.

    Raises:
        ChainError: If a table is missing.
    """
    manifests = {name: table.manifest for name, table in load_mark(run, anew=True).items()}
    results = guards.check_mark(run, manifests)
    verdict = _verdict(run, manifests, results)
    try:
        run.store.put_if_absent(layout.verdict_key(run.key), verdict.to_json())
    except ObjectExistsError:
        return load(run), results
    return verdict, results


def load(run: Run) -> Verdict:
    """Read a run's verdict.

    Raises:
        VerdictError: If there is none, or it is of another format.
        CorruptTableError: If it is not as it was written.
    """
    key = layout.verdict_key(run.key)
    try:
        data = run.store.read(key)
    except NotFoundError as missing:
        raise VerdictError(
            f"run {run.key} of {run.repository.id} has no verdict ({key} does not exist): its mark did not end, or its "
            "checks were not run",
            "Mark first (`lakegc mark`), then sweep.",
        ) from missing
    return Verdict.from_json(data, name=key)


def results(run: Run) -> list[CheckResult]:
    """Return what a run's stored verdict says of each check; a finding that a person confirmed counts as passed.

    Nothing is decided here, and nothing written.

    Raises:
        VerdictError: If there is no verdict, or it is of another format.
        CorruptTableError: If the verdict or a confirmation is not as it was written.
    """
    verdict = load(run)
    confirmed = confirmed_checks(run, verdict)
    return [_as_result(check, confirmed=check["name"] in confirmed) for check in verdict.checks]


def _as_result(check: Mapping[str, Any], *, confirmed: bool) -> CheckResult:
    words = f"confirmed by name: {check['summary']}" if confirmed else check["summary"]
    return CheckResult(
        **{"figures": {}, "table": "", **check, "passed": check["passed"] or confirmed, "summary": words}
    )


def require_sweepable(run: Run) -> tuple[Verdict, StoredTable]:
    """Open the lock: return the verdict and the expired addresses, or refuse.

    Nothing that the caller knows is trusted; verdict, manifests and hashes are
    read from the store, however the sweep was started. Nor is the verdict's
    text: every check is made once more on the manifests that it names. A check
    that failed keeps it shut, then and now, unless its finding was confirmed by
    name (`confirm`).

    Raises:
        VerdictError: If the verdict is missing, failed, too old or from the future, of another instance, of other
            options, or not of these bytes; or if a check fails now.
        CorruptTableError: If the verdict or a confirmation is not as it was written.
        ChainError: If a table of the mark is missing.
    """
    verdict = load(run)
    if verdict.repository != run.repository.id or verdict.instance != run.instance or verdict.run != str(run.key):
        raise VerdictError(
            f"the verdict of run {run.key} speaks of {verdict.instance!r}, run {verdict.run}; the server now has "
            f"{run.instance!r}",
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
        for result in guards.check_mark(run, {name: table.manifest for name, table in stored.items()})
        if not result.allows and result.name not in confirmed
    ]
    if failed:
        names = "; ".join(f"{result.name}: {result.summary}" for result in failed)
        raise VerdictError(
            f"the verdict of run {run.key} of {run.repository.id} says passed, but checks fail now: {names.rstrip('.')}",
            _WAY_ON,
        )
    return verdict, stored[tables.EXPIRED_ADDRESSES.name]


def confirm(run: Run, check: str, *, who: str) -> Confirmation:
    """Note that a finding of a check is right, so that the mark may be swept all the same.

    The verdict stays as it is; the note names its digest, so it holds for this
    mark alone. Said twice, the first note stands.

    Args:
        run: The run; it must have a verdict.
        check: Name of a check that did not pass, one of `guards.CONFIRMABLE`.
        who: Account and machine, for the record.

    Raises:
        VerdictError: If there is no verdict, the check passed, or it is not one that a person may confirm.
        CorruptTableError: If the verdict is not as it was written.
    """
    verdict = load(run)
    failed = {str(found["name"]): found for found in verdict.failed}
    if check not in guards.CONFIRMABLE:
        lifted_by = (
            failed[check].get("lifted_by", guards.NOTHING_LIFTS_IT) if check in failed else guards.NOTHING_LIFTS_IT
        )
        raise VerdictError(
            f"{check} is not a check that can be confirmed (those are {', '.join(sorted(guards.CONFIRMABLE))})",
            f"What lifts it: {lifted_by}.",
        )
    if check not in failed:
        raise VerdictError(
            f"{check} passed in the mark of run {run.key} of {run.repository.id}: there is nothing to confirm",
            f"What the mark found is in its report (`lakegc report {run.repository.id} --run {run.key}`); if a sweep refuses it now, "
            "a limit became stricter since: mark again under a new run key.",
        )
    said = Confirmation(
        repository=run.repository.id,
        run=str(run.key),
        check=check,
        verdict=verdict.digest,
        found=str(failed[check]["summary"]),
        who=who,
        confirmed_at=run.now(),
    )
    try:
        run.store.put_if_absent(layout.confirmation_key(run.key, check), said.to_json())
    except ObjectExistsError:
        earlier = confirmation.load(run.store, run.key, check)
        if earlier is None or earlier.verdict != verdict.digest:
            raise VerdictError(
                f"{layout.confirmation_key(run.key, check)} confirms another verdict than the one of run {run.key}",
                _WAY_ON,
            ) from None
        return earlier
    return said


def confirmed_checks(run: Run, verdict: Verdict) -> frozenset[str]:
    """Return the names of failed checks whose findings a person confirmed for this very verdict.

    Raises:
        CorruptTableError: If a confirmation is not as it was written.
    """
    return frozenset(
        str(check["name"])
        for check in verdict.failed
        if check["name"] in guards.CONFIRMABLE and confirmation.covers(run.store, run.key, verdict.digest, check)
    )


def _require_passed(run: Run, verdict: Verdict) -> None:
    confirmed = confirmed_checks(run, verdict)
    failed = [check for check in verdict.failed if check["name"] not in confirmed]
    if failed or verdict.passed == bool(verdict.failed):
        names = "; ".join(f"{check['name']}: {check['summary']}" for check in failed) or "it did not pass"
        raise not_passed(run.repository.id, run.key, names)
    found, wanted = sorted(str(check["name"]) for check in verdict.checks), sorted(name for name, _, _ in guards.CHECKS)
    if found != wanted:
        odd = ", ".join(sorted({*found} ^ {*wanted})) or "one of them twice"
        raise VerdictError(
            f"the verdict of run {run.key} of {run.repository.id} holds {len(found)} checks, a mark has {len(wanted)} "
            f"(they differ in {odd})",
            _WAY_ON,
        )


def require_recent(run: Run, verdict: Verdict) -> None:
    """Refuse a mark whose reading began long ago, however lately it was concluded (safety 38)."""
    began = (datetime.fromisoformat(table["reading_began"]) for table in verdict.tables.values())
    age = run.now() - min([verdict.concluded_at, *began])
    if age > run.options.max_mark_age:
        raise VerdictError(
            f"the mark of run {run.key} is {age} old, the limit (max_mark_age) is {run.options.max_mark_age}: objects may "
            "have come back to life",
            _WAY_ON,
        )
    ahead = verdict.concluded_at - run.now()
    if ahead > run.options.max_clock_skew:
        raise VerdictError(
            f"the verdict of run {run.key} was concluded at {verdict.concluded_at.isoformat()}, which is {ahead} ahead of "
            f"this machine's clock (at most {run.options.max_clock_skew} is accepted): how old the mark is cannot be told",
            "Set the clocks of the machines that mark and sweep, then mark again under a new run key.",
        )


def _require_same_decision(run: Run, verdict: Verdict) -> None:
    """Compare what decides about the objects: the options, and the cutoff that follows from them and the run key."""
    differences = chain.other_options(run, verdict.options)
    if differences:
        raise VerdictError(
            f"run {run.key} of {run.repository.id} was marked under other options: {differences}", _WAY_ON
        )
    if verdict.cutoff != run.cutoff.isoformat():
        raise VerdictError(
            f"run {run.key} of {run.repository.id} was marked with cutoff {verdict.cutoff}, now it is "
            f"{run.cutoff.isoformat()}",
            _WAY_ON,
        )


def _require_within(run: Run, slices: Manifest) -> None:
    """Refuse to sweep all of a mark when the sweep is to stay within one of lakeFS's own job."""
    made_within = slices.facts.get("reference_mark")
    if run.reference_mark not in (None, made_within):
        raise VerdictError(
            f"run {run.key} of {run.repository.id} was made to stay within {'no mark of the reference job' if made_within is None else f'mark {made_within!r}'}, the sweep "
            f"is to stay within mark {run.reference_mark!r}: what that one does not name would go as well",
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
        raise VerdictError(f"the parts of the expired addresses of run {run.key} are not those of the verdict", _WAY_ON)
    if expired.rows != verdict.expired_objects:
        raise VerdictError(
            f"the expired addresses of run {run.key} have {expired.rows} rows, the verdict says "
            f"{verdict.expired_objects}",
            _WAY_ON,
        )


def _verdict(run: Run, manifests: Mapping[str, Manifest], results: Sequence[CheckResult]) -> Verdict:
    expired = manifests[tables.EXPIRED_ADDRESSES.name]
    return Verdict(
        repository=run.repository.id,
        instance=run.instance,
        namespace=run.repository.storage_namespace,
        run=str(run.key),
        passed=all(result.allows for result in results),
        concluded_at=run.now(),
        cutoff=run.cutoff.isoformat(),
        min_age_seconds=run.options.min_age.total_seconds(),
        rules=manifests[tables.RETAINED_COMMITS.name].facts.get("rules"),
        options=manifests[tables.NAMESPACE_SLICES.name].facts.get("options", {}),
        tables={name: _link(manifest) for name, manifest in manifests.items()},
        addresses={part.key: part.sha256 for part in expired.parts},
        expired_objects=expired.rows,
        standing=standing(manifests),
        checks=[vars(result) for result in results],
        versions={"lakegc": __version__, **{name: _version(name) for name in ("pyspark", "pyarrow", "lakefs-sdk")}},
    )


def _link(manifest: Manifest) -> Mapping[str, Any]:
    """Tell what the chain of tables needs to know of one of them."""
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
        # Shipped to a cluster without its metadata; the verdict only records it.
        return "unknown"
