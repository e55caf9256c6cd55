"""What a policy would take, by a stored mark; changes nothing."""

from __future__ import annotations

from spark_core.records import tables
from spark_core.records.figures import ListedFigures, NamedFigures
from spark_core.references.policies.document import Policy
from spark_core.references.policies.expirations import find
from spark_core.run import Run
from spark_core.run.chain import Mark


def what_if(run: Run, policy: Policy) -> NamedFigures:
    """Find what a document would take, as of a marked run.

    Args:
        run: A run that was marked.
        policy: The document; it need not be set.

    Raises:
        ChainError: If a table of the mark is missing.
        NotFoundError: If the tables of the mark were pruned.
    """
    mark = Mark(*(run.load(spec) for spec in tables.MARK_TABLES[:-1]))
    found, _ = find(run.as_decided(ListedFigures.of(mark.slices.manifest)), policy, mark)
    return found
