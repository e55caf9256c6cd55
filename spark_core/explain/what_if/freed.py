"""Adds up what each answer frees: the kernel of one bucket, and the sums over all buckets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from spark_core.explain.what_if.answer import Freed
from spark_core.explain.what_if.entries import FOLDER, one_of_each_hash
from spark_core.explain.what_if.numbers import FIRST, IN_NO_COMMIT, KEEPER, LAST
from spark_core.mark.group_sums import NAMES_OF_A_TASK, OTHERS, GroupSums
from spark_core.records.figures import Groups
from spark_core.spark.exchange import Sent, numbers_of

TOP = 10
NAME_OF_NEVER_COMMITTED = "(never committed)"


@dataclass(frozen=True)
class Told:
    """What a bucket tells.

    Attributes:
        swept: Objects and bytes that are deleted already.
        free: By answer, what is free by folder and by branch.
        alone: What one branch, tag or rule alone keeps.
    """

    swept: tuple[int, int]
    free: Sequence[tuple[GroupSums, GroupSums]]
    alone: GroupSums


def free(
    asked: Sequence[tuple[str, int]],
    branches: Sequence[str],
    soles: Sequence[str],
    bucket: Mapping[str, pa.Table],
) -> Sent[Told]:
    """Sum up the objects of a bucket that each answer frees.

    Args:
        asked: For each answer the level that decides, and the highest one that is not retained.
        branches: Names of branches, by their numbers.
        soles: Names of those who may keep an object alone, as `keepers.sole_keepers_of` gives them.
        bucket: The sources of `what_if`.
    """
    candidates = bucket["candidates"]
    hashes = candidates["address_hash"]
    is_deleted, is_staged = (
        pc.is_in(hashes, value_set=bucket[name]["address_hash"].combine_chunks())
        for name in ("deleted", "staged")
    )
    swept = candidates.filter(is_deleted)
    listed = candidates.filter(pc.invert(pc.or_(is_deleted, is_staged)))
    known = listed.join(one_of_each_hash(bucket["entries"]), "address_hash", join_type="left outer")
    told = Told(
        (swept.num_rows, pc.sum(swept["size_bytes"]).as_py() or 0),
        _free_by_name(asked, branches, known),
        _alone(soles, known),
    )
    return Sent(told, {})


def _free_by_name(
    asked: Sequence[tuple[str, int]], branches: Sequence[str], known: pa.Table
) -> list[tuple[GroupSums, GroupSums]]:
    """Sum up for each answer what is free, by folder and by branch."""
    keeper = numbers_of(known[KEEPER].fill_null(0)) % len(branches)
    branch = pc.if_else(known[KEEPER].is_valid(), pa.array(branches).take(pa.array(keeper)), None)
    levels = sorted({level for level, _ in asked})
    by_name = [
        pa.table(
            {
                "name": names.fill_null(NAME_OF_NEVER_COMMITTED),
                **{level: known[level].fill_null(IN_NO_COMMIT) for level in levels},
                "size_bytes": known["size_bytes"],
            }
        )
        .group_by(["name", *levels])
        .aggregate([([], "count_all"), ("size_bytes", "sum")])
        for names in (known[FOLDER], branch)
    ]
    found = []
    for level, most in asked:
        by_prefix, by_branch = (
            _summed(sums.filter(pc.less_equal(sums[level], most))) for sums in by_name
        )
        found.append((by_prefix, by_branch))
    return found


def _summed(sums: pa.Table) -> GroupSums:
    found = GroupSums()
    for row in sums.select(["name", "count_all", "size_bytes_sum"]).to_pylist():
        found.objects[row["name"]] += row["count_all"]
        found.size_bytes[row["name"]] += row["size_bytes_sum"]
    return found.first(NAMES_OF_A_TASK)


def _alone(soles: Sequence[str], known: pa.Table) -> GroupSums:
    """Sum up the objects of which all retained commits are kept by the same one alone."""
    first, last = (numbers_of(known[name].fill_null(0)) for name in (FIRST, LAST))
    is_alone = pa.array((first + last == len(soles) + 1) & (first < len(soles)))
    some = known.filter(is_alone)
    names = pa.array(soles).take(pc.subtract(some[FIRST], 1))
    return GroupSums.of(names, some["size_bytes"])


def of_all_buckets(names: Sequence[str], told: Sequence[Told]) -> list[Freed]:
    """Put together what all buckets told of each answer.

    Args:
        names: The rules of each answer, in words.
        told: What each bucket told.
    """
    answers = zip(*(one.free for one in told), strict=True)
    return [_freed(name, of_it) for name, of_it in zip(names, answers, strict=True)]


def _freed(name: str, told: Sequence[tuple[GroupSums, GroupSums]]) -> Freed:
    by_prefix, by_branch = GroupSums(), GroupSums()
    for one in told:
        by_prefix.merge(one[0])
        by_branch.merge(one[1])
    objects, size_bytes = by_prefix.objects.total(), by_prefix.size_bytes.total()
    return Freed(
        name, objects, size_bytes, by_prefix.first(TOP).groups, by_branch.first(TOP).groups
    )


def kept_by_one(told: Sequence[Told]) -> Groups:
    """Return `without ...`, objects and bytes of those who alone keep most."""
    found = GroupSums()
    for one in told:
        found.merge(one.alone)
    groups = found.first(TOP).groups
    return tuple(
        (name if name == OTHERS else f"without {name}", objects, size_bytes)
        for name, objects, size_bytes in groups
    )
