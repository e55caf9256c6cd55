"""The order of a mark's tables by their manifests: an unbroken chain or a refusal (safety 27)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from spark_core import __version__
from spark_core.errors import ChainError
from spark_core.records import tables
from spark_core.records.figures import ListedFigures
from spark_core.records.manifest import Manifest
from spark_core.records.reading import StoredTable
from spark_core.run import Run


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


def require_unbroken(run: Run, manifests: Sequence[Manifest]) -> None:
    """Refuse tables that were not made one after the other, each from the one before.

    A person can materialize two of the tables again on their own. An object committed in between
    would be in neither the staged nor the committed set.

    Args:
        run: The run.
        manifests: Of tables 1 to 4, in any order.

    Raises:
        ChainError: If a table is missing, was made from another attempt of its parent, of another
            instance of the repository or under other options, or was begun before the table before
            it had ended.
    """
    by_table = {manifest.table: manifest for manifest in manifests}
    for manifest in manifests:
        run.require_same_instance(manifest)
    for spec in tables.MARK_TABLES[:-1]:
        if spec.name not in by_table:
            raise ChainError(_broken(run, f"{spec.name} is missing"))
    require_same_options(run, by_table[tables.NAMESPACE_SLICES.name])
    for spec in tables.MARK_TABLES[:-1]:
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
                    f"{later.table} began at {later.reading_began.isoformat()}, before "
                    f"{earlier.table} ended at {earlier.reading_ended.isoformat()}",
                )
            )


def require_same_lakegc(run: Run, slices: Manifest) -> None:
    """Refuse to go on with a mark with another lakegc than began it.

    Whoever takes from the index of a mark relies on it that the version in its verdict read all
    that is in it. A mark that has ended may be swept by any version.

    Args:
        run: The run.
        slices: Manifest of table 1, which names that version, unless it was 0.1.0.

    Raises:
        ChainError: With both versions.
    """
    began = ListedFigures.of(slices).lakegc
    if began not in (None, __version__):
        raise ChainError(
            f"run {run.key} of {run.repository.id} was begun by lakegc {began}, and this is "
            f"{__version__}",
            "Mark again under a new run key.",
        )


def require_same_options(run: Run, slices: Manifest) -> None:
    """Refuse to go on with a mark under other options than it was begun with.

    If a later table had more generous options than an earlier one, objects would go that neither
    setting alone lets go.

    Args:
        run: The run.
        slices: Manifest of table 1, which holds the options of the mark.

    Raises:
        ChainError: If an option that decides what may go differs.
    """
    differences = other_options(run, ListedFigures.of(slices).options)
    if differences:
        raise ChainError(
            f"run {run.key} of {run.repository.id} was begun under other options: {differences}",
            "Mark again under a new run key, or set the options back.",
        )


def other_options(run: Run, marked: object) -> str:
    """Name the options in which a run differs from its mark; empty if there are none.

    Args:
        run: The run, with its current options.
        marked: The options as the mark's manifest or verdict has them; a value that is no mapping
            has none.
    """
    then, now = marked if isinstance(marked, Mapping) else {}, run.deciding_options
    return ", ".join(
        f"{name} was {then.get(name, 'not kept')}, now it is {now.get(name, 'unknown')}"
        for name in sorted({*then, *now})
        if name not in then or name not in now or then[name] != now[name]
    )


def _broken(run: Run, what: str) -> str:
    return (
        f"run {run.key} of {run.repository.id}: {what}; an object that was committed in between "
        "could be in neither table. Materialize the tables again from namespace_slices on, or use "
        "a new run key."
    )
