"""A clean mark of the very state that another mark saw: both must find the same, by name.

The clean one has the same key, instant and options. It works on a copy of lakegc's own files as
they lay before the other one, and the copy is thrown away. So no later run begins from it.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_core import lakegc_keys
from spark_core.addresses.address_hashes import hashed
from spark_core.checks import CheckResult
from spark_core.fates import Fate
from spark_core.index.choosing import AUDIT
from spark_core.records import tables
from spark_core.records.figures import ExpiredFigures, ListedFigures
from spark_core.records.manifest import ENCLOSED
from spark_core.records.verdict_document import Verdict
from spark_core.run import Run
from tests.support.pipeline import Marked, mark_and_conclude
from tests.support.stored_rows import rows_of

Concluded = tuple[Marked, Verdict, list[CheckResult]]

# Figures that tell what a run did, and not what it found.
_OF_THE_WORK = {
    "audit",
    "compared",
    # Only a clean run asks what earlier sweeps reported deleted.
    "deleted_before",
    "explanations_manifest",
    "missing_manifest",
    "policy",
    "saved",
    "seen",
    "twins",
}
_OF_EXPLANATIONS = (
    "explained_objects",
    "explained_by_prefix",
    "explained_by_branch",
    "unexplained",
)
_OF_TWINS = ("kept_objects", "kept_bytes", "kept_named", "unchecked_objects", "unchecked_named")
_OF_THE_LISTING = ("objects", "object_bytes", "old_objects", "old_bytes", "unsafe_name_objects")
# How many rows a failure shows.
_SHOWN = 5


@dataclass(frozen=True)
class Found:
    """What a mark found, as far as a clean one of the same state must find the same.

    Attributes:
        rows: Of the fates, of what may go, and of why it may: the rows and how often each is there.
        figures: Sums, and figures of what is missing and hidden.
        checks: Whether each check passed. A clean run has one more, which compares it with others.
    """

    rows: Mapping[str, Counter[tuple[tuple[str, Any], ...]]]
    figures: Mapping[str, Any]
    checks: Mapping[str, bool]

    @classmethod
    def of(cls, run: Run, concluded: Concluded) -> Found:
        """Read what a concluded mark found."""
        marked, _, results = concluded
        manifest = marked.expired.manifest
        beside = [
            spec
            for spec in (tables.FATES, tables.EXPLANATIONS)
            if spec.name in manifest.facts.get(ENCLOSED, {})
        ]
        stored = [marked.expired, *(run.load(spec) for spec in beside)]
        listed = ListedFigures.of(marked.tables.slices.manifest)
        found = ExpiredFigures.of(manifest)
        return cls(
            rows={table.manifest.table: _rows(rows_of(table)) for table in stored},
            figures={
                **{name: value for name, value in vars(found).items() if name not in _OF_THE_WORK},
                # No table is as good as one without rows.
                **{name: getattr(found, name) or None for name in _OF_EXPLANATIONS},
                "policy": found.policy and replace(found.policy, manifest=""),
                **{name: getattr(found.twins, name) for name in _OF_TWINS},
                **{name: getattr(listed, name) for name in _OF_THE_LISTING},
            },
            checks={each.name: each.passed for each in results if each.name != AUDIT},
        )

    @property
    def doubted(self) -> set[str]:
        """Addresses of objects that may hide, and that nobody was asked about."""
        fates = (dict(row) for row in self.rows.get(tables.FATES.name, ()))
        return {row["address"] for row in fates if row["fate"] == Fate.MAY_HIDE.value}

    def without(self, addresses: Collection[str]) -> Found:
        """Leave out the rows of some addresses."""
        hashes = set(hashed(pa.array(sorted(addresses), pa.string())).to_pylist())

        def is_left(row: tuple[tuple[str, Any], ...]) -> bool:
            named = dict(row)
            return named.get("address") not in addresses and named.get("address_hash") not in hashes

        return replace(
            self,
            rows={
                name: Counter({row: times for row, times in rows.items() if is_left(row)})
                for name, rows in self.rows.items()
            },
        )


def _rows(found: Iterable[Mapping[str, Any]]) -> Counter[tuple[tuple[str, Any], ...]]:
    return Counter(tuple(row.items()) for row in found)


def require_alike(found: Found, clean: Found, *, behind: Collection[str] = ()) -> None:
    """Compare what a run with the index found with what a clean one finds in the same state.

    Args:
        found: Of the run with the index.
        clean: Of the clean one.
        behind: Addresses whose objects were lost, written over or brought back without a word since
            the last clean run. The index may have another row of them, or none. A clean run that
            sees that an object is lost doubts whatever may hide behind its entry, where branches
            could not be asked. Whatever else the runs find, and what may go, must be the same: it
            was seen in the store.
    """
    expired = tables.EXPIRED_ADDRESSES.name
    if behind:
        doubted = clean.doubted
        found, clean = found.without(doubted), clean.without(doubted)
    more = found.rows[expired] - clean.rows[expired]
    assert not more, f"lets go what a clean run keeps: {_some(more)}"
    if behind:
        found, clean = found.without(behind), clean.without(behind)
    for name in sorted({*found.rows, *clean.rows}):
        one, other = found.rows.get(name, Counter()), clean.rows.get(name, Counter())
        assert one == other, (
            f"{name}: with the index alone {_some(one - other)}, clean alone {_some(other - one)}"
        )
    if not behind:
        different = {
            name: (value, clean.figures[name])
            for name, value in found.figures.items()
            if value != clean.figures[name]
        }
        assert not different, f"figures with the index, and clean: {different}"
        assert found.checks == clean.checks


def _some(rows: Counter[tuple[tuple[str, Any], ...]]) -> list[dict[str, Any]]:
    return [dict(row) for row, _ in rows.most_common(_SHOWN)]


def mark_beside_a_clean_one(
    namespace: Path,
    open_run: Callable[[], Run],
    *,
    behind: Collection[str] = (),
    mark: Callable[[Run], Concluded] = mark_and_conclude,
) -> tuple[Run, Concluded]:
    """Mark, and compare with a clean mark of the same state if this one was none.

    Args:
        namespace: Directory of the repository's namespace.
        open_run: Opens the run; each time as at the same instant.
        behind: As in `require_alike`.
        mark: Marks a run, and concludes it.

    Returns:
        The run, and what it found.
    """
    own, aside = namespace / lakegc_keys.ROOT, namespace.parent / f"{namespace.name}-aside"
    if own.exists():
        shutil.copytree(own, aside)
    try:
        run = open_run()
        concluded = mark(run)
        if not was_clean(concluded[0]):
            with _as_before(own, aside):
                clean = replace(open_run(), full=True)
                beside = Found.of(clean, mark_and_conclude(clean))
            require_alike(Found.of(run, concluded), beside, behind=behind)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return run, concluded


@contextmanager
def _as_before(folder: Path, before: Path) -> Iterator[None]:
    """Put a copy in the place of a folder, and the folder back afterwards."""
    now = before.with_name(f"{before.name}-now")
    folder.rename(now)
    before.rename(folder)
    try:
        yield
    finally:
        shutil.rmtree(folder)
        now.rename(folder)


def was_clean(marked: Marked) -> bool:
    """Say whether a mark took nothing from the index."""
    return ListedFigures.of(marked.tables.slices.manifest).index is None


def why_clean(marked: Marked) -> str:
    """Return why a mark was a clean one; empty for one that was none."""
    figures = ListedFigures.of(marked.tables.slices.manifest)
    assert (figures.index is None) == (figures.why_full is not None)
    return figures.why_full or ""
