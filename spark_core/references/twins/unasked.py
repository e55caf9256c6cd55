"""Which candidates may hide where nobody was asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core.addresses.address_hashes import are_among, place_among, sorted_once
from spark_core.references.head_entries import HASHES
from spark_core.references.twins.asking import Asking
from spark_core.references.twins.candidates_by_time import CANDIDATES, Candidates
from spark_core.references.twins.evidence import Evidence, Used, grouped, keys_of_candidates
from spark_core.references.twins.questions import ANY, DISHONEST, SIZED
from spark_core.spark.exchange import Exchange, Sent, no_work, numbers_of


@dataclass(frozen=True)
class Unasked:
    """What nobody was asked about, and may hide a candidate.

    Attributes:
        keys: Keys, sorted.
        first: For each the first branch that was not asked.
        is_outside: For each whether an entry's object lies outside.
        beyond: Dishonest candidates may hide if they do so on more branches than that; None for
            none of them.
        is_any: Whether anything may hide.
        known: Hashes of candidates that are left out, sorted.
    """

    keys: Any
    first: Any
    is_outside: Any
    beyond: int | None = None
    is_any: bool = False
    known: Any = field(default_factory=partial(np.empty, 0, np.int64))

    @classmethod
    def of(cls, rows: pa.Table, *, first: Any, **others: Any) -> Unasked:
        """Make it of keys (columns of `KEYS`, a key may repeat) and their first branches."""
        keys, first, is_outside = grouped(
            numbers_of(rows["key"]),
            (np.minimum, first),
            (np.maximum, numbers_of(rows["is_outside"])),
        )
        return cls(keys, first, is_outside, **others)


def left_unasked(
    candidates: Candidates, evidence: Evidence, asking: Asking, read: Any
) -> tuple[Any, int]:
    """Find the candidates that may hide where nobody was asked, as `hidden_by` does.

    Args:
        candidates: The objects that are left to go.
        evidence: What is known of their contents.
        asking: Who was asked.
        read: Hashes of those that a branch reads from, sorted.
    """
    unasked = asking.not_asked()
    whatever = set(unasked["hides"].unique().to_pylist())
    # For a candidate that may be dishonest, nothing less than a whole branch will do.
    every = range(candidates.dishonest)
    unlisted = min((one for one in every if one not in asking.listed), default=None)
    beyond = -1 if DISHONEST in whatever else unlisted
    if not whatever and beyond is None:
        return np.empty(0, np.int64), 0
    sized = unasked.filter(pc.equal(unasked["hides"], SIZED))
    return hidden_by(
        candidates,
        evidence,
        Unasked.of(
            sized,
            first=numbers_of(sized["from_branch"]),
            beyond=beyond,
            is_any=ANY in whatever,
            known=read,
        ),
    )


def hidden_by(candidates: Candidates, evidence: Evidence, unasked: Unasked) -> tuple[Any, int]:
    """Find the candidates that may hide where nobody was asked.

    Returns:
        Hashes of their addresses, sorted and once, of which the driver holds 8 bytes for each; and
        their bytes.
    """
    receipts, _ = Exchange(
        {"candidates": candidates.hashes, **evidence.sources},
        partial(_hidden_by, evidence.used, unasked),
        HASHES,
        no_work,
    ).run(candidates.spark, threads=candidates.threads)
    hashes = np.concatenate([np.empty(0, np.int64), *(hashes for hashes, _ in receipts)])
    return sorted_once(hashes), sum(size_bytes for _, size_bytes in receipts)


def _hidden_by(
    used: Used, unasked: Unasked, bucket: Mapping[str, pa.Table]
) -> Sent[tuple[Any, int]]:
    hashes, sizes, branches, is_dishonest = (
        numbers_of(bucket["candidates"][name]) for name in CANDIDATES.names
    )
    may_hide = np.full(len(hashes), unasked.is_any)
    if unasked.beyond is not None:
        may_hide |= is_dishonest & (branches > unasked.beyond)
    rows, keys = keys_of_candidates(used, bucket)
    at = place_among(keys, unasked.keys)
    is_met = at < len(unasked.keys)
    rows, at = rows[is_met], at[is_met]
    is_hidden = unasked.is_outside[at] | (branches[rows] > unasked.first[at])
    may_hide[rows[is_hidden]] = True
    may_hide &= ~are_among(hashes, unasked.known)
    return Sent((hashes[may_hide], int(sizes[may_hide].sum())), {})
