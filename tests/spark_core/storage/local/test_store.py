"""The local blockstore: the contract, and what only files can do wrong."""

from __future__ import annotations

import errno
import os
import tracemalloc
import unicodedata
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from spark_core.addresses.collectable import FOLDED_SEGMENT_PATTERN
from spark_core.addresses.namespace import Namespace
from spark_core.errors import (
    IncompleteReadError,
    NotFoundError,
    PermissionDeniedError,
    SettingsError,
    TransientError,
)
from spark_core.storage import DeleteOutcome, StoreOptions, deletion, listing_rows, open_store
from spark_core.storage.local import listing
from spark_core.storage.local import store as local
from tests.support import golden
from tests.support.fault_proxy import Once
from tests.support.move_conformance import MoveConformance
from tests.support.store_conformance import (
    STRANGE_KEYS,
    StoreConformance,
    key_sets,
    put_list_and_read,
    rows_of,
)
from tests.support.system_calls import refuse_links

NAMESPACE = Namespace.parse("local://obs/repo", server_path="/srv/bs")


class Directory:
    def __init__(self, path: Path) -> None:
        self.path = path

    def put(self, key: str, data: bytes) -> None:
        file = self.path / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)

    def remove(self, key: str) -> None:
        (self.path / key).unlink()

    def keys(self) -> set[str]:
        return {
            str(file.relative_to(self.path)) for file in self.path.rglob("*") if not file.is_dir()
        }


class LocalFaults:
    """`Faults` of a file system, done to the calls that the store makes."""

    def __init__(self, monkeypatch) -> None:
        self._monkeypatch = monkeypatch
        self._after_publishing: list[Once] = []

    def refuse(self, key: str) -> None:
        unlink = os.unlink

        def refusing_one(name, **more):
            if name == key.rpartition("/")[2]:
                raise PermissionError(1, "Operation not permitted")
            unlink(name, **more)

        self._monkeypatch.setattr(local.os, "unlink", refusing_one)

    def ignore_conditions(self) -> None:
        self._monkeypatch.setattr(local, "_link", local._move)

    def after_copy(self, action) -> None:
        once, copy = Once(action), local.shutil.copyfileobj

        def copied(*given):
            copy(*given)
            self._after_publishing.append(once)

        self._monkeypatch.setattr(local.shutil, "copyfileobj", copied)
        link = local._link

        def linked(*given):
            link(*given)
            for due in self._after_publishing:
                due()

        self._monkeypatch.setattr(local, "_link", linked)

    def in_the_middle(self, kind, action) -> None:
        assert kind == "list"
        once, scandir = Once(action), os.scandir

        @contextmanager
        def told_one_by_one(directory):
            with scandir(directory) as entries:
                yield (found for entry in entries for found in (entry, once()) if found is not None)

        self._monkeypatch.setattr(local.os, "scandir", told_one_by_one)


@pytest.fixture
def outside(tmp_path):
    return Directory(tmp_path / "obs" / "repo")


@pytest.fixture
def store(tmp_path, outside):
    (outside.path / "data").mkdir(parents=True)
    return open_store(NAMESPACE, StoreOptions(local_path=str(tmp_path)))


@pytest.fixture
def faults(monkeypatch):
    return LocalFaults(monkeypatch)


@pytest.fixture
def no_links(monkeypatch):
    """No file gets a name in another directory, as between two file systems."""
    refuse_links(monkeypatch, errno.EXDEV)


class TestLocalStore(StoreConformance):
    flat_names = False
    # A file system folds the other ones.
    strange_keys = tuple(key for key in STRANGE_KEYS if not FOLDED_SEGMENT_PATTERN.search(key))

    def test_an_original_whose_copy_came_out_wrong_stays_and_its_neighbours_go(self):
        """Only where there are no links an object is copied; see below."""


@pytest.mark.usefixtures("no_links")
class TestLocalStoreWithoutLinks(MoveConformance):
    """Objects are copied, as between two file systems."""


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(keys=key_sets)
def test_whatever_is_put_is_listed_and_read_back(store, keys):
    put_list_and_read(store, keys)


def test_a_blockstore_that_is_not_there_is_a_wrong_setting(tmp_path):
    for path in (None, "", "relative", str(tmp_path / "none"), __file__):
        with pytest.raises(SettingsError, match="local_path"):
            open_store(NAMESPACE, StoreOptions(local_path=path))


