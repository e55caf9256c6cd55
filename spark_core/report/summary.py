"""Sums over the stored tables of a run: every listed object gets exactly one fate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pyspark.sql.functions as sf
from pyspark.sql import Column, DataFrame

from spark_core import layout
from spark_core.addresses import candidates as rule
from spark_core.checks import confirmation, verdict
from spark_core.checks.plan import waiting_words
from spark_core.checks.result import ADVISORY
from spark_core.errors import ChainError, VerdictError
from spark_core.mark import fates
from spark_core.mark.sums import AGES, OLDEST, TOP
from spark_core.records import tables
from spark_core.records.tables import StoredTable
from spark_core.report.cautions import cautions
from spark_core.report.reference import of_reference
from spark_core.report.undo import undo_words
from spark_core.report.values import KEPT_BY_SETTING, Check, Failure, Group, Named, Report
from spark_core.run import Run
from spark_core.spark.session import surfacing_errors

NAMED = 100

# Outcomes that nobody asks a cause of.
_GONE = ("deleted", "already_gone")

MAY_GO = "may go"
COMMITTED = "a retained commit reaches it"
STAGED = "staged on a branch, not yet committed"
YOUNG = "unreachable, but younger than the cutoff"
PROTECTED = "has a name that is never collected"
HELD = "held by name"
TWIN = "identical content uploaded again: a branch reads from it"
UNCHECKED = "may be such a re-upload, and was not checked"
NOT_NAMED = "unreachable, but not named by the mark of the reference job"


def of_mark(run: Run) -> Report:
    """Sum up a stored mark by its own tables and verdict; what the settings say by now changes nothing.

    Args:
        run: The run; its five tables must be stored, a verdict need not be.

    Returns:
        Its figures; bounded by the number of reasons and `TOP` slices. They were added up while the tables were made, so no
        object is read again.

    Raises:
        ChainError: If a table is missing, or of an earlier lakegc that did not add up.
        CorruptTableError: If a table's bytes are not those of its manifest.
    """
    stored = verdict.load_mark(run)
    run = run.as_decided(stored["namespace_slices"].manifest.facts)
    expired = stored["expired_addresses"].manifest
    facts = expired.facts
    if "fates" not in facts:
        raise ChainError(
            f"run {run.key} of {run.repository.id} was marked by an earlier lakegc, which did not note the fate of each object",
            "Mark again under a new run key.",
        )
    groups = _fates(facts)
    by_age = _of(facts["by_age"])
    passed, checks = _verdict(run)
    return Report(
        repository=run.repository.id,
        run=str(run.key),
        place=run.store.root,
        cutoff=run.cutoff,
        mark=expired.sha256,
        listed=_total("listed", list(groups.values())),
        expired=groups.get(MAY_GO, Group(MAY_GO, 0, 0)),
        by_reason=_by_size(_of(facts["by_reason"])),
        by_age=tuple(by_age[name] for name in (*(label for _, label in AGES), OLDEST) if name in by_age),
        by_slice=_top_slices(facts),
        kept=_by_size({name: group for name, group in groups.items() if name != MAY_GO}),
        commits=_commits(stored["retained_commits"]),
        largest=tuple(
            Named(address, size, datetime.fromisoformat(modified), reason)
            for size, address, modified, reason in facts["largest"]
        ),
        passed=passed,
        refused=_refused(checks),
        checks=checks,
        waiting=waiting_words(facts["twins"]),
        cautions=cautions(
            stored["namespace_slices"].manifest.facts,
            stored["retained_commits"].manifest.facts,
            facts,
        ),
        reference=of_reference(run, stored),
    )


def _of(groups: Sequence[tuple[str, int, int]]) -> dict[str, Group]:
    return {name: Group(name, *figures) for name, *figures in groups}


@surfacing_errors()
def of_sweep(run: Run, mark: Report, *, just_swept: bool = False) -> Report:
    """Add to the report of a mark what its sweep did.

    Args:
        run: The run; its deletion report must be stored.
        mark: The report of the same mark.
        just_swept: The sweep ended a moment ago, as for `undo_words`.

    Raises:
        ChainError: If there was no sweep.
    """
    stored = run.load(tables.DELETION_REPORT)
    facts = stored.manifest.facts
    swept = replace(mark, sweep=stored.manifest.sha256, undo=undo_words(run, stored.manifest, just_swept=just_swept))
    gone = [Group(name, facts.get(f"{name}_objects", 0), facts.get(f"{name}_bytes", 0)) for name in _GONE]
    if sum(group.objects for group in gone) == stored.manifest.rows:
        return replace(swept, outcomes=_by_size({group.name: group for group in gone if group.objects}))
    # Of the others people ask why.
    frame = stored.frame(run.spark).persist()
    try:
        return replace(
            swept,
            outcomes=_by_size(_groups(frame, _outcome())),
            failures=_named_with(frame, "refused", "failed"),
            spared=_named_with(frame, "kept"),
        )
    finally:
        frame.unpersist()


def _outcome() -> Column:
    """Name what became of an object, and of a kept one the kind of reason: what stands before the first colon."""
    why = sf.substring_index("error", ":", 1)
    return sf.when(sf.col("outcome") == "kept", sf.concat(sf.lit("kept: "), why)).otherwise(sf.col("outcome"))


def _named_with(frame: DataFrame, *outcomes: str) -> tuple[Failure, ...]:
    rows = (
        frame.where(sf.col("outcome").isin(*outcomes))
        .orderBy("address")
        .select("address", "outcome", sf.coalesce("error", sf.lit("")).alias("error"))
        .limit(NAMED)
        .collect()
    )
    return tuple(Failure(row["address"], row["outcome"], row["error"]) for row in rows)


def _fates(facts: Mapping[str, Any]) -> dict[str, Group]:
    """Return every fate of the listing's objects in words, from the figures of table 5."""
    words = {
        fates.COMMITTED: COMMITTED,
        fates.STAGED: STAGED,
        fates.HELD: HELD,
        rule.PROTECTED: PROTECTED,
        rule.YOUNG: YOUNG,
        **KEPT_BY_SETTING,
    }
    found = {words[fate]: Group(words[fate], *rest) for fate, rest in facts["fates"].items() if fate != rule.CANDIDATE}
    hidden = facts["twins"]
    more = [
        Group(MAY_GO, facts["expired_objects"], facts["expired_bytes"]),
        Group(TWIN, hidden["kept_objects"], hidden["kept_bytes"]),
        Group(UNCHECKED, hidden["unchecked_objects"], hidden["unchecked_bytes"]),
    ]
    if restriction := facts.get("reference"):
        objects = restriction["eligible_objects"] - facts["expired_objects"]
        more.append(Group(NOT_NAMED, objects, restriction["eligible_bytes"] - facts["expired_bytes"]))
    return found | {group.name: group for group in more if group.objects}


