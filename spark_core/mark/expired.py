"""Table 5: the objects that may go.

These are the listed objects without those that something references, that may hide, or that people
hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa

from spark_core import holds, schemas
from spark_core.addresses.address_hashes import hashed
from spark_core.errors import ChainError
from spark_core.fates import Fate
from spark_core.mark import explanations, fates, inventory
from spark_core.mark.compared import NAMED
from spark_core.mark.deleted_before import deleted_before
from spark_core.mark.fate_rows import Decided, Targets
from spark_core.mark.fates import Answers, Inputs, Words
from spark_core.mark.missing import Missing, missing_of, written_since
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
from spark_core.records.manifest import Manifest, Part
from spark_core.records.reading import StoredTable
from spark_core.records.writing import Draft, Target, Written
from spark_core.reference_job import marks
from spark_core.references import policy_rows, twins
from spark_core.references.expired_entries import said_of
from spark_core.references.heads import Heads
from spark_core.references.ranges import TableReader, entries_of_heads
from spark_core.references.sizes import (
    ADDRESSES,
    ENTRIES,
    LISTED,
    NONE_ABSENT,
    SIZES,
    HeadEntries,
    absent,
    are_sizes_stated,
    compared,
    of_heads,
)
from spark_core.run import Run, chain
from spark_core.run.chain import Mark
from spark_core.spark.exchange import AnySource, Batches, JoinedSource, numbers_of, source_of

ONLY_EXPIRED_COMMITS = "only in commits past their retention"
NEVER_COMMITTED = "in no commit, and not staged"
UNREACHABLE = "in no retained commit, and not staged"

# What heads and staged entries reach.
_LIVE = pa.schema([schemas.COMMITTED_ADDRESSES.field(name) for name in ("address_hash", "address")])


def expired_addresses(run: Run, mark: Mark) -> Draft:
    """Decide about every listed object, and name those that may go.

    Objects and references meet by 64-bit hashes of addresses. A collision can only keep an object,
    never let one go. A run that verifies a mark of lakeFS's own job decides in the same way, and
    lets go only what that mark names too.

    Args:
        run: The run.
        mark: Tables 1 to 4.

    Returns:
        Columns of `schemas.EXPIRED_ADDRESSES`, key address. The table `fates` lies beside it.

    Raises:
        ChainError: If the tables were not made one after the other in the safe order.
        CorruptTableError: If the mark of lakeFS's own job is not in that job's format.
        IncompleteReadError: If the inventory that was read names an object more than once.
    """
    began = run.begin(tables.EXPIRED_ADDRESSES)
    chain.require_unbroken(run, [table.manifest for table in mark.all])
    inventory.require_named_once(run, mark.slices)
    attempt = writing.new_attempt()
    targets = Targets(
        Target(
            run.store,
            tables.folder(tables.EXPIRED_ADDRESSES, run.key),
            attempt,
            schemas.EXPIRED_ADDRESSES,
        ),
        Target(
            run.store,
            tables.folder(tables.FATES, run.key),
            attempt,
            schemas.FATES,
            holds=writing.HELD_BYTES,
        ),
    )

    def write() -> _Made:
        return writing.removed_on_failure(targets.fates, lambda: _made(run, mark, targets, began))

    made = writing.removed_on_failure(targets.expired, write)
    figures = made.figures
    begun_from = ListedFigures.of(mark.slices.manifest).base
    if begun_from is not None:
        live = max(begun_from.live_objects, figures.live_objects)
        figures = replace(figures, live_objects=live)
    if saves(run):
        digest = save(
            run,
            mark.all,
            figures,
            expired=writing.parts_of(made.decided.expired),
            fates=made.fates.manifest.parts,
        )
        figures = replace(figures, saved=digest)
    return Draft(
        tables.EXPIRED_ADDRESSES,
        Written(attempt, made.decided.expired, is_all=True),
        began,
        parents=[table.manifest for table in mark.all],
        figures=lambda _, __: figures,
        encloses=made.enclosed,
    )


@dataclass(frozen=True)
class _Made:
    """What an attempt made.

    Attributes:
        decided: The decision.
        fates: The table `fates`.
        figures: Figures of table 5.
        enclosed: Manifests of the tables beside it.
    """

    decided: Decided
    fates: StoredTable
    figures: ExpiredFigures
    enclosed: Sequence[Manifest]


def _made(run: Run, mark: Mark, targets: Targets, began: datetime) -> _Made:
    """Decide, ask branches, decide again, and say what came of it."""
    named, by_policy = _reference_addresses(run, mark.slices), policy_rows.of_mark(run, mark.all)
    had_none = not CommitsFigures.of(mark.commits.manifest).holds
    held = holds.load(run.store, was_empty=had_none)
    words, listing = _words(mark), of_mark(run, mark.slices, mark.committed)
    decided = fates.decide(
        run,
        listing,
        mark.uncommitted,
        mark.committed,
        inputs=Inputs(
            held,
            due=None if by_policy is None else by_policy.source(run).through(NAMED, _due),
            named=None if named is None else _named(named),
            collects_unreachable=run.options.collects != "policies",
        ),
        targets=targets,
        words=words,
    )
    missing = missing_of(run, mark, listing, decided.missing)
    heads, figures = _compared(run, mark, listing, decided, missing)
    found = twins.NONE
    # If no object is left to go, none can be the twin of an entry.
    if heads is not None and decided.waiting_parts:
        found = _twins(
            run,
            mark,
            heads,
            fates.source_of_waiting(run, decided),
            staged_names=None if by_policy is None else by_policy.staged_names(run),
            # What a policy names has entries of heads as well, which need not say the same.
            said=said_of(run, mark.committed) if by_policy is None else None,
        )
    decided = fates.conclude(run, decided, _answers(found), targets)
    stored = run.keep(
        Draft(
            tables.FATES,
            Written(targets.fates.attempt, decided.fates, is_all=True),
            began,
            parents=[table.manifest for table in mark.all],
            is_enclosed=True,
        )
    )
    expired = writing.parts_of(decided.expired)
    explained = explanations.store(
        run,
        expired,
        mark.all,
        [address for _, address, *_ in decided.sums.largest],
    )
    decided.sums.explain(explained.named)
    more = {
        **missing.figures,
        **figures,
        **explained.figures,
        **_history(run, mark, listing, expired),
    }
    if by_policy is not None:
        more["policy"] = by_policy.figures(decided.taken.figures)
    if named is not None:
        more["reference"] = _reference_figures(named, decided)
    return _Made(
        decided,
        stored,
        ExpiredFigures(
            by_fate={
                fate: (decided.objects[fate], decided.size_bytes[fate])
                for fate in Fate
                if decided.objects[fate]
            },
            not_read=_not_read(ListedFigures.of(mark.slices.manifest), decided),
            policy_only=None if run.options.collects != "policies" else True,
            holds=held.figures,
            reasons_complete=words.otherwise != UNREACHABLE,
            live_objects=decided.live,
            other_sizes=decided.other_sizes,
            twins=found.figures,
            **more,
            **vars(decided.sums.figures),
        ),
        [manifest for manifest in (stored.manifest, explained.manifest) if manifest is not None],
    )


def _history(run: Run, mark: Mark, listing: Listing, expired: Sequence[Part]) -> Mapping[str, Any]:
    """Compare a full run with what optimized runs and sweeps before it did."""
    if listing.comparable is not None:
        return {}
    only_expired = partial(only_in_expired_commits, run, mark.commits)
    return {
        "audit": audit(run, mark.uncommitted, mark.committed, expired, only_expired),
        "deleted_before": deleted_before(run, expired),
    }


def _not_read(listed: ListedFigures, decided: Decided) -> AmountFigures | None:
    """Return what an optimized run left to the decision of the one that it begins from."""
    if listed.base is None:
        return None
    return AmountFigures(
        objects=max(0, listed.all_objects - sum(decided.objects.values())),
        bytes=max(0, listed.all_bytes - sum(decided.size_bytes.values())),
    )


def _due(batches: Batches) -> Batches:
    """Bring what goes by a policy into the columns of `fates.NAMED`."""
    for batch in batches:
        address = batch.column("address")
        columns = [hashed(address), address, batch.column("reason")]
        yield pa.record_batch(columns, schema=NAMED)


def _named(named: marks.Addresses) -> AnySource:
    """Return what a mark of lakeFS's own job names: columns of `fates.NAMED`."""
    return named.source.through(NAMED, _by_mark)