def test_a_blockstore_that_goes_away_is_not_an_empty_one(tmp_path):
    (tmp_path / "bs").mkdir()
    store = open_store(NAMESPACE, StoreOptions(local_path=str(tmp_path / "bs")))
    (tmp_path / "bs").rmdir()
    with pytest.raises(SettingsError, match="cannot be opened on this machine"):
        list(store.list("data/"))
    with pytest.raises(SettingsError, match="cannot be opened on this machine"):
        store.exists("data/x")


def test_a_blockstore_may_be_reached_over_a_link(tmp_path):
    (tmp_path / "real" / "obs" / "repo").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    store = open_store(NAMESPACE, StoreOptions(local_path=str(tmp_path / "link")))
    store.put("data/a", b"x")
    assert set(rows_of(store, "")) == {"data/a"}


@pytest.fixture(params=["file", "directory", "dangling", "inside"])
def link(request, outside, tmp_path):
    outside.put("data/s/a", b"x")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "b").write_bytes(b"live elsewhere")
    target = {
        "file": tmp_path / "secret" / "b",
        "directory": tmp_path / "secret",
        "dangling": "/nowhere/x",
        "inside": "a",
    }
    (outside.path / "data" / "s" / "link").symlink_to(target[request.param])
    return "data/s/link"


def test_a_link_in_a_namespace_is_named_and_not_followed(store, link):
    with pytest.raises(IncompleteReadError, match="'data/s/link', which is a symbolic link"):
        list(store.list(""))
    with pytest.raises(IncompleteReadError, match="'data/s/link', which is a symbolic link"):
        store.children("data/s/")
    for key in (link, f"{link}/b"):
        for ask in (store.read, store.head, store.exists, lambda key: store.read_range(key, 0, 1)):
            with pytest.raises(IncompleteReadError, match="'link' on the way is a symbolic link"):
                ask(key)


def test_a_deletion_never_goes_through_a_link(store, link, outside, tmp_path):
    outcomes = store.delete([link, f"{link}/b"])
    assert [(outcome.outcome, outcome.error) for outcome in outcomes] == [
        ("refused", "'link' is a symbolic link")
    ] * 2
    assert (tmp_path / "secret" / "b").read_bytes() == b"live elsewhere"
    assert (outside.path / link).is_symlink()


def test_a_write_never_goes_through_a_link(store, outside, tmp_path):
    (tmp_path / "secret").mkdir()
    (outside.path / "out").symlink_to(tmp_path / "secret")
    with pytest.raises(IncompleteReadError, match="symbolic link"):
        store.put("out/x", b"x")
    assert list((tmp_path / "secret").iterdir()) == []


def test_a_namespace_that_is_itself_a_link_is_refused(tmp_path):
    (tmp_path / "obs").mkdir()
    (tmp_path / "other" / "data").mkdir(parents=True)
    (tmp_path / "obs" / "repo").symlink_to(tmp_path / "other")
    store = open_store(NAMESPACE, StoreOptions(local_path=str(tmp_path)))
    with pytest.raises(IncompleteReadError, match="'repo' on the way is a symbolic link"):
        list(store.list(""))


def test_a_newline_in_a_name_is_listed(store, outside):
    outside.put("data/s/a\nb", b"x")
    assert set(rows_of(store, "")) == {"data/s/a\nb"}
    assert store.read("data/s/a\nb") == b"x"


def test_a_name_that_is_no_text_is_refused_by_name(store, outside):
    outside.put("data/s/a", b"x")
    (outside.path / "data" / "s" / "bad\udcff").touch()
    with pytest.raises(IncompleteReadError, match=r"not UTF-8, b'data/s/bad\\xff'"):
        list(store.list(""))


def test_what_is_neither_file_nor_directory_is_refused_by_name(store, outside):
    outside.put("data/s/a", b"x")
    os.mkfifo(outside.path / "data" / "s" / "pipe")
    with pytest.raises(
        IncompleteReadError, match="'data/s/pipe', which is neither a file nor a directory"
    ):
        list(store.list("data/"))
    with pytest.raises(NotFoundError):
        store.read("data/s/pipe")
    assert store.delete(["data/s/pipe"]) == [
        DeleteOutcome("data/s/pipe", "refused", "it is a directory or no plain file")
    ]


