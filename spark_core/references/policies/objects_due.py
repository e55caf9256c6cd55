"""Find in one bucket the objects that are due under all of their names: the kernels.

An object is named only if every name that it has in any commit is due under some rule. What is
staged is named only if no commit has it, and rules for staged objects take it under every name.
What is held is never named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import schemas
from spark_core.holds import Holds
from spark_core.records import rows_aside
from spark_core.references.policies import dated_entries, staged_names
from spark_core.references.policies.canonical_names import micros
from spark_core.references.policies.document import Policy
from spark_core.references.policies.due import Due, Entry, Judge
from spark_core.references.policies.staged_due import StagedJudge
from spark_core.references.policies.sums_by_rule import NamedByRules
from spark_core.spark.exchange import Sent

Name = TypeVar("Name")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ADDRESSES = pa.schema([schemas.POLICY_EXPIRATIONS.field("address")])
# Columns of a listed object that its row repeats.
_SHOWN = ("address", "size_bytes", "last_modified", "slice")
# Objects that a mark may consider.
LISTED = pa.schema([schemas.NAMESPACE_SLICES.field(name) for name in ("address_hash", *_SHOWN)])
# What a kernel says of the objects of a plan: rules name it, or no commit has it.
BY_RULES, IN_NO_COMMIT = 0, 1


@dataclass(frozen=True)
class Judges:
    """What every kernel needs: who compares names with the rules, and holds.

    Attributes:
        committed: Compares the names that objects have in commits.
        staged: Compares those under which they are staged.
        held: Holds.
    """

    committed: Judge
    staged: StagedJudge
    held: Holds


def named_of_listed(
    scans: int, judges: Judges, bucket: Mapping[str, pa.Table]
) -> Sent[NamedByRules]:
    """Find what the rules name of listed objects: columns of `schemas.POLICY_EXPIRATIONS`.

    Args:
        scans: How often the server scanned what is staged, for the mark.
        judges: Who compares names with the rules.
        bucket: The rows.
    """
    found, entries = _begun(bucket)
    listed = bucket["listed"]
    is_staged = _meets(listed, bucket["staged"])
    due = [
        *_due(judges, found, entries, listed.filter(pc.invert(is_staged))),
        *_due_staged(judges, scans, bucket, entries, listed.filter(is_staged)),
    ]
    rows = [_row(judges.committed.policy, why, one) for one, why in due]
    for row in rows:
        found.add(row)
    named = pa.Table.from_pylist(rows, schema=schemas.POLICY_EXPIRATIONS)
    return Sent(found, {rows_aside.place_of(listed): named})


def named_of_plan(judges: Judges, bucket: Mapping[str, pa.Table]) -> Sent[NamedByRules]:
    """Find what the rules name of a plan by names in commits, and what no commit has: addresses."""
    found, entries = _begun(bucket)
    plan = bucket["plan"]
    named = [{"address": one["address"]} for one, _ in _due(judges, found, entries, plan)]
    in_no_commit = plan.filter(pc.invert(_meets(plan, entries))).select(ADDRESSES.names)
    place = 2 * rows_aside.place_of(plan)
    return Sent(
        found,
        {
            place + BY_RULES: pa.Table.from_pylist(named, schema=ADDRESSES),
            place + IN_NO_COMMIT: in_no_commit,
        },
    )


def _begun(bucket: Mapping[str, pa.Table]) -> tuple[NamedByRules, pa.Table]:
    """Count the rows of a bucket, and return its entries without the rows of whole ranges."""
    rows = bucket["entries"]
    is_range = rows["path"].is_null()
    ranges, entries = rows.filter(is_range), rows.filter(pc.invert(is_range))
    is_read = pc.not_equal(ranges["inside"], dated_entries.UNREAD)
    came = Counter({name: table.num_rows for name, table in bucket.items()})
    came.update(ranges=ranges.num_rows, entries=-ranges.num_rows)
    found = NamedByRules(
        came=came,
        inside=pc.sum(ranges.filter(is_read)["inside"]).as_py() or 0,
        unread=set(ranges.filter(pc.invert(is_read))["range"].to_pylist()),
    )
    return found, entries


def _meets(rows: pa.Table, others: pa.Table) -> pa.ChunkedArray:
    """Say of each row whether others have its hash."""
    return pc.is_in(rows["address_hash"], others["address_hash"].combine_chunks())


def _due(
    judges: Judges, found: NamedByRules, entries: pa.Table, listed: pa.Table
) -> Iterator[tuple[dict[str, Any], Due]]:
    """Yield the objects that rules take by all their names in commits, and the last of those."""
    names = names_in_commits(entries, listed)
    for of in names.values():
        for entry in of:
            for _, branch in judges.committed.names_of(entry):
                found.names["undecided" if branch is None else "placed"] += 1
    listed = _free(judges.held, listed.filter(_meets(listed, entries)), entries)
    yield from _due_objects(judges, listed, names, judges.committed.due)


def names_in_commits(entries: pa.Table, objects: pa.Table) -> dict[int, list[Entry]]:
    """Bring together all names that commits give to each of some objects.

    A hash that two objects share gives each the names of both, which can only keep them.

    Args:
        entries: Columns of `dated_entries.ENTRIES`, none of them the row of a range.
        objects: Column address_hash.
    """
    paths = (
        entries.filter(_meets(entries, objects))
        .group_by(["address_hash", "path"])
        .aggregate([("modified", "max"), ("range", "distinct")])
        .sort_by([("address_hash", "ascending"), ("path", "ascending")])
    )
    found: dict[int, list[Entry]] = {}
    for row in paths.to_pylist():
        entry = Entry(row["path"], row["modified_max"], tuple(sorted(row["range_distinct"])))
        found.setdefault(row["address_hash"], []).append(entry)
    return found


def _due_staged(
    judges: Judges,
    scans: int,
    bucket: Mapping[str, pa.Table],
    entries: pa.Table,
    listed: pa.Table,
) -> Iterator[tuple[dict[str, Any], Due]]:
    """Yield the objects in no commit that were staged for the mark, and that rules take.

    An entry of any commit, also one that the mark alone knows, leaves an object to other rules. An
    object with fewer names now than entries then is left out, too: nobody knows the others. The
    mark read what is staged by diffs, whose rows have no date, and by the server's scans. So an
    error of the staging store, which may hide an entry from one reading, keeps the object (safety
    30).
    """
    # A table that cannot be read may have any object.
    if "names" not in bucket or judges.committed.unread:
        return
    listed = listed.filter(pc.starts_with(listed["address"], "data/"))
    for committed in (entries, bucket["committed"]):
        listed = listed.filter(pc.invert(_meets(listed, committed)))
    listed = _free(judges.held, listed, bucket["names"])
    staged = bucket["staged"].filter(_meets(bucket["staged"], listed))
    in_scan = staged["created_at"].is_valid()
    in_diffs, in_scans = (
        Counter(staged.filter(some)["address_hash"].to_pylist())
        for some in (pc.invert(in_scan), in_scan)
    )
    names = {
        hash_: of
        for hash_, of in staged_names.names_of_objects(
            bucket["names"], listed["address_hash"]
        ).items()
        if len(of) >= in_diffs[hash_] and len(of) * scans >= in_scans[hash_]
    }
    yield from _due_objects(judges, listed, names, judges.staged.due)


def _free(held: Holds, listed: pa.Table, names: pa.Table) -> pa.Table:
    """Leave out the objects that a hold keeps by one of their names: columns address_hash, path."""
    why = held.reasons_of_paths(names["path"].combine_chunks().cast(pa.binary()))
    return listed.filter(pc.invert(_meets(listed, names.filter(why.is_valid()))))


def _due_objects(
    judges: Judges,
    listed: pa.Table,
    names: Mapping[int, Sequence[Name]],
    judge: Callable[[Sequence[Name], int], Due | None],
) -> Iterator[tuple[dict[str, Any], Due]]:
    """Yield the objects that are due under all their names, and that no hold keeps."""
    free = listed.filter(pc.invert(judges.held.protecting(listed["address"].combine_chunks())))
    for one in free.to_pylist():
        of = names.get(one["address_hash"])
        due = None if of is None else judge(of, micros(one["last_modified"]))
        if due is not None:
            yield one, due


def _row(policy: Policy, due: Due, one: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **{name: one[name] for name in _SHOWN},
        "path": due.path,
        "branch": due.branch,
        "action": due.action,
        "rule": due.rule,
        "due_since": _EPOCH + timedelta(microseconds=due.since),
        "reason": policy.rules[due.rule - 1].words(due.rule, due.action),
    }
