"""Why an object is kept, may go, or is gone, as the stored runs know it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import holds, lakegc_keys
from spark_core.checks import confirming, verdict
from spark_core.errors import ChainError, CorruptTableError, VerdictError
from spark_core.explain.commits_having import Holder, holders
from spark_core.explain.stored_rows import rows_of
from spark_core.fates import Fate
from spark_core.mark.expired import NEVER_COMMITTED
from spark_core.mark.explanations import rule_in_words
from spark_core.plain_text import span_text
from spark_core.records import tables
from spark_core.records.figures import ExpiredFigures, ListedFigures
from spark_core.records.journal import Journal
from spark_core.references.expired_entries import UNREADABLE
from spark_core.references.policies.document import UNCOMMITTED
from spark_core.report.undo import undo_words
from spark_core.run import Run

State = Literal["kept", "may go", "deleted", "gone", "unknown"]

# Commits that are named; the others are counted.
NAMED = 10

# Earlier runs whose staged entries are looked through.
_EARLIER = 14
_SIGNED = (
    "a client wrote it at an address that lakeFS had given out, and it was never linked, or "
    "dropped before any commit"
)
_DROPPED = (
    "it was dropped or overwritten before any commit, its branch was reset or deleted, or its "
    "upload was never linked (lakeFS keeps no record of which)"
)


@dataclass(frozen=True)
class Reason:
    """One thing that keeps an object, or lets it go.

    Attributes:
        kind: commit, hold, rule or sweep; for what else decided a value of `fates.Fate`; unknown.
        text: The reason in words.
        until: ISO instant until when it holds at least; None if nothing is known to end it.
    """

    kind: str
    text: str
    until: str | None = None


_REACHED = Reason("commit", "a retained commit had it when the run was marked")
# The other kinds of the first reason are fates.
_FATE_OF_KIND = {"commit": Fate.COMMITTED.value}


@dataclass(frozen=True)
class Explanation:
    """What is known of one object.

    Attributes:
        repository: Repository id.
        address: Relative address.
        run: The run whose tables say so.
        state: `kept`, `may go`, `deleted`, `gone` if the store no longer has it and no report says
            why, or `unknown` if no stored run saw the object.
        sentence: The answer in one sentence.
        reasons: All reasons; commits beyond `NAMED` are one reason together.
        size_bytes: Size of the object; None if it is not known.
        last_modified: ISO instant of the store; None if it is not known.
        rule: The first reason without path and commit.
        path: The path of the commit that keeps it longest, or of the last that had it; None if no
            commit is known.
        other_paths: Number of other paths under which expired commits had it.
        commit_id: That commit.
        branch: The branch on which an expired commit was replaced; None if it is not known.
        replaced_at: ISO instant at which it was replaced there.
        others: Addresses of other objects that had the path that was asked about.
        fate: What the mark made of it, a value of `fates.Fate`; empty if it is not known.

    Examples:
        >>> explain(run, live).path
        'report.csv'
    """

    repository: str
    address: str
    run: str
    state: State
    sentence: str
    reasons: tuple[Reason, ...]
    size_bytes: int | None = None
    last_modified: str | None = None
    rule: str = ""
    path: str | None = None
    other_paths: int = 0
    commit_id: str | None = None
    branch: str | None = None
    replaced_at: str | None = None
    others: tuple[str, ...] = ()
    fate: str = ""

    def to_json(self) -> str:
        """Return it as one JSON object."""
        return json.dumps(asdict(self), indent=2)


def explain(run: Run, address: str) -> Explanation:
    """Say why an object is kept or may go, or when it was deleted; see `explain_each`.

    Examples:
        >>> explain(run, live).state, explain(run, dead).state
        ('kept', 'may go')
    """
    (found,) = explain_each(run, [address])
    return found


def explain_each(run: Run, addresses: Sequence[str]) -> list[Explanation]:
    """Say why objects are kept or may go, or when they were deleted.

    Each table is read once, however many objects are asked about.

    Args:
        run: The run whose tables are read; if its listing lacks an object, the deletion reports of
            other runs are looked through.
        addresses: Relative addresses, few enough for the driver.

    Returns:
        One for each address, in their order.

    Raises:
        ChainError: If the run has no mark.
        NotFoundError: If its tables were pruned.
    """
    found = _looked_up(run, rows_of(run, tables.NAMESPACE_SLICES, addresses))
    return [found.get(address) or _not_listed(run, address) for address in addresses]


def _looked_up(run: Run, listed: Mapping[str, Mapping[str, Any]]) -> dict[str, Explanation]:
    """Explain the objects that a run listed, by the fates that it stored."""
    fates = _fates(run, list(listed))
    reached = [address for address in listed if address not in fates]
    having = holders(run, run.load(tables.RETAINED_COMMITS), reached) if reached else {}
    held = _held(run, {each: having[each][0].path if each in having else None for each in listed})
    going = {each: row["why"] for each, row in fates.items() if Fate(row["fate"]).may_go}
    found = _going(run, going)
    for address, row in listed.items():
        known, commits = fates.get(address), having.get(address, ())
        if address in going:
            found[address] = replace(found[address], fate=fates[address]["fate"])
        elif known is None and not (commits or run.store.exists(address)):
            found[address] = _vanished(run, address)
        else:
            reasons = [_reason(run, known, row)] if known else _commits(commits) or [_REACHED]
            if address in held and reasons[0].kind != Fate.HELD:
                reasons.append(held[address])
            found[address] = _kept(run, address, reasons, commits)
        found[address] = _as_listed(found[address], row)
    return found


def _fates(run: Run, addresses: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the stored fates of listed objects; one that a retained commit reaches has none."""
    found = rows_of(run, tables.FATES, addresses, by_hash=True)
    return {each: row for each, row in found.items() if row["address"] in (None, each)}


