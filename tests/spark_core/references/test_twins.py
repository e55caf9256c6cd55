"""Asking branches about paths: nothing hidden is missed, nothing is asked in vain, and what is not
asked is kept alone.
"""

from __future__ import annotations

import hashlib
import io
import random
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakegc_dagster.sandbox.xids import IdSource
from spark_core import schemas
from spark_core.addresses.address_hashes import are_among, hashed, sorted_once
from spark_core.checks.expired import waiting_words
from spark_core.errors import NotFoundError, RepositoryStateError
from spark_core.lakefs import EntriesPage
from spark_core.model import Branch
from spark_core.records import reading
from spark_core.records.manifest import Part
from spark_core.references import twins
from spark_core.references.expired_entries import SAID as SAID_COLUMNS
from spark_core.references.head_entries import ENTRIES, LISTED, STATED, HeadEntries
from spark_core.references.heads import Head, Heads
from spark_core.references.stated import are_checksums_stated, stated_by_heads, stated_by_the_store
from spark_core.references.twins import OBJECTS, asking, cost_of_asking, keyed_rows, suspects
from spark_core.run import RunOptions
from spark_core.spark import placement
from spark_core.spark.exchange import source_of
from spark_core.storage.gcs.store import GcsStore
from spark_core.storage.s3.store import S3Store

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)
DAY = timedelta(days=1)
GRACE = timedelta(hours=24)
# With a margin of no more than a minimum age of nothing, a day more or less decides.
EXACT = {"allow_unsafe_min_age": True, "min_age": timedelta(0)}

_LISTED = pa.schema(list(schemas.NAMESPACE_SLICES)[:5])


@dataclass
class Branches:
    """A server that knows what its branches show, in pages."""

    shown: dict[str, dict[str, str]]
    page: int = 3
    calls: Counter[str] = field(default_factory=Counter)
    gone: set[str] = field(default_factory=set)

    def branches(self, _repository):
        return [Branch(name, "c") for name in self.shown if name not in self.gone]

    def list_entries(self, _repository, branch, *, after):
        self.calls[branch] += 1
        if branch in self.gone:
            raise NotFoundError("branch not found")
        ordered = sorted((_bytes(path), address) for path, address in self.shown[branch].items())
        behind = [(_shown(path), address) for path, address in ordered if path > after.encode()]
        return EntriesPage(behind[: self.page], has_more=len(behind) > self.page)


def _bytes(path):
    return path.encode("utf-8", "surrogateescape")


def _shown(path):
    """Show each byte that is no UTF-8 as U+FFFD, as the server does."""
    return re.sub("[\udc80-\udcff]", "\ufffd", path.decode("utf-8", "surrogateescape"))


@dataclass
class Store:
    """A store that tells the MD5 of some contents."""

    contents: dict[str, str | None] = field(default_factory=dict)
    tells_content: bool = False
    lists_content: bool = False

    def content(self, key):
        if key not in self.contents:
            raise NotFoundError(key)
        return SimpleNamespace(checksum=self.contents[key])


def _relative(uris, _types):
    return pa.array([None if "://" in uri else uri for uri in uris.to_pylist()], pa.string())


@dataclass
class Ground:
    """What one search is about."""

    spark: Any
    server: Branches
    since: dict[str, datetime | None]
    entries: list[tuple[str, str, int, str]] = field(default_factory=list)
    candidates: list[tuple[str, int, datetime]] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    are_sizes_said: bool = False
    least: int = 0
    store: Store = field(default_factory=Store)
    listed: dict[str, str | None] = field(default_factory=dict)
    # Entries of expired commits: address, size, checksum.
    said: list[tuple[str, int, str]] = field(default_factory=list)
    entries_of_expired: Any = None
    # Whether the driver holds all rows, as of a small mark; else executors do.
    needs_no_spark: bool = False
    objects: int = 0

    def find(self, **options: Any) -> twins.Answers:
        run = SimpleNamespace(
            server=self.server,
            spark=self.spark,
            store=self.store,
            repository=SimpleNamespace(id="repo"),
            namespace=SimpleNamespace(relative_batch=_relative),
            options=RunOptions(**{**EXACT, **options}),
        )
        heads = {
            branch: Head(f"head of {branch}", when, "" if when else "reset")
            for branch, when in self.since.items()
        }
        since = Heads(NOW, heads)
        candidates = source_of(self._listing(), OBJECTS)
        return twins.find(
            run,
            candidates,
            self._heads(),
            since,
            grace=GRACE,
            objects=self.objects,
            entries_of=lambda: {
                f"head of {branch}": len(shown) for branch, shown in self.server.shown.items()
            },
            said=self._said(),
        )

    def kept(self, **options: Any) -> tuple[set[str], twins.Answers]:
        """Search; return the candidates that stay, and what was found."""
        found = self.find(**options)
        addresses = [address for address, _, _ in self.candidates]
        is_kept = are_among(hashed(pa.array(addresses, pa.string())).to_numpy(), found.hashes)
        assert set(found.read_by_branch["address"].to_pylist()) <= set(addresses)
        return {address for address, kept in zip(addresses, is_kept, strict=True) if kept}, found

    def _session(self):
        assert not self.needs_no_spark
        return self.spark

    def _listing(self):
        rows = [
            {
                "slice": "s",
                "address": address,
                "size_bytes": size,
                "last_modified": when,
                "checksum": None,
            }
            for address, size, when in self.candidates
        ]
        return pa.Table.from_pylist(rows, schema=_LISTED)

    def _said(self):
        if not self.said:
            return self.entries_of_expired
        addresses, sizes, checksums = (pa.array(column) for column in zip(*self.said, strict=True))
        columns = [hashed(addresses), sizes, hashed(checksums)]
        return source_of(pa.table(columns, schema=SAID_COLUMNS), SAID_COLUMNS)

    def _heads(self):
        rows = [
            {
                "address": address,
                "size_bytes": size,
                "head_path": _bytes(path),
                "checksum": checksum,
            }
            for path, address, size, checksum in self.entries
        ]
        absent = sorted_once(hashed(pa.array(self.absent, pa.string())).to_numpy())
        listing = pa.table(
            {
                "address": pa.array(self.listed.keys(), pa.string()),
                "checksum": pa.array(self.listed.values(), pa.string()),
            }
        )
        entries = source_of(pa.Table.from_pylist(rows, schema=ENTRIES), ENTRIES)
        objects = source_of(listing, LISTED)

        def are_checksums_said():
            said = (
                entries.through(STATED, stated_by_heads),
                objects.through(STATED, stated_by_the_store),
            )
            return are_checksums_stated(self._session, *said)

        return HeadEntries(
            self._session,
            lambda: entries,
            absent,
            self.are_sizes_said,
            lambda: objects,
            are_checksums_said,
            least=self.least,
        )


