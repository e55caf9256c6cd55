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

import numpy as np
import pyarrow as pa

from spark_core import holds, schemas
from spark_core.addresses.address_hashes import hashed, sorted_once
from spark_core.errors import ChainError
from spark_core.fates import Fate
from spark_core.index.choosing import saves
from spark_core.mark import explanations, fates, inventory
from spark_core.mark.audit import audit
from spark_core.mark.brought_back import only_in_expired_commits
from spark_core.mark.compared import NAMED
from spark_core.mark.deleted_before import deleted_before
from spark_core.mark.fate_rows import Decided, FateTargets
from spark_core.mark.fates import Answers, Inputs, ReasonWords
from spark_core.mark.index_compared import compared_with_index
from spark_core.mark.missing import Missing, missing_of, written_since
from spark_core.mark.save import save
from spark_core.mark.seen_again import SeenAgain, seen_again
from spark_core.records import reading, tables, writing
from spark_core.records.figures import (
    WALK,
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
from spark_core.references import held_paths, policy_rows, twins
from spark_core.references.head_entries import HeadsOfMark
from spark_core.references.heads import Heads
from spark_core.references.known_ranges import Alike, said_of
from spark_core.references.ranges import TableReader, entries_of_heads
from spark_core.references.sizes import (
    ADDRESSES,
    NONE_ABSENT,
    SIZES,
    HeadEntries,
    absent,
    are_sizes_stated,
)
from spark_core.run import Run, chain
from spark_core.run.chain import Mark
from spark_core.spark.exchange import AnySource, Batches, JoinedSource, numbers_of, source_of

ONLY_EXPIRED_COMMITS = "only in commits past their retention"
NEVER_COMMITTED = "in no commit, and not staged"
UNREACHABLE = "in no retained commit, and not staged"

_SIZES = pa.schema([schemas.EXPIRED_ADDRESSES.field("size_bytes")])
_CONTENTS = pa.schema([*_SIZES, schemas.NAMESPACE_SLICES.field("checksum")])


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
    targets = FateTargets(
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
    if saves(run):
        figures = replace(figures, saved=save(run, mark))
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


def _made(run: Run, mark: Mark, targets: FateTargets, began: datetime) -> _Made:
    """Decide, ask branches, decide again, and say what came of it."""
    named, by_policy = _reference_addresses(run, mark.slices), policy_rows.of_mark(run, mark.all)
    had_none = not CommitsFigures.of(mark.commits.manifest).holds
    held = holds.load(run.store, was_empty=had_none)
    words, held_paths_now = _words(mark), held_paths.of_mark(run, mark.commits, held)
    decided = fates.decide(
        run,
        mark.slices,
        mark.uncommitted,
        mark.committed,
        inputs=Inputs(
            held,
            held_paths_now.source(run),
            due=None if by_policy is None else by_policy.source(run).through(NAMED, _due),
            named=None if named is None else _named(named),
            collects_unreachable=run.options.collects != "policies",
        ),
        targets=targets,
        words=words,
    )
    held_paths_now.release()
    seen = seen_again(run, decided, targets)
    decided = seen.decided
    missing = missing_of(run, mark, decided.missing)
    found = twins.NONE
    # If no object is left to go, none can be the twin of an entry.
    if decided.waiting_parts:
        found = _twins(
            run,
            mark,
            _heads(run, mark, missing, seen, by_policy=by_policy is not None),
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
        **explained.figures,
        **seen.figures,
        **_history(run, mark, expired),
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


def _history(run: Run, mark: Mark, expired: Sequence[Part]) -> Mapping[str, Any]:
    """Compare a clean run with what optimized runs and sweeps before it did."""
    if ListedFigures.of(mark.slices.manifest).index is not None:
        return {}
    only_expired = partial(only_in_expired_commits, run, mark.commits)
    return {
        "audit": audit(run, mark.uncommitted, mark.committed, expired, only_expired),
        "compared": compared_with_index(run, mark.slices),
        "deleted_before": deleted_before(run, expired),
    }


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


def _words(mark: Mark) -> ReasonWords:
    """Choose the words for why an object may go.

    Two cases leave unknown what commits had. Where commits were walked, those that nothing leads to
    were not seen. A table of an expired commit may have been unreadable. In both cases the words
    cannot say of any object that no commit had it. (Where an earlier dump was read, a commit alone
    is unseen that was made since, was dated back past the rules, and that nothing leads to.)
    """
    all_read = CommittedFigures.of(mark.committed.manifest).expired_ranges_all
    all_seen = all_read and CommitsFigures.of(mark.commits.manifest).refs_read_by != WALK
    return ReasonWords(ONLY_EXPIRED_COMMITS, NEVER_COMMITTED if all_seen else UNREACHABLE)


def _heads(
    run: Run, mark: Mark, missing: Missing, seen: SeenAgain, *, by_policy: bool
) -> HeadEntries:
    """Compare the entries of heads with the store; objects written since are not missing.

    Args:
        run: The run.
        mark: Tables 1 to 4.
        missing: What heads reach without a listed object.
        seen: The decision, of which what waits may hide, and what was written over.
        by_policy: Whether a policy names what heads have. Then all entries of heads are read, as
            they must agree on a path.
    """
    decided, lost, later = seen.decided, NONE_ABSENT, missing.later
    if missing.stored is not None:
        entries = reading.source_of_parts(run.store, ADDRESSES, missing.stored.manifest.parts)
        if later is None:
            later = written_since(run, mark.slices, mark.slices.manifest.reading_began, entries)
        lost = absent(lambda: run.spark, entries, source_of(later, ADDRESSES))
    # What the index says of an object that was written over speaks for nobody.
    others = [
        source_of(rows, SIZES)
        for rows in (later, seen.changed)
        if rows is not None and rows.num_rows
    ]
    heads = HeadsOfMark(
        run,
        mark.slices,
        mark.committed,
        (lambda: None) if by_policy else partial(_sizes, run, decided),
        lost,
        partial(_alike, run, decided),
        later=JoinedSource(others) if others else None,
    )
    are_sizes_said = decided.other_sizes > 0
    if later is not None and not are_sizes_said:
        are_sizes_said = are_sizes_stated(lambda: run.spark, source_of(later, SIZES), heads.sized())
    committed = CommittedFigures.of(mark.committed.manifest)
    return heads.entries(are_sizes_said=are_sizes_said, any_outside=committed.heads_outside > 0)


def _alike(run: Run, decided: Decided) -> Alike:
    """Return what chooses entries that may have the content of what waits."""
    waiting = reading.source_of_parts(run.store, _CONTENTS, decided.waiting_parts)
    return Alike.together(waiting.each(lambda: run.spark, Alike.of))


def _sizes(run: Run, decided: Decided) -> Any:
    """Return the sizes of what waits, sorted and once."""
    waiting = reading.source_of_parts(run.store, _SIZES, decided.waiting_parts)
    found = waiting.each(lambda: run.spark, _sizes_in)
    return sorted_once(np.concatenate([np.empty(0, np.int64), *found]))


def _sizes_in(batches: Batches) -> Any:
    sizes = [batch.column("size_bytes").to_numpy() for batch in batches]
    return sorted_once(np.concatenate([np.empty(0, np.int64), *sizes]))


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

    def entries_of() -> Mapping[str, int]:
        table = pa.Table.from_batches(mark.commits.batches(), schemas.RETAINED_COMMITS)
        return entries_of_heads(TableReader.of(run, ListedFigures.of(slices).table_prefix), table)

    return twins.find(
        run,
        candidates,
        heads,
        Heads.of(commits),
        grace=timedelta(seconds=ListedFigures.of(slices).grace_period_seconds),
        objects=ListedFigures.of(slices).objects,
        entries_of=entries_of,
        staged=mark.uncommitted.manifest.rows,
        staged_names=staged_names,
        said=said,
    )


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
