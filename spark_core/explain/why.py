"""Why an object is kept, may go, or is gone, as the stored runs know it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.functions as sf

from spark_core import lakegc_keys
from spark_core.addresses import candidates as rule
from spark_core.addresses.address_hashes import hashed
from spark_core.checks import verdict
from spark_core.errors import ChainError, CorruptTableError, NotFoundError, VerdictError
from spark_core.explain.commits_having import holders
from spark_core.mark import holds
from spark_core.records import tables
from spark_core.records.figures import ListedFigures
from spark_core.records.journal import Journal
from spark_core.records.tables import TableSpec
from spark_core.report.undo import undo_words
from spark_core.run import Run
from spark_core.spark.session import surfacing_errors

State = Literal["kept", "may go", "deleted", "gone", "unknown"]

# Commits that are named; the others are counted.
NAMED = 10

_STANDINGS = {
    rule.PROTECTED: ("name", "its name is one that lakegc never collects"),
    rule.STRANGER: ("name", 'lakeFS did not give its name; `strangers = "keep"` keeps it'),
    rule.INHERITED: ("age", 'it is older than the repository; `inherited = "keep"` keeps it'),
}


@dataclass(frozen=True)
class Reason:
    """One thing that keeps an object, or lets it go.

    Attributes:
        kind: commit, staged, hold, age, name, hidden, rule or sweep.
        text: The reason in words.
        until: ISO instant until when it holds at least; None if nothing is known to end it.
    """

    kind: str
    text: str
    until: str | None = None


@dataclass(frozen=True)
class Explanation:
    """What is known of one object.

    Attributes:
        repository: Repository id.
        address: Relative address.
        run: The run whose tables say so.
        state: `kept`, `may go`, `deleted`, `gone` if the store has it no more and no report tells
            why, or `unknown` if no stored run saw the object.
        sentence: The answer in one sentence.
        reasons: All reasons; commits beyond `NAMED` are one reason together.
        size_bytes: Size of the object; None if it is not known.
        last_modified: ISO instant of the store; None if it is not known.
    """

    repository: str
    address: str
    run: str
    state: State
    sentence: str
    reasons: tuple[Reason, ...]
    size_bytes: int | None = None
    last_modified: str | None = None

    def to_json(self) -> str:
        """Return it as one JSON object."""
        return json.dumps(asdict(self), indent=2)


def explain(run: Run, address: str) -> Explanation:
    """Say why an object is kept or may go, or when it was deleted.

    Args:
        run: The run whose tables are read; if its listing lacks the object, the deletion reports of
            other runs are looked through.
        address: Relative address.

    Raises:
        ChainError: If the run has no mark.
    """
    listed = _row(run, tables.NAMESPACE_SLICES, address)
    if listed is None:
        return _not_listed(run, address)
    about = {
        "repository": run.repository.id,
        "address": address,
        "run": str(run.key),
        "size_bytes": listed["size_bytes"],
        "last_modified": listed["last_modified"].isoformat(),
    }
    expired = _row(run, tables.EXPIRED_ADDRESSES, address)
    if expired is None:
        reasons = _kept_by(run, address, listed)
        until = [reason.until for reason in reasons]
        sentence = f"kept: {reasons[0].text}"
        if None not in until:
            latest = max(text for text in until if text)
            sentence += f"; under the rules of that run it cannot go before {latest}"
        return Explanation(state="kept", sentence=sentence, reasons=reasons, **about)
    outcome = _outcome(run, address)
    reasons = (
        Reason("rule", _why(run, address, expired["reason"])),
        *_held(run, address),
        *_standing_of(run),
    )
    if outcome is None:
        state: State = "may go" if run.store.exists(address) else "gone"
        sentence = f"{state}: {reasons[0].text}"
        if state == "gone":
            sentence = f"gone from the store, and no report says who deleted it; {reasons[0].text}"
        return Explanation(state=state, sentence=sentence, reasons=reasons, **about)
    sentence = f"{outcome.state}: {outcome.reasons[0].text}; {reasons[0].text}"
    reasons = (*reasons, *outcome.reasons)
    return Explanation(state=outcome.state, sentence=sentence, reasons=reasons, **about)


def _kept_by(run: Run, address: str, listed: Mapping[str, Any]) -> tuple[Reason, ...]:
    """Return everything that is known to keep a listed object."""
    found: list[Reason] = []
    if _row(run, tables.COMMITTED_ADDRESSES, address, by_hash=True) is not None:
        found += _commits(run, address)
    if _row(run, tables.UNCOMMITTED_ADDRESSES, address, by_hash=True) is not None:
        found.append(Reason("staged", "it is staged: a branch has it in an uncommitted change"))
    found += _held(run, address)
    standing = listed["standing"]
    if standing in (rule.YOUNG, rule.UPLOAD):
        found.append(_young(run, listed))
    elif standing in _STANDINGS:
        found.append(Reason(*_STANDINGS[standing]))
    if not found:
        found.append(
            Reason(
                "hidden",
                "no commit and no staged entry is known to have it, and the mark let it stay: a "
                "branch may read identical content that was uploaded again, or was not asked "
                "(`twin_calls`), a hold kept it then, or the reference mark does not name it",
            )
        )
    return tuple(found)


def _held(run: Run, address: str) -> list[Reason]:
    """Return the hold that keeps an object by its address now, if there is one."""
    words = holds.load(run.store).reasons(pa.array([address]))[0].as_py()
    return [Reason("hold", f"{words} keeps it from any sweep")] if words else []


def _young(run: Run, listed: Mapping[str, Any]) -> Reason:
    limits = run.as_decided(ListedFigures.of(run.load(tables.NAMESPACE_SLICES).manifest)).limits
    limit = limits.uploads_cutoff if listed["standing"] == rule.UPLOAD else limits.cutoff
    age = run.key.instant - limit
    until = listed["last_modified"] + age
    return Reason(
        "age",
        f"it was written at {listed['last_modified']:%Y-%m-%d %H:%M} UTC, and objects younger than "
        f"{age} are left alone",
        until.isoformat(),
    )


def _commits(run: Run, address: str) -> list[Reason]:
    found = holders(run, run.load(tables.RETAINED_COMMITS), address)
    shown = [
        Reason(
            "commit",
            f"commit {one.commit_id[:12]} has it as {one.path} ({one.reason})",
            one.retained_until,
        )
        for one in found[:NAMED]
    ]
    if len(found) > NAMED:
        left = found[NAMED:]
        until = [one.retained_until for one in left]
        latest = None if None in until else max(text for text in until if text)
        shown.append(Reason("commit", f"{len(left)} more commits have it", latest))
    if not shown:
        shown.append(Reason("commit", "a retained commit had it when the run was marked"))
    return shown


def _why(run: Run, address: str, reason: str) -> str:
    """Return the stored explanation of an object that may go, or else its short reason."""
    try:
        found = _row(run, tables.EXPLANATIONS, address)
    except (ChainError, NotFoundError, CorruptTableError):
        found = None
    return reason if found is None else str(found["explanation"])


def _standing_of(run: Run) -> list[Reason]:
    """Say whether the checks let the mark be swept."""
    try:
        found = verdict.load(run)
    except VerdictError:
        return [Reason("sweep", "the mark was not checked yet, so no sweep takes it")]
    confirmed = verdict.confirmed_checks(run, found)
    names = ", ".join(check["name"] for check in found.failed if check["name"] not in confirmed)
    begun = Journal(run.store, str(run.key), run.load(tables.EXPIRED_ADDRESSES).manifest.sha256)
    if names:
        return [Reason("sweep", f"the mark is refused by {names}, so no sweep takes it")]
    if begun.parts() and not run.store.exists(tables.manifest_key(tables.DELETION_REPORT, run.key)):
        return [Reason("sweep", "a sweep of the mark was begun and has not ended")]
    words = (
        "every check of the mark passed" if found.passed else "what the checks found is confirmed"
    )
    return [Reason("sweep", words)]


@dataclass(frozen=True)
class _Outcome:
    state: State
    reasons: tuple[Reason, ...]


def _outcome(run: Run, address: str) -> _Outcome | None:
    """Say what a run's sweep did with an object; None if it did nothing."""
    if not run.store.exists(tables.manifest_key(tables.DELETION_REPORT, run.key)):
        return None
    row = _row(run, tables.DELETION_REPORT, address)
    if row is None:
        return None
    if row["outcome"] not in ("deleted", "already_gone"):
        text = f"the sweep of run {run.key} left it: {row['outcome']}, {row['error']}"
        return _Outcome("kept", (Reason("sweep", text),))
    swept = run.load(tables.DELETION_REPORT).manifest
    gone = (
        f"run {run.key} found it gone already"
        if row["deleted_at"] is None
        else f"run {run.key} deleted it at {row['deleted_at']:%Y-%m-%d %H:%M:%S} UTC"
    )
    if run.store.exists(address):
        text = f"{gone}, and it is in the store again: it was restored"
        return _Outcome("kept", (Reason("sweep", text),))
    back = undo_words(run, swept) or (
        "Only what the store itself keeps (versions, soft delete) can bring it back: `lakegc "
        f"restore {run.repository.id} {run.key} --dry-run` tells."
    )
    proof = f"The checks before it are in {run.store.root}{lakegc_keys.verdict_key(run.key)}."
    texts = (gone, proof, back)
    return _Outcome("deleted", tuple(Reason("sweep", text) for text in texts))