def ago(days):
    return NOW - days * DAY


@dataclass
class World:
    """A repository with hidden entries of every kind that the search promises to find."""

    ground: Ground
    hidden: set[str]


def _world(spark, seed):
    dice = random.Random(seed)
    names = [f"b{number}" for number in range(dice.randint(1, 4))]
    since = {
        name: dice.choice([ago(dice.randint(0, 20)), ago(dice.randint(0, 20)), None])
        for name in names
    }
    all_said = dice.random() < 0.3
    entries, absent, hidden, candidates = [], [], set(), {}
    shown: dict[str, dict[str, str]] = {name: {} for name in names}
    for number in range(dice.randint(1, 12)):
        path = f"{dice.choice('ab')}/{number}"
        kind = dice.choice(["plain", "plain", "plain", "absent", "outside"])
        address = f"s3://elsewhere/{number}" if kind == "outside" else f"data/s/head{number}"
        size = dice.randint(1, 3)
        entries.append((path, address, size, f"{size:032d}"))
        absent += [address] if kind == "absent" else []
        for name in names:
            shown[name][path] = address
    for number in range(dice.randint(1, 12)):
        is_signed = dice.random() < 0.3
        when, size = ago(dice.randint(0, 20)), dice.randint(1, 3)
        address = f"data/s/candidate{number}" + (",sig" if is_signed else "")
        candidates[address] = (address, size, when)
        if dice.random() < 0.5:
            continue
        path, over, said, _ = dice.choice(entries)
        name = dice.choice(names)
        may_be_said = is_signed or all_said or over in absent
        in_time = since[name] is None or when >= since[name]
        if (said == size or may_be_said) and (
            in_time or over in absent or over.startswith("s3://")
        ):
            shown[name][path] = address
            hidden = {shown[one][at] for one in names for at in shown[one]} & candidates.keys()
    ground = Ground(
        spark,
        Branches(shown, page=dice.randint(1, 4)),
        since,
        entries,
        list(candidates.values()),
        absent,
        are_sizes_said=all_said,
    )
    return World(ground, hidden)


@pytest.mark.spark
@pytest.mark.parametrize(
    "seed", [3, *(pytest.param(seed, marks=pytest.mark.deep) for seed in (0, 1, 6))]
)
def test_what_hides_is_kept_whatever_may_be_asked_and_all_else_goes_where_that_suffices(
    spark, seed
):
    _require(spark, seed)


@pytest.mark.spark
@pytest.mark.deep
@pytest.mark.timeout(3600)
def test_what_hides_is_kept_in_many_repositories(spark):
    for seed in range(100, 300):
        _require(spark, seed)


