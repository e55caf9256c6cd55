"""What becomes of a plan's objects, by what refers to them now: the mark's own decision, again.

An object is asked about twice. A look compares all of the plan with everything that may refer to
it; of what that finds, the driver keeps hashes and reasons. Each round compares the objects that
are left with these, just before they are deleted. Beside it, only what branches show now keeps an
object (`twins_now`).

Hashes keep: two objects of one hash stay alike. What lets an object go although something refers
to it is compared by its address.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_core.addresses.address_hashes import ADDRESS_HASH, place_among
from spark_core.fates import Fate
from spark_core.fates.deciding import CODES, FATES, MAY_GO, Known, fate
from spark_core.holds import Holds
from spark_core.spark.exchange import numbers_of

STAGED = "staged"
# The cause begins so for an object that the policy let go at the mark and the sweep keeps.
NOT_LET_GO = "not let go any more: "
_ON_HELD = "a hold keeps what is staged on branch "

_SENTENCES = pa.array([fate.sentence for fate in FATES])

# Objects that stay, by the hashes of their addresses, and why.
KEPT = pa.schema([ADDRESS_HASH, pa.field("why", pa.string(), nullable=False)])


@dataclass(frozen=True)
class Kept:
    """Objects that stay, as arrays that travel to every task: nothing of them can get lost.

    Attributes:
        hashes: Hashes of their addresses, sorted and once.
        whys: Why each of them stays.
    """

    hashes: Any
    whys: pa.StringArray

    @classmethod
    def of(cls, rows: pa.Table) -> Kept:
        """Make arrays of columns of `KEPT`; of several reasons the least one stands."""
        first = rows.group_by("address_hash").aggregate([("why", "min")]).sort_by("address_hash")
        whys = first["why_min"].combine_chunks()
        return cls(numbers_of(first["address_hash"]), whys)

    @property
    def table(self) -> pa.Table:
        """The same as columns of `KEPT`."""
        return pa.table([self.hashes, self.whys], schema=KEPT)

    def why(self, hashes: Any) -> pa.StringArray:
        """Return why each of some objects stays; null for an object that may go."""
        at = place_among(hashes, self.hashes)
        return self.whys.take(pa.array(at, mask=at == len(self.hashes)))


NOTHING = Kept(np.empty(0, np.int64), pa.array([], pa.string()))


@dataclass(frozen=True)
class KeptRules:
    """What counts for all objects.

    Attributes:
        holds: Holds.
        held_branches: Branches whose staged entries a hold keeps.
        not_named: Why an object stays that the policy does not name.
        readings: How often each staged entry was read.
        may_be_staged: Whether any object may go although it is staged.
    """

    holds: Holds
    held_branches: frozenset[str] = frozenset()
    not_named: str = ""
    readings: int = 0
    may_be_staged: bool = False


def why_kept(objects: pa.Table, now: Mapping[str, pa.Table], rules: KeptRules) -> pa.StringArray:
    """Say why each object must stay.

    Commits reach what goes by a retention policy, so they decide nothing there; but what goes
    although it is staged must be in no commit.

    Args:
        objects: Columns address_hash and address.
        now: What refers to them now. By hash: `staged`, `committed` with why, and `held_paths`,
            columns of `held_paths.HELD`. By address: `own`, which go by a policy; of those `named`,
            which it names now by their names in commits; `in_no_commit`; and `names`, which have
            branch and path, a row for each name under which rules take one of them although it is
            staged.
        rules: What counts for all of them.

    Returns:
        The least of all reasons; null for an object that may go.
    """
    hashes, addresses = _column(objects, "address_hash"), _column(objects, "address")
    held_staged = _held_staged(addresses, now["names"], rules)
    is_own = _are_in(addresses, now["own"])
    is_taken = pc.and_(is_own, _are_taken(hashes, addresses, now, rules))
    is_taken = pc.and_not(is_taken, held_staged.is_valid())
    is_staged = pc.is_in(hashes, value_set=_column(now["staged"], "address_hash"))
    committed = Kept.of(now["committed"]).why(hashes.to_numpy())
    # Commits reach what a rule names by its names there. What goes although it is staged must be in
    # no commit.
    is_named = _are_in(addresses, now["named"])
    is_judged = pc.and_(is_own, pc.or_(is_named, is_taken))
    is_new = pc.or_(pc.and_not(is_staged, is_taken), pc.and_(is_taken, committed.is_valid()))
    is_due = pc.and_not(is_judged, is_new)
    by_path = Kept.of(now["held_paths"].rename_columns(KEPT.names)).why(hashes.to_numpy())
    held = pc.coalesce(rules.holds.reasons(addresses), by_path)
    codes = fate(
        Known(
            np.full(len(addresses), CODES[Fate.UNREFERENCED], np.int8),
            is_committed=_numbers(committed.is_valid()),
            is_staged=_numbers(is_staged),
            is_held=_numbers(held.is_valid()),
            is_due=_numbers(is_due),
            # The mark let it go by its policy alone.
            is_unnamed=_numbers(pc.and_not(is_own, is_due)),
        )
    )
    not_let_go = pc.binary_join_element_wise(NOT_LET_GO, held_staged, "")
    not_named = pc.coalesce(not_let_go, pa.scalar(NOT_LET_GO + rules.not_named))
    is_passed_over = pc.and_not(is_own, is_taken)
    whys = pc.min_element_wise(
        pc.if_else(pc.and_not(is_staged, is_taken), STAGED, None),
        pc.if_else(is_passed_over, None, committed),
        held,
        pc.if_else(pc.and_not(is_own, pc.or_(is_taken, is_named)), not_named, None),
    )
    may_go = pa.array(np.isin(codes, MAY_GO))
    return pc.if_else(may_go, None, pc.coalesce(whys, _SENTENCES.take(pa.array(codes))))


def _numbers(column: pa.BooleanArray) -> Any:
    return column.to_numpy(zero_copy_only=False)


def _are_taken(
    hashes: pa.Int64Array, addresses: pa.StringArray, now: Mapping[str, pa.Table], rules: KeptRules
) -> pa.BooleanArray:
    """Say which objects go although they are staged: in no commit, and due under each name.

    If an object has more staged entries than names, one reading lost names (safety 30), so it is
    kept.
    """
    if not rules.may_be_staged:
        return pa.repeat(pa.scalar(False), len(addresses))
    names = now["names"].group_by("address").aggregate([("branch", "count")])
    entries = now["staged"].group_by("address_hash").aggregate([([], "count_all")])
    known = pc.fill_null(_looked_up(addresses, names), 0)
    read = pc.fill_null(_looked_up(hashes, entries), 0)
    are_all_known = pc.less_equal(read, pc.multiply(known, rules.readings))
    is_named = pc.and_(pc.greater(known, 0), are_all_known)
    return pc.and_(is_named, _are_in(addresses, now["in_no_commit"]))


def _held_staged(addresses: pa.StringArray, names: pa.Table, rules: KeptRules) -> pa.StringArray:
    """Return the first hold, in words, on a branch or a path where an object is staged."""
    names = names.combine_chunks()
    branch, path = (_column(names, name) for name in ("branch", "path"))
    is_held = pc.is_in(branch, value_set=pa.array(sorted(rules.held_branches), pa.string()))
    on_held = pc.binary_join_element_wise(_ON_HELD, pc.if_else(is_held, branch, None), "")
    by_path = rules.holds.reasons_of_paths(path.cast(pa.binary()))
    held = names.append_column("held_by", pc.coalesce(on_held, by_path))
    held = held.filter(held["held_by"].is_valid())
    return _looked_up(addresses, held.group_by("address").aggregate([("held_by", "min")]))


def _looked_up(keys: pa.Array, known: pa.Table) -> pa.Array:
    """Return the second column of rows for keys in the first one; null for others."""
    found, values = (column.combine_chunks() for column in known.columns)
    return values.take(pc.index_in(keys, value_set=found))


def _are_in(addresses: pa.StringArray, rows: pa.Table) -> pa.BooleanArray:
    return pc.is_in(addresses, value_set=_column(rows, "address"))


def _column(rows: pa.Table, name: str) -> pa.Array:
    return rows[name].combine_chunks()
