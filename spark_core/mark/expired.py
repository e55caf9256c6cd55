"""Table 5: the objects that may go.

These are the listed objects that no retained commit, branch or person keeps and that cannot hide,
and those of which a retention policy takes every name, though commits have them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa

from spark_core import holds, schemas
from spark_core.addresses.address_hashes import hashed
from spark_core.fates import Fate, WhyMayGo
from spark_core.holds import Holds
from spark_core.index.choosing import saves
from spark_core.mark import explanations, fates, fates_by_answers, inventory, twins_of_waiting
from spark_core.mark.audit import audit
from spark_core.mark.brought_back import only_in_expired_commits
from spark_core.mark.compared import NAMED
from spark_core.mark.deleted_before import deleted_before
from spark_core.mark.fate_rows import Decided, FateTargets
from spark_core.mark.fates import Inputs
from spark_core.mark.fates_by_address import reason_without_commit
from spark_core.mark.fates_by_answers import Answers
from spark_core.mark.index_compared import compared_with_index
from spark_core.mark.missing import missing_of
from spark_core.mark.save import save
from spark_core.mark.seen_again import seen_again
from spark_core.mark.within_reference_mark import (
    named_objects,
    reference_addresses,
    reference_figures,
)
from spark_core.records import tables, writing
from spark_core.records.figures import CommitsFigures, ExpiredFigures, ListedFigures
from spark_core.records.manifest import Manifest, Part
from spark_core.records.reading import StoredTable
from spark_core.records.writing import Draft, Target, Written
from spark_core.reference_job import marks
from spark_core.references import held_paths, policy_rows, twins
from spark_core.references.held_paths import HeldPaths
from spark_core.references.policy_rows import PolicyRows
from spark_core.run import Run, chain
from spark_core.run.chain import Mark
from spark_core.spark.exchange import Batches, numbers_of


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
        ChainError: If the tables were not made one after the other in the safe order, or not by
            this version of lakegc.
        CorruptTableError: If the mark of lakeFS's own job is not in that job's format.
        IncompleteReadError: If the inventory that was read names an object more than once.
    """
    began = run.begin(tables.EXPIRED_ADDRESSES)
    chain.require_unbroken(run, [table.manifest for table in mark.all])
    chain.require_same_lakegc(run, mark.slices.manifest)
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


@dataclass(frozen=True)
class _Deciding:
    """What a mark reads that decides beside listing and references.

    Attributes:
        held: Holds.
        by_path: What holds keep by the paths of commits.
        by_policy: What goes by a policy; None for nothing.
        named: What a mark of lakeFS's own job names; None: the run stays within none.
    """

    held: Holds
    by_path: HeldPaths
    by_policy: PolicyRows | None
    named: marks.Addresses | None

    @classmethod
    def read(cls, run: Run, mark: Mark) -> _Deciding:
        """Read it, as for `expired_addresses`."""
        named, by_policy = (
            reference_addresses(run, mark.slices),
            policy_rows.of_mark(run, mark.all),
        )
        had_none = not CommitsFigures.of(mark.commits.manifest).holds
        held = holds.load(run.store, was_empty=had_none)
        return cls(held, held_paths.of_mark(run, mark.commits, held), by_policy, named)

    def inputs(self, run: Run) -> Inputs:
        """Bring it into the form that decides."""
        due = None if self.by_policy is None else self.by_policy.source(run).through(NAMED, _due)
        return Inputs(
            self.held,
            self.by_path.source(run),
            due=due,
            named=None if self.named is None else named_objects(self.named),
            collects_unreachable=run.options.collects_unreachable,
        )


def _made(run: Run, mark: Mark, targets: FateTargets, began: datetime) -> _Made:
    """Decide, ask branches, decide again, and say what came of it."""
    read, otherwise = _Deciding.read(run, mark), reason_without_commit(mark)
    decided = fates.decide(
        run,
        mark.slices,
        mark.uncommitted,
        mark.committed,
        inputs=read.inputs(run),
        targets=targets,
        otherwise=otherwise,
    )
    read.by_path.release()
    seen = seen_again(run, decided, targets)
    missing = missing_of(run, mark, seen.decided.missing)
    found = twins_of_waiting.search(run, mark, missing, seen, read.by_policy)
    decided = fates_by_answers.decide_waiting(run, seen.decided, _answers(found), targets)
    stored = _store_fates(run, mark, targets, decided, began)
    expired = writing.parts_of(decided.expired)
    largest = [address for _, address, *_ in decided.sums.largest]
    explained = explanations.store(run, expired, mark.all, largest)
    decided.sums.explain(explained.named)
    more = {
        **missing.figures,
        **explained.figures,
        **seen.figures,
        **_history(run, mark, expired),
        **_figures_of_names(read, decided),
    }
    figures = ExpiredFigures(
        **_figures_of_fates(decided),
        policy_only=None if run.options.collects_unreachable else True,
        holds=read.held.figures,
        reasons_complete=otherwise != WhyMayGo.UNREACHABLE,
        twins=found.figures,
        **more,
    )
    enclosed = [one for one in (stored.manifest, explained.manifest) if one is not None]
    return _Made(decided, stored, figures, enclosed)


def _store_fates(
    run: Run, mark: Mark, targets: FateTargets, decided: Decided, began: datetime
) -> StoredTable:
    """Store the table `fates`, whose rows are written."""
    return run.keep(
        Draft(
            tables.FATES,
            Written(targets.fates.attempt, decided.fates, is_all=True),
            began,
            parents=[table.manifest for table in mark.all],
            is_enclosed=True,
        )
    )


def _figures_of_fates(decided: Decided) -> Mapping[str, Any]:
    """Sum up what became of the listed objects, by the names of `ExpiredFigures`."""
    return {
        "by_fate": {
            fate: (decided.objects[fate], decided.size_bytes[fate])
            for fate in Fate
            if decided.objects[fate]
        },
        "live_objects": decided.live,
        "other_sizes": decided.other_sizes,
        **vars(decided.sums.figures),
    }


def _figures_of_names(read: _Deciding, decided: Decided) -> Mapping[str, Any]:
    """Say what a policy, and a mark of lakeFS's own job, let go of what they name."""
    figures = dict[str, Any]()
    if read.by_policy is not None:
        figures["policy"] = read.by_policy.figures(decided.taken.figures)
    if read.named is not None:
        figures["reference"] = reference_figures(read.named, decided)
    return figures


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
    """Bring what goes by a policy into the columns of `compared.NAMED`."""
    for batch in batches:
        address = batch.column("address")
        columns = [hashed(address), address, batch.column("reason")]
        yield pa.record_batch(columns, schema=NAMED)


def _answers(found: twins.Answers) -> Answers:
    """Bring the answers of branches into the form that decides."""
    read = found.read_by_branch
    return Answers(numbers_of(read["address_hash"]), read["path"].combine_chunks(), found.may_hide)
