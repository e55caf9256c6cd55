"""What other rules would let go: one pass over lakeFS's tables answers for all of them.

For each object it finds under how many of the rules asked about some retained commit has it. The
objects are those of a stored mark's listing whose names and ages let them go, and that no sweep has
deleted since. What a hold keeps by its address or path is in no answer. Hidden entries
(`hidden_entries`) are not looked for, so answers are upper bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import lakegc_keys
from spark_core.addresses import candidates as rule
from spark_core.addresses.address_hashes import hashed
from spark_core.errors import TABLES_UNREADABLE
from spark_core.explain.what_if import freed, numbers
from spark_core.explain.what_if.answer import WhatIf
from spark_core.explain.what_if.entries import HASHES, entries_with_numbers
from spark_core.explain.what_if.keepers import keepers_of, sole_keepers_of
from spark_core.explain.what_if.questions import questions_of
from spark_core.holds import Holds
from spark_core.model import RetentionRules
from spark_core.prices import Price
from spark_core.records import tables
from spark_core.records.figures import ExpiredFigures
from spark_core.records.reading import StoredTable
from spark_core.records.swept import beside_the_report
from spark_core.references.commits import read_commits, tables_prefix
from spark_core.references.table_reader import TableReader
from spark_core.report.fate_counts import total
from spark_core.run import Run
from spark_core.spark.exchange import (
    AnySource,
    Batches,
    Exchange,
    JoinedSource,
    no_work,
    source_of,
)
from spark_core.storage.outcomes import GONE

DAYS = (1, 3, 7, 14, 21, 30, 60, 90)

CANDIDATES = HASHES.append(pa.field("size_bytes", pa.int64(), nullable=False))


def what_if(run: Run, days: Sequence[int] = DAYS, rules: RetentionRules | None = None) -> WhatIf:
    """Say what would be free under other rules, and next week and month under the rules of now.

    It reads the refs anew, every metarange and range of the repository once, and the listing and
    the staged entries of a stored mark. Nothing is changed.

    Args:
        run: A run with a mark.
        days: Days that every branch would keep, each for itself.
        rules: Other rules, answered exactly.

    Raises:
        ChainError: If the run has no mark.
        CorruptTableError: If a table of lakeFS cannot be read whole.

    Examples:
        >>> [(each.name, each.objects) for each in what_if(run, [7, 90]).answers[:2]]
        [('every branch keeps 90 days', 0), ('every branch keeps 7 days', 1)]
    """
    asked_at = run.now()
    slices = run.load(tables.NAMESPACE_SLICES)
    prefix = tables_prefix(run)
    found = read_commits(run, prefix)
    questions = questions_of(run, found, days, rules)
    branches, keepers = keepers_of(found.refs, found.rules, run.now())
    soles, sole_of = sole_keepers_of(run, found)
    sources: dict[str, AnySource] = {
        "candidates": _listed(slices, found.holds),
        "staged": run.load(tables.UNCOMMITTED_ADDRESSES).source(["address_hash"]),
        "deleted": _deleted_since(run),
        "entries": entries_with_numbers(
            run,
            TableReader.of(run, prefix),
            numbers.of_metaranges(found.refs, questions, keepers, sole_of),
            held=found.holds,
            when_held=numbers.of_held(questions, len(soles)),
            questions=len(questions),
        ),
    }
    free = partial(freed.free, numbers.levels_asked(questions), branches, soles)
    told, _ = Exchange(sources, free, HASHES, no_work).run(
        lambda: run.spark, threads=run.options.read_threads
    )
    names = [
        *(name for question in questions for name in question.names),
        freed.NAME_OF_NEVER_COMMITTED,
    ]
    *answers, never = freed.of_all_buckets(names, told)
    return WhatIf(
        run.repository.id,
        str(run.key),
        (never.objects, never.size_bytes),
        total(one.swept for one in told),
        freed.kept_by_one(told),
        tuple(answers),
        _price(run),
        asked_at,
    )


def _price(run: Run) -> Price | None:
    """Return what a GB of what may go now costs on the average: what would go has no class here."""
    if run.options.price is None:
        return None
    expired = ExpiredFigures.of(run.load(tables.EXPIRED_ADDRESSES).manifest)
    return run.options.price.over(expired.bytes_by_class, expired.expired_bytes)


def _listed(slices: StoredTable, held: Holds) -> AnySource:
    """Return the listed objects that may go by name and age, and that no hold keeps by address."""
    columns = [*CANDIDATES.names, "standing", *(["address"] if held.of_addresses else [])]
    return slices.source(columns).through(CANDIDATES, partial(_candidates, held))


def _candidates(held: Holds, batches: Batches) -> Batches:
    for batch in batches:
        stays = pc.not_equal(batch.column("standing"), rule.CANDIDATE)
        if held.of_addresses:
            stays = pc.or_(stays, held.protecting(batch.column("address")))
        yield batch.filter(pc.invert(stays)).select(CANDIDATES.names)


def _deleted_since(run: Run) -> AnySource:
    """Return the hashes of the addresses that sweeps of this run and of later ones have deleted.

    Of a killed sweep they are those that its journal says are gone. What was restored since counts
    as deleted until the next mark lists it.
    """
    found: list[AnySource] = [source_of(HASHES.empty_table(), HASHES)]
    folders = (tables.DELETION_REPORT.folder, lakegc_keys.JOURNAL)
    for key in {key for folder in folders for key in tables.runs(run.store, folder)}:
        if key < run.key:
            continue
        swept = run.at(key)
        with suppress(*TABLES_UNREADABLE):
            report = swept.load(tables.DELETION_REPORT)
            found.append(report.source(["address", "outcome"]).through(HASHES, _gone))
        with suppress(*TABLES_UNREADABLE):
            journal, parts = beside_the_report(run.store, key, {})
            if outcomes := [part for part in parts if part.kind == "outcome"]:
                swept.load(tables.EXPIRED_ADDRESSES)  # refuses those of another repository
                found.append(journal.source(outcomes).through(HASHES, _gone))
    return JoinedSource(found)


def _gone(batches: Batches) -> Batches:
    for batch in batches:
        is_gone = pc.is_in(batch.column("outcome"), value_set=pa.array(GONE))
        yield pa.record_batch([hashed(batch.column("address").filter(is_gone))], schema=HASHES)
