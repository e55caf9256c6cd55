"""What kernels make of the rows of one bucket: names in commits and staged names of objects."""

from collections import Counter
from datetime import UTC, datetime
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from spark_core import schemas
from spark_core.holds import Hold, Holds
from spark_core.references.policies import dated_entries, objects_due
from spark_core.references.policies.canonical_names import Graph, Lines
from spark_core.references.policies.document import Period, Policy, Rule
from spark_core.references.policies.due import RETAINED, Changes, Entry, Judge
from spark_core.references.policies.staged_due import StagedJudge, StagedName
from spark_core.references.policies.staged_names import HASHED, names_of_objects

HASHES = pa.schema([schemas.NAMESPACE_SLICES.field("address_hash")])
STAGED = HASHES.append(schemas.UNCOMMITTED_ADDRESSES.field("created_at"))
DAY = 86_400_000_000
LONG_AGO = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)


def entries(*rows):
    """Rows of entries: hash, path, date, number of the range; and one for each range."""
    ranges = Counter(row[3] for row in rows)
    whole = [(number, None, 0, number, count) for number, count in ranges.items()]
    return of_schema(dated_entries.ENTRIES, [*((*row, None) for row in rows), *whole])


def of_schema(schema, rows):
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


def judging(instant=100 * DAY, unread=(), holds=()):
    """Make the judge of two ranges, each introduced by a commit of main, and a rule for logs/."""
    policy = Policy(
        (
            Rule("main", "logs/", {"all": Period(days=3)}),
            Rule("main", "tmp/", {"uncommitted": Period(days=3)}),
        )
    )
    none = np.empty(0, np.int64)
    graph = Graph(("a", "b"), none, np.zeros(3, np.int64), np.full(2, -1), np.zeros(2, np.int64))
    changes = (Changes(RETAINED, (0,), 0), Changes(RETAINED, (1,), 0))
    lines = Lines(("main",), np.zeros(2, np.int64))
    judge = Judge(policy, graph, lines, changes, unread, instant)
    held = Holds(tuple(holds))
    return objects_due.Judges(judge, StagedJudge.of(policy, held, instant), held)


def named(judges, *, listed, names=(), staged=(), committed=(), of_commits=()):
    """Address of what goes -> its rule."""
    bucket = {
        "entries": entries(*of_commits),
        "listed": of_schema(
            objects_due.LISTED, [(hash_, address, 1, LONG_AGO, "") for hash_, address in listed]
        ),
        "staged": of_schema(STAGED, staged),
        "names": of_schema(schemas.STAGED_NAMES, names),
        "committed": of_schema(HASHES, [(hash_,) for hash_ in committed]),
    }
    ((_, rows),) = objects_due.named_of_listed(2, judges, bucket).rows.items()
    return {row["address"]: row["rule"] for row in rows.to_pylist()}


def test_two_objects_of_one_hash_have_the_names_of_both():
    rows = entries((7, b"logs/a", 1, 0), (7, b"data/b", 2, 1), (8, b"logs/c", 3, 0))
    rows = rows.filter(rows["path"].is_valid())
    listed = of_schema(HASHES, [(7,), (7,), (8,), (9,)])
    assert objects_due.names_in_commits(rows, listed) == {
        7: [Entry(b"data/b", 2, (1,)), Entry(b"logs/a", 1, (0,))],
        8: [Entry(b"logs/c", 3, (0,))],
    }


def test_an_entry_of_many_ranges_is_one_name_with_its_latest_date():
    rows = entries((7, b"logs/a", 5, 1), (7, b"logs/a", 4, 0), (7, b"logs/a", 4, 1))
    rows = rows.filter(rows["path"].is_valid())
    listed = of_schema(HASHES, [(7,)])
    assert objects_due.names_in_commits(rows, listed) == {7: [Entry(b"logs/a", 5, (0, 1))]}


def test_an_object_whose_hash_another_one_has_goes_only_if_both_may():
    one, other = (7, "data/x"), (7, "data/y")
    logs = (7, b"logs/a", 1, 0)
    assert named(judging(), listed=[one, other], of_commits=[logs]) == {"data/x": 1, "data/y": 1}
    assert named(judging(), listed=[one, other], of_commits=[logs, (7, b"data/b", 1, 1)]) == {}


@pytest.mark.parametrize(
    "keeps",
    [
        {"of_commits": [(7, b"logs/a", 1, 0)]},
        {"committed": [7]},
        {"names": [(7, "main", "tmp/x", LONG_AGO), (7, "main", "kept/x", LONG_AGO)]},
        {"names": []},
        {"listed": [(7, "elsewhere/x")]},
        {"staged": [(7, None), (7, None)]},
        {"staged": [(7, LONG_AGO)] * 3},
    ],
)
def test_a_staged_object_goes_by_all_its_names_alone(keeps):
    """Two scans of the server have each entry twice."""
    free = {
        "listed": [(7, "data/x")],
        "staged": [(7, None), (7, LONG_AGO), (7, LONG_AGO)],
        "names": [(7, "main", "tmp/x", LONG_AGO)],
    }
    assert named(judging(), **free) == {"data/x": 2}
    assert named(judging(), **{**free, **keeps}) == {}
    assert named(judging(unread=(0,)), **free) == {}


def test_what_has_a_held_path_goes_by_no_rule_committed_or_staged():
    hold = Hold("keep", "path", "**/x", None, "ann", LONG_AGO, "")
    staged = {
        "listed": [(7, "data/x")],
        "staged": [(7, None), (7, LONG_AGO), (7, LONG_AGO)],
        "names": [(7, "main", "tmp/x", LONG_AGO)],
    }
    committed = {"listed": [(7, "data/x")], "of_commits": [(7, b"logs/x", 1, 0)]}
    for found, rule in ((staged, 2), (committed, 1)):
        assert named(judging(), **found) == {"data/x": rule}
        assert named(judging(holds=[hold]), **found) == {}


def test_each_staged_name_counts_once_whatever_shows_it():
    rows = [(7, "main", "a", LONG_AGO), (7, "main", "a", LONG_AGO), (7, "main", "a", None)]
    found = names_of_objects(
        of_schema(schemas.STAGED_NAMES, rows), pa.chunked_array([pa.array([7, 8])])
    )
    assert set(found[7]) == {StagedName("main", "a", LONG_AGO), StagedName("main", "a", None)}
    assert len(found[7]) == 2
    assert set(found) == {7}


def test_a_plan_is_divided_into_what_rules_name_what_no_commit_has_and_the_rest():
    plan = [(7, "data/logs", LONG_AGO), (8, "data/other", LONG_AGO), (9, "data/new", LONG_AGO)]
    bucket = {
        "entries": entries((7, b"logs/a", 1, 0), (8, b"data/b", 1, 1)),
        "plan": of_schema(HASHED, plan),
    }
    sent = objects_due.named_of_plan(judging(), bucket)
    found = {number % 2: rows["address"].to_pylist() for number, rows in sent.rows.items()}
    assert found == {
        objects_due.BY_RULES: ["data/logs"],
        objects_due.IN_NO_COMMIT: ["data/new"],
    }
    assert sent.receipt.came == {"entries": 2, "ranges": 2, "plan": 3}
    assert sent.receipt.inside == 2


def test_a_range_that_cannot_be_read_is_told_of():
    row = partial(of_schema, dated_entries.ENTRIES)([(3, None, 0, 3, dated_entries.UNREAD)])
    found, rows = objects_due._begun({"entries": row})
    assert (found.unread, found.came["ranges"], found.inside) == ({3}, 1, 0)
    assert rows.num_rows == 0
