"""Compare the objects of a plan with what may refer to them now; all rows must come to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.addresses.address_hashes import ADDRESS_HASH, are_among, hashed, with_address_hash
from spark_core.errors import IncompleteReadError
from spark_core.records import rows_aside
from spark_core.references.twins import OBJECTS
from spark_core.run import Run
from spark_core.spark.exchange import AnySource, Batches, Exchange, Sent
from spark_core.sweep.why_kept import KEPT, KeptRules, why_kept

ADDRESSES = pa.schema([ADDRESS_HASH, OBJECTS.field("address")])
_PLANNED = pa.schema([ADDRESS_HASH, *OBJECTS])
# Sources of which every row must come to its comparison.
_WHOLE = ("planned", "staged", "committed", "held_paths")


def by_hash(rows: AnySource, schema: pa.Schema) -> AnySource:
    """Return columns of rows, by the hash of their address."""
    return rows.through(schema, partial(_hash, schema.names[1:]))


def _hash(columns: Sequence[str], batches: Batches) -> Batches:
    yield from with_address_hash(batch.select(columns) for batch in batches)


def planned_at(began: datetime, plan: AnySource) -> AnySource:
    """Return the objects of a plan, by hash; those of unknown write time have that of a look."""
    return plan.through(_PLANNED, partial(_planned, began))


def _planned(began: datetime, batches: Batches) -> Batches:
    written = pa.scalar(began, schemas.INSTANT)
    for batch in batches:
        rows = batch
        if "last_modified" not in rows.schema.names:
            rows = rows.append_column("last_modified", pa.repeat(written, rows.num_rows))
        addresses = rows.column("address").cast(pa.string())
        others = (rows.column(name) for name in _PLANNED.names[2:])
        yield pa.record_batch([hashed(addresses), addresses, *others], schema=_PLANNED)


def reasons(batches: Batches) -> Batches:
    """Return hashes and reasons alone: columns of `KEPT`."""
    for batch in batches:
        yield batch.select(KEPT.names).cast(KEPT)


def compare(
    run: Run,
    sources: Mapping[str, AnySource],
    rules: KeptRules,
    known: Any,
    held: ExitStack,
    *,
    began: datetime,
    own: int,
) -> tuple[list[pa.Table], AnySource]:
    """Compare the objects of a plan with what may refer to them.

    Args:
        run: The run.
        sources: `planned`, as `planned_at` returns it, `concluded`, which nobody will delete any
            more, and what `why_kept` reads; all by hash.
        rules: What counts for all objects.
        known: Hashes of those that are kept anyway, sorted.
        held: Removes what is set aside.
        began: Start of the look.
        own: How many objects go by the retention policy.

    Returns:
        What is kept, in columns of `KEPT`; and the objects that nothing refers to so far: columns
        of `twins.OBJECTS`.

    Raises:
        IncompleteReadError: If any rows got lost on the way to their comparison.
    """
    rest = rows_aside.target_of(run.store, run.key, OBJECTS)
    meet = partial(_meet, rules, known, began)
    met, left = Exchange(sources, meet, OBJECTS, partial(rows_aside.put_aside, rest)).run(
        lambda: run.spark, threads=run.options.read_threads
    )
    held.callback(rows_aside.remove, rest, left)
    came = sum((one.rows for one in met), Counter[str]())
    wanted = +Counter({"own": own, **{name: sources[name].rows for name in _WHOLE}})
    if came != wanted:
        raise IncompleteReadError(
            f"repository {run.repository.id}: of what may refer to the plan just before "
            f"deleting, {_counts(came)} came to their comparison, of {_counts(wanted)}",
            "Run the same command again; if it stays, report it with this text and Spark's "
            "version.",
        )
    return [one.kept for one in met], rows_aside.source_of(run.store, OBJECTS, left)


@dataclass(frozen=True)
class _Met:
    """What came of the objects of a bucket.

    Attributes:
        rows: How many rows of each source came, as far as it may keep anything.
        kept: Columns of `KEPT`.
    """

    rows: Counter[str]
    kept: pa.Table


def _meet(
    rules: KeptRules, known: Any, linked_at: datetime, bucket: Mapping[str, pa.Table]
) -> Sent[_Met]:
    """Compare the objects of a plan with what may refer to them.

    Args:
        rules: What counts for all of them.
        known: Hashes of those that are kept anyway, sorted.
        linked_at: When an object of a policy may have been linked at the latest.
        bucket: `planned` with columns of `_PLANNED`, and what `why_kept` reads.

    Returns:
        What is kept; and the rest, for a search for hidden entries.
    """
    planned = bucket["planned"]
    hashes, why = planned["address_hash"].combine_chunks(), why_kept(planned, bucket, rules)
    kept = pa.table([hashes, why], KEPT.names).filter(why.is_valid()).cast(KEPT)
    is_done = pc.is_in(planned["address"], value_set=_addresses(bucket["concluded"]))
    is_known = pa.array(are_among(hashes.to_numpy(), known))
    rest = planned.filter(pc.and_not(why.is_null(), pc.or_(is_done, is_known)))
    # Such an object can be linked from where it is seen at any time, however old it is.
    is_own = pc.is_in(rest["address"], value_set=_addresses(bucket["own"]))
    dates = pc.if_else(is_own, pa.scalar(linked_at, schemas.INSTANT), rest["last_modified"])
    objects = rest.select(OBJECTS.names[:-1]).append_column(OBJECTS.names[-1], dates)
    rows = {name: bucket[name].num_rows for name in (*_WHOLE, "own")}
    return Sent(_Met(Counter(rows), kept), {rows_aside.place_of(planned): objects.cast(OBJECTS)})


def _addresses(rows: pa.Table) -> pa.StringArray:
    return rows["address"].combine_chunks()


def _counts(rows: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(rows.items())) or "nothing"