def _require(spark, seed, few=()):
    """See that a search keeps what hides, with calls that suffice and with fewer."""
    world = _world(spark, seed)
    world.ground.needs_no_spark = placement.MOST_ROWS_OF_THE_DRIVER > 1_000
    kept, found = world.ground.kept(twin_calls=10_000)
    assert kept == world.hidden
    assert found.figures.kept_objects == len(world.hidden)
    assert found.figures.unchecked_objects == 0
    calls = found.figures.calls
    for allowed in few or {0, 1, calls // 2, max(0, calls - 1)}:
        world.ground.server.calls.clear()
        kept, found = world.ground.kept(twin_calls=allowed)
        assert kept >= world.hidden
        assert sum(world.ground.server.calls.values()) == found.figures.calls <= allowed
        assert len(kept) == found.figures.kept_objects + found.figures.unchecked_objects


@pytest.fixture
def in_small_lots(monkeypatch):
    """Let few paths take the way of many."""
    monkeypatch.setattr(asking, "LOT", 2)
    monkeypatch.setattr(cost_of_asking, "LOT", 2)
    monkeypatch.setattr(cost_of_asking, "PAGE", 2)
    monkeypatch.setattr(suspects, "_ROWS_OF_A_NUMBER", 3)


@pytest.mark.spark
@pytest.mark.usefixtures("in_small_lots")
@pytest.mark.parametrize(
    ("seed", "held", "few"),
    [
        pytest.param(11, 5, {3}, marks=pytest.mark.slow),
        *(pytest.param(*case, (), marks=pytest.mark.deep) for case in [(11, 5), (28, 0), (6, 5)]),
    ],
)
def test_many_and_few_paths_are_asked_alike(spark, seed, held, few, monkeypatch):
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", held)
    _require(spark, seed, few)


@pytest.mark.spark
@pytest.mark.deep
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("in_small_lots")
@pytest.mark.parametrize("held", [0, 5])
def test_many_and_few_paths_of_many_repositories_are_asked_alike(spark, held, monkeypatch):
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", held)
    for seed in range(20):
        _require(spark, seed)


def _one_path(spark, branches=1, **of_ground):
    """A repository whose branches have one path, of the size of one candidate."""
    names = [f"b{number:04}" for number in range(branches)]
    entries = [("p", "data/s/head", 4, "a" * 32)]
    return Ground(
        spark,
        Branches({name: {"p": "data/s/head"} for name in names}, page=1_000),
        dict.fromkeys(names, ago(9)),
        entries,
        [("data/s/candidate", 4, ago(5))],
        **of_ground,
    )


@pytest.mark.spark
def test_calls_grow_with_branches_and_objects(spark):
    allowed = {
        (branches, objects): _one_path(spark, branches, objects=objects).find().figures.twin_calls
        for branches, objects in ((3, 0), (3, 99_999), (3, 505_000), (300, 99_999))
    }
    assert list(allowed.values()) == [1_000, 1_000, 5_050, 3_000]


@pytest.mark.spark
def test_1101_branches_and_one_suspect_path_are_all_asked_by_default(spark):
    ground = _one_path(spark, 1_101)
    kept, found = ground.kept()
    assert kept == set()
    assert (found.figures.calls, found.figures.twin_calls) == (1_101, 11_010)


@pytest.mark.spark
def test_branches_are_asked_side_by_side(spark):
    ground, together = _one_path(spark, 4), Barrier(4, timeout=30)
    alone = ground.server.list_entries

    def meeting(repository, branch, *, after):
        together.wait()
        return alone(repository, branch, after=after)

    ground.server.list_entries = meeting
    assert ground.kept(branches_at_once=4)[0] == set()


@pytest.mark.spark
@pytest.mark.parametrize(("days", "calls"), [(9, 1), (9 + 1 / 86_400, 0), (8, 1)])
def test_a_candidate_of_the_second_of_the_head_is_asked_about_and_an_older_one_is_not(
    spark, days, calls
):
    ground = _one_path(spark)
    ground.candidates = [("data/s/candidate", 4, ago(days))]
    assert ground.find().figures.calls == calls


@pytest.mark.spark
@pytest.mark.parametrize(
    ("options", "margin"),
    [
        ({"min_age": timedelta(hours=24)}, 7 * DAY + timedelta(minutes=5)),
        ({"min_age": timedelta(days=9)}, 9 * DAY + timedelta(minutes=5)),
        (
            {"min_age": timedelta(hours=24), "longest_upload": timedelta(0)},
            DAY + timedelta(minutes=5),
        ),
        # A throw-away repository: less its age alone.
        ({"min_age": timedelta(seconds=1), "allow_unsafe_min_age": True}, timedelta(seconds=1)),
    ],
)
def test_the_bound_is_earlier_by_the_longest_time_between_a_name_and_its_staging(
    spark, options, margin
):
    ground = _one_path(spark)
    for off, calls in ((timedelta(0), 1), (timedelta(seconds=1), 0)):
        ground.candidates = [("data/s/candidate", 4, ago(9) - margin - off)]
        assert ground.find(**{"allow_unsafe_min_age": False, **options}).figures.calls == calls


@pytest.mark.spark
def test_the_later_one_of_name_and_last_modification_counts(spark):
    ground = _one_path(spark)
    name = IdSource(lambda: ago(3)).object_address()
    ground.candidates = [(name, 4, ago(30))]
    assert ground.find().figures.calls == 1
    old = IdSource(lambda: ago(30)).object_address()
    ground.candidates = [(old, 4, ago(3))]
    assert ground.find().figures.calls == 1
    ground.candidates = [(old, 4, ago(30))]
    assert ground.find().figures.calls == 0


@pytest.mark.spark
def test_a_branch_that_was_made_since_heads_were_read_has_nothing_older(spark):
    ground = _one_path(spark)
    ground.since = {}
    assert ground.find().figures.calls == 0
    ground.candidates = [("data/s/candidate", 4, NOW)]
    assert ground.find().figures.calls == 1


@pytest.mark.spark
def test_a_whole_branch_is_listed_where_a_candidate_may_be_dishonest_and_no_other_is(spark):
    ground = _one_path(spark, 2)
    ground.since["b0001"] = ago(1)
    ground.candidates = [("data/s/candidate,sig", 1, ago(5))]
    ground.server.shown["b0000"]["q"] = "data/s/candidate,sig"
    ground.server.page = 1
    kept, found = ground.kept()
    assert kept == {"data/s/candidate,sig"}
    assert found.figures.branches_listed == found.figures.branches_asked == 1
    assert ground.server.calls == {"b0000": 2}


@pytest.mark.spark
def test_a_whole_branch_that_cannot_be_paid_for_keeps_only_what_may_be_dishonest(spark):
    ground = _one_path(spark, 3)
    ground.candidates = [("data/s/candidate,sig", 1, ago(5)), ("data/s/honest", 1, ago(5))]
    kept, found = ground.kept(twin_calls=2)
    assert kept == {"data/s/candidate,sig"}
    assert found.figures.planned_calls == 3


@pytest.mark.spark
def test_a_branch_of_which_few_entries_are_known_is_not_listed_for_a_few_paths(spark, monkeypatch):
    monkeypatch.setattr(cost_of_asking, "PAGE", 1)
    ground = _one_path(spark)
    ground.entries.append(("q", "data/s/second", 4, "a" * 32))
    ground.server.shown["b0000"] |= {f"other/{at}": "data/s/other" for at in range(100)}
    ground.server.page = 1
    ground.least = 102
    kept, found = ground.kept(twin_calls=10)
    assert kept == set()
    assert (found.figures.branches_listed, found.figures.planned_calls) == (0, 2)


def test_a_branch_with_more_questions_than_are_held_is_listed_and_no_other_is(monkeypatch):
    monkeypatch.setattr(cost_of_asking, "PAGE", 2)
    monkeypatch.setattr(keyed_rows, "_PATHS_OF_A_KEY", 5)
    shown = {f"p/{at:02}": f"data/s/{at}" for at in range(20)} | {"q": "data/s/q"}
    names = [f"b{number}" for number in range(4)]
    ground = Ground(
        None,
        Branches({name: dict(shown) for name in names}, page=2),
        {name: ago(9 if name == "b0" else 2) for name in names},
        [(path, address, 7 if path == "q" else 4, MD5) for path, address in shown.items()],
        [("data/c/old", 4, ago(5)), ("data/c/new", 7, ago(1))],
        needs_no_spark=True,
    )
    ground.server.shown["b0"]["p/17"] = "data/c/old"
    kept, found = ground.kept()
    assert kept == {"data/c/old"}
    assert found.figures.branches_listed == 1
    assert ground.server.calls == {"b0": 11, "b1": 1, "b2": 1, "b3": 1}


def _odd_path(spark, **of_ground):
    """A repository with ten plain paths and one that is no UTF-8, whose object is lost.

    Anything may hide under it.
    """
    ground = _one_path(spark, absent=["data/s/odd"], **of_ground)
    ground.entries.append(("e\udce2\udc82/x", "data/s/odd", 7, "a" * 32))
    ground.server.shown = {
        "b0000": {"e\udce2\udc82/x": "data/s/odd", **{f"p{at}": "data/s/head" for at in range(10)}}
    }
    ground.candidates.append(("data/s/other", 9, ago(30)))
    ground.server.page = 3
    return ground


@pytest.mark.spark
def test_a_path_that_is_no_utf8_is_asked_about_around_its_beginning(spark):
    ground = _odd_path(spark)
    kept, found = ground.kept()
    assert kept == set()
    assert (found.figures.calls, found.figures.unchecked_objects) == (1, 0)
    ground.server.shown["b0000"]["e\udce2\udc82/x"] = "data/s/other"
    kept, found = ground.kept()
    assert kept == {"data/s/other"}
    assert found.figures.kept_objects == 1


@pytest.mark.spark
def test_paths_that_are_no_utf8_and_hold_the_listing_up_keep_what_may_hide_there_and_say_so(spark):
    ground = _odd_path(spark)
    ground.server.shown["b0000"] |= {f"e\udce2{odd}": "data/s/head" for odd in "abcd"}
    kept, found = ground.kept()
    assert kept == {"data/s/candidate", "data/s/other"}
    assert found.figures.is_held_up
    words = waiting_words(found.figures)
    assert words.endswith(
        "paths that are not UTF-8 block its listing: rename those paths and mark under a new run "
        "key"
    )
    assert "raise twin_calls and rename those paths" in waiting_words(
        replace(found.figures, twin_calls=found.figures.calls)
    )


# The third way: the candidates themselves

MD5, OTHER, SAID = "a" * 32, "b" * 32, "d" * 32


@pytest.fixture(
    params=[
        pytest.param(placement.MOST_ROWS_OF_THE_DRIVER, id="by the driver"),
        pytest.param(0, id="by executors", marks=pytest.mark.deep),
    ]
)
def way(request, monkeypatch):
    """Search as few candidates are searched, and as too many for the driver are."""
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", request.param)


def _many_paths(spark, candidates, **contents):
    """Ten paths on three branches, with one checksum and one size.

    Candidates with these contents.
    """
    return Ground(
        spark,
        Branches(
            {
                f"b{number}": {f"{number}/{at}": f"data/s/{at}" for at in range(10)}
                for number in range(3)
            },
            page=1,
        ),
        {f"b{number}": ago(9) for number in range(3)},
        [(f"{number}/{at}", f"data/s/{at}", 4, MD5) for at in range(10) for number in range(3)],
        [(address, 4, ago(5)) for address in candidates],
        store=Store(contents, tells_content=True),
        listed={f"data/s/{at}": MD5 for at in range(10)},
    )


@pytest.mark.spark
def test_a_candidate_whose_content_is_another_one_is_no_twin_and_nobody_is_asked(spark, way):
    ground = _many_paths(spark, ["data/c/1", "data/c/2"], **{"data/c/1": OTHER, "data/c/2": OTHER})
    kept, found = ground.kept()
    assert kept == set()
    assert (found.figures.objects_asked, found.figures.calls) == (2, 0)


@pytest.mark.spark
@pytest.mark.parametrize(
    "told", [MD5, None], ids=["the content of an entry", "a content that the store does not tell"]
)
def test_a_candidate_whose_content_may_be_that_of_an_entry_is_asked_about(spark, told, way):
    ground = _many_paths(spark, ["data/c/1", "data/c/2"], **{"data/c/1": OTHER, "data/c/2": told})
    ground.server.shown["b2"]["2/7"] = "data/c/2"
    kept, found = ground.kept()
    assert kept == {"data/c/2"}
    assert found.figures.objects_asked == 2


@pytest.mark.spark
def test_an_entry_whose_checksum_is_none_of_a_content_hides_whatever_its_size_has(spark, way):
    ground = _many_paths(spark, ["data/c/1"], **{"data/c/1": OTHER})
    ground.entries.append(("0/odd", "data/s/odd", 4, "0123-7"))
    ground.server.shown["b0"]["0/odd"] = "data/c/1"
    assert ground.kept()[0] == {"data/c/1"}


@pytest.mark.spark
def test_contents_are_not_believed_where_a_checksum_of_an_entry_is_not_that_of_its_object(
    spark, way
):
    """Said checksums, or a store that began to encrypt: then an unsigned copy may carry one on."""
    ground = _many_paths(spark, ["data/c/1"], **{"data/c/1": OTHER})
    ground.server.shown["b1"]["1/3"] = "data/c/1"
    ground.listed["data/s/5"] = OTHER
    kept, found = ground.kept()
    assert kept == {"data/c/1"}
    assert found.figures.objects_asked == 0


@pytest.mark.spark
def test_a_candidate_that_may_be_dishonest_is_not_believed_by_its_content(spark, way):
    ground = _many_paths(spark, ["data/c/1,sig"], **{"data/c/1,sig": OTHER})
    ground.server.shown["b1"]["1/3"] = "data/c/1,sig"
    kept, found = ground.kept()
    assert kept == {"data/c/1,sig"}
    assert found.figures.objects_asked == 0


@pytest.mark.spark
def test_where_calls_are_short_what_the_store_could_not_tell_is_kept_and_what_it_told_goes(
    spark, monkeypatch, way
):
    monkeypatch.setattr(cost_of_asking, "PAGE", 1)
    ground = _many_paths(spark, ["data/c/1", "data/c/2"], **{"data/c/1": OTHER, "data/c/2": None})
    kept, found = ground.kept(twin_calls=4)
    assert kept == {"data/c/2"}
    assert (found.figures.objects_asked, found.figures.unchecked_objects) == (2, 1)


@pytest.mark.spark
def test_an_object_that_is_gone_when_its_content_is_asked_for_keeps_asking_by_its_size(spark, way):
    ground = _many_paths(spark, ["data/c/1", "data/c/gone"], **{"data/c/1": OTHER})
    ground.server.shown["b0"]["0/3"] = "data/c/gone"
    assert ground.kept()[0] == {"data/c/gone"}


@pytest.mark.spark
def test_the_hard_case_in_small(spark, monkeypatch):
    """Few sizes, and commits dated weeks back.

    Nothing is ruled out, and limits that suffice let all of it go.
    """
    monkeypatch.setattr(cost_of_asking, "PAGE", 10)
    branches, paths = 10, 100
    names = [f"b{number:02}" for number in range(branches)]
    shown = {f"p/{at:04}": f"data/s/{at}" for at in range(paths)}
    ground = Ground(
        spark,
        Branches({name: dict(shown) for name in names}, page=10),
        dict.fromkeys(names, ago(30)),
        [(path, address, at % 2, MD5) for at, (path, address) in enumerate(shown.items())],
        [(f"data/c/{number}", number % 2, ago(1)) for number in range(300)],
        store=Store({f"data/c/{number}": OTHER for number in range(300)}, tells_content=True),
    )
    kept, found = ground.kept(twin_calls=50)
    assert len(kept) == found.figures.unchecked_objects == 300
    assert found.figures.planned_calls == 10 * 11
    kept, found = ground.kept(twin_calls=10 * 11)
    assert kept == set()
    assert found.figures.branches_listed == 10
    # Where that costs less, the candidates are asked themselves, unless they might tell nothing and
    # nothing would be left for the branches then.
    del ground.candidates[80:]
    kept, found = ground.kept(twin_calls=10 * 11)
    assert kept == set()
    assert (found.figures.objects_asked, found.figures.calls) == (0, 100)
    kept, found = ground.kept(twin_calls=10 * 11 + 80)
    assert kept == set()
    assert (found.figures.objects_asked, found.figures.calls) == (80, 0)


@pytest.mark.spark
def test_the_advised_number_of_calls_is_what_branches_with_entries_of_their_own_take(
    spark, monkeypatch, way
):
    """Every branch has some of all entries, so its pages are few."""
    monkeypatch.setattr(cost_of_asking, "PAGE", 10)
    names = [f"b{number:02}" for number in range(20)]
    shared = {f"p/{at:04}": f"data/s/{at}" for at in range(30)}
    shown = {
        name: {**shared, **{f"{name}/{at}": f"data/{name}/{at}" for at in range(17)}}
        for name in names
    }
    every = {path: address for of_branch in shown.values() for path, address in of_branch.items()}
    ground = Ground(
        spark,
        Branches(shown, page=10),
        dict.fromkeys(names, ago(30)),
        [(path, address, at % 2, MD5) for at, (path, address) in enumerate(every.items())],
        [(f"data/c/{number}", number % 2, ago(1)) for number in range(300)],
    )
    _, short = ground.kept(twin_calls=50)
    advised = short.figures.planned_calls
    assert short.figures.unchecked_objects == 300
    assert f"raise twin_calls (to about {advised:,})" in waiting_words(short.figures)
    kept, found = ground.kept(twin_calls=advised)
    assert kept == set()
    assert found.figures.calls == advised == 20 * 5


@pytest.mark.spark
@pytest.mark.parametrize("seed", range(12))
def test_the_advised_number_of_calls_suffices_whatever_is_hidden(spark, monkeypatch, seed):
    world = _world(spark, seed)
    monkeypatch.setattr(cost_of_asking, "PAGE", world.ground.server.page)
    _, short = world.ground.kept(twin_calls=0)
    kept, found = world.ground.kept(twin_calls=short.figures.planned_calls)
    assert found.figures.unchecked_objects == 0
    assert kept == world.hidden


# What an object's own entries say


def _committed_before(spark, **of_ground):
    """A repository of few sizes; most of what may go was committed, with other checksums."""
    branches, paths = 10, 40
    names = [f"b{number:02}" for number in range(branches)]
    shown = {f"p/{at:04}": f"data/s/{at}" for at in range(paths)}
    committed = [f"data/c/{number}" for number in range(123)]
    never = [f"data/n/{number}" for number in range(3)]
    return Ground(
        spark,
        Branches({name: dict(shown) for name in names}, page=10),
        dict.fromkeys(names, ago(30)),
        [(path, address, at % 4, f"{at:032x}") for at, (path, address) in enumerate(shown.items())],
        [(address, at % 4, ago(1)) for at, address in enumerate([*committed, *never])],
        listed=dict.fromkeys([*shown.values(), *committed, *never]),
        said=[(address, at % 4, f"{1_000 + at:032x}") for at, address in enumerate(committed)],
        **of_ground,
    )


def test_what_was_committed_with_another_checksum_is_no_twin_and_nobody_is_asked_about_it(
    monkeypatch,
):
    """As of 505,000 objects in four sizes: 123,000 committed once, and 3,000 never."""
    monkeypatch.setattr(cost_of_asking, "PAGE", 10)
    ground = _committed_before(None, needs_no_spark=True)
    ground.store = Store(
        {address: f"{at:032x}" for at, (address, _, _) in enumerate(ground.candidates, 5_000)},
        tells_content=True,
    )
    kept, found = ground.kept()
    assert kept == set()
    assert (found.figures.calls, found.figures.objects_asked) == (0, 3)
    # Where the store tells nothing, branches are asked on account of three objects alone.
    ground.store = Store()
    del ground.candidates[-3:]
    kept, found = ground.kept()
    assert kept == set()
    assert (found.figures.calls, found.figures.planned_calls) == (0, 0)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda ground: ground.said.append(("data/c/1", 1, MD5)), id="two checksums"),
        pytest.param(lambda ground: ground.said.append(("data/c/1", 2, SAID)), id="two sizes"),
        pytest.param(lambda ground: ground.said.__setitem__(0, ("data/c/1", 2, SAID)), id="a size"),
        pytest.param(lambda ground: ground.said.__setitem__(0, ("data/c/1", 1, "")), id="nothing"),
        pytest.param(
            lambda ground: ground.said.__setitem__(0, ("data/c/1", 1, MD5)), id="the same"
        ),
        pytest.param(lambda ground: ground.listed.update({"data/c/1": OTHER}), id="denied"),
        pytest.param(
            lambda ground: ground.listed.pop("data/s/1"), id="the entry's object not seen"
        ),
        pytest.param(lambda ground: ground.absent.append("data/s/1"), id="it is lost"),
        pytest.param(
            lambda ground: ground.entries.__setitem__(0, ("p", "s3://else/where", 1, MD5)),
            id="it lies outside",
        ),
        pytest.param(
            lambda ground: ground.entries.__setitem__(0, ("p", "data/s/1", 1, None)),
            id="it has no checksum",
        ),
        pytest.param(
            lambda ground: setattr(ground, "are_sizes_said", True), id="sizes are made up"
        ),
    ],
)
def test_what_entries_say_of_an_object_is_not_believed_where(change):
    ground = Ground(
        None,
        Branches({"main": {"p": "data/c/1"}}),
        {"main": ago(9)},
        [("p", "data/s/1", 1, MD5)],
        [("data/c/1", 1, ago(5))],
        listed={"data/s/1": None, "data/c/1": None},
        said=[("data/c/1", 1, SAID)],
        needs_no_spark=True,
    )
    # It would be, although the branch shows the object: only a lie could do that.
    assert ground.kept()[0] == set()
    assert ground.kept(hidden_entries="ask_all")[0] == {"data/c/1"}
    change(ground)
    assert ground.kept()[0] == {"data/c/1"}