def _by_mark(batches: Batches) -> Batches:
    for batch in batches:
        address = batch.column("address").drop_null()
        columns = [hashed(address), address, pa.nulls(len(address), pa.string())]
        yield pa.record_batch(columns, schema=NAMED)


def _answers(found: twins.Answers) -> Answers:
    """Bring the answers of branches into the form that decides."""
    read = found.read_by_branch
    return Answers(numbers_of(read["address_hash"]), read["path"].combine_chunks(), found.may_hide)


def _reference_figures(named: marks.Addresses, decided: Decided) -> ReferenceFigures:
    """Say what a mark of lakeFS's own job names, and what lakegc would let go without it."""
    eligible = (Fate.EXPIRED, Fate.NOT_NAMED)
    return ReferenceFigures(
        mark_id=named.mark.mark_id,
        cutoff_time=named.mark.summary.cutoff_time,
        num_deleted_objects=named.mark.summary.num_deleted_objects,
        parts={part.key: part.sha256 for part in named.parts},
        eligible_objects=sum(decided.objects[fate] for fate in eligible),
        eligible_bytes=sum(decided.size_bytes[fate] for fate in eligible),
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


def _compared(
    run: Run, mark: Mark, listing: Listing, decided: Decided, missing: Missing
) -> tuple[HeadEntries | None, Mapping[str, Any]]:
    """Compare the entries of heads with the store.

    Returns:
        The entries (None if nobody asks for them), and figures by name.
    """
    compares = saves(run) and run.store.tells_content
    if not (compares or decided.waiting_parts):
        return None, {}
    is_said = decided.other_sizes > 0 or _sizes_were_said(run)
    heads = _heads(run, mark, listing, missing, are_sizes_said=is_said)
    if not compares:
        return heads, {}
    is_taken = bool(missing.figures.get("missing_by_policy"))
    heads, agree = _checksums_compared(heads, is_taken=is_taken)
    return heads, {"checksums_agree": agree}


def _checksums_compared(heads: HeadEntries, *, is_taken: bool) -> tuple[HeadEntries, bool]:
    """Compare the checksums that entries of heads give with those of their objects.

    The run after this one compares only what is new then. So an entry without an object does not
    agree: nobody would compare it, should its object come back.

    Args:
        heads: The entries.
        is_taken: Whether a policy took the object of any.

    Returns:
        The entries with what was found, and whether each has an object, was compared with it by
        this run or those that it began from, and gives its checksum.
    """
    if not heads.are_compared:
        return heads, False
    found = compared(heads)
    agree = not (found.are_checksums_said or found.any_absent or is_taken)
    return replace(heads, are_checksums_said=found.are_checksums_said), agree


def _heads(
    run: Run,
    mark: Mark,
    listed: Listing,
    missing: Missing,
    *,
    are_sizes_said: bool,
) -> HeadEntries:
    """Compare the entries of heads with the store; objects written since are not missing.

    Args:
        run: The run.
        mark: Tables 1 to 4.
        listed: The objects that were listed.
        missing: What heads reach without a listed object.
        are_sizes_said: Whether an entry is known to give another size than its object has.
    """
    lost, later = NONE_ABSENT, missing.later
    entries: AnySource
    if missing.stored is not None:
        entries = reading.source_of_parts(run.store, ADDRESSES, missing.stored.manifest.parts)
        if later is None:
            later = written_since(run, listed, mark.slices.manifest.reading_began, entries)
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
) -> twins.Answers:
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
    return marks.addresses(
        lambda: run.spark, run.store, mark, partitions=run.options.range_partitions
    )


def _mark_words(mark_id: object) -> str:
    return (
        "no mark of the reference job"
        if mark_id is None
        else f"mark {mark_id} of the reference job"
    )