def _as_listed(found: Explanation, row: Mapping[str, Any]) -> Explanation:
    return replace(
        found, size_bytes=row["size_bytes"], last_modified=row["last_modified"].isoformat()
    )


def _vanished(run: Run, address: str) -> Explanation:
    """Explain an object that the run knew from the index alone, and that the store has no more."""
    sentence = (
        f"gone from the store: run {run.key} knew it from the index, and no report says who "
        "deleted it"
    )
    return Explanation(run.repository.id, address, str(run.key), "gone", sentence, ())


def _reason(run: Run, row: Mapping[str, Any], listed: Mapping[str, Any]) -> Reason:
    """Say why an object has its fate, as the mark stored it."""
    fate, why, until = Fate(row["fate"]), row["why"], row["until"]
    text = why if why.startswith(fate.sentence) else f"{fate.sentence}: {why}"
    if fate in (Fate.YOUNG, Fate.UPLOADING):
        text = _age(run, fate, listed["last_modified"])
    return Reason(fate, text, until.isoformat() if until and until > run.key.instant else None)


def _age(run: Run, fate: Fate, modified: datetime) -> str:
    figures = ListedFigures.of(run.load(tables.NAMESPACE_SLICES).manifest)
    limits, inventory = run.as_decided(figures).limits, figures.inventory
    written = f"it was written at {modified:%Y-%m-%d %H:%M} UTC"
    if inventory is not None and fate is Fate.YOUNG and modified < limits.cutoff:
        return (
            f"{written}, about when the inventory of {inventory.created_at} was made, or later: "
            "the next one decides"
        )
    limit = limits.uploads_cutoff if fate is Fate.UPLOADING else limits.cutoff
    young = span_text(run.key.instant - limit)
    return f"{written}, and objects younger than {young} are left alone"


def _kept(
    run: Run, address: str, reasons: Sequence[Reason], of_commits: Sequence[Holder] = ()
) -> Explanation:
    sentence = f"kept: {reasons[0].text}"
    until = [reason.until for reason in reasons]
    if None not in until:
        latest = max(text for text in until if text)
        sentence += f"; under the rules of that run it cannot go before {instant_in_words(latest)}"
    found = Explanation(
        run.repository.id,
        address,
        str(run.key),
        "kept",
        sentence,
        tuple(reasons),
        rule=reasons[0].text,
        fate=_FATE_OF_KIND.get(reasons[0].kind, reasons[0].kind),
    )
    if not of_commits:
        return found
    first = of_commits[0]
    return replace(
        found,
        path=first.path,
        commit_id=first.commit_id,
        rule=f"in a retained commit ({first.reason})",
    )


