"""The stored verdict: what a mark's checks said, bound to its bytes; the lock that the sweep opens."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from spark_core import __version__, guards, tables
from spark_core.errors import CorruptTableError, NotFoundError, ObjectExistsError, VerdictError
from spark_core.guards import CheckResult
from spark_core.run import Run
from spark_core.tables import Manifest, StoredTable

VERDICT_FORMAT = 1


@dataclass(frozen=True)
class Verdict:
    """What was found about a mark.

    Attributes:
        repository: Repository id.
        instance: Which instance of it.
        run: Run key.
        passed: Whether every check passed.
        concluded_at: When it was written.
        cutoff: The mark's cutoff.
        manifests: Table name -> sha256 of its manifest.
        addresses: Key of each Parquet part of the expired addresses -> its sha256.
        expired_objects: Rows of the expired addresses.
        checks: Each check's name, result, sentence and figures.
        versions: Of lakegc and what it decides with.
    """

    repository: str
    instance: str
    run: str
    passed: bool
    concluded_at: datetime
    cutoff: str
    manifests: Mapping[str, str]
    addresses: Mapping[str, str]
    expired_objects: int
    checks: Sequence[Mapping[str, Any]]
    versions: Mapping[str, str]

    def to_json(self) -> bytes:
        """Write the verdict."""
        document = {"format": VERDICT_FORMAT, **vars(self), "concluded_at": self.concluded_at.isoformat()}
        return json.dumps(document, indent=1, sort_keys=True).encode()

    @classmethod
    def from_json(cls, data: bytes, *, name: str) -> Verdict:
        """Read a verdict back.

        Raises:
            CorruptTableError: If it is not a verdict of this format.
        """
        try:
            document = json.loads(data)
            if document.pop("format") != VERDICT_FORMAT:
                raise CorruptTableError(
                    name, None, f"not a verdict of format {VERDICT_FORMAT}; use the lakegc that wrote it"
                )
            if not isinstance(document["passed"], bool):
                raise CorruptTableError(name, None, f"`passed` is {document['passed']!r}, wanted true or false")
            return cls(**{**document, "concluded_at": datetime.fromisoformat(document["concluded_at"])})
        except (ValueError, KeyError, TypeError) as problem:
            raise CorruptTableError(name, None, f"not a verdict of a lakegc mark ({problem!r})") from problem


def load_mark(run: Run) -> dict[str, StoredTable]:
    """Read the manifests of a run's five tables, by name.

    Raises:
        ChainError: If one is missing or of another instance of the repository.
    """
    return {spec.name: run.load(spec) for spec in tables.MARK_TABLES}


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
    manifests = {name: table.manifest for name, table in load_mark(run).items()}
    results = guards.check_mark(run, manifests)
    verdict = _verdict(run, manifests, results)
    try:
        run.store.put_if_absent(tables.verdict_key(run.key), verdict.to_json())
    except ObjectExistsError:
        return load(run), results
    return verdict, results


def load(run: Run) -> Verdict:
    """Read a run's verdict.

    Raises:
        VerdictError: If there is none.
        CorruptTableError: If it cannot be read.
    """
    key = tables.verdict_key(run.key)
    try:
        data = run.store.read(key)
    except NotFoundError as missing:
        raise VerdictError(
            f"run {run.key} of {run.repository.id} has no verdict ({key} does not exist): its mark did not end, or its "
            "checks were not run; nothing was deleted. Mark first (`lakegc mark`), then sweep."
        ) from missing
    return Verdict.from_json(data, name=key)


def require_sweepable(run: Run) -> tuple[Verdict, StoredTable]:
    """Open the lock: return the verdict and the expired addresses, or refuse.

    Nothing that the caller knows is trusted; verdict, manifests and hashes are
    read from the store, however the sweep was started.

    Raises:
        VerdictError: If the verdict is missing, failed, too old, of another instance, or not of these bytes.
        ChainError: If a table of the mark is missing.
    """
    verdict = load(run)
    stays = "nothing was deleted"
    if verdict.repository != run.repository.id or verdict.instance != run.instance or verdict.run != str(run.key):
        raise VerdictError(
            f"the verdict of run {run.key} speaks of {verdict.instance!r}, run {verdict.run}; the server now has "
            f"{run.instance!r}; {stays}. Mark again under a new run key."
        )
    failed = [check for check in verdict.checks if not check["passed"]]
    if failed or not verdict.passed:
        names = "; ".join(f"{check['name']}: {check['summary']}" for check in failed) or "it did not pass"
        raise VerdictError(
            f"the mark of run {run.key} of {run.repository.id} did not pass its checks: {names}. {stays.capitalize()}."
        )
    age = run.now() - verdict.concluded_at
    if age > run.options.max_mark_age:
        raise VerdictError(
            f"the mark of run {run.key} is {age} old, the limit (max_mark_age) is {run.options.max_mark_age}: objects may "
            f"have come back to life; {stays}. Mark again under a new run key."
        )
    stored = load_mark(run)
    for name, table in stored.items():
        if verdict.manifests.get(name) != table.manifest.sha256:
            raise VerdictError(
                f"{name} of run {run.key} is not the one that the verdict speaks of (manifest "
                f"{table.manifest.sha256[:12]}, the verdict says {str(verdict.manifests.get(name))[:12]}); {stays}. "
                "Mark again under a new run key."
            )
    expired = stored[tables.EXPIRED_ADDRESSES.name]
    if {part.key: part.sha256 for part in expired.manifest.parts} != dict(verdict.addresses):
        raise VerdictError(
            f"the parts of the expired addresses of run {run.key} are not those of the verdict; {stays}. "
            "Mark again under a new run key."
        )
    if expired.manifest.rows != verdict.expired_objects:
        raise VerdictError(
            f"the expired addresses of run {run.key} have {expired.manifest.rows} rows, the verdict says "
            f"{verdict.expired_objects}; {stays}. Mark again under a new run key."
        )
    return verdict, expired


def _verdict(run: Run, manifests: Mapping[str, Manifest], results: Sequence[CheckResult]) -> Verdict:
    expired = manifests[tables.EXPIRED_ADDRESSES.name]
    return Verdict(
        repository=run.repository.id,
        instance=run.instance,
        run=str(run.key),
        passed=all(result.passed for result in results),
        concluded_at=run.now(),
        cutoff=run.cutoff.isoformat(),
        manifests={name: manifest.sha256 for name, manifest in manifests.items()},
        addresses={part.key: part.sha256 for part in expired.parts},
        expired_objects=expired.rows,
        checks=[vars(result) for result in results],
        versions={"lakegc": __version__, **{name: _version(name) for name in ("pyspark", "pyarrow", "lakefs-sdk")}},
    )


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        # Shipped to a cluster without its metadata; the verdict only records it.
        return "unknown"
