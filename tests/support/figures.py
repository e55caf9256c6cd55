"""Figures of which a test names only those that matter to it."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from types import NoneType, SimpleNamespace
from typing import Any, get_args, get_origin, get_type_hints

from spark_core.records import tables
from spark_core.records.figures import (
    CommitsFigures,
    CommittedFigures,
    DeletionFigures,
    ExpiredFigures,
    Figures,
    ListedFigures,
    StagedFigures,
)

OF_TABLES = {
    tables.NAMESPACE_SLICES: ListedFigures,
    tables.UNCOMMITTED_ADDRESSES: StagedFigures,
    tables.RETAINED_COMMITS: CommitsFigures,
    tables.COMMITTED_ADDRESSES: CommittedFigures,
    tables.EXPIRED_ADDRESSES: ExpiredFigures,
    tables.DELETION_REPORT: DeletionFigures,
}


@dataclass(frozen=True)
class Given(Figures):
    """Figures as a test writes them; JSON values."""

    values: Mapping[str, Any]

    def facts(self):
        return dict(self.values)


def nothing(kind):
    """Return JSON values for the figures that every manifest has: zero, empty or no text."""
    hints = get_type_hints(kind)
    return {
        each.name: _nothing(hints[each.name])
        for each in fields(kind)
        if each.default is MISSING and each.default_factory is MISSING
    }


def _nothing(hint):
    if NoneType in get_args(hint):
        return None
    if isinstance(hint, type) and issubclass(hint, Figures):
        return nothing(hint)
    kind = get_origin(hint) or hint
    if kind is tuple:
        return []
    return {} if kind is Mapping else kind()


def given(spec, rows=0, **facts):
    """Make the `figures` of a draft: these ones, what is measured, and nothing for the rest."""
    kind = OF_TABLES.get(spec)
    rest = {} if kind is None else nothing(kind)
    if spec is tables.DELETION_REPORT:
        rest["planned_objects"] = rows
    return lambda measured, _: Given({**rest, **measured, **facts})


def read(kind, **facts):
    """Read figures of which a manifest has these, and nothing for the rest."""
    return kind.of(manifest_of(kind, **facts))


def manifest_of(kind, **facts):
    """Make what stands for a manifest where only its figures are read."""
    return SimpleNamespace(table="a table", run="a run", facts={**nothing(kind), **facts})