def test_a_mount_that_hangs_in_the_middle_of_a_batch_lets_no_later_file_go_without_asking(
    store, outside, monkeypatch
):
    class PassedError(Exception):
        """What a sweep raises when the time is over that it may delete in."""

    seconds, paced = [0.0], []
    unlink = store._delete_one

    def hanging(key):
        seconds[0] += 600 if key == "data/b" else 0.001
        return unlink(key)

    def pace():
        paced.append(seconds[0])
        if seconds[0] > 60:
            raise PassedError

    for name in "abcd":
        outside.put(f"data/{name}", b"x")
    monkeypatch.setattr(store, "_delete_one", hanging)
    monkeypatch.setattr(deletion, "monotonic", lambda: seconds[0])
    with pytest.raises(PassedError):
        store.delete([f"data/{name}" for name in "abcd"], pace=pace)
    assert outside.keys() == {"data/c", "data/d"}
    assert [round(at) for at in paced] == [0, 600], "a batch that goes on well is asked for once"


def test_a_directory_is_never_deleted(store, outside):
    (outside.path / "data" / "s").mkdir(parents=True)
    assert store.delete(["data/s"]) == [
        DeleteOutcome("data/s", "refused", "it is a directory or no plain file")
    ]
    assert (outside.path / "data" / "s").is_dir()


def test_a_file_in_the_place_of_a_directory_means_that_the_object_is_gone(store, outside):
    outside.put("data/s", b"x")
    assert store.delete(["data/s/a"]) == [DeleteOutcome("data/s/a", "already_gone")]
    with pytest.raises(NotFoundError):
        store.read("data/s/a")


def test_a_missing_file_is_already_gone(store, outside):
    outside.put("data/s/a", b"x")
    assert store.delete(["data/s/a", "data/s/b", "data/t/a"]) == [
        DeleteOutcome("data/s/a", "deleted"),
        DeleteOutcome("data/s/b", "already_gone"),
        DeleteOutcome("data/t/a", "already_gone"),
    ]


@pytest.mark.parametrize("mounted", ["obs", "obs/repo", "obs/repo/data"])
def test_a_mount_that_went_away_was_taken_for_a_file_that_is_gone(
    store, outside, tmp_path, mounted
):
    outside.put("data/s/a", b"x")
    (tmp_path / mounted).rename(tmp_path / "unmounted")
    (outcome,) = store.delete(["data/s/a"])
    assert outcome.outcome == "failed"
    assert "a mount may have gone away" in outcome.error
    for ask in (
        lambda: store.head("data/s/a"),
        lambda: store.exists("data/x"),
        lambda: store.read("data/s/a"),
        lambda: list(store.list("data/s/")),
        lambda: store.children("data/s/"),
    ):
        with pytest.raises(TransientError, match="a mount may have gone away"):
            ask()
    (tmp_path / "unmounted").rename(tmp_path / mounted)
    assert store.delete(["data/s/a"]) == [DeleteOutcome("data/s/a", "deleted")]


def test_where_the_namespace_is_not_there_it_is_neither_empty_nor_made(store, outside):
    (outside.path / "data").rmdir()
    assert list(store.list("data/")) == [], "a fresh repository"
    assert store.children("data/")[0] == []
    outside.path.rmdir()
    for ask in (
        lambda: list(store.list("")),
        lambda: store.put("_lakefs/x", b""),
        lambda: store.exists("_lakefs/x"),
    ):
        with pytest.raises(
            TransientError,
            match=r"the directory of .*repo/ is not there: a mount may have gone away",
        ):
            ask()
    assert not outside.path.exists()


def test_the_age_is_the_files_own_to_the_microsecond(store, outside):
    outside.put("data/s/a", b"x")
    os.utime(outside.path / "data/s/a", ns=(0, 1_650_000_000_123_456_789))
    wanted = datetime(2022, 4, 15, 5, 20, 0, 123456, tzinfo=UTC)
    assert rows_of(store, "")["data/s/a"][1] == wanted
    assert store.head("data/s/a").last_modified == wanted


def refusing(error: OSError):
    def refuse(*_args, **_kwargs):
        raise error

    return refuse


def test_a_directory_that_may_not_be_read_is_an_error_and_not_empty(store, outside, monkeypatch):
    outside.put("data/s/a", b"x")
    monkeypatch.setattr(local.os, "scandir", refusing(PermissionError(13, "Permission denied")))
    with pytest.raises(PermissionDeniedError, match=r"the system refuses \(Permission denied\)"):
        list(store.list("data/"))


