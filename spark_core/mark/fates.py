"""One fate for each listed object: the decision of a mark, and the table `fates` that comes of it.

Listing and references meet by the hashes of addresses: a kernel lets `fates.deciding` decide about
all objects of a bucket of hashes (`fates_by_hash`). The listing's own rows of those that no
retained commit reaches are read again (`fates_by_address`). What may go waits aside until branches
have answered. Then the same function decides once more (`fates_by_answers`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from spark_core.errors import IncompleteReadError
from spark_core.fates import WhyMayGo
from spark_core.holds import Holds
from spark_core.mark.compared import listed_objects, references_to_objects, tasks_of
from spark_core.mark.fate_rows import SENT, Decided, FateTargets
from spark_core.mark.fates_by_address import FateOrders, write_objects
from spark_core.mark.fates_by_hash import decide_bucket
from spark_core.records.reading import StoredTable
from spark_core.run import Run
from spark_core.spark.exchange import AnySource, Exchange


@dataclass(frozen=True)
class Inputs:
    """What decides beside listing and references.

    Attributes:
        held: Holds.
        held_paths: What holds keep by the paths of commits: columns of `held_paths.HELD`.
        due: What the retention policy takes: columns of `NAMED`; None for nothing.
        named: What the mark names that the run must keep to: columns of `NAMED`; None: there is
            none.
        collects_unreachable: Whether what nothing reaches may go; it is left to another run
            otherwise.
    """

    held: Holds
    held_paths: AnySource
    due: AnySource | None = None
    named: AnySource | None = None
    collects_unreachable: bool = True


def decide(
    run: Run,
    slices: StoredTable,
    staged: StoredTable,
    committed: StoredTable,
    *,
    inputs: Inputs,
    targets: FateTargets,
    otherwise: WhyMayGo,
) -> Decided:
    """Give every listed object its fate, as far as branches need not be asked.

    Each object and each hash that is referenced moves once, 22 to 26 bytes, and so do the row
    numbers of the objects that no retained commit reaches: one Spark job, or none where rows are
    few. Only the rows of the objects that nothing refers to are read a second time.

    Args:
        run: The run.
        slices: Table 1.
        staged: Table 2.
        committed: Table 4.
        inputs: What decides beside them.
        targets: Where the rows go. What may go waits; `fates_by_answers.decide_waiting` writes it.
        otherwise: Why an object may go that no expired commit is known to have had.

    Returns:
        The decision, added up over all tasks.

    Raises:
        CorruptTableError: If the bytes of a table are not those of its manifest.
        IncompleteReadError: If objects or references got lost on the way through Spark.
    """
    references = references_to_objects(run, staged, committed)
    is_left = not inputs.collects_unreachable
    orders = FateOrders(
        run.store,
        slices.manifest.parts,
        targets,
        inputs.held,
        otherwise,
        run.key.instant,
        run.limits,
        is_left,
    )
    sources: dict[str, AnySource] = {
        "listed": listed_objects(run, slices, inputs.held),
        "references": references,
        "held_paths": inputs.held_paths,
    }
    others = {"due": inputs.due, "named": inputs.named}
    sources.update({name: source for name, source in others.items() if source is not None})
    receipts, written = Exchange(
        sources,
        partial(decide_bucket, is_left, tasks_of(slices.manifest.parts)),
        SENT,
        partial(write_objects, orders),
    ).run(lambda: run.spark, threads=run.options.read_threads)
    decided = Decided()
    for receipt in [*receipts, *written]:
        decided.merge(receipt)
    waiting = sum(part.rows for part in decided.waiting_parts)
    came = (sum(decided.objects.values()) + waiting, decided.references)
    wanted = (slices.manifest.rows, references.rows + inputs.held_paths.rows)
    if came != wanted:
        raise IncompleteReadError(
            f"repository {run.repository.id}: {came[0]} of {wanted[0]} listed objects and "
            f"{came[1]} of {wanted[1]} references came out of their comparison",
            "Run again; if it stays, report it with this text and Spark's version.",
        )
    return decided
