"""What every object store must do: each backend's test class subclasses one of the classes here.

That is `OrderedStoreConformance`; `RemoteStoreConformance` where the store cannot list from a name
on, and `StoreConformance` for files.

A backend gives three fixtures, fresh for each test:

`store`: empty and rooted at a namespace, its options impatient (`max_retries` 1 or 2).
`outside`: an `Outside`, which puts, removes and names objects of the same namespace without the
    store.
`faults`: a `Faults` (files) or `RemoteFaults`, which makes this store's backend fail on demand and
    repairs everything at the end of the test. One way is `fault_proxy.FaultProxy` between the store
    and its emulator (see `s3_faults`). Another is to patch the client that the store has opened.

It may set, on the test class:

`tells_gone`: False when the store confirms the deletion of a missing key (S3).
`odd_names`: those of `ODD_NAMES` that the store can hold.
`strange_keys`: those of `STRANGE_KEYS` that the store can hold; a comment says why others cannot.
`flat_names`: False where an object and objects "below" it cannot both exist (files).
`conditional_copies`: False where the emulator copies onto an object although it is told not to.
`longest_key`: bytes of the longest key, the namespace's path included.
`many_keys`: more keys than one request lists or deletes where nothing cuts requests short.

No test sleeps: waits between repetitions go through `spark_core.storage.deletion.wait`, which is
replaced here.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import ClassVar, Literal, Protocol
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st
from pyspark import cloudpickle

from spark_core import lakegc_keys
from spark_core.addresses.xids import first_id
from spark_core.clocks import MAX_CLOCK_SKEW
from spark_core.errors import (
    AddressError,
    CorruptTableError,
    IncompleteReadError,
    NotFoundError,
    ObjectExistsError,
    PermissionDeniedError,
    TransientError,
)
from spark_core.schemas import OBJECT_LISTING
from spark_core.storage import DeleteOutcome, ObjectStore, deletion
from spark_core.storage.contract import OrderedStore
from spark_core.storage.listings import list_below
from spark_core.storage.probes import (
    honours_conditional_put,
    read_clock,
    require_deletable,
    write_read_delete,
)
from tests.support.move_conformance import MoveConformance
from tests.support.paces import Called

SECRETS = ("AKIAMOTOTESTKEYID000", "moto/secret+ACCESS/key0000000000000000000")
QUARANTINE = "_lakefs/retention/gc/quarantine/run_id=2026-11-20T02-00-00Z/"
ROWS = pa.schema(
    [pa.field("address", pa.string(), nullable=False), pa.field("size_bytes", pa.int64())]
)
ODD_NAMES = [
    "sp ace",
    "%20",
    "a+b",
    "é",
    "e\u0301",
    "😀",
    "a&<b>",
    "#1",
    "x#1",
    "a*?b",
    "back\\slash",
    "q'\"",
    "~t",
    ".hidden",
    "a,b=c",
    "a;b:c@d$e!",
    "%2F",
    "%25",
    "?a=b",
    "{a}[b]|^`",
    "a..b",
    "...",
    "\u2028",
    "\u202ereversed",
]
# What object stores can hold and not every client, server or file system takes for the same: listed
# as they are, never touched.
STRANGE_KEYS = (
    "data//x",
    "data/s/",
    "data/",
    "data/./y",
    "data/../z",
    "data/s/.",
    "data/s/..",
    "data/s/a\nb",
    "data/s/\x01c",
    "data/s/\rcr",
    "data/s/\ttab",
    "data/s/\x7fdel",
    "data/s/\uffffnon",
    "/lead",
    "data/s/sub/",
    "..",
    "//",
)
# What one of the strange keys would be taken for.
_NEIGHBOURS = ("data/s", "data/x", "data/y", "data/s/ab", "data/s/a b", "data/s/c", "z", "lead")


class Outside(Protocol):
    """Access to the namespace that does not go through the store."""

    def put(self, key: str, data: bytes) -> None: ...
    def keys(self) -> set[str]: ...
    def remove(self, key: str) -> None: ...


def put_many(outside: Outside, keys: Iterable[str]) -> None:
    """Put empty objects; a backend with a quicker way has it as its `Outside.put_many`."""
    quick = getattr(outside, "put_many", None)
    if quick is not None:
        quick(keys)
        return
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: outside.put(key, b""), keys))


class Faults(Protocol):
    """What can go wrong with any store; each holds until the end of the test."""

    def refuse(self, key: str) -> None:
        """Let the store refuse to delete this key, as for lack of a permission on it; its
        neighbours are deleted.
        """

    def ignore_conditions(self) -> None:
        """Let the store take every conditional put for a plain one."""

    def after_copy(self, action: Callable[[], None]) -> None:
        """Call `action` once, when the store has made a copy and before it says so."""

    def in_the_middle(self, kind: Literal["list", "delete"], action: Callable[[], None]) -> None:
        """Call `action` once, when the store has told the first page (files: entry) or answered the
        first request, before the next.
        """


class RemoteFaults(Faults, Protocol):
    """What can go wrong with a store behind a network."""

    def throttle(self, key: str, times: int) -> None:
        """Let the store answer for this key, in so many deletions, that it is too busy; then it
        deletes.
        """

    def throttle_requests(self, kind: Literal["list", "delete"], times: int) -> None:
        """Let the store answer so many whole requests of a kind with its "slow down"."""

    def expire_credentials(self) -> None:
        """Let the store refuse every further request in the way it does for credentials that have
        run out.
        """

    def pages_of(self, keys: int) -> None:
        """Let listings come in pages of so many keys."""

    def repeat_page(self) -> None:
        """Let the second page of the next listing hold the objects of the first again, its end and
        token unchanged.
        """


def rows_of(store: ObjectStore, prefix: str) -> dict[str, tuple[int, datetime, str | None]]:
    found: dict[str, tuple[int, datetime, str | None]] = {}
    for batch in store.list(prefix):
        assert batch.schema == OBJECT_LISTING
        for row in batch.to_pylist():
            assert row["key"] not in found
            found[row["key"]] = (row["size_bytes"], row["last_modified"], row["checksum"])
    return found


def _key(segments: list[str]) -> str:
    # No segment is empty, a dot or two: the tails keep files and directories apart as well.
    return "/".join([*(f"{segment}~" for segment in segments[:-1]), f"{segments[-1]}_"])


_characters = st.characters(
    min_codepoint=32, exclude_characters="/\x7f\ufffe\uffff", exclude_categories=["Cs", "Cc"]
)
key_sets = st.sets(
    st.lists(st.text(_characters, max_size=12), min_size=1, max_size=3).map(_key), max_size=8
)


def put_list_and_read(store: ObjectStore, keys: set[str]) -> None:
    """Whatever is put is listed and read back; run by a property test of each backend over
    `key_sets`.
    """
    store.delete(list(rows_of(store, "")))
    for key in keys:
        store.put(key, key.encode())
    assert set(rows_of(store, "")) == keys
    assert all(store.read(key) == key.encode() for key in keys)


class StoreConformance(MoveConformance):
    """The contract, as tests."""

    tells_gone: ClassVar[bool] = True
    odd_names: ClassVar[Sequence[str]] = ODD_NAMES
    strange_keys: ClassVar[tuple[str, ...]] = STRANGE_KEYS
    flat_names: ClassVar[bool] = True
    longest_key: ClassVar[int] = 1024
    many_keys: ClassVar[int] = 1_100
    conditional_copies: ClassVar[bool] = True

    @pytest.fixture(autouse=True)
    def waited(self, monkeypatch):
        """The seconds that repetitions would have waited."""
        seconds: list[float] = []
        monkeypatch.setattr(deletion, "wait", seconds.append)
        return seconds

    def test_a_listing_gives_each_object_once_with_its_size_and_age(self, store, outside):
        begun = datetime.now(UTC) - timedelta(seconds=2)
        contents = {
            "data/s1/a": b"",
            "data/s1/b": b"bb",
            "data/s2/x/y/z": b"zzz",
            "data/direct": b"d",
            "_lakefs/dummy": b"no",
        }
        for key, data in contents.items():
            outside.put(key, data)
        found = rows_of(store, "")
        assert {key: size for key, (size, _, _) in found.items()} == {
            key: len(data) for key, data in contents.items()
        }
        assert all(
            begun <= modified <= datetime.now(UTC) + timedelta(seconds=2)
            for _, modified, _ in found.values()
        )
        for key, (_, _, checksum) in found.items():
            assert checksum in (None, hashlib.md5(contents[key]).hexdigest())
        assert set(rows_of(store, "data/")) == {key for key in contents if key.startswith("data/")}

    def test_a_prefix_is_a_directory_and_not_the_beginning_of_a_name(self, store, outside):
        for key in ("data/s1/a", "data/s10/b", "data/s1-x", "data2/c"):
            outside.put(key, b"x")
        assert set(rows_of(store, "data/s1")) == set(rows_of(store, "data/s1/")) == {"data/s1/a"}
        assert set(rows_of(store, "data")) == {"data/s1/a", "data/s10/b", "data/s1-x"}

    def test_a_prefix_that_is_not_there_yields_nothing(self, store, outside):
        assert rows_of(store, "") == {}
        outside.put("data/s1/a", b"x")
        assert list(store.list("data/none/")) == []
        assert list(store.list("data/s1/a/")) == []
        prefixes, objects = store.children("data/none/")
        assert (prefixes, objects.num_rows, objects.schema) == ([], 0, OBJECT_LISTING)

    def test_children_are_one_level(self, store, outside):
        for key in (
            "data/s1/a",
            "data/s1/b/c",
            "data/!ab/c/s/o",
            "data/repo-main:0c3e/x",
            "data/direct",
            "other",
        ):
            outside.put(key, b"xy")
        prefixes, objects = store.children("data/")
        assert prefixes == ["data/!ab/", "data/repo-main:0c3e/", "data/s1/"]
        assert objects.schema == OBJECT_LISTING
        assert objects.select(["key", "size_bytes"]).to_pylist() == [
            {"key": "data/direct", "size_bytes": 2}
        ]
        prefixes, objects = store.children("")
        assert (prefixes, objects["key"].to_pylist()) == (["data/"], ["other"])
        assert store.children("data")[0] == store.children("data/")[0]

    def test_odd_names_are_listed_read_and_deleted_as_themselves(self, store, outside):
        # Together, so that one that is taken for another shows, too.
        there = {f"data/s/{name}": name.encode() for name in self.odd_names}
        for key, data in there.items():
            outside.put(key, data)
        outside.put("data/s/other", b"other")
        assert set(rows_of(store, "data/")) == {*there, "data/s/other"}
        assert set(store.children("data/s/")[1]["key"].to_pylist()) == {*there, "data/s/other"}
        assert {key: store.read(key) for key in there} == there
        sizes = {key: len(data) for key, data in there.items()}
        assert {key: store.head(key).size_bytes for key in there} == sizes
        first, *others = there
        assert store.delete([first]) == [DeleteOutcome(first, "deleted")]
        assert outside.keys() == {*others, "data/s/other"}
        assert store.delete(others) == [DeleteOutcome(key, "deleted") for key in others]
        assert outside.keys() == {"data/s/other"}
        for key, data in there.items():
            store.put(key, b"again" + data)
        assert outside.keys() == {*there, "data/s/other"}
        assert {key: store.read(key) for key in there} == {
            key: b"again" + data for key, data in there.items()
        }

    def test_a_missing_object_is_named_with_its_root(self, store):
        for ask in (
            store.read,
            store.head,
            store.parquet_footer,
            lambda key: list(store.read_parquet(key)),
            lambda key: store.read_range(key, 0, 1),
        ):
            with pytest.raises(NotFoundError, match="no such object") as error:
                ask("data/none/x")
            assert "data/none/x" in str(error.value)
            assert store.root in str(error.value)
        assert not store.exists("data/none/x")

    def test_a_directory_is_no_object(self, store, outside):
        outside.put("data/s1/a", b"x")
        assert not store.exists("data/s1")
        with pytest.raises(NotFoundError):
            store.read("data/s1")

    @pytest.mark.parametrize(
        "key", ["", "/data/a", "data//a", "data/./a", "data/../a", "data/a/", "a\0b"]
    )
    def test_a_key_that_clients_would_fold_is_neither_read_nor_written_nor_deleted(
        self, store, outside, key
    ):
        outside.put("data/a", b"x")
        for ask in (
            store.read,
            store.head,
            store.exists,
            lambda key: store.put(key, b""),
            lambda key: store.put_if_absent(key, b""),
        ):
            with pytest.raises(AddressError, match="neither read nor changed"):
                ask(key)
        outcomes = store.delete([key, "data/none"])
        assert [outcome.key for outcome in outcomes] == [key, "data/none"]
        assert outcomes[0].outcome == "refused"
        assert outside.keys() == {"data/a"}

    def test_a_range_is_exact_or_refused(self, store):
        store.put("data/a", bytes(range(100)))
        assert store.read_range("data/a", 10, 5) == bytes(range(10, 15))
        assert store.read_range("data/a", 95, 5) == bytes(range(95, 100))
        for start, length in ((96, 5), (100, 1), (5000, 1)):
            with pytest.raises(IncompleteReadError, match="ends before byte"):
                store.read_range("data/a", start, length)

    def test_a_put_replaces_and_a_put_if_absent_does_not(self, store):
        store.put("data/a", b"one")
        store.put("data/a", b"two")
        assert store.read("data/a") == b"two"
        with pytest.raises(ObjectExistsError, match="left as it is"):
            store.put_if_absent("data/a", b"three")
        assert store.read("data/a") == b"two"
        store.put_if_absent("deep/new/b", b"four")
        assert store.read("deep/new/b") == b"four"
        assert set(rows_of(store, "")) == {"data/a", "deep/new/b"}

    def test_of_several_writers_of_an_absent_object_one_wins(self, store):
        def write(number: int) -> bool:
            try:
                store.put_if_absent("lease", str(number).encode())
            except ObjectExistsError:
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(write, range(16)))
        assert sum(won) == 1
        assert store.read("lease") == str(won.index(True)).encode()

    def test_head_says_what_the_listing_says(self, store, outside):
        outside.put("data/a", b"abc")
        info = store.head("data/a")
        assert (info.size_bytes, info.last_modified, info.checksum) == rows_of(store, "")["data/a"]
        assert info.last_modified.tzinfo is not None
        assert store.exists("data/a")

    def test_a_deletion_answers_for_every_key_in_order(self, store, outside):
        for number in range(5):
            outside.put(f"data/s/{number}", b"x")
        asked = ["data/s/3", "data//x", "data/s/1", "data/s/none", "data/none/none"]
        outcomes = store.delete(asked)
        assert [outcome.key for outcome in outcomes] == asked
        assert [outcome.outcome for outcome in outcomes[:3]] == ["deleted", "refused", "deleted"]
        assert {outcome.outcome for outcome in outcomes[3:]} <= {"deleted", "already_gone"}
        assert outside.keys() == {"data/s/0", "data/s/2", "data/s/4"}
        assert store.delete([]) == []

    def test_more_keys_than_one_request_takes_are_all_deleted(self, store, outside, monkeypatch):
        monkeypatch.setattr(type(store), "delete_batch_size", 7)
        keys = [f"data/s/{number:03}" for number in range(30)]
        for key in keys:
            outside.put(key, b"x")
        assert store.delete(keys) == [DeleteOutcome(key, "deleted") for key in keys]
        assert outside.keys() == set()

    def test_many_keys_are_listed_once_each_and_all_deleted(self, store, outside):
        keys = {f"data/s{number % 3}/{number:05}" for number in range(self.many_keys)}
        put_many(outside, keys)
        assert set(rows_of(store, "data/")) == keys
        assert store.children("data/")[0] == ["data/s0/", "data/s1/", "data/s2/"]
        assert store.children("data/s0/")[1].num_rows == len(
            [key for key in keys if key.startswith("data/s0/")]
        )
        asked = sorted(keys)
        assert store.delete(asked) == [DeleteOutcome(key, "deleted") for key in asked]
        assert rows_of(store, "") == {}

    def test_names_in_different_normal_forms_are_different_objects(self, store, outside):
        composed, apart = (
            unicodedata.normalize(form, "data/s/\u00e9\u1e69\uac00") for form in ("NFC", "NFD")
        )
        assert composed != apart
        outside.put(composed, b"composed")
        outside.put(apart, b"apart")
        assert set(rows_of(store, "data/")) == {composed, apart}
        assert (store.read(composed), store.read(apart)) == (b"composed", b"apart")
        assert store.delete([apart]) == [DeleteOutcome(apart, "deleted")]
        assert outside.keys() == {composed}
        assert not store.exists(apart)

    @pytest.mark.parametrize("letter", ["x", "é"])
    def test_the_longest_key_is_listed_read_and_deleted_as_itself(self, store, outside, letter):
        room = self.longest_key - len(store.namespace.path.encode()) - 1 - len("data/")
        # A file system takes 255 bytes in a row.
        segment = letter * ((400 if self.flat_names else 200) // len(letter.encode())) + "/"
        key = "data/" + segment * (room // len(segment.encode()))
        key += "x" * (room % len(segment.encode()))
        key = f"{key[:-1]}x" if key.endswith("/") else key
        outside.put(key, b"x")
        assert set(rows_of(store, "")) == {key}
        assert store.read(key) == b"x"
        assert store.delete([key]) == [DeleteOutcome(key, "deleted")]
        assert outside.keys() == set()

    def test_keys_that_cannot_be_named_everywhere_are_listed_as_they_are_and_never_touched(
        self, store, outside
    ):
        everything = {
            *self.strange_keys,
            *(key for key in _NEIGHBOURS if self.flat_names or key != "data/s"),
        }
        for key in sorted(everything):
            outside.put(key, key.encode())
        assert {key: row[0] for key, row in rows_of(store, "").items()} == {
            key: len(key.encode()) for key in everything
        }
        for key in self.strange_keys:
            # Exact or refused by name: a control character may be read where the store takes it as
            # it is.
            try:
                assert store.read(key) == key.encode()
            except AddressError as error:
                assert "neither read nor changed" in str(error)  # noqa: PT017 - either is right
        outcomes = store.delete(self.strange_keys)
        assert {outcome.outcome for outcome in outcomes} <= {"refused", "deleted"}
        deleted = {outcome.key for outcome in outcomes if outcome.outcome == "deleted"}
        assert outside.keys() == everything - deleted

    def test_whatever_is_refused_for_its_name_is_no_candidate_in_the_first_place(self, store):
        names = [*STRANGE_KEYS, *(f"data/s/{name}" for name in ODD_NAMES)]
        unsafe = pc.match_substring_regex(pa.array(names), store.unsafe_names).to_pylist()
        refused = [outcome.outcome == "refused" for outcome in store.delete(names)]
        assert [
            name for name, no, known in zip(names, refused, unsafe, strict=True) if no and not known
        ] == []

    def test_a_key_that_vanishes_while_it_is_listed_does_no_harm(self, store, outside, faults):
        keys = {f"data/s{number % 2}/{number:02}" for number in range(20)}
        put_many(outside, keys)
        faults.in_the_middle("list", lambda: outside.remove("data/s1/19"))
        found = set(rows_of(store, "data/"))
        assert keys - {"data/s1/19"} <= found <= keys
        assert set(rows_of(store, "data/")) == keys - {"data/s1/19"}

    def test_a_condition_that_is_kept_is_proved(self, store, outside):
        assert honours_conditional_put(store, f"{lakegc_keys.PROBE}one")
        assert outside.keys() == set()

    def test_a_store_that_ignores_the_condition_is_found_out(self, store, outside, faults):
        faults.ignore_conditions()
        assert not honours_conditional_put(store, f"{lakegc_keys.PROBE}one")
        assert outside.keys() == set()

    def test_an_object_of_somebody_else_at_the_place_of_a_probe_is_left_as_it_is(
        self, store, outside
    ):
        outside.put(f"{lakegc_keys.PROBE}one", b"not ours")
        assert honours_conditional_put(store, f"{lakegc_keys.PROBE}one")
        assert store.read(f"{lakegc_keys.PROBE}one") == b"not ours"

    def test_asking_whether_objects_may_be_deleted_touches_nothing(self, store, outside):
        keys = {"data/s/x", "data/s/y"}
        put_many(outside, keys)
        require_deletable(store)
        write_read_delete(store)
        assert outside.keys() == keys

    def test_the_clock_of_a_store_is_read_off_one_object(self, store, outside):
        assert not read_clock(store).further_than(MAX_CLOCK_SKEW)
        assert not read_clock(store).further_than(MAX_CLOCK_SKEW)
        assert outside.keys() == {f"{lakegc_keys.PROBE}clock"}

    def test_a_mixed_deletion_says_of_each_key_what_the_store_said(
        self, store, outside, faults, monkeypatch
    ):
        monkeypatch.setattr(type(store), "delete_batch_size", 3)
        there = [f"data/s/{number}" for number in range(6)]
        put_many(outside, there)
        faults.refuse("data/s/4")
        asked = [*there, "data/s/none", "data//x", "data/none/none"]
        outcomes = {outcome.key: outcome for outcome in store.delete(asked)}
        gone = "already_gone" if self.tells_gone else "deleted"
        assert {key: outcome.outcome for key, outcome in outcomes.items()} == {
            **dict.fromkeys(there, "deleted"),
            "data/s/4": "refused",
            "data/s/none": gone,
            "data//x": "refused",
            "data/none/none": gone,
        }
        assert all(
            bool(outcome.error) == (outcome.outcome == "refused") for outcome in outcomes.values()
        )
        assert outside.keys() == {"data/s/4"}

    def test_what_deletes_is_asked_for_its_pace_before_each_request(
        self, store, outside, monkeypatch
    ):
        monkeypatch.setattr(type(store), "delete_batch_size", 4)
        keys = [f"data/s/{number}" for number in range(10)]
        put_many(outside, keys)
        left: list[int] = []
        assert {
            outcome.outcome
            for outcome in store.delete(keys, pace=Called(lambda: left.append(len(outside.keys()))))
        } == {"deleted"}
        assert left == [10, 6, 2]

    def test_objects_of_odd_names_are_copied_as_themselves(self, store, outside):
        named = ["sp ace", "%20", "a+b", "e\u0301", "a&<b>", "x#1", "q'\"", "?a=b", "%2F"]
        for name in named:
            outside.put(f"data/s/{name}", name.encode())
            copy = store.copy(f"data/s/{name}", f"{QUARANTINE}data/s/{name}")
            assert (copy.key, copy.size_bytes) == (f"{QUARANTINE}data/s/{name}", len(name.encode()))
            assert store.read(f"{QUARANTINE}data/s/{name}") == name.encode()
        assert outside.keys() == {
            f"{before}data/s/{name}" for name in named for before in ("", QUARANTINE)
        }

    @pytest.mark.parametrize("size", [0, 1, 70_000])
    def test_a_copy_lives_on_when_the_original_is_deleted_or_written_in_place(
        self, store, outside, size
    ):
        content = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
        outside.put("data/s/a", content)
        store.copy("data/s/a", f"{QUARANTINE}data/s/a")
        outside.put("data/s/a", b"something else")
        assert store.read(f"{QUARANTINE}data/s/a") == content
        assert store.delete(["data/s/a"]) == [DeleteOutcome("data/s/a", "deleted")]
        store.copy(f"{QUARANTINE}data/s/a", "data/s/a")
        assert store.read("data/s/a") == content

    def test_a_copy_never_replaces_an_object(self, store, outside):
        outside.put("data/s/a", b"one")
        outside.put("data/s/b", b"two")
        with pytest.raises(ObjectExistsError, match="left as it is"):
            store.copy("data/s/a", "data/s/b")
        if self.conditional_copies:
            with pytest.raises(ObjectExistsError, match="left as it is"):
                store.transfer(store.describe("data/s/a"), "data/s/b")
        assert (store.read("data/s/a"), store.read("data/s/b")) == (b"one", b"two")

    def test_of_an_object_that_is_not_there_no_copy_is_made(self, store, outside):
        with pytest.raises(NotFoundError, match="no such object"):
            store.copy("data/s/none", "data/s/copy")
        outside.put("data/s/a", b"one")
        seen = store.describe("data/s/a")
        outside.remove("data/s/a")
        with pytest.raises(
            (NotFoundError, TransientError), match=r"while it was copied|no such object"
        ):
            store.transfer(seen, "data/s/copy")
        assert outside.keys() == set()

    @pytest.mark.parametrize(
        "wrong",
        [b"0123456", b"0123456789", b"01234567890", b""],
        ids=["cut", "bits", "more", "empty"],
    )
    def test_a_copy_that_came_out_wrong_is_found_out_and_taken_away(
        self, store, outside, faults, wrong
    ):
        outside.put("data/s/a", b"9876543210")
        faults.after_copy(lambda: outside.put("data/s/copy", wrong))
        with pytest.raises(TransientError, match="the copy is not what was to be copied"):
            store.copy("data/s/a", "data/s/copy")
        assert outside.keys() == {"data/s/a"}
        store.copy("data/s/a", "data/s/copy")
        assert store.read("data/s/copy") == store.read("data/s/a") == b"9876543210"

    @pytest.mark.parametrize(
        "again", [b"0123456789", b"longer than before", None], ids=["bits", "longer", "gone"]
    )
    def test_a_copy_of_what_changed_meanwhile_proves_nothing(self, store, outside, faults, again):
        outside.put("data/s/a", b"9876543210")
        change = (
            (lambda: outside.remove("data/s/a"))
            if again is None
            else (lambda: outside.put("data/s/a", again))
        )
        faults.after_copy(change)
        # Compared by reading, it is a copy of something else; by checksums kept beside it, a copy
        # of what was there.
        with pytest.raises((TransientError, NotFoundError, IncompleteReadError)):
            store.copy("data/s/a", "data/s/copy")
        assert outside.keys() - {"data/s/copy"} == ({"data/s/a"} if again else set())

    def test_what_was_seen_and_then_written_again_is_not_copied(self, store, outside):
        outside.put("data/s/a", b"one")
        seen = store.describe("data/s/a")
        outside.put("data/s/a", b"two, and longer")
        assert store.describe("data/s/a").version != seen.version
        try:
            store.transfer(seen, "data/s/copy")
        except (TransientError, NotFoundError) as error:
            # A store that cannot be told the condition is found out by `copy`.
            assert "written again" in str(error) or "no such object" in str(error)  # noqa: PT017 - as said
            assert outside.keys() == {"data/s/a"}

    def test_a_hint_at_what_can_come_back_is_a_sentence_or_nothing(self, store):
        hint = store.undelete_hint()
        assert hint is None or hint.endswith(".")

    def test_what_a_store_keeps_of_deleted_objects_is_said_in_words(self, store):
        said = store.after_deletion()
        assert said.keeps in {True, False, None}
        assert said.words

    def test_parquet_goes_through_whole_and_hashed(self, store):
        batches = [
            pa.record_batch([[f"data/{n}/{i}" for i in range(1000)], list(range(1000))], ROWS)
            for n in range(7)
        ]
        written = store.write_parquet("_lakefs/t/part-0.parquet", iter(batches), ROWS)
        data = store.read("_lakefs/t/part-0.parquet")
        assert (written.key, written.rows, written.size_bytes) == (
            "_lakefs/t/part-0.parquet",
            7000,
            len(data),
        )
        assert written.sha256 == hashlib.sha256(data).hexdigest()
        assert pa.Table.from_batches(store.read_parquet(written.key)) == pa.Table.from_batches(
            batches
        )
        assert store.parquet_footer(written.key) == (ROWS, 7000)
        file = pq.ParquetFile(io.BytesIO(data))
        assert file.metadata.num_row_groups == 1
        assert file.metadata.row_group(0).column(0).compression == "ZSTD"

    def test_an_empty_table_is_a_file_with_columns(self, store):
        written = store.write_parquet("t", [], ROWS)
        assert written.rows == 0
        assert list(store.read_parquet("t")) == []
        assert store.parquet_footer("t") == (ROWS, 0)

    def test_a_large_parquet_file_has_bounded_row_groups(self, store):
        rows = pa.schema([pa.field("n", pa.int64())])
        batch = pa.record_batch([pa.array(range(50_000))], rows)
        written = store.write_parquet("t", (batch for _ in range(6)), rows)
        file = pq.ParquetFile(io.BytesIO(store.read("t")))
        groups = [
            file.metadata.row_group(number).num_rows
            for number in range(file.metadata.num_row_groups)
        ]
        assert sum(groups) == written.rows == 300_000
        assert max(groups) <= 131_072
        assert max(batch.num_rows for batch in store.read_parquet("t")) <= 65_536

    def test_a_batch_of_other_columns_is_refused_and_nothing_is_written(self, store, outside):
        other = pa.record_batch([pa.array(["x"])], ["address"])
        with pytest.raises(ValueError, match="wanted exactly"):
            store.write_parquet("t", [other], ROWS)
        assert outside.keys() == set()

    def test_a_writer_that_fails_in_the_middle_leaves_nothing_behind(self, store, outside):
        def broken():
            yield pa.record_batch([["a"], [1]], ROWS)
            raise IncompleteReadError("the source broke")

        with pytest.raises(IncompleteReadError, match="the source broke"):
            store.write_parquet("t", broken(), ROWS)
        assert outside.keys() == set()

    @pytest.mark.parametrize(
        "data", [b"", b"PAR1", b"not parquet at all", b"PAR1" + bytes(64) + b"PAR1"]
    )
    def test_a_broken_parquet_file_is_called_by_its_name(self, store, data):
        store.put("t/broken", data)
        for read in (
            lambda: list(store.read_parquet("t/broken")),
            lambda: store.parquet_footer("t/broken"),
        ):
            with pytest.raises(CorruptTableError, match="no sound Parquet file") as error:
                read()
            assert error.value.name == f"{store.root}t/broken"

    def test_a_cut_off_parquet_file_is_refused(self, store):
        store.write_parquet("t", [pa.record_batch([["a"] * 1000, [1] * 1000], ROWS)], ROWS)
        store.put("t", store.read("t")[:-20])
        with pytest.raises(CorruptTableError, match="no sound Parquet file"):
            list(store.read_parquet("t"))

    @pytest.mark.parametrize(
        "dumps", [pickle.dumps, cloudpickle.dumps], ids=["pickle", "cloudpickle"]
    )
    def test_a_store_travels_to_executors_without_its_clients_and_counts(self, store, dumps):
        store.put("data/a", b"x")
        copy = pickle.loads(dumps(store))
        assert not copy.requests
        assert copy.root == store.root
        assert copy.read("data/a") == b"x"
        assert copy.requests == {"read": 1}
        assert store.requests == {"put": 1}

    def test_no_text_of_a_store_holds_a_credential(self, store):
        texts = [repr(store), str(store), repr(store.options), str(store.options), store.root]
        for ask in (
            lambda: store.read("none"),
            lambda: store.read("a//b"),
            lambda: store.head("none"),
        ):
            with pytest.raises((NotFoundError, AddressError)) as error:
                ask()
            texts.append(repr(error.value) + str(error.value) + str(error.value.__context__))
        assert not [text for text in texts for secret in SECRETS if secret in text]

    def test_requests_are_counted_by_kind(self, store):
        store.put("data/a", b"x")
        store.put_if_absent("data/b", b"x")
        store.read("data/a")
        store.read_range("data/a", 0, 1)
        store.head("data/a")
        list(store.list(""))
        store.children("")
        store.delete(["data/a"])
        assert store.requests == {"put": 2, "read": 2, "head": 1, "list": 2, "delete": 1}


class RemoteStoreConformance(StoreConformance):
    """What is asked of a store behind a network as well."""

    def test_where_requests_go_is_told_without_a_request(self, store):
        parts = urlsplit(store.endpoint_url)
        assert parts.hostname
        assert (parts.username, parts.password, parts.query) == (None, None, "")
        assert not store.requests

    def test_a_listing_of_many_pages_is_whole(self, store, outside, faults):
        keys = {f"data/s{number % 3}/{number:02}" for number in range(25)}
        put_many(outside, keys)
        faults.pages_of(4)
        assert set(rows_of(store, "")) == set(rows_of(store, "data/")) == keys
        assert store.children("data/")[0] == ["data/s0/", "data/s1/", "data/s2/"]
        assert set(store.children("data/s0/")[1]["key"].to_pylist()) == {
            key for key in keys if "/s0/" in key
        }

    def test_a_page_that_comes_twice_is_an_error(self, store, outside, faults):
        put_many(outside, [f"data/s/{number:02}" for number in range(12)])
        faults.pages_of(4)
        faults.repeat_page()
        with pytest.raises(IncompleteReadError, match=r"listing|twice"):
            rows_of(store, "data/")

    def test_credentials_that_run_out_while_listing_are_an_error_and_not_the_end(
        self, store, outside, faults
    ):
        put_many(outside, [f"data/s/{number:02}" for number in range(12)])
        faults.pages_of(4)
        faults.in_the_middle("list", faults.expire_credentials)
        with pytest.raises(PermissionDeniedError, match="the store refuses"):
            rows_of(store, "data/")
        for ask in (store.read, store.head, store.exists, lambda key: store.put(key, b"")):
            with pytest.raises(PermissionDeniedError):
                ask("data/s/00")

    def test_a_store_that_refuses_to_delete_is_found_out_by_asking(self, store, outside, faults):
        put_many(outside, ["data/s/x"])
        faults.expire_credentials()
        with pytest.raises(
            PermissionDeniedError, match=r"on a name that no object has, and the store refuses"
        ):
            require_deletable(store)
        assert outside.keys() == {"data/s/x"}

    def test_credentials_that_run_out_while_deleting_refuse_what_is_left(
        self, store, outside, faults, monkeypatch
    ):
        monkeypatch.setattr(type(store), "delete_batch_size", 4)
        keys = [f"data/s/{number:02}" for number in range(12)]
        put_many(outside, keys)
        faults.in_the_middle("delete", faults.expire_credentials)
        outcomes = store.delete(keys)
        assert [outcome.outcome for outcome in outcomes] == ["deleted"] * 4 + ["refused"] * 8
        assert all(outcome.error for outcome in outcomes[4:])
        assert outside.keys() == set(keys[4:])

    def test_keys_that_are_throttled_are_asked_for_again_and_only_they(
        self, store, outside, faults, waited
    ):
        keys = [f"data/s/{number}" for number in range(6)]
        put_many(outside, keys)
        faults.throttle("data/s/1", 1)
        faults.throttle("data/s/3", 1)
        assert store.delete(keys) == [DeleteOutcome(key, "deleted") for key in keys]
        assert outside.keys() == set()
        assert len(waited) == 1
        assert 1 <= waited[0] <= 1.5

    def test_a_key_that_is_throttled_for_ever_failed_after_bounded_repetitions(
        self, store, outside, faults, waited
    ):
        put_many(outside, ["data/s/0", "data/s/1", "data/s/2"])
        faults.throttle("data/s/1", 1_000)
        outcomes = store.delete(["data/s/0", "data/s/1", "data/s/2", "data/s/none"])
        assert [outcome.outcome for outcome in outcomes[:3]] == ["deleted", "failed", "deleted"]
        assert outcomes[1].error
        assert len(waited) == store.options.max_retries
        assert outside.keys() == {"data/s/1"}

    @pytest.mark.parametrize("kind", ["list", "delete"])
    def test_a_request_that_was_throttled_as_a_whole_is_sent_again(
        self, store, outside, faults, kind
    ):
        put_many(outside, ["data/s/0", "data/s/1"])
        faults.throttle_requests(kind, 1)
        assert set(rows_of(store, "")) == {"data/s/0", "data/s/1"}
        assert {outcome.outcome for outcome in store.delete(["data/s/0", "data/s/1"])} == {
            "deleted"
        }
        assert outside.keys() == set()

    def test_a_request_that_is_throttled_for_ever_failed_for_each_key(self, store, outside, faults):
        put_many(outside, ["data/s/0", "data/s/1"])
        faults.throttle_requests("delete", 1_000)
        outcomes = store.delete(["data/s/0", "data/s/1"])
        assert [outcome.outcome for outcome in outcomes] == ["failed", "failed"]
        assert all(outcome.error for outcome in outcomes)
        assert outside.keys() == {"data/s/0", "data/s/1"}


def keys_behind(store: OrderedStore, prefix: str, after: str) -> list[str]:
    pages = list(store.pages(prefix, after=after))
    assert [page.is_last for page in pages] == [False] * (len(pages) - 1) + [True]
    assert all(page.rows.schema == OBJECT_LISTING for page in pages)
    return [key for page in pages for key in page.rows["key"].to_pylist()]


class OrderedStoreConformance(RemoteStoreConformance):
    """What is asked of a store that lists in order and from any name on as well."""

    def test_pages_tell_exactly_the_names_behind_any_name(self, store, outside, faults):
        names = [
            "!",
            "0",
            "a b",
            "a+b",
            "a/b",
            "a0",
            "ab",
            "b%2F",
            "~",
            "\u00e9",
            "\uffee",
            "\U0001f600",
        ]
        keys = sorted(f"data/s/{name}" for name in names)
        put_many(outside, [*keys, "data/r/z", "data/s", "data/t/a"])
        faults.pages_of(5)
        assert keys_behind(store, "data/s", "") == keys_behind(store, "data/s/", "") == keys
        # At each name, one before it and one behind it; and before and behind all of them.
        beside = ["data/s/", "data/s/\U0010ffff", "data/r/z", "data/t/a", "a", "z"]
        around = {after for key in keys for after in (key, key[:-1], f"{key}!")}
        for after in {*around, *beside}:
            assert keys_behind(store, "data/s/", after) == [key for key in keys if key > after], (
                after
            )

    def test_a_listing_from_a_name_on_asks_for_no_page_that_lies_before_it(
        self, store, outside, faults
    ):
        keys = [f"data/s/{number:02}" for number in range(24)]
        put_many(outside, keys)
        faults.pages_of(4)
        assert keys_behind(store, "data/s/", "data/s/16") == keys[17:]
        assert store.requests["list"] == 2
        pages = store.pages("data/s/", after="data/s/03")
        assert next(pages).rows["key"][0].as_py() == keys[4]
        assert store.requests["list"] == 3, "a page is asked for when it is wanted"

    def test_a_prefix_that_is_not_there_has_one_empty_page(self, store, outside):
        put_many(outside, ["data/s/a"])
        for prefix, after in (
            ("data/none/", ""),
            ("data/none/", "data/none/a"),
            ("data/s/", "data/s/a"),
        ):
            (page,) = store.pages(prefix, after=after)
            assert (page.rows.num_rows, page.is_last) == (0, True)

    def test_a_page_that_comes_twice_behind_a_name_is_an_error(self, store, outside, faults):
        put_many(outside, [f"data/s/{number:02}" for number in range(16)])
        faults.pages_of(4)
        faults.repeat_page()
        with pytest.raises(IncompleteReadError, match=r"listing|twice"):
            keys_behind(store, "data/s/", "data/s/03")

    def test_a_long_prefix_that_is_read_from_several_names_on_is_whole(
        self, store, outside, faults
    ):
        keys = [f"data/s/{first_id(1_700_000_000 + number)}{number:012}0" for number in range(60)]
        strangers = ["data/s/!", "data/s/a/b", f"{keys[30]},sig-_", "data/s/\u00e9", "data/s/~"]
        put_many(outside, [*keys, *strangers, "data/t/x", "data/u"])
        faults.pages_of(3)
        found = [
            key
            for batch in list_below(store, ["data/s/", "data/t/"], threads=6)
            for key in batch["key"].to_pylist()
        ]
        assert sorted(found) == sorted([*keys, *strangers, "data/t/x"])
        assert 23 < store.requests["list"] <= 2 * 23, "it was cut"
