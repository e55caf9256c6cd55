"""The holds that keep objects now, as reasons."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import holds
from spark_core.explain.explanation import Reason
from spark_core.records import tables
from spark_core.records.figures import ExpiredFigures
from spark_core.run import Run


def held_now(run: Run, paths: Mapping[str, str | None]) -> dict[str, Reason]:
    """Return the holds that keep objects by their addresses or paths now, by address.

    Args:
        run: The run.
        paths: The known path of each object, by its address; None if none is known.
    """
    now = holds.load(run.store)
    known = [None if path is None else path.encode() for path in paths.values()]
    by_address = now.reasons(pa.array(list(paths), pa.string()))
    by_path = now.reasons_of_paths(pa.array(known, pa.binary()))
    return {
        address: Reason("hold", f"{text} keeps it from any sweep")
        for address, text in zip(paths, pc.coalesce(by_address, by_path).to_pylist(), strict=True)
        if text
    }


def held_since_the_mark(run: Run) -> list[Reason]:
    """Name the holds by path that were made after the mark: they may keep what it let go."""
    known = {
        (hold.name, hold.value)
        for hold in ExpiredFigures.of(run.load(tables.EXPIRED_ADDRESSES).manifest).holds
    }
    return [
        Reason(
            "hold",
            f"{hold.words} was made after the mark: a sweep looks for such paths in every commit "
            "before it deletes",
        )
        for hold in holds.load(run.store).of_paths
        if (hold.name, hold.value) not in known
    ]