def _going(run: Run, short: Mapping[str, str]) -> dict[str, Explanation]:
    """Explain objects that a mark let go.

    Args:
        run: The run.
        short: The reason in its table 5, by address.
    """
    if not short:
        return {}
    addresses = list(short)
    words = _explanations(run, addresses)
    by_policy = _by_policy(run, addresses)
    unnamed = [address for address in addresses if address not in words]
    never = _never_committed(
        run, [address for address in unnamed if short[address] == NEVER_COMMITTED]
    )
    held = _held(run, {each: words[each]["path"] if each in words else None for each in short})
    standing = [*_held_since(run), *_standing_of(run)]
    outcomes = _outcomes(run, addresses)
    explained = {}
    for address in addresses:
        why = never.get(address, short[address])
        found = by_policy.get(address) or _was(run, address, words.get(address), why)
        also = (held[address],) if address in held else ()
        reasons = (*found.reasons, *also, *standing)
        outcome = outcomes.get(address)
        if outcome is not None:
            sentence = f"{outcome.state}: {outcome.reasons[0].text}; {found.sentence}"
            explained[address] = replace(
                found,
                state=outcome.state,
                sentence=sentence,
                reasons=(*reasons, *outcome.reasons),
            )
        elif run.store.exists(address):
            explained[address] = replace(
                found, sentence=f"may go: {found.sentence}", reasons=reasons
            )
        else:
            explained[address] = replace(
                found,
                state="gone",
                sentence=f"gone from the store, and no report says who deleted it; "
                f"{found.sentence}",
                reasons=reasons,
            )
    return explained


def _by_policy(run: Run, addresses: Sequence[str]) -> dict[str, Explanation]:
    """Say which rule of the retention policy lets each object go, and under which name."""
    try:
        if ExpiredFigures.of(run.load(tables.EXPIRED_ADDRESSES).manifest).policy is None:
            return {}
        rows = rows_of(run, tables.POLICY_EXPIRATIONS, addresses)
    except UNREADABLE:
        return {}
    found = {}
    for address, row in rows.items():
        path = row["path"].decode(errors="replace")
        where = "a branch that is not known" if row["branch"] is None else row["branch"]
        how = "staged" if row["action"] == UNCOMMITTED else "committed"
        due = instant_in_words(row["due_since"].isoformat())
        text = f"{path}, {how} on {where}: {row['reason']}, due since {due}"
        found[address] = Explanation(
            run.repository.id,
            address,
            str(run.key),
            "may go",
            text,
            (Reason("rule", text),),
            rule=row["reason"],
            path=path,
            branch=row["branch"],
        )
    return found


def _was(run: Run, address: str, row: Mapping[str, Any] | None, short: str) -> Explanation:
    """Say what an object that may go was: its stored explanation, or else its short reason."""
    text = short if row is None else str(row["explanation"])
    found = Explanation(
        run.repository.id,
        address,
        str(run.key),
        "may go",
        text,
        (Reason("rule", text),) if text else (),
        rule=text,
    )
    if row is None:
        return found
    return replace(
        found,
        rule=rule_in_words(row, run.key.instant),
        path=row["path"],
        other_paths=row["other_paths"],
        commit_id=row["commit_id"],
        branch=row["branch"],
        replaced_at=row["replaced_at"].isoformat(),
    )


def instant_in_words(text: str) -> str:
    """Print an ISO instant to the minute."""
    return f"{datetime.fromisoformat(text).astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _held(run: Run, paths: Mapping[str, str | None]) -> dict[str, Reason]:
    """Return the holds that keep objects by their addresses or paths now, by address.

    Args:
        run: The run.
        paths: The known path of each object, by its address; None if none is known.
    """
    now = holds.load(run.store)
    known = [None if path is None else path.encode() for path in paths.values()]
    by_address = now.reasons(pa.array(list(paths), pa.string()))
    by_path = now.reasons_of_paths(pa.array(known, pa.binary()))
    return {
        address: Reason("hold", f"{text} keeps it from any sweep")
        for address, text in zip(paths, pc.coalesce(by_address, by_path).to_pylist(), strict=True)
        if text
    }


def _held_since(run: Run) -> list[Reason]:
    """Name the holds by path that were made after the mark: they may keep what it let go."""
    known = {
        (hold.name, hold.value)
        for hold in ExpiredFigures.of(run.load(tables.EXPIRED_ADDRESSES).manifest).holds
    }
    return [
        Reason(
            "hold",
            f"{hold.words} was made after the mark: a sweep looks for such paths in every commit "
            "before it deletes",
        )
        for hold in holds.load(run.store).of_paths
        if (hold.name, hold.value) not in known
    ]


