"""The order of a mark's tables, told by their manifests; an unbroken chain or a refusal (safety 27)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from spark_core import tables
from spark_core.errors import ChainError
from spark_core.run import Run
from spark_core.tables import Manifest


def require_unbroken(run: Run, manifests: Sequence[Manifest]) -> None:
    """Refuse tables that were not made one after the other, each from the one before.

    A person can materialize two of the tables again on their own; an object
    committed in between would be in neither the staged nor the committed set.

    Args:
        run: The run.
        manifests: Of tables 1 to 4, in any order.

    Raises:
        ChainError: If a table is missing, was made from another attempt of its parent, of another instance of the
            repository, or was begun before the one before it had ended.
    """
    by_table = {manifest.table: manifest for manifest in manifests}
    for manifest in manifests:
        run.require_same_instance(manifest)
    for spec in tables.MARK_TABLES[:-1]:
        if spec.name not in by_table:
            raise ChainError(_broken(run, f"{spec.name} is missing"))
        for parent in spec.parents:
            made_from = by_table[spec.name].parents.get(parent)
            stored = by_table[parent].sha256
            if made_from != stored:
                raise ChainError(
                    _broken(
                        run,
                        f"{spec.name} was made from another attempt of {parent} "
                        f"(manifest {str(made_from)[:12]}, stored is {stored[:12]})",
                    )
                )
    order = [by_table[spec.name] for spec in tables.MARK_TABLES[:-1]]
    for earlier, later in pairwise(order):
        if later.reading_began < earlier.reading_ended:
            raise ChainError(
                _broken(
                    run,
                    f"{later.table} began at {later.reading_began.isoformat()}, before {earlier.table} "
                    f"ended at {earlier.reading_ended.isoformat()}",
                )
            )


def _broken(run: Run, what: str) -> str:
    return (
        f"run {run.key} of {run.repository.id}: {what}; an object that was committed in between could be in neither "
        "table, so nothing was deleted. Materialize the tables again from namespace_slices on, or use a new run key."
    )