def test_what_is_mounted_read_only_is_not_asked_again(store, monkeypatch):
    read_only = OSError(30, "Read-only file system")
    monkeypatch.setattr(local.os, "mkdir", refusing(read_only))
    with pytest.raises(
        PermissionDeniedError, match=r"the system refuses \(Read-only file system"
    ) as told:
        store.put("_lakefs/retention/gc/x/y", b"x")
    assert f" of {store.root} ({store.options.local_path}/{store.namespace.path}): " in (
        told.value.found
    )
    assert told.value.next_step.startswith("Mount it so that it can be written to")


def test_a_disk_that_fails_is_an_error_and_not_empty(store, outside, monkeypatch):
    outside.put("data/s/a", b"x")
    monkeypatch.setattr(local.os, "scandir", refusing(OSError(5, "Input/output error")))
    with pytest.raises(TransientError, match=r"the system could not \(Input/output error\)"):
        list(store.list("data/"))


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (PermissionError(13, "Permission denied"), "refused"),
        (OSError(30, "Read-only file system"), "refused"),
        (OSError(5, "Input/output error"), "failed"),
    ],
)
def test_a_file_that_may_not_be_unlinked_is_refused_and_one_that_cannot_be_failed(
    store, outside, monkeypatch, error, outcome
):
    outside.put("data/s/a", b"x")
    monkeypatch.setattr(local.os, "unlink", refusing(error))
    assert store.delete(["data/s/a"]) == [DeleteOutcome("data/s/a", outcome, error.strerror)]
    monkeypatch.undo()
    assert outside.keys() == {"data/s/a"}


def test_a_write_that_cannot_be_published_leaves_nothing_behind(store, outside, monkeypatch):
    outside.put("data/a", b"old")
    monkeypatch.setattr(local.os, "replace", refusing(OSError(28, "No space left on device")))
    with pytest.raises(TransientError, match="No space left on device"):
        store.put("data/a", b"new")
    assert outside.keys() == {"data/a"}
    assert store.read("data/a") == b"old"


@pytest.mark.slow
def test_a_listing_streams_whatever_the_number_of_files(store, outside, monkeypatch):
    monkeypatch.setattr(listing, "LISTING_BATCH_ROWS", 500)

    def peak(files: int) -> int:
        directory = outside.path / "data" / f"s{files}"
        directory.mkdir(parents=True)
        for number in range(files):
            os.close(os.open(directory / f"ce8co454fd2o8m3m{number:06}", os.O_CREAT | os.O_WRONLY))
        tracemalloc.start()
        try:
            rows = [batch.num_rows for batch in store.list(f"data/s{files}/")]
            assert sum(rows) == files
            assert max(rows) == 500
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    few, many = peak(1000), peak(16_000)
    assert many < 1.5 * few + 100_000


def test_batches_of_a_listing_are_of_the_promised_size():
    assert listing_rows.LISTING_BATCH_ROWS == 10_000


def test_a_store_works_in_a_forked_process(store):
    store.put("data/a", b"x")
    child = os.fork()
    if child == 0:
        os._exit(0 if store.read("data/a") == b"x" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", golden.slow_where_large(golden.REPOSITORIES))
def test_a_recorded_namespace_is_listed_as_recorded(name, tmp_path):
    golden.unpack(name, tmp_path)
    store = open_store(
        Namespace.parse("local://namespace", server_path="/srv/bs"),
        StoreOptions(local_path=str(tmp_path)),
    )
    record = golden.expected(name)
    wanted = {address: (size, modified) for address, size, modified in record["listing"]}
    found = {
        key: (size, modified.timestamp())
        for key, (size, modified, _) in rows_of(store, "data/").items()
    }
    assert found.keys() == wanted.keys()
    for key, (size, modified) in wanted.items():
        assert found[key][0] == size
        assert found[key][1] == pytest.approx(modified, abs=0.001)
    others = {row[0] for row in record["other_objects"] if not row[0].endswith("/")}
    assert others <= set(rows_of(store, "")) - wanted.keys()


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_file_system_that_takes_two_normal_forms_for_one_name_is_refused(
    store, outside, monkeypatch, form
):
    name = unicodedata.normalize(form, "\u00e9")
    outside.put(f"data/s/{name}", b"x")
    outside.put("data/s/plain", b"x")
    assert set(rows_of(store, "data/")) == {f"data/s/{name}", "data/s/plain"}
    stat = os.stat

    def folding(path, **more):
        return stat(unicodedata.normalize(form, path) if isinstance(path, str) else path, **more)

    monkeypatch.setattr(local.os, "stat", folding)
    with pytest.raises(
        IncompleteReadError, match=r"also finds as .*tells the normal forms of Unicode apart"
    ):
        rows_of(store, "data/")