def test_what_entries_say_is_not_believed_where_the_store_denies_that_of_another_object():
    ground = _committed_before(None, needs_no_spark=True)
    ground.listed["data/s/7"] = OTHER
    ground.store = Store({}, tells_content=True)
    ground.server.shown["b03"]["p/0000"] = "data/c/0"
    assert ground.kept()[0] == {"data/c/0"}


def test_of_an_address_for_an_upload_past_the_server_nothing_is_believed():
    ground = _committed_before(None, needs_no_spark=True)
    ground.candidates.append(("data/c/signed,sig", 1, ago(1)))
    ground.listed["data/c/signed,sig"] = None
    ground.said.append(("data/c/signed,sig", 1, SAID))
    ground.server.shown["b03"]["p/0000"] = "data/c/signed,sig"
    assert ground.kept()[0] == {"data/c/signed,sig"}


# What the listing tells of what was never committed


def _never_committed(store=GcsStore, **of_ground):
    """A path on two branches, and an object of its size that no commit ever had."""
    return Ground(
        None,
        Branches({"main": {"p": "data/s/1"}, "dev": {"p": "data/s/1"}}),
        {"main": ago(9), "dev": ago(9)},
        [("p", "data/s/1", 1, MD5)],
        [("data/n/1", 1, ago(5))],
        listed={"data/s/1": MD5, "data/n/1": OTHER},
        store=Store(tells_content=store.tells_content, lists_content=store.lists_content),
        needs_no_spark=True,
        **of_ground,
    )