def _not_listed(run: Run, address: str) -> Explanation:
    """Look for the object in the deletion reports of all runs, newest first."""
    for key in tables.runs(run.store, tables.DELETION_REPORT.folder):
        other = replace(run, key=key)
        try:
            outcome = _outcome(other, address)
        except (ChainError, CorruptTableError):
            continue
        if outcome is not None:
            why = _why(other, address, "")
            reasons = (*([Reason("rule", why)] if why else []), *outcome.reasons)
            sentence = f"{outcome.state}: {outcome.reasons[0].text}"
            if why:
                sentence += f"; {why}"
            return Explanation(
                run.repository.id, address, str(key), outcome.state, sentence, reasons
            )
    return Explanation(
        run.repository.id,
        address,
        str(run.key),
        "unknown",
        f"the listing of run {run.key} has no such object, and no stored run deleted it",
        (),
    )


@surfacing_errors()
def _row(
    run: Run, spec: TableSpec, address: str, *, by_hash: bool = False
) -> dict[str, Any] | None:
    """Return the first row of an address in a stored table, in memory for small tables.

    Raises:
        ChainError: If the run has no such table.
    """
    stored = run.load(spec)
    column, value = "address", address
    if by_hash:
        column, value = "address_hash", hashed(pa.array([address]))[0].as_py()
    if not stored.is_small:
        first = stored.frame(run.spark).where(sf.col(column) == sf.lit(value)).limit(1).toArrow()
        return _first([first])
    return _first(batch.filter(pc.equal(batch.column(column), value)) for batch in stored.batches())


def _first(some: Iterable[pa.RecordBatch | pa.Table]) -> dict[str, Any] | None:
    return next((batch.to_pylist()[0] for batch in some if batch.num_rows), None)
