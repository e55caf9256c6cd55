"""What becomes today of each address in a mark of lakeFS's own job: may go, or why it is kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses.address_hashes import hashed
from spark_core.addresses.collectable import NOT_NAMEABLE, collectable_batch
from spark_core.errors import ChainError
from spark_core.fates import Fate
from spark_core.mark.group_sums import GroupSums
from spark_core.records import tables, writing
from spark_core.records.figures import ExpiredFigures, ReferenceFigures, VerifiedFigures
from spark_core.records.reading import StoredTable
from spark_core.records.writing import Draft, Receipt, Target, Written
from spark_core.reference_job import marks
from spark_core.references.known_ranges import retained_hashes
from spark_core.report.values import Group, ReferenceReport, Standing
from spark_core.run import Run
from spark_core.spark.exchange import AnySource, Batches, Exchange, Sent, numbers_of

NAMED = 100


def why_it_stays(fate: Fate) -> str:
    """Say of a listed object that it stays, and why."""
    return f"kept: {fate.sentence}"


MAY_GO = "may go"
COMMITTED = why_it_stays(Fate.COMMITTED)
COMMITTED_MISSING = "a retained commit reaches it, and it is not in the store"
STAGED = why_it_stays(Fate.STAGED)
STAGED_MISSING = "staged on a branch, and not in the store"
NO_ADDRESS = "kept: the mark has no address there"
UNNAMEABLE = "kept: cannot be named safely"
ABSOLUTE = "kept: an absolute address, which the reference job does not write"
OUTSIDE = "kept: lies outside data/"
PROTECTED = why_it_stays(Fate.UNSAFE_NAME)
GONE = "not in the store: already gone, or never there"

# The reference job called these dead and they are alive. A person wants to see them first.
ALIVE = (COMMITTED_MISSING, STAGED_MISSING, COMMITTED, STAGED)

_HASH = pa.field("address_hash", pa.int64(), nullable=False)
_NAMED = pa.schema([_HASH, pa.field("address", pa.string()), pa.field("form", pa.string())])
# Fates as they are stored, and what they say of an address of the mark.
_FATES = pa.array([fate.value for fate in Fate])
_WORDS = pa.array([MAY_GO if fate.may_go else why_it_stays(fate) for fate in Fate])
# Addresses whose standings are worth a task of their own.
_ROWS_OF_A_TASK = 250_000


def reference_addresses(run: Run, stored: Mapping[str, StoredTable]) -> Draft:
    """Say of each address of the verified mark whether it may go, from the run's tables only.

    Args:
        run: The run.
        stored: Its five tables, by name.

    Returns:
        Columns of `schemas.REFERENCE_ADDRESSES`: a row per different address of the mark.

    Raises:
        ChainError: If the run verified no mark.
        CorruptTableError: If the mark's files are not those that were verified.
    """
    began = run.now()
    verified = ExpiredFigures.of(stored[tables.EXPIRED_ADDRESSES.name].manifest).reference
    if verified is None:
        raise ChainError(
            f"run {run.key} of {run.repository.id} verified no mark of the reference job."
        )
    where = tables.folder(tables.REFERENCE_ADDRESSES, run.key)
    schema = schemas.REFERENCE_ADDRESSES
    target = Target(run.store, where, writing.new_attempt(), schema)
    count = -(-verified.num_deleted_objects // _ROWS_OF_A_TASK)
    exchange = Exchange(
        _sources(run, stored, verified), partial(_stand, count), schema, partial(_write, target)
    )
    _, receipts = writing.removed_on_failure(
        target, lambda: exchange.run(lambda: run.spark, threads=run.options.read_threads)
    )
    return Draft(
        tables.REFERENCE_ADDRESSES,
        Written(target.attempt, receipts, is_all=True),
        began,
        parents=[table.manifest for table in stored.values()],
        figures=lambda _, __: VerifiedFigures(mark_id=verified.mark_id),
    )


def of_reference(run: Run, stored: Mapping[str, StoredTable]) -> ReferenceReport | None:
    """Sum up the verified mark of a run, and store the standing of each address as Parquet.

    Args:
        run: The run.
        stored: Its five tables, by name.

    Returns:
        The sums; None when the run verified no mark.
    """
    verified = ExpiredFigures.of(stored[tables.EXPIRED_ADDRESSES.name].manifest).reference
    if verified is None:
        return None
    counted, named = GroupSums(), list[Standing]()
    rows = run.keep(reference_addresses(run, stored)).source()
    for sums, some in rows.each(lambda: run.spark, _told):
        counted.merge(sums)
        named += some
    groups = sorted((Group(*row) for row in counted.groups), key=_order)
    return ReferenceReport(
        mark_id=verified.mark_id,
        addresses=verified.num_deleted_objects,
        eligible=Group(
            "lakegc's own mark would let go", verified.eligible_objects, verified.eligible_bytes
        ),
        standings=tuple(groups),
        kept=_first(named),
    )


def _order(group: Group) -> tuple[bool, int, str]:
    return group.name != MAY_GO, -group.objects, group.name


def _told(batches: Batches) -> tuple[GroupSums, Sequence[Standing]]:
    """Sum up rows of the table by standing, and name some addresses that are kept."""
    sums, named = GroupSums(), tuple[Standing, ...]()
    for batch in batches:
        sizes = batch.column("size_bytes").fill_null(0)
        sums.merge(GroupSums.of(batch.column("standing"), sizes))
        stays = batch.filter(pc.invert(batch.column("may_go"))).to_pylist()
        some = [Standing(row["address"] or "", row["standing"]) for row in stays]
        named = _first([*named, *some])
    return sums, named


def _first(rows: Iterable[Standing]) -> tuple[Standing, ...]:
    alive_first = sorted(
        rows, key=lambda row: (row.standing not in ALIVE, row.standing, row.address)
    )
    return tuple(alive_first[:NAMED])


def _sources(
    run: Run, stored: Mapping[str, StoredTable], verified: ReferenceFigures
) -> dict[str, AnySource]:
    parts = [marks.MarkFile(key, -1, digest) for key, digest in sorted(verified.parts.items())]
    named = marks.source(run.store, parts, rows=verified.num_deleted_objects)
    return {
        "named": named.through(_NAMED, partial(_with_form, run.options.flat), _once),
        "listed": stored["namespace_slices"].source(["address_hash", "size_bytes"]),
        "fates": run.load(tables.FATES).source(["address_hash", "fate"]),
        "committed": retained_hashes(run, stored["committed_addresses"]),
        "staged": stored["uncommitted_addresses"].source(["address_hash"]),
    }


def _once(rows: pa.Table) -> pa.Table:
    return rows.group_by(rows.column_names).aggregate([]).cast(rows.schema)


def _with_form(flat: bool, batches: Batches) -> Batches:  # noqa: FBT001 - of a partial function
    """Add why the form of an address forbids deleting it; null if it does not."""
    for batch in batches:
        addresses = batch.column("address").cast(pa.string())
        choices = pa.StructArray.from_arrays(
            [
                pc.is_null(addresses),
                pc.match_substring(addresses, "://"),
                pc.match_substring_regex(addresses, NOT_NAMEABLE),
                pc.and_(
                    pc.invert(pc.starts_with(addresses, "data/")),
                    pc.invert(collectable_batch(addresses, flat=flat)),
                ),
                pc.invert(collectable_batch(addresses, flat=flat)),
            ],
            names=["null", "absolute", "odd", "outside", "protected"],
        )
        # A null in a condition counts as false.
        form = pc.case_when(
            choices,
            NO_ADDRESS,
            ABSOLUTE,
            UNNAMEABLE,
            OUTSIDE,
            PROTECTED,
            pa.scalar(None, pa.string()),
        )
        yield pa.record_batch([hashed(addresses), addresses, form], schema=_NAMED)


def _stand(count: int, bucket: Mapping[str, pa.Table]) -> Sent[None]:
    """Say of each address of a bucket how it stands.

    Args:
        count: Tasks that write the rows.
        bucket: What the mark names, what is listed, and what is known of it.

    Returns:
        Columns of `schemas.REFERENCE_ADDRESSES`.
    """
    listed, fates = (
        bucket[name].group_by("address_hash").aggregate([(column, "min")])
        for name, column in (("listed", "size_bytes"), ("fates", "fate"))
    )
    named = _once(bucket["named"])
    for others in (listed, fates):
        named = named.join(others, "address_hash", join_type="left outer")
    named = named.combine_chunks()
    is_committed, is_staged = (
        pc.is_in(named["address_hash"], value_set=bucket[name]["address_hash"].combine_chunks())
        for name in ("committed", "staged")
    )
    fate, is_there = named["fate_min"], named["size_bytes_min"].is_valid()
    known = [fate.is_valid(), pc.and_(is_committed, is_there), is_committed, is_staged]
    choices = pa.StructArray.from_arrays(
        [each.combine_chunks() for each in [*known, named["form"].is_valid()]],
        names=["fate", "committed", "missing", "staged", "form"],
    )
    words = _WORDS.take(pc.index_in(fate.combine_chunks(), value_set=_FATES))
    standing = pc.case_when(
        choices,
        words,
        COMMITTED,
        COMMITTED_MISSING,
        STAGED_MISSING,
        named["form"].combine_chunks(),
        GONE,
    )
    rows = pa.table(
        [named["address"], named["size_bytes_min"], pc.equal(standing, MAY_GO), standing],
        schema=schemas.REFERENCE_ADDRESSES,
    )
    task = pa.array(numbers_of(named["address_hash"]) % max(1, count))
    return Sent(None, {number: rows.filter(pc.equal(task, number)) for number in range(count)})


def _write(target: Target, number: int, rows: pa.Table) -> Receipt:
    return writing.write_parts(target, number, iter(rows.to_batches()))