def test_what_was_listed_with_another_content_is_no_twin_and_nobody_is_asked():
    """As of 505,000 objects in four sizes, where the listing gives MD5s of contents."""
    ground = _committed_before(None, needs_no_spark=True)
    for at, address in enumerate(ground.listed, 5_000):
        ground.listed[address] = f"{at:032x}"
    ground.entries = [
        (path, address, size, ground.listed[address]) for path, address, size, _ in ground.entries
    ]
    ground.said = [(address, size, ground.listed[address]) for address, size, _ in ground.said]
    ground.store = Store(tells_content=True, lists_content=True)
    kept, found = ground.kept()
    assert kept == set()
    assert (found.figures.paths, found.figures.calls, found.figures.objects_asked) == (0, 0, 0)


def test_a_tag_of_s3_is_no_content_where_the_bucket_began_to_encrypt_after_the_last_commit():
    """Identical content was uploaded again then: the listing gives 32 digits that are no MD5.

    Each object of a head was written before, so that all checksums that can be compared agree.
    """
    ground = _never_committed(S3Store)
    ground.store.contents = {"data/n/1": None}
    ground.server.shown["dev"]["p"] = "data/n/1"
    kept, found = ground.kept()
    assert kept == {"data/n/1"}
    assert found.figures.calls == 2


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda ground: ground.listed.update({"data/n/1": MD5}), id="the same content"),
        pytest.param(lambda ground: ground.listed.update({"data/n/1": None}), id="none is listed"),
        pytest.param(
            lambda ground: (
                ground.entries.__setitem__(0, ("p", "data/s/1", 1, "0123-7")),
                ground.listed.update({"data/s/1": None}),
            ),
            id="the entry's is no MD5, and a copy of it carries that on",
        ),
        pytest.param(
            lambda ground: ground.listed.pop("data/s/1"), id="the entry's object not seen"
        ),
        pytest.param(lambda ground: ground.absent.append("data/s/1"), id="it is lost"),
        pytest.param(
            lambda ground: ground.entries.__setitem__(0, ("p", "s3://else/where", 1, MD5)),
            id="it lies outside",
        ),
        pytest.param(
            lambda ground: (
                ground.entries.append(("q", "data/s/2", 1, SAID)),
                ground.listed.update({"data/s/2": OTHER}),
            ),
            id="a head gives a checksum that its object does not have",
        ),
        pytest.param(
            lambda ground: setattr(ground, "are_sizes_said", True), id="sizes are made up"
        ),
        pytest.param(
            lambda ground: ground.said.append(("data/n/1", 1, MD5)), id="its own entry denies it"
        ),
    ],
)
def test_what_is_listed_of_a_content_is_not_believed_where(change):
    ground = _never_committed()
    ground.server.shown["dev"]["p"] = "data/n/1"
    # It would be, although the branch shows the object: only a lie could do that.
    assert ground.kept()[0] == set()
    assert ground.kept(hidden_entries="ask_all")[0] == {"data/n/1"}
    change(ground)
    assert ground.kept()[0] == {"data/n/1"}


