"""Sums over the stored tables of a run: every listed object gets exactly one fate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.functions as sf
from pyspark.sql import Column, DataFrame

from spark_core import candidates as rule
from spark_core import confirmation, tables, verdict
from spark_core.candidates import Limits
from spark_core.errors import VerdictError
from spark_core.guards.plan import waiting_words
from spark_core.guards.result import ADVISORY
from spark_core.holds import Holds
from spark_core.mark.expired import alive_hash
from spark_core.report.cautions import cautions
from spark_core.report.reference import of_reference
from spark_core.report.undo import undo_words
from spark_core.report.values import KEPT_BY_SETTING, Check, Failure, Group, Named, Report
from spark_core.run import Run
from spark_core.schemas import INSTANT, spark_type
from spark_core.session import surfacing_errors
from spark_core.tables import StoredTable

TOP = 20
NAMED = 100

MAY_GO = "may go"
COMMITTED = "a retained commit reaches it"
STAGED = "staged on a branch, not yet committed"
YOUNG = "unreachable, but younger than the cutoff"
PROTECTED = "has a name that is never collected"
HELD = "held by name"
TWIN = "identical content uploaded again: a branch reads from it"
UNCHECKED = "may be such a re-upload, and was not checked"
NOT_NAMED = "unreachable, but not named by the mark of the reference job"

# Upper ends of the age groups, in days.
_AGES = (
    (1, "under a day"),
    (7, "1 to 7 days"),
    (30, "7 to 30 days"),
    (90, "30 to 90 days"),
    (365, "90 days to a year"),
)
_OLDEST = "over a year"

_STANDING = pa.schema(
    [
        pa.field("address_hash", pa.int64(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("standing", pa.string(), nullable=False),
        pa.field("held", pa.bool_(), nullable=False),
    ]
)
_LISTED = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("address_hash", pa.int64(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("last_modified", INSTANT, nullable=False),
    ]
)


@surfacing_errors()
def of_mark(run: Run) -> Report:
    """Sum up a stored mark by its own tables and verdict; what the settings say by now changes nothing.

    Args:
        run: The run; its five tables must be stored, a verdict need not be.

    Returns:
        Its figures; bounded by the number of reasons and `TOP` slices.

    Raises:
        ChainError: If a table is missing.
        CorruptTableError: If a table's bytes are not those of its manifest.
    """
    stored = verdict.load_mark(run)
    run = run.as_decided(stored["namespace_slices"].manifest.facts)
    expired_table = stored["expired_addresses"]
    expired = expired_table.frame(run.spark).persist()
    try:
        fates = _fates(run, stored, expired)
        by_age = _groups(expired, _age(run.key.instant, sf.col("last_modified")))
        passed, checks = _verdict(run)
        return Report(
            repository=run.repository.id,
            run=str(run.key),
            place=run.store.root,
            cutoff=run.cutoff,
            mark=expired_table.manifest.sha256,
            listed=_total("listed", list(fates.values())),
            expired=fates.get(MAY_GO, Group(MAY_GO, 0, 0)),
            by_reason=_by_size(_groups(expired, sf.col("reason"))),
            by_age=tuple(by_age[name] for name in (*(label for _, label in _AGES), _OLDEST) if name in by_age),
            by_slice=_top_slices(expired),
            kept=_by_size({name: group for name, group in fates.items() if name != MAY_GO}),
            commits=_commits(stored["retained_commits"].frame(run.spark, ["reason"])),
            largest=_largest(expired),
            passed=passed,
            refused=_refused(checks),
            checks=checks,
            waiting=waiting_words(expired_table.manifest.facts.get("twins", {})),
            cautions=cautions(
                stored["namespace_slices"].manifest.facts,
                stored["retained_commits"].manifest.facts,
                expired_table.manifest.facts,
            ),
            reference=of_reference(run, stored),
        )
    finally:
        expired.unpersist()


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
    frame = stored.frame(run.spark).persist()
    try:
        return replace(
            mark,
            sweep=stored.manifest.sha256,
            outcomes=_by_size(_groups(frame, _outcome())),
            failures=_named_with(frame, "refused", "failed"),
            spared=_named_with(frame, "kept"),
            undo=undo_words(run, stored.manifest, just_swept=just_swept),
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


def _fates(run: Run, stored: dict[str, StoredTable], expired: DataFrame) -> dict[str, Group]:
    """Give every listed object one fate, by the rules that the mark itself applied."""
    spark, hashed = run.spark, sf.xxhash64("address").alias("address_hash")
    held = Holds.of_facts(stored["expired_addresses"].manifest.facts.get("holds", []))
    # One join instead of three; the smallest number wins, as the mark asks commits before anything else.
    known = (
        stored["committed_addresses"]
        .frame(spark, ["address"])
        .select(alive_hash(), sf.lit(1).alias("known"))
        .unionByName(
            stored["uncommitted_addresses"].frame(spark, ["address"]).select(alive_hash(), sf.lit(2).alias("known"))
        )
        .unionByName(expired.select(hashed, sf.lit(3).alias("known")))
        .groupBy("address_hash")
        .agg(sf.min("known").alias("known"))
    )
    standing = (
        stored["namespace_slices"]
        .frame(spark, ["address", "size_bytes", "last_modified"])
        .withColumn("address_hash", hashed)
        .select(*_LISTED.names)
        .mapInArrow(partial(_map_standing, run.limits, run.store.unsafe_names, held), spark_type(_STANDING))
    )
    fates = {rule.PROTECTED: PROTECTED, rule.YOUNG: YOUNG, **KEPT_BY_SETTING}
    by_name = sf.create_map(*(sf.lit(word) for words in fates.items() for word in words))
    fate = (
        sf.when(sf.col("known") == 1, COMMITTED)
        .when(sf.col("known") == 2, STAGED)
        .when(sf.col("known") == 3, MAY_GO)
        .when(sf.col("standing") != rule.CANDIDATE, by_name[sf.col("standing")])
        .when(sf.col("held"), HELD)
        .otherwise(TWIN)
    )
    groups = _groups(standing.join(known, on="address_hash", how="left"), fate)
    doubtful = groups.pop(TWIN, None)
    if doubtful is not None:
        facts = stored["expired_addresses"].manifest.facts
        found = facts["twins"]
        if restriction := facts.get("reference"):
            objects = restriction["eligible_objects"] - stored["expired_addresses"].manifest.rows
            size = restriction["eligible_bytes"] - facts.get("expired_bytes", 0)
            if objects:
                groups[NOT_NAMED] = Group(NOT_NAMED, objects, size)
            doubtful = Group(TWIN, doubtful.objects - objects, doubtful.size_bytes - size)
        split = (
            Group(TWIN, found["kept_objects"], found["kept_bytes"]),
            Group(UNCHECKED, doubtful.objects - found["kept_objects"], doubtful.size_bytes - found["kept_bytes"]),
        )
        groups |= {group.name: group for group in split if group.objects}
    return groups


def _map_standing(
    limits: Limits, unsafe_names: str, held: Holds, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        addresses = batch.column("address").cast(pa.string())
        unsafe = pc.match_substring_regex(addresses, unsafe_names)
        yield pa.record_batch(
            [
                batch.column("address_hash"),
                batch.column("size_bytes"),
                pc.if_else(unsafe, rule.PROTECTED, rule.standings_of(batch, limits)),
                held.protecting(addresses),
            ],
            schema=_STANDING,
        )


def _age(instant: datetime, column: Column) -> Column:
    """Name the age group of an instant, as seen from another."""
    named = sf.lit(_OLDEST)
    for days, label in reversed(_AGES):
        named = sf.when(column > sf.lit(instant - timedelta(days=days)), label).otherwise(named)
    return named


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


def _top_slices(expired: DataFrame) -> tuple[Group, ...]:
    """Return the slices with most bytes to go, and the sum of the others as a last row."""
    slices = expired.groupBy("slice").agg(sf.count("*").alias("objects"), sf.sum("size_bytes").alias("size"))
    top = [
        Group(row["slice"] or "(directly under data/ or at the root)", row["objects"], row["size"])
        for row in slices.orderBy(sf.desc("size"), "slice").limit(TOP).collect()
    ]
    totals = slices.agg(sf.count("*"), sf.sum("objects"), sf.sum("size")).first()
    assert totals is not None  # noqa: S101 - an aggregate without grouping has one row
    if totals[0] <= TOP:
        return tuple(top)
    shown = _total("", top)
    others = Group(f"{totals[0] - TOP} other slices", totals[1] - shown.objects, totals[2] - shown.size_bytes)
    return (*top, others)


def _commits(retained: DataFrame) -> dict[str, int]:
    rows = retained.groupBy("reason").count().orderBy(sf.desc("count"), "reason").limit(TOP).collect()
    return {row["reason"]: row["count"] for row in rows}


def _largest(expired: DataFrame) -> tuple[Named, ...]:
    rows = (
        expired.orderBy(sf.desc("size_bytes"), "address")
        .limit(NAMED)
        .select("address", "size_bytes", sf.unix_micros("last_modified").alias("micros"), "reason")
        .collect()
    )
    # Spark hands instants to Python in the machine's own time zone, without saying so; microseconds cannot be misread.
    epoch = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
    return tuple(
        Named(row["address"], row["size_bytes"], epoch + timedelta(microseconds=row["micros"]), row["reason"])
        for row in rows
    )


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
    if report.passed or not any(run.store.exists(confirmation.key(run.key, check)) for check in report.refused):
        return report
    passed, checks = _verdict(run)
    return replace(report, passed=passed, checks=checks, refused=_refused(checks))


def _refused(checks: Sequence[Check]) -> dict[str, str]:
    return {check.name: check.summary for check in checks if check.standing == "refused"}


def _who(run: Run, check: str) -> str:
    said = confirmation.load(run.store, run.key, check)
    return "" if said is None else f"{said.who} at {said.confirmed_at:%Y-%m-%d %H:%M} UTC"
