"""Questions about paths that may hide a candidate: those that the driver holds cost least."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# What a path may hide: a candidate with the path's key, any candidate, or any dishonest candidate.
SIZED, ANY, DISHONEST = 0, 1, 2

# Questions that the driver holds at most.
MOST_QUESTIONS = 200_000

QUESTIONS = pa.schema(
    [
        pa.field("head_path", pa.binary(), nullable=False),
        pa.field("hides", pa.int32(), nullable=False),
        # What a candidate and an entry must share; 0 if anything will do.
        pa.field("key", pa.int64(), nullable=False),
        # Number of branches to ask, counted from the first.
        pa.field("branches", pa.int32(), nullable=False),
        # The entry's own object lies outside. Time then says nothing about what hides there.
        pa.field("is_outside", pa.bool_(), nullable=False),
        # Branches of all questions of the key.
        pa.field("cost", pa.int64(), nullable=False),
    ]
)

# What all questions of a key have in common.
KEYS = pa.schema([QUESTIONS.field(name) for name in ("hides", "key", "branches", "is_outside")])


@dataclass(frozen=True)
class Suspects:
    """The paths under which a candidate may hide.

    Attributes:
        questions: Columns of `QUESTIONS`, key head_path, hides and key: those of the keys that cost
            least, up to `MOST_QUESTIONS`.
        keys: All keys of them and of others: columns of `KEYS`.
        unheld: The rows of `keys` of which not all questions are held.
        reach: Number of paths by the number of branches that they concern. Where there are very
            many, a path may count several times.
        for_all: Number of paths that hide anything, or anything dishonest.
        entries: Number of entries of heads.
    """

    questions: pa.Table = field(default_factory=QUESTIONS.empty_table)
    keys: pa.Table = field(default_factory=KEYS.empty_table)
    unheld: pa.Table = field(default_factory=KEYS.empty_table)
    reach: Mapping[int, int] = field(default_factory=Counter)
    for_all: int = 0
    entries: int = 0

    @property
    def count(self) -> int:
        """Number of all paths."""
        return sum(self.reach.values())


@dataclass(frozen=True)
class FoundQuestions:
    """Questions that a kernel found; as of `Suspects`, with the number of paths of each key."""

    questions: pa.Table
    keys: pa.Table
    paths: Any
    reach: Counter[int]
    entries: int = 0


def suspects_in(
    of_entries: Sequence[FoundQuestions], of_keys: Sequence[FoundQuestions]
) -> Suspects:
    """Sum up what kernels found, and keep the questions of the keys that cost least."""
    every = [*of_entries, *of_keys]
    reach: Counter[int] = Counter()
    for found in every:
        reach.update(found.reach)
    questions = pa.concat_tables([QUESTIONS.empty_table(), *(one.questions for one in every)])
    keys = pa.concat_tables([KEYS.empty_table(), *(one.keys for one in every)])
    paths = np.concatenate([np.empty(0, np.int64), *(one.paths for one in every)])
    held = cheapest_of(questions)
    return Suspects(
        held,
        keys,
        _unheld(held, keys, paths),
        reach,
        sum(sum(one.reach.values()) for one in of_entries),
        sum(one.entries for one in of_entries),
    )


def _unheld(questions: pa.Table, keys: pa.Table, paths: Any) -> pa.Table:
    """Return the keys of which the driver does not hold all questions."""
    if questions.num_rows == paths.sum():
        return keys.slice(0, 0)
    held, names = (
        list(zip(some["hides"].to_pylist(), some["key"].to_pylist(), strict=True))
        for some in (questions, keys)
    )
    wanted: Counter[tuple[int, int]] = Counter()
    for name, number in zip(names, paths.tolist(), strict=True):
        wanted[name] += number
    wanted.subtract(held)
    return keys.filter(pa.array([wanted[name] > 0 for name in names], pa.bool_()))


def cheapest_of(questions: pa.Table) -> pa.Table:
    """Keep the questions about anything, and those of the keys that cost least."""
    if questions.num_rows <= MOST_QUESTIONS:
        return questions
    is_sized = pc.equal(questions["hides"], SIZED)
    order = [("is_sized", "ascending"), ("cost", "ascending"), ("key", "ascending")]
    ranked = questions.append_column("is_sized", is_sized.cast(pa.int8())).sort_by(order)
    return ranked.slice(0, MOST_QUESTIONS).select(QUESTIONS.names)


def questions_about(
    paths: pa.ChunkedArray, hides: int, keys: Any, branches: Any, is_outside: pa.ChunkedArray
) -> pa.Table:
    """Make questions whose cost is not known yet: columns of `QUESTIONS`.

    Each path counts once for its key; the paths themselves are compared.
    """
    rows = len(paths)
    columns = [
        paths,
        np.full(rows, hides, np.int32),
        keys.astype(np.int64),
        branches,
        is_outside,
        np.zeros(rows, np.int64),
    ]
    questions = pa.table(columns, schema=QUESTIONS)
    if rows > MOST_QUESTIONS:
        return questions
    return (
        questions.group_by(["head_path", "hides", "key"])
        .aggregate([("branches", "max"), ("is_outside", "max"), ("cost", "max")])
        .rename_columns(QUESTIONS.names)
        .cast(QUESTIONS)
    )
