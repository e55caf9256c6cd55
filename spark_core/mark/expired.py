"""Table 5: the objects that may go.

These are the listed objects without those that something references, that may hide, or that people
hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.functions as sf

from spark_core import holds, schemas
from spark_core.addresses import candidates as rule
from spark_core.errors import ChainError
from spark_core.mark import fates, inventory
from spark_core.mark.deleted_before import deleted_before
from spark_core.mark.fates import Decided, Words
from spark_core.mark.since_base.audit import audit
from spark_core.mark.since_base.brought_back import only_in_expired_commits
from spark_core.mark.since_base.save import save
from spark_core.optimized import base
from spark_core.optimized.base import saves
from spark_core.optimized.listing import Listing, of_mark
from spark_core.records import reading, tables, writing
from spark_core.records.figures import (
    WALK,
    AmountFigures,
    CommitsFigures,
    CommittedFigures,
    ExpiredFigures,
    ListedFigures,
    ReferenceFigures,
)
from spark_core.records.manifest import Manifest
from spark_core.records.reading import StoredTable
from spark_core.records.writing import Draft, Target, Written
from spark_core.reference_job import marks
from spark_core.references import explanations, policy_rows, twins
from spark_core.references.heads import Heads
from spark_core.references.kept_objects import with_hashes
from spark_core.references.policy_rows import PolicyRows
from spark_core.references.ranges import TableReader, entries_of_heads
from spark_core.references.sizes import (
    ADDRESSES,
    ENTRIES,
    LISTED,
    SIZES,
    HeadEntries,
    absent,
    are_sizes_stated,
    compared,
    named_since,
    of_heads,
    sizes_of_later,
)
from spark_core.references.suspects import OBJECTS, said_of
from spark_core.run import Run, chain
from spark_core.run.chain import Mark
from spark_core.spark.exchange import AnySource, JoinedSource, source_of
from spark_core.spark.rows import (
    Rows,
    as_frame,
    count,
    distinct,
    least,
    selected,
    together,
    within,
    without,
)
from spark_core.spark.session import surfacing_errors

ONLY_EXPIRED_COMMITS = "only in commits past their retention"
NEVER_COMMITTED = "in no commit, and not staged"
UNREACHABLE = "in no retained commit, and not staged"

NAMED_MISSING = 20

# Rows of table 5 that the driver of an optimized run holds.
HELD_ROWS = 100_000


@surfacing_errors()
def expired_addresses(run: Run, mark: Mark) -> Draft:
    """Subtract what is alive from what is old: the objects that may go.

    The subtraction uses a 64-bit hash of the address. A collision can only keep an object, never
    let one go. A run that verifies a mark of lakeFS's own job makes the same subtraction, and then
    lets go only what that mark names too.

    Args:
        run: The run.
        mark: Tables 1 to 4.

    Returns:
        Columns of `schemas.EXPIRED_ADDRESSES`, key address.

    Raises:
        ChainError: If the tables were not made one after the other in the safe order.
        CorruptTableError: If the mark of lakeFS's own job is not in that job's format.
        IncompleteReadError: If the inventory that was read names an object more than once.
    """
    began = run.begin(tables.EXPIRED_ADDRESSES)
    chain.require_unbroken(run, [table.manifest for table in mark.all])
    inventory.require_named_once(run, mark.slices)
    named = _reference_addresses(run, mark.slices)
    by_policy = policy_rows.of_mark(run, mark.all)
    had_none = not CommitsFigures.of(mark.commits.manifest).holds
    held = holds.load(run.store, was_empty=had_none)
    words = _words(mark)
    where = tables.folder(tables.EXPIRED_ADDRESSES, run.key)
    target = Target(run.store, where, writing.new_attempt(), schemas.EXPIRED_ADDRESSES)
    listing = of_mark(run, mark.slices, mark.committed)

    def write() -> tuple[Decided, Decided, dict[str, Any], Sequence[Manifest]]:
        decided = fates.decide(
            run,
            listing,
            mark.uncommitted,
            mark.committed,
            target=target,
            kept=replace(target, name="_kept") if saves(run) else None,
            held=held,
            words=words,
        )
        left, of_policy, more = _without_hidden(
            run, mark, decided, named, target, listing=listing, by_policy=by_policy
        )
        if left is not decided:
            left.kept = decided.kept + left.kept
        explained = explanations.store(
            run,
            writing.parts_of(left.receipts),
            mark.all,
            [address for _, address, *_ in left.sums.largest],
            at_most=min(listing.driver_rows, HELD_ROWS),
        )
        left.sums.explain(explained.named)
        if by_policy is not None and of_policy is not None:
            more["policy"] = by_policy.figures(of_policy.sums.figures)
            left.merge(of_policy)
        if listing.comparable is None:
            expired = writing.parts_of(left.receipts)
            more["audit"] = audit(
                run,
                mark.uncommitted,
                mark.committed,
                expired,
                partial(only_in_expired_commits, run, mark.commits),
            )
            more["deleted_before"] = deleted_before(run, expired)
        enclosed = () if explained.manifest is None else (explained.manifest,)
        return decided, left, {**more, **explained.figures}, enclosed

    decided, left, more, enclosed = writing.removed_on_failure(target, write)

    figures = _figures(decided, left, held, words, more, by_policy=by_policy)
    begun_from = ListedFigures.of(mark.slices.manifest).base
    if begun_from is not None:
        live = max(begun_from.live_objects, figures.live_objects)
        figures = replace(figures, live_objects=live)
    if saves(run):
        digest = save(
            run,
            mark.all,
            figures,
            expired=writing.parts_of(left.receipts),
            kept=writing.parts_of(left.kept),
        )
        figures = replace(figures, saved=digest)
    return Draft(
        tables.EXPIRED_ADDRESSES,
        Written(target.attempt, left.receipts, left.kept, is_all=left is decided),
        began,
        parents=[table.manifest for table in mark.all],
        figures=lambda _, __: figures,
        encloses=enclosed,
    )


def _figures(
    decided: Decided,
    left: Decided,
    held: holds.Holds,
    words: Words,
    more: Mapping[str, Any],
    *,
    by_policy: PolicyRows | None,
) -> ExpiredFigures:
    """Add up what was decided of all objects, and what is left of those that may go.

    Args:
        decided: The fates of all objects.
        left: The objects that may go, without those that a branch may read unseen.
        held: The holds.
        words: Why an object may go.
        more: Figures of other steps, by name.
        by_policy: What a policy names although entries lead to it; None for nothing.
    """
    unreachable = tuple(
        of[rule.CANDIDATE] + of[fates.HELD] for of in (decided.objects, decided.size_bytes)
    )
    if by_policy is not None:
        fates.name_by_policy(decided, by_policy.total, by_policy.staged)
    return ExpiredFigures(
        unreachable_objects=unreachable[0],
        unreachable_bytes=unreachable[1],
        kept_by_setting={
            setting: AmountFigures(objects=decided.objects[fate], bytes=decided.size_bytes[fate])
            for fate, setting in rule.KEPT_BY_SETTING.items()
        },
        fates={
            fate: (decided.objects[fate], decided.size_bytes[fate])
            for fate in decided.objects
            if decided.objects[fate]
        },
        holds=held.figures,
        held_objects=decided.objects[fates.HELD],
        held_bytes=decided.size_bytes[fates.HELD],
        reasons_complete=words.otherwise != UNREACHABLE,
        live_objects=decided.live,
        missing_objects=decided.missing
        - more.get("missing_by_policy", 0)
        - more.get("since_inventory", 0),
        other_sizes=decided.other_sizes,
        **more,
        **vars(left.sums.figures),
    )


def _words(mark: Mark) -> Words:
    """Choose the words for why an object may go.

    Two cases leave unknown what commits had. Where commits were walked, those that nothing leads to
    were not seen. A table of an expired commit may have been unreadable. In both cases the words
    cannot say of any object that no commit had it.
    """
    all_read = CommittedFigures.of(mark.committed.manifest).expired_ranges_all
    all_seen = all_read and CommitsFigures.of(mark.commits.manifest).refs_read_by != WALK
    return Words(ONLY_EXPIRED_COMMITS, NEVER_COMMITTED if all_seen else UNREACHABLE)


def _without_hidden(
    run: Run,
    mark: Mark,
    decided: Decided,
    named: marks.Addresses | None,
    target: Target,
    *,
    listing: Listing,
    by_policy: PolicyRows | None,
) -> tuple[Decided, Decided | None, dict[str, Any]]:
    """Take out objects that a branch may read unseen, and those that the other mark does not name.

    The server's scan does not show everything that a branch may read from.

    Returns:
        The unreachable objects that are left, those that go by a policy, and figures by name.
    """
    heads, figures = _compared(run, mark, listing, decided, any_policy=by_policy is not None)
    if run.options.collects == "policies":
        figures, decided = {**figures, "policy_only": True}, Decided()
    parts, schema = writing.parts_of(decided.receipts), schemas.EXPIRED_ADDRESSES
    held_rows = min(listing.driver_rows, HELD_ROWS)
    is_small = reading.are_small(parts, held_rows)

    def rows_of_candidates() -> Rows:
        return reading.rows_of_parts(lambda: run.spark, run.store, schema, parts, at_most=held_rows)

    policy = None if by_policy is None else by_policy.frame(run)
    # If no object is left to go, none can be the twin of an entry.
    found = twins.NONE
    if heads is not None and (parts or policy is not None):
        both: list[AnySource] = [reading.source_of_parts(run.store, OBJECTS, parts)]
        if policy is not None:
            # Such an object can be linked from where it is seen at any time, however old it is.
            linked = policy.withColumn("last_modified", sf.lit(run.now()))
            both.append(source_of(linked, OBJECTS))
        found = _twins(
            run,
            mark,
            heads,
            JoinedSource(both),
            staged_names=None if by_policy is None else by_policy.staged_names(run),
            # What a policy names has entries of heads as well, which need not say the same.
            said=said_of(run, mark.committed) if by_policy is None else None,
        )
    more: dict[str, Any] = {**figures, "twins": found.figures}
    left, kept = decided, None
    if found.keeps_any:
        candidates = rows_of_candidates()
        kept = found.without_twins(candidates)
        left = fates.write_again(run, kept, target, is_small=is_small)
        if saves(run):
            hidden = without(candidates, kept, "address")
            aside = replace(target, name="_kept")
            left.kept = fates.write_again(run, hidden, aside, is_small=is_small).receipts
    of_policy = None
    if by_policy is not None and policy is not None:
        of_policy = fates.write_again(
            run, found.without_twins(policy), target, is_small=by_policy.is_small
        )
    if named is not None:
        rows = rows_of_candidates() if kept is None else kept
        left, more["reference"] = _within_other_mark(
            run, named, left, rows, target, is_small=is_small
        )
    return left, of_policy, more


def _within_other_mark(
    run: Run,
    named: marks.Addresses,
    left: Decided,
    kept: Rows,
    target: Target,
    *,
    is_small: bool,
) -> tuple[Decided, ReferenceFigures]:
    """Leave out objects that a mark of lakeFS's own job does not name.

    Args:
        run: The run.
        named: What that mark names.
        left: The unreachable objects ...
        kept: ... and their rows.
        target: Where the others are written.
        is_small: Whether the driver writes them.
    """
    objects, size_bytes = left.sums.total
    figures = ReferenceFigures(
        mark_id=named.mark.mark_id,
        cutoff_time=named.mark.summary.cutoff_time,
        num_deleted_objects=named.mark.summary.num_deleted_objects,
        parts={part.key: part.sha256 for part in named.parts},
        eligible_objects=objects,
        eligible_bytes=size_bytes,
    )
    rows = as_frame(run.spark, kept).transform(marks.within(named.frame))
    return fates.write_again(run, rows, target, is_small=is_small), figures


def _compared(
    run: Run, mark: Mark, listing: Listing, decided: Decided, *, any_policy: bool
) -> tuple[HeadEntries | None, Mapping[str, Any]]:
    """Compare the entries of heads with the store.

    Returns:
        The entries (None if nobody asks for them), and figures by name.
    """
    missing, later, figures = _missing(run, mark, listing, decided)
    compares = saves(run) and run.store.tells_content
    if not (compares or any_policy or writing.parts_of(decided.receipts)):
        return None, figures
    is_said = decided.other_sizes > 0 or _sizes_were_said(run)
    heads = _heads(run, mark, listing, missing, later=later, are_sizes_said=is_said)
    if compares:
        heads, agree = _checksums_compared(heads, figures)
        figures = {**figures, "checksums_agree": agree}
    return heads, figures


def _checksums_compared(heads: HeadEntries, figures: Mapping[str, Any]) -> tuple[HeadEntries, bool]:
    """Compare the checksums that entries of heads give with those of their objects.

    The run after this one compares only what is new then. So an entry without an object does not
    agree: nobody would compare it, should its object come back.

    Returns:
        The entries with what was found, and whether each has an object, was compared with it by
        this run or those that it began from, and gives its checksum.
    """
    if not heads.are_compared:
        return heads, False
    found = compared(heads)
    is_lost = found.any_absent or bool(figures.get("missing_by_policy"))
    agree = not found.are_checksums_said and not is_lost
    return replace(heads, are_checksums_said=found.are_checksums_said), agree


def _heads(
    run: Run,
    mark: Mark,
    listed: Listing,
    missing: Rows | None,
    *,
    later: Rows | None,
    are_sizes_said: bool,
) -> HeadEntries:
    """Compare the entries of heads with the store; objects written since are not missing.

    Args:
        run: The run.
        mark: Tables 1 to 4.
        listed: The objects that were listed.
        missing: As `_missing` returns it.
        later: As `_missing` returns it.
        are_sizes_said: Whether an entry is known to give another size than its object has.
    """
    lost = None
    if missing is not None:
        if later is None:
            later = _written_since(run, listed, mark.slices.manifest.reading_began, missing)
        entries = source_of(missing, ADDRESSES)
        lost = absent(lambda: run.spark, entries, source_of(later, ADDRESSES))

    def rows() -> AnySource:
        return reading.source_of_parts(run.store, ENTRIES, mark.committed.manifest.parts)

    if later is not None and not are_sizes_said:
        entries = rows().through(ENTRIES, of_heads)
        are_sizes_said = are_sizes_stated(lambda: run.spark, source_of(later, SIZES), entries)

    def listing() -> AnySource:
        found = reading.source_of_parts(run.store, LISTED, listed.parts)
        return found if later is None else JoinedSource([found, source_of(later, LISTED)])

    committed = CommittedFigures.of(mark.committed.manifest)
    # A table without rows counted nothing, and an earlier version did not count them.
    outside = committed.heads_outside
    any_outside = (committed.addresses_read if outside is None else outside) > 0
    return HeadEntries(
        lambda: run.spark,
        rows,
        lost,
        are_sizes_said,
        listing,
        any_outside=any_outside,
        are_compared=committed.change is None or committed.change.compares_checksums,
        least=0 if committed.change is None else committed.change.head_entries,
    )


def _twins(
    run: Run,
    mark: Mark,
    heads: HeadEntries,
    candidates: AnySource,
    *,
    staged_names: AnySource | None,
    said: AnySource | None,
) -> twins.Twins:
    """Search for what the scan cannot see.

    Args:
        run: The run.
        mark: Tables 1 to 4.
        heads: The entries of branch heads.
        candidates: The objects that are left to go.
        staged_names: As for `twins.find`, like the following.
        said: What entries of expired commits say.
    """
    slices, commits = mark.slices.manifest, mark.commits.manifest
    since_when = Heads.of(commits)

    def entries_of() -> Mapping[str, int]:
        table = pa.Table.from_batches(mark.commits.batches(), schemas.RETAINED_COMMITS)
        return entries_of_heads(TableReader.of(run, ListedFigures.of(slices).table_prefix), table)

    return twins.find(
        run,
        candidates,
        heads,
        # A mark of an earlier version did not record them: nothing is known of any branch.
        Heads(commits.reading_began, {}, is_damaged=True) if since_when is None else since_when,
        grace=timedelta(seconds=ListedFigures.of(slices).grace_period_seconds),
        objects=ListedFigures.of(slices).all_objects,
        entries_of=entries_of,
        staged=mark.uncommitted.manifest.rows,
        staged_names=staged_names,
        said=said,
    )


def _written_since(run: Run, listing: Listing, instant: datetime, missing: Rows) -> Rows:
    """List the slices of missing addresses (address) that may have got their object since then."""
    since = instant - run.options.longest_upload - run.options.max_clock_skew
    objects = reading.source_of_parts(run.store, ADDRESSES, listing.parts)
    return sizes_of_later(run, named_since(since, source_of(missing, ADDRESSES)), objects)


def _sizes_were_said(run: Run) -> bool:
    """Say whether the base of an optimized run found an entry that gives another size."""
    begun_from = base.of(run)
    return begun_from is not None and begun_from.saved.are_sizes_said


def _reference_addresses(run: Run, slices: StoredTable) -> marks.Addresses | None:
    """Read the mark of lakeFS's own job that the run must stay within; None if there is none.

    Raises:
        ChainError: If the run was begun to stay within another mark, or within none.
    """
    begun_with = ListedFigures.of(slices.manifest).reference_mark
    if begun_with != run.reference_mark:
        raise ChainError(
            f"run {run.key} of {run.repository.id} was begun to verify {_mark_words(begun_with)}, "
            f"now it is to verify {_mark_words(run.reference_mark)}",
            "Use a new run key.",
        )
    if run.reference_mark is None:
        return None
    mark = marks.load(run.store, run.reference_mark)
    return marks.addresses(run.spark, run.store, mark, partitions=run.options.range_partitions)


def _mark_words(mark_id: object) -> str:
    return (
        "no mark of the reference job"
        if mark_id is None
        else f"mark {mark_id} of the reference job"
    )


def _missing(
    run: Run, mark: Mark, listing: Listing, decided: Decided
) -> tuple[Rows | None, Rows | None, Mapping[str, Any]]:
    """Name the addresses that heads and staged entries reach below `data/` without a listed object.

    Some are missing for good reasons, such as staged keys that never existed. If many are missing,
    the listing is of another place or broke off (safety 5). The missing addresses are stored as a
    small table of their own. What a sweep took by a retention policy is not missing.

    An inventory lacks what was written after it. Such an object is not missing if the store has it
    now. Only names that the server gave since then are looked for: if the inventory does not cover
    `data/`, the older ones show it.

    Returns:
        The missing addresses (column address; None if there are none), the objects in the slices of
        those that were written since an inventory (columns of `sizes_of_later`; None if the store
        was listed), and figures by name.
    """
    if not decided.missing:
        return None, None, {"missing_named": ()}
    taken, figures = policy_rows.taken(run), dict[str, Any]()
    later = None
    listed = listing.rows_of(["address_hash"])
    missing = without(listing.compared(_live(run, mark)), listed, "address_hash")
    if taken is not None:
        figures["missing_by_policy"] = count(within(missing, taken, "address_hash"))
        if figures["missing_by_policy"] == decided.missing:
            return None, None, {"missing_named": (), **figures}
        missing = without(missing, taken, "address_hash")
    since = ListedFigures.of(mark.slices.manifest).since
    if since is not None:
        later = _written_since(run, listing, since, missing)
        there = with_hashes(later)
        written = within(missing, there, "address_hash")
        figures["since_inventory"] = count(distinct(written, ["address_hash"]))
        if figures["since_inventory"] + figures.get("missing_by_policy", 0) == decided.missing:
            return None, later, {"missing_named": (), **figures}
        missing = without(missing, there, "address_hash")
    stored = run.keep(
        Draft(
            tables.MISSING_ADDRESSES,
            selected(missing, ["address"]),
            run.now(),
            parents=[table.manifest for table in mark.all],
        )
    )
    missing = stored.rows(lambda: run.spark)
    return (
        missing,
        later,
        {
            **figures,
            "missing_named": least(missing, "address", NAMED_MISSING),
            # Shown to people, and part of the manifest, so that the verdict names it.
            "missing_table": f"{run.store.root}{tables.folder(tables.MISSING_ADDRESSES, run.key)}",
            "missing_manifest": stored.manifest.sha256,
        },
    )


def _live(run: Run, mark: Mark) -> Rows:
    """Return what heads and staged entries reach below `data/`: address, address_hash, each once.

    Where executors hold one of the tables, they hold the result.
    """
    columns = ["address", "address_hash"]
    reached = mark.committed.rows(lambda: run.spark, [*columns, "is_live"])
    staged = mark.uncommitted.rows(lambda: run.spark, columns)
    if isinstance(reached, pa.Table):
        reached = reached.filter(reached["is_live"])
    else:
        reached = reached.where("is_live")
    if isinstance(staged, pa.Table):
        staged = staged.filter(pc.starts_with(staged["address"], "data/"))
    else:
        staged = staged.where(sf.col("address").startswith("data/"))
    return distinct(together([selected(reached, columns), staged]), columns)