def test_of_an_address_for_an_upload_past_the_server_what_is_listed_is_not_believed():
    ground = _never_committed()
    ground.candidates = [("data/n/1,sig", 1, ago(5))]
    ground.listed["data/n/1,sig"] = OTHER
    ground.server.shown["dev"]["p"] = "data/n/1,sig"
    assert ground.kept()[0] == {"data/n/1,sig"}


@pytest.mark.parametrize("entry", [("data/c/1", 1, MD5), ("data/c/1", 2, OTHER)])
def test_an_object_whose_own_entry_differs_from_it_is_not_believed_by_its_content_either(entry):
    """It was staged by hand with a made-up checksum, once in a commit that expired, and now."""
    ground = _many_paths(None, ["data/c/1"], **{"data/c/1": OTHER})
    ground.needs_no_spark = True
    ground.listed["data/c/1"] = OTHER
    assert ground.kept()[0] == set()
    ground.server.shown["b1"]["1/3"] = "data/c/1"
    ground.said = [(entry[0], 4 * entry[1], entry[2])]
    assert ground.kept()[0] == {"data/c/1"}


@pytest.mark.parametrize("unreadable", [{1}, {2}, {1, 2}])
def test_entries_that_can_be_read_only_at_times_clear_nothing_that_was_not_asked(unreadable):
    """Each exchange reads them, and what one asks by the key of a content, others do not know."""
    said = [hashed(pa.array(["data/c/1"])), [1], hashed(pa.array([MD5]))]
    rows = pa.table(said, SAID_COLUMNS)
    content = io.BytesIO()
    pq.write_table(rows, content)
    part = Part("entries", 1, content.tell(), hashlib.sha256(content.getvalue()).hexdigest())
    reads = count(1)

    def read_unchanging(key, **_):
        if next(reads) in unreadable:
            raise NotFoundError(key)
        return content.getvalue()

    ground = Ground(
        None,
        Branches({"main": {"p": "data/c/1"}}),
        {"main": ago(9)},
        [("p", "data/s/1", 1, MD5)],
        [("data/c/1", 1, ago(5))],
        listed={"data/s/1": None, "data/c/1": None},
        entries_of_expired=reading.source_of_parts(
            SimpleNamespace(read_unchanging=read_unchanging), SAID_COLUMNS, (part,)
        ),
        needs_no_spark=True,
    )
    if unreadable == {2}:
        with pytest.raises(NotFoundError, match="entries"):
            ground.kept(twin_calls=0)
    else:
        assert ground.kept(twin_calls=0)[0] == {"data/c/1"}


