"""Tell by the files of a run whether a manifest was never written, is there, or is gone."""

from __future__ import annotations

from collections.abc import Collection

from spark_core import lakegc_keys
from spark_core.errors import ChainError
from spark_core.model import RunKey
from spark_core.records.tables import DELETION_REPORT, MARK_TABLES, TableSpec, folder, manifest_key


def is_there(spec: TableSpec, run: RunKey, names: Collection[str]) -> bool:
    """Say whether a table's manifest is there; False if it was never written.

    A mark makes its tables in one order, and a sweep stores its report last. So what is made later
    shows that a manifest was there, and what it named is unknown.

    Args:
        spec: A table of a mark, or the deletion report.
        run: The run.
        names: Names of the run's files.

    Raises:
        ChainError: If it is gone.
    """
    key = manifest_key(spec, run)
    if key in names:
        return True
    if _was_there(spec, run, names):
        raise ChainError(
            f"run {run} has no {spec.name} ({key} does not exist), and what is made after it is "
            "there",
            "Bring the manifest back, for instance from an older version in the bucket.",
        )
    return False


def _was_there(spec: TableSpec, run: RunKey, names: Collection[str]) -> bool:
    if spec is DELETION_REPORT:
        # Its parts may be those of a sweep that was killed: then nobody knows either.
        own = folder(spec, run)
        return any(name.startswith(own) for name in names)
    later = MARK_TABLES[MARK_TABLES.index(spec) + 1 :]
    made = {
        *(manifest_key(each, run) for each in (*later, DELETION_REPORT)),
        lakegc_keys.verdict_key(run),
        *lakegc_keys.report_keys(run, swept=False).values(),
    }
    return not made.isdisjoint(names)