def _never_committed(run: Run, addresses: Sequence[str]) -> dict[str, str]:
    """Say what became of objects that no commit had, as far as it can be told.

    lakeFS keeps no record of staged entries that were dropped. Earlier marks do: their tables of
    staged entries.
    """
    left, told = list(addresses), {}
    earlier = [key for key in tables.runs(run.store, lakegc_keys.UNCOMMITTED) if key < run.key]
    for key in earlier[:_EARLIER]:
        if not left:
            break
        try:
            earlier_run = replace(run, key=key)
            found = rows_of(earlier_run, tables.UNCOMMITTED_ADDRESSES, left, by_hash=True)
        except UNREADABLE:
            continue
        for address in found:
            told[address] = (
                f"{NEVER_COMMITTED}: run {key} found it staged; since then it was dropped or "
                "overwritten, or its branch was reset or deleted"
            )
        left = [address for address in left if address not in told]
    for address in left:
        told[address] = f"{NEVER_COMMITTED}: {_SIGNED if ',' in address else _DROPPED}"
    return told


def _commits(found: Sequence[Holder]) -> list[Reason]:
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
    return shown


def _explanations(run: Run, addresses: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the stored explanations of objects that may go; none where none were made."""
    try:
        return rows_of(run, tables.EXPLANATIONS, addresses)
    except UNREADABLE:
        return {}


def _standing_of(run: Run) -> list[Reason]:
    """Say whether the checks let the mark be swept."""
    try:
        found = verdict.load(run)
    except VerdictError:
        return [Reason("sweep", "the mark was not checked yet, so no sweep takes it")]
    confirmed = confirming.confirmed_checks(run, found)
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


def _outcomes(run: Run, addresses: Sequence[str]) -> dict[str, _Outcome]:
    """Say what a run's sweep did with objects, by address; nothing if it did nothing."""
    if not run.store.exists(tables.manifest_key(tables.DELETION_REPORT, run.key)):
        return {}
    rows = rows_of(run, tables.DELETION_REPORT, addresses)
    back = undo_words(run, run.load(tables.DELETION_REPORT).manifest) or (
        "Only what the store itself keeps (versions, soft delete) can bring it back: `lakegc "
        f"restore {run.repository.id} {run.key} --dry-run` shows whether it can."
    )
    return {address: _outcome(run, address, row, back) for address, row in rows.items()}


def _outcome(run: Run, address: str, row: Mapping[str, Any], back: str) -> _Outcome:
    if row["outcome"] not in ("deleted", "already_gone"):
        text = f"the sweep of run {run.key} left it: {row['outcome']}, {row['error']}"
        return _Outcome("kept", (Reason("sweep", text),))
    gone = (
        f"run {run.key} found it gone already"
        if row["deleted_at"] is None
        else f"run {run.key} deleted it at {row['deleted_at']:%Y-%m-%d %H:%M:%S} UTC"
    )
    if run.store.exists(address):
        text = f"{gone}, and it is in the store again: it was restored"
        return _Outcome("kept", (Reason("sweep", text),))
    proof = f"The checks before it are in {run.store.root}{lakegc_keys.verdict_key(run.key)}."
    texts = (gone, proof, back)
    return _Outcome("deleted", tuple(Reason("sweep", text) for text in texts))


def _not_listed(run: Run, address: str) -> Explanation:
    """Look for the object in the deletion reports of all runs, newest first."""
    for key in tables.runs(run.store, tables.DELETION_REPORT.folder):
        other = replace(run, key=key)
        try:
            outcome = _outcomes(other, [address]).get(address)
        except (ChainError, CorruptTableError):
            continue
        if outcome is not None:
            was = _by_policy(other, [address]).get(address) or _was(
                other, address, _explanations(other, [address]).get(address), ""
            )
            sentence = f"{outcome.state}: {outcome.reasons[0].text}"
            return replace(
                was,
                state=outcome.state,
                sentence=f"{sentence}; {was.sentence}" if was.sentence else sentence,
                reasons=(*was.reasons, *outcome.reasons),
            )
    return Explanation(
        run.repository.id,
        address,
        str(run.key),
        "unknown",
        f"the listing of run {run.key} has no such object, and no stored run deleted it",
        (),
    )