def _groups(frame: DataFrame, by: Column) -> dict[str, Group]:
    """Count objects and bytes by a column of few values."""
    rows = (
        frame.groupBy(by.alias("name"))
        .agg(sf.count("*").alias("objects"), sf.sum("size_bytes").alias("size"))
        .collect()
    )
    return {row["name"]: Group(row["name"], row["objects"], row["size"]) for row in rows}


def _by_size(groups: dict[str, Group]) -> tuple[Group, ...]:
    return tuple(sorted(groups.values(), key=lambda group: (-group.size_bytes, -group.objects, group.name)))


def _total(name: str, groups: list[Group]) -> Group:
    return Group(name, sum(group.objects for group in groups), sum(group.size_bytes for group in groups))


def _top_slices(facts: Mapping[str, Any]) -> tuple[Group, ...]:
    """Return the slices with most bytes to go, and the sum of the others as a last row."""
    top = [Group(name or "(directly under data/ or at the root)", *figures) for name, *figures in facts["by_slice"]]
    others = facts["slices_with_expired"] - len(top)
    if not others:
        return tuple(top)
    shown = _total("", top)
    rest = (facts["expired_objects"] - shown.objects, facts["expired_bytes"] - shown.size_bytes)
    return (*top, Group(f"{others} other slices", *rest))


def _commits(retained: StoredTable) -> dict[str, int]:
    counts = Counter(reason for batch in retained.batches(["reason"]) for reason in batch.column("reason").to_pylist())
    return dict(sorted(counts.items(), key=lambda found: (-found[1], found[0]))[:TOP])


def _verdict(run: Run) -> tuple[bool | None, tuple[Check, ...]]:
    """Return whether the mark may be swept as far as the checks go, and every check with its limit."""
    try:
        found = verdict.load(run)
    except VerdictError:
        # A mark whose checks were not run yet can be looked at; the sweep asks for the verdict itself.
        return None, ()
    confirmed = verdict.confirmed_checks(run, found)
    checks = tuple(
        Check(
            name=check["name"],
            passed=check["passed"],
            summary=check["summary"],
            limit=check.get("limit", ""),
            lifted_by=check.get("lifted_by", ""),
            confirmed=_who(run, check["name"]) if check["name"] in confirmed else "",
            blocks=check["name"] not in ADVISORY,
        )
        for check in found.checks
    )
    lifted = bool(checks) and all(check.passed or check.confirmed or not check.blocks for check in checks)
    return found.passed or lifted, checks


def with_verdict(run: Run, report: Report) -> Report:
    """Bring a report of a refused mark up to what was confirmed since; no Spark is needed for that."""
    if report.passed or not any(run.store.exists(layout.confirmation_key(run.key, check)) for check in report.refused):
        return report
    passed, checks = _verdict(run)
    return replace(report, passed=passed, checks=checks, refused=_refused(checks))


def _refused(checks: Sequence[Check]) -> dict[str, str]:
    return {check.name: check.summary for check in checks if check.standing == "refused"}


def _who(run: Run, check: str) -> str:
    said = confirmation.load(run.store, run.key, check)
    return "" if said is None else f"{said.who} at {said.confirmed_at:%Y-%m-%d %H:%M} UTC"
