"""Table 5: the objects that may go, once what refers to them, what hides, and what people hold is taken out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pyspark.sql.functions as sf
from pyspark.sql import DataFrame

from spark_core import schemas
from spark_core.addresses import candidates as rule
from spark_core.errors import ChainError
from spark_core.mark import fates, holds, twins
from spark_core.mark.commits import WALK
from spark_core.mark.fates import Decided, Words
from spark_core.mark.heads import Heads
from spark_core.mark.sizes import HeadEntries, absent, named_since, said_sizes, sizes_of_later
from spark_core.records import tables
from spark_core.records.tables import Draft, StoredTable, Target, Written
from spark_core.reference_job import reference
from spark_core.run import Run, chain
from spark_core.spark.session import surfacing_errors
from spark_core.spark.tasks import frame_of, interleaved

ONLY_EXPIRED_COMMITS = "only in commits past their retention"
NEVER_COMMITTED = "in no commit, and not staged"
UNREACHABLE = "in no retained commit, and not staged"

NAMED_MISSING = 20


@dataclass(frozen=True)
class Mark:
    """The four tables that the expired addresses are made from."""

    slices: StoredTable
    uncommitted: StoredTable
    commits: StoredTable
    committed: StoredTable

    @property
    def all(self) -> tuple[StoredTable, ...]:
        """The tables in the order in which they were read."""
        return (self.slices, self.uncommitted, self.commits, self.committed)


@surfacing_errors()
def expired_addresses(run: Run, mark: Mark) -> Draft:
    """Subtract what is alive from what is old: the objects that may go.

    The subtraction runs on a 64-bit hash of the address: a collision can only
    keep an object, never let one go. A run that verifies a mark of lakeFS's own
    job comes to the same result, and then lets go only what that mark names too.

    Args:
        run: The run.
        mark: Tables 1 to 4.

    Returns:
        Columns of `schemas.EXPIRED_ADDRESSES`, key address.

    Raises:
        ChainError: If the tables were not made one after the other in the safe order.
        CorruptTableError: If the mark to stay within is not what lakeFS's own job writes.
    """
    began = run.begin(tables.EXPIRED_ADDRESSES)
    chain.require_unbroken(run, [table.manifest for table in mark.all])
    named = _reference_addresses(run, mark.slices)
    held = holds.load(run.store)
    words = _words(mark)
    where = tables.folder(tables.EXPIRED_ADDRESSES, run.key)
    target = Target(run.store, where, tables.new_attempt(), schemas.EXPIRED_ADDRESSES)

    def write() -> tuple[Decided, Decided, Mapping[str, Any]]:
        decided = fates.decide(
            run, mark.slices, mark.uncommitted, mark.committed, target=target, held=held, words=words
        )
        left, more = _without_hidden(run, mark, decided, named, target)
        return decided, left, more

    decided, left, more = tables.removed_on_failure(target, write)

    facts = {
        "unreachable_objects": decided.objects[rule.CANDIDATE] + decided.objects[fates.HELD],
        "unreachable_bytes": decided.size_bytes[rule.CANDIDATE] + decided.size_bytes[fates.HELD],
        "kept_by_setting": {
            setting: {"objects": decided.objects[fate], "bytes": decided.size_bytes[fate]}
            for fate, setting in rule.KEPT_BY_SETTING.items()
        },
        "fates": {
            fate: [decided.objects[fate], decided.size_bytes[fate]] for fate in decided.objects if decided.objects[fate]
        },
        "holds": held.facts,
        "held_objects": decided.objects[fates.HELD],
        "held_bytes": decided.size_bytes[fates.HELD],
        "reasons_complete": words.otherwise != UNREACHABLE,
        "live_objects": decided.live,
        "missing_objects": decided.missing,
        "other_sizes": decided.other_sizes,
        **more,
        **left.sums.facts(),
    }
    return Draft(
        tables.EXPIRED_ADDRESSES,
        Written(target.attempt, left.receipts),
        began,
        parents=[table.manifest for table in mark.all],
        facts=lambda _: facts,
    )


def _words(mark: Mark) -> Words:
    """Choose the words for why an object may go.

    Where commits were walked, those that nothing leads to were not seen, and where a table of an expired commit could not be
    read, nobody knows what it had: then of no object it can be said that no commit had it.
    """
    all_read = mark.committed.manifest.facts.get("expired_ranges_all", False)
    all_seen = all_read and mark.commits.manifest.facts.get("refs_read_by") != WALK
    return Words(ONLY_EXPIRED_COMMITS, NEVER_COMMITTED if all_seen else UNREACHABLE)


def _without_hidden(
    run: Run, mark: Mark, decided: Decided, named: reference.Addresses | None, target: Target
) -> tuple[Decided, Mapping[str, Any]]:
    """Take out what a branch may read from although the scan cannot see it, and what the mark of another does not name.

    Returns:
        What is left, and figures.
    """
    missing, missing_facts = _missing(run, mark, decided)
    parts, schema = tables.parts_of(decided.receipts), schemas.EXPIRED_ADDRESSES
    is_small, held = tables.are_small(parts), None
    if is_small or sum(part.rows for part in parts) <= twins.HELD:
        read = partial(tables.read_part, run.store, schema)
        held = pa.Table.from_batches(interleaved(parts, read, threads=run.options.read_threads), schema)
    candidates = frame_of(run.spark, held) if is_small else tables.frame_of_parts(run.spark, run.store, schema, parts)
    # Nothing can be the twin of an entry where nothing is left to go.
    found = _twins(run, mark, candidates if held is None else held, decided, missing) if parts else twins.NONE
    facts: dict[str, Any] = {**missing_facts, "twins": found.facts}
    left, kept = decided, candidates
    if found.keeps_any:
        kept = candidates.transform(found.without_twins)
        left = fates.write_again(run, kept, target, is_small=is_small)
    if named is not None:
        eligible = left.sums.total
        facts["reference"] = {**named.facts, "eligible_objects": eligible[0], "eligible_bytes": eligible[1]}
        within = kept.transform(reference.within(named.frame))
        left = fates.write_again(run, within, target, is_small=is_small)
    return left, facts


def _twins(
    run: Run, mark: Mark, candidates: pa.Table | DataFrame, decided: Decided, missing: DataFrame | None
) -> twins.Twins:
    """Search for what the server's scan cannot see; objects that were written since the listing are not missing."""
    slices, commits = mark.slices.manifest, mark.commits.manifest
    listing = mark.slices.frame(run.spark, ["address", "size_bytes", "checksum"])
    heads = mark.committed.frame(run.spark, ["address", "size_bytes", "head_path", "checksum"]).where(
        sf.col("head_path").isNotNull()
    )
    lost, are_sizes_said = None, decided.other_sizes > 0
    if missing is not None:
        since = slices.reading_began - run.options.longest_upload - run.options.max_clock_skew
        later = sizes_of_later(run, named_since(since, missing), listing)
        lost = absent(missing, later)
        are_sizes_said = are_sizes_said or not said_sizes(later, heads).isEmpty()
    since_when = Heads.of_facts(commits.facts)
    committed = mark.committed.manifest.facts
    # A table without rows counted nothing, and one of an earlier version did not count them.
    any_outside = committed.get("heads_outside", committed["addresses_read"]) > 0
    return twins.find(
        run,
        candidates,
        HeadEntries(heads, lost, are_sizes_said, listing, any_outside=any_outside),
        # A mark of an earlier version did not note them: of no branch anything is known.
        Heads(commits.reading_began, {}, is_damaged=True) if since_when is None else since_when,
        grace=timedelta(seconds=slices.facts.get("grace_period_seconds", 0)),
    )


