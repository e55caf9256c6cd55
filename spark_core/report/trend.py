"""What earlier runs of a namespace came to, from their stored reports.

It costs two listings at most, and a small read for the newest run and for each that was swept
since. Only where reports do not tell what came before them, it is one for each of the newest
`RUNS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import astuple, dataclass, field

from spark_core import lakegc_keys
from spark_core.errors import CorruptTableError, LakegcError, NotFoundError
from spark_core.fates import Fate
from spark_core.model import RunKey
from spark_core.records import tables
from spark_core.report.report import Report
from spark_core.report.values import PastRun
from spark_core.storage import ObjectStore
from spark_core.storage.outcomes import GONE

RUNS = 30
_LIVE = frozenset({Fate.COMMITTED.sentence, Fate.STAGED.sentence})
# What another run would let go. Without it, the garbage of a run that takes only a part would seem
# to have gone.
_OF_OTHERS = frozenset({Fate.LEFT_TO_OTHERS.sentence, Fate.NOT_NAMED.sentence})


@dataclass(frozen=True)
class Point:
    """The bytes of a run.

    Attributes:
        run: Run key.
        listed: Everything in the namespace.
        live: What a retained commit or a staged entry reaches.
        garbage: What may go, by this run or by one that takes everything.
        reclaimed: What a sweep of the run deleted; 0 without one.
        swept: Whether there was one.
        is_final: Whether it left nothing for another one.
    """

    run: str
    listed: int
    live: int
    garbage: int
    reclaimed: int
    swept: bool = field(default=False, compare=False)
    is_final: bool = field(default=True, compare=False)

    @classmethod
    def of(cls, report: Report) -> Point:
        """Take the bytes from a report."""
        return cls(
            report.run,
            report.listed.size_bytes,
            sum(group.size_bytes for group in report.kept if group.name in _LIVE),
            report.expired.size_bytes
            + sum(group.size_bytes for group in report.kept if group.name in _OF_OTHERS),
            sum(group.size_bytes for group in report.outcomes or () if group.name == "deleted"),
            report.swept,
            all(group.name in GONE for group in report.outcomes or ()),
        )

    @classmethod
    def of_past(cls, past: PastRun) -> Point:
        """Take the bytes that a later report keeps of it."""
        return cls(*astuple(past))


def trend(
    store: ObjectStore,
    report: Report,
    *,
    marked: Sequence[RunKey] | None = None,
    swept: Mapping[RunKey, bool] | None = None,
) -> Sequence[Point]:
    """Return the runs of a repository up to one of them, oldest first.

    A report that is missing or cannot be read costs its own point. Where the store does not answer,
    the older ones are also left out: no page has to wait for them.

    Args:
        store: Rooted at the namespace.
        report: The report of the last run; not read again.
        marked: The runs that have expired addresses, newest first; listed if None.
        swept: Whether the last runs were swept, as far as it is known. What the report of such a
            run tells of the runs before it is then believed. None if nothing is known.
    """
    last = RunKey.parse(report.run)
    found = [Point.of(report)]
    try:
        is_swept = _SweptRuns(store, swept or {})
        known = tables.runs(store) if marked is None else marked
        earlier = [key for key in known if key < last][: RUNS - 1]
        told: dict[str, Point] = {}
        for key in earlier:
            point = told.get(str(key))
            if point is not None and (swept is not None or point.swept == is_swept(key)):
                found.append(point)
                continue
            past = _read(store, key, swept=is_swept(key))
            if past is not None and past.repository == report.repository:
                found.append(Point.of(past))
                told = told or {row.run: Point.of_past(row) for row in past.past}
    except LakegcError:
        # The page matters more than its trend.
        pass
    return found[::-1]


@dataclass
class _SweptRuns:
    """Says which runs were swept; they are listed when it is asked about one that it lacks."""

    store: ObjectStore
    known: Mapping[RunKey, bool]
    listed: AbstractSet[RunKey] | None = None

    def __call__(self, key: RunKey) -> bool:
        if key in self.known:
            return self.known[key]
        if self.listed is None:
            self.listed = frozenset(tables.runs(self.store, lakegc_keys.REPORTS))
        return key in self.listed


def runs_to_keep(points: Sequence[Point]) -> tuple[PastRun, ...]:
    """Return what a report keeps of the runs before it: what no other sweep will change.

    Args:
        points: A result of `trend`.
    """
    return tuple(
        PastRun(each.run, each.listed, each.live, each.garbage, each.reclaimed, each.swept)
        for each in points[:-1]
        if each.is_final
    )


def _read(store: ObjectStore, key: RunKey, *, swept: bool) -> Report | None:
    where = lakegc_keys.report_keys(key, swept=swept)["json"]
    try:
        return Report.from_json(store.read(where), name=where)
    except NotFoundError:
        # A sweep that did not end has a folder without a report.
        return _read(store, key, swept=False) if swept else None
    except CorruptTableError:
        return None