@dataclass
class History:
    """What people did to a repository at random, as the server records it.

    Attributes:
        tells: Whether the store tells contents.
        lists: Whether its listing gives MD5s of contents alone. Else it gives other digits for what
            was encrypted.
        objects: Address -> content, of those that the store has.
        encrypted: Those whose content the store does not tell.
        encrypts: Whether the store encrypts what it gets now.
        heads: Branch -> path -> entry: address, size, checksum.
        staged: The same of what is staged.
        old: Heads of before.
    """

    dice: random.Random
    tells: bool
    lists: bool = False
    encrypts: bool = False
    encrypted: set[str] = field(default_factory=set)
    objects: dict[str, str] = field(default_factory=dict)
    heads: dict[str, dict[str, tuple[str, int, str]]] = field(default_factory=dict)
    staged: dict[str, dict[str, tuple[str, int, str]]] = field(default_factory=dict)
    old: list[dict[str, tuple[str, int, str]]] = field(default_factory=list)

    def shown(self, branch):
        return self.heads[branch] | self.staged[branch]

    def is_hidden(self, branch, path):
        """Say whether a staged entry looks like the committed one."""
        head = self.heads[branch].get(path)
        return head is not None and head[1:] == self.staged[branch][path][1:]

    def make(self, content, *, signed=False):
        address = f"data/s/{len(self.objects)}{self.dice.getrandbits(32):x}" + ",sig" * signed
        self.objects[address] = content
        if self.encrypts:
            self.encrypted.add(address)
        return address

    def tag(self, address):
        """Return what the listing gives as an object's checksum."""
        content = self.objects[address]
        if not self.tells or content == "in parts":
            return None
        if address in self.encrypted and not self.lists:
            return _md5(address)
        return _md5(content)

    def upload(self, branch, path):
        content = self.dice.choice(["one", "two", "four", "other"])
        self.staged[branch][path] = (self.make(content), len(content), _md5(content))

    def upload_in_parts(self, branch, path):
        self.staged[branch][path] = (self.make("in parts"), 8, "0123-2")

    def encrypt(self, _branch, _path):
        self.encrypts = self.dice.random() < 0.5

    def copy(self, branch, path):
        shown = self.shown(self.dice.choice(list(self.heads)))
        readable = [entry for entry in shown.values() if entry[0] in self.objects]
        if readable:
            source, *said = self.dice.choice(readable)
            # A copy is made in one part.
            content = self.objects[source].replace("in parts", "of parts")
            self.staged[branch][path] = (self.make(content), *said)

    def link(self, branch, path):
        content = self.dice.choice(["one", "two", "other"])
        lie = self.dice.choice(["size", "checksum", "nothing", "nothing"])
        # A checksum of another content, which the store could deny only where it tells.
        checksum = "f" * 32 if self.tells else _md5("one")
        self.staged[branch][path] = (
            self.make(content, signed=True),
            99 if lie == "size" else len(content),
            checksum if lie == "checksum" else _md5(content),
        )

    def stage(self, branch, path):
        known = [entry for head in [*self.old, *self.staged.values()] for entry in head.values()]
        if known:
            self.staged[branch][path] = self.dice.choice(known)

    def commit(self, branch, _path):
        self.old.append(self.heads[branch])
        changes = {
            path: entry
            for path, entry in self.staged[branch].items()
            if not self.is_hidden(branch, path)
        }
        self.heads[branch], self.staged[branch] = self.heads[branch] | changes, {}

    def reset(self, branch, _path):
        if self.old:
            self.old.append(self.heads[branch])
            self.heads[branch] = self.dice.choice(self.old)

    def lose(self, _branch, _path):
        if self.dice.random() < 0.3 and self.objects:
            del self.objects[self.dice.choice(list(self.objects))]

    def ground(self):
        """Return what the search is about, and what hides."""
        entries = {(path, *entry) for head in self.heads.values() for path, entry in head.items()}
        kept = {address for _, address, _, _ in entries}
        hidden = set()
        for branch, staged in self.staged.items():
            for path, (address, _, _) in staged.items():
                (hidden if self.is_hidden(branch, path) else kept).add(address)
        going = self.objects.keys() - kept
        sizes = {address: len(content) for address, content in self.objects.items()}
        ground = Ground(
            None,
            Branches(
                {
                    branch: {path: entry[0] for path, entry in self.shown(branch).items()}
                    for branch in self.heads
                },
                page=2,
            ),
            dict.fromkeys(self.heads, ago(30)),
            sorted(entries),
            [(address, sizes[address], ago(5)) for address in sorted(going)],
            sorted({address for _, address, _, _ in entries} - self.objects.keys()),
            any(sizes.get(address, size) != size for _, address, size, _ in entries),
            store=Store(
                {
                    address: None if address in self.encrypted else self.tag(address)
                    for address in self.objects
                },
                self.tells,
                self.lists,
            ),
            listed={address: self.tag(address) for address in self.objects},
            said=sorted({entry for head in self.old for entry in head.values()}),
            needs_no_spark=True,
        )
        return ground, hidden & going