def _reference_addresses(run: Run, slices: StoredTable) -> reference.Addresses | None:
    """Read the mark of lakeFS's own job that the run stays within, if it was begun to stay within one.

    Raises:
        ChainError: If the run was begun to stay within another one, or within none.
    """
    begun_with = slices.manifest.facts.get("reference_mark")
    if begun_with != run.reference_mark:
        raise ChainError(
            f"run {run.key} of {run.repository.id} was begun to verify {_mark_words(begun_with)}, now it is to verify "
            f"{_mark_words(run.reference_mark)}",
            "Use a new run key.",
        )
    if run.reference_mark is None:
        return None
    mark = reference.load(run.store, run.reference_mark)
    return reference.addresses(run.spark, run.store, mark, partitions=run.options.range_partitions)


def _mark_words(mark_id: object) -> str:
    return "no mark of the reference job" if mark_id is None else f"mark {mark_id} of the reference job"


def _missing(run: Run, mark: Mark, decided: Decided) -> tuple[DataFrame | None, Mapping[str, Any]]:
    """Name what heads and staged entries reach below `data/` and the listing does not have.

    Some of it is missing for good reasons, such as staged keys that never
    existed; much of it means that the listing is of another place, or broken off
    (safety 5). It is kept as a small table of its own.

    Returns:
        The missing addresses (column address), None for nothing; and figures.
    """
    if not decided.missing:
        return None, {"missing_named": []}
    live = (
        mark.committed.frame(run.spark, ["address", "is_live", "address_hash"])
        .where("is_live")
        .select("address", "address_hash")
        .unionByName(
            mark.uncommitted.frame(run.spark, ["address", "address_hash"]).where(sf.col("address").startswith("data/"))
        )
        .dropDuplicates(["address"])
    )
    listed = mark.slices.frame(run.spark, ["address_hash"])
    missing = live.join(listed, on="address_hash", how="left_anti").select("address")
    stored = run.keep(
        Draft(tables.MISSING_ADDRESSES, missing, run.now(), parents=[table.manifest for table in mark.all])
    )
    frame = stored.frame(run.spark)
    return frame, {
        "missing_named": [row.address for row in frame.orderBy("address").limit(NAMED_MISSING).collect()],
        # For people; and the manifest, so that the verdict speaks of it.
        "missing_table": f"{run.store.root}{tables.folder(tables.MISSING_ADDRESSES, run.key)}",
        "missing_manifest": stored.manifest.sha256,
    }