def _md5(content):
    return hashlib.md5(content.encode()).hexdigest()


def _history(seed):
    dice = random.Random(seed)
    made = History(dice, tells=seed % 2 == 0, lists=seed % 4 == 0)
    made.heads = {f"b{number}": {} for number in range(dice.randint(1, 3))}
    made.staged = {name: {} for name in made.heads}
    acts = [made.upload] * 6 + [made.commit] * 3 + [made.copy, made.copy, made.reset, made.stage]
    acts += [made.lose] + [made.link] * (seed % 3 == 0)
    acts += [made.upload_in_parts, made.encrypt] * (seed % 5 < 2)
    for _ in range(dice.randint(5, 40)):
        dice.choice(acts)(dice.choice(list(made.heads)), f"p/{dice.randint(1, 4)}")
    return made.ground()


@pytest.mark.slow
@pytest.mark.parametrize(
    "seeds",
    [
        range(8),
        pytest.param(range(25), marks=pytest.mark.slow),
        pytest.param(range(25, 1_000), marks=pytest.mark.deep),
    ],
    ids=["few", "some", "many"],
)
def test_no_history_lets_go_of_what_hides_whatever_its_entries_say(seeds):
    spared = some = 0
    for seed in seeds:
        ground, hidden = _history(seed)
        kept, found = ground.kept(twin_calls=10_000)
        assert kept == hidden, seed
        assert ground.kept(twin_calls=found.figures.calls // 2)[0] >= hidden, seed
        kept, _ = ground.kept(twin_calls=0)
        assert kept >= hidden, seed
        ground.said = []
        spared += len(ground.kept(twin_calls=0)[0]) - len(kept)
        some += bool(hidden)
    assert some > len(seeds) / 20
    assert spared > len(seeds) / 20


# Branches that go


@pytest.mark.spark
def test_a_branch_that_was_deleted_meanwhile_has_nothing_staged(spark):
    ground = _one_path(spark, 2)
    ground.server.shown["b0001"]["p"] = "data/s/candidate"
    listed = ground.server.branches

    def vanishing(repository):
        found = listed(repository)
        ground.server.gone = {"b0001"}
        return found

    ground.server.branches = vanishing
    assert ground.kept()[0] == set()


@pytest.mark.spark
def test_a_branch_that_is_there_but_not_found_is_a_failure(spark):
    ground = _one_path(spark)

    def confused(_repository, _branch, *, after):
        raise NotFoundError("repository not found")

    ground.server.list_entries = confused
    with pytest.raises(NotFoundError):
        ground.find()


@pytest.mark.spark
def test_a_repository_without_branches_is_no_repository_in_which_nothing_hides(spark):
    ground = _one_path(spark)
    ground.server.gone = {"b0000"}
    with pytest.raises(RepositoryStateError, match="shows no branch"):
        ground.find()


OWN = "data/gqv3epl4fd2o8m3men70/ce8co454fd2o8m3menag"
ASIDE = f"_lakefs/retention/gc/quarantine/run_id=2026-11-20T02-00-00Z/{OWN}"


@pytest.mark.parametrize(
    ("shown", "address"),
    [
        (f"s3://an-access-point/repo/{OWN}", OWN),
        (f"s3://an-access-point/repo/{ASIDE}", ASIDE),
        ("s3://elsewhere/photo.jpg", None),
    ],
)
def test_by_another_name_of_the_store_an_object_is_known_where_it_lies(shown, address):
    assert asking._known_as(shown) == address
