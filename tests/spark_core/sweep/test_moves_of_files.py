"""On files a quarantine is a move: a second name, then the first one goes, and the same way back.

A kill between any two calls, another writer before each of them, and a disk without room.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from spark_core import lakegc_keys
from spark_core.recorded_work import Here, RecordedTask
from spark_core.storage import DeleteOutcome
from spark_core.storage.copies import SecondName
from spark_core.storage.local import store as local
from spark_core.sweep import quarantine
from spark_core.sweep.quarantine import key_of
from spark_core.undo.bringing_back import BringingBack
from tests.support.killing import Killed
from tests.support.system_calls import CHANGES, QUESTIONS, SystemCalls, refuse_links
from tests.support.written_run import NOW, written_run

RUN = "2026-11-20T02-00-00Z"
A, B = "data/s/a", "data/t/b"
CONTENT = {A: b"aaaa", B: b"bbbbbb"}
WRITTEN = datetime(2026, 11, 1, 12, 0, 0, 123456, tzinfo=UTC)
NO_LINK = ("EPERM", "EXDEV", "ENOTSUP", "ENOSYS", "EMLINK")


class Place:
    """A namespace on a file system, and what the sweep saw there."""

    def __init__(self, folder: Path) -> None:
        self.store = written_run(folder, None).run.store
        self.root = folder / "repo"
        self.plant(CONTENT)
        self.look()

    def look(self):
        """See the objects as a sweep does."""
        found = [self.store.head(key) for key in CONTENT]
        self.seen = {one.key: (one.key, one.size_bytes, one.last_modified) for one in found}

    def plant(self, content, at=WRITTEN):
        for key, data in content.items():
            path = self.root / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.with_name("new").write_bytes(data)
            os.utime(path.with_name("new"), (at.timestamp(), at.timestamp()))
            path.with_name("new").rename(path)

    def move(self, *keys):
        told = quarantine.move(self.store, RUN, keys or list(CONTENT), seen=self.seen)
        return {one.key: one.outcome for one in told}

    def restore(self):
        """Bring back what a sweep took, as a task of a restore does."""
        rows = [
            {"address": key, "size_bytes": len(data), "last_modified": None, "checksum": None}
            for key, data in CONTENT.items()
        ]
        work = BringingBack(RUN, NOW, 1, dry_run=False)
        task = RecordedTask(self.store, Here(lambda: NOW), 1, is_retry=False)
        return {row["address"]: work._one(task, row).outcome for row in rows}

    def files(self, prefix):
        """Contents by key, without parts that a killed process left."""
        top = self.root / prefix
        return {
            path.relative_to(top).as_posix(): path.read_bytes()
            for path in top.rglob("*")
            if path.is_file() and not path.name.startswith(".lakegc-")
        }

    @property
    def aside(self):
        return self.files(lakegc_keys.in_quarantine(RUN))

    @property
    def in_place(self):
        return {f"data/{name}": data for name, data in self.files("data").items()}

    def listed(self):
        return sorted(
            key for batch in self.store.list("data/") for key in batch.column("key").to_pylist()
        )


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


@pytest.fixture(params=["a small one", "errors"])
def full_disk(request, tmp_path, monkeypatch):
    """A namespace on a disk with too little room for a copy of anything."""
    if request.param == "errors":
        made = Place(tmp_path)
        _without_room(monkeypatch, free=3)
        yield made
        return
    mounted = tmp_path / "small"
    mounted.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(mounted)]
    if os.geteuid() or subprocess.run(command, check=False).returncode:
        # Nobody but root mounts, and not in every container; the errors are the same.
        made = Place(tmp_path)
        _without_room(monkeypatch, free=0)
        yield made
        return
    try:
        made = Place(mounted)
        with (mounted / "rest").open("wb", buffering=0) as rest:
            while shutil.disk_usage(mounted).free:
                rest.write(b"x" * 4096)
        yield made
    finally:
        subprocess.run(["umount", str(mounted)], check=True)


def _without_room(monkeypatch, free):
    """Let the disk say that so many bytes are free, and take no more than that."""
    real = os.fstatvfs

    def told(directory):
        found = list(real(directory))
        found[1], found[4] = 1, free
        return os.statvfs_result(found)

    def full(_source, sink, _size):
        sink.write(b"x" * free)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fstatvfs", told)
    monkeypatch.setattr(local.shutil, "copyfileobj", full)


def test_a_move_takes_no_room_and_a_restore_none_either(full_disk):
    inodes = {key: (full_disk.root / key).stat().st_ino for key in CONTENT}
    assert full_disk.move() == dict.fromkeys(CONTENT, "deleted")
    assert (full_disk.in_place, full_disk.aside) == ({}, CONTENT)
    aside = full_disk.root / lakegc_keys.in_quarantine(RUN)
    for key, inode in inodes.items():
        found = (aside / key).stat()
        assert (found.st_ino, found.st_nlink) == (inode, 1)
        assert full_disk.store.head(key_of(RUN, key)).last_modified == WRITTEN
    assert full_disk.restore() == dict.fromkeys(CONTENT, "restored")
    # The name in quarantine stays until it is purged: somebody may refer to it.
    assert (full_disk.in_place, full_disk.aside) == (CONTENT, CONTENT)
    for key, inode in inodes.items():
        found = (full_disk.root / key).stat()
        assert (found.st_ino, found.st_nlink) == (inode, 2)


def test_where_it_must_copy_the_room_is_looked_at_and_what_has_none_stays_by_name(
    full_disk, monkeypatch
):
    refuse_links(monkeypatch, errno.EXDEV)
    told = quarantine.move(full_disk.store, RUN, list(CONTENT), seen=full_disk.seen)
    assert {one.key: one.outcome for one in told} == dict.fromkeys(CONTENT, "failed")
    assert all("bytes free, which" in one.error for one in told)
    assert (full_disk.in_place, full_disk.aside) == (CONTENT, {})


def test_what_has_no_room_on_the_way_back_stays_in_quarantine_by_name(full_disk, monkeypatch):
    full_disk.move()
    refuse_links(monkeypatch, errno.EXDEV)
    assert full_disk.restore() == dict.fromkeys(CONTENT, "failed")
    assert (full_disk.in_place, full_disk.aside) == ({}, CONTENT)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("call", ["copyfileobj", "fsync"])
def test_a_copy_that_finds_no_room_any_more_goes_and_the_other_objects_go_on(
    place, monkeypatch, number, call
):
    refuse_links(monkeypatch, errno.EXDEV)
    module = local.shutil if call == "copyfileobj" else os
    real, calls = getattr(module, call), []

    def full(*given):
        # Some disks tell only when the file's content is to be there.
        if not calls and (call != "fsync" or stat.S_ISREG(os.fstat(given[0]).st_mode)):
            calls.append(given)
            raise OSError(number, os.strerror(number))
        return real(*given)

    monkeypatch.setattr(quarantine, "_COPIES_AT_ONCE", 1)
    monkeypatch.setattr(module, call, full)
    told = quarantine.move(place.store, RUN, [A, B], seen=place.seen)
    assert [one.outcome for one in told] == ["failed", "deleted"]
    assert os.strerror(number) in told[0].error
    assert (place.in_place, place.aside) == ({A: CONTENT[A]}, {B: CONTENT[B]})
    left = [path.name for path in place.root.rglob(".lakegc-*")]
    assert left == [], "its own copies are taken back"
    assert place.move() == dict.fromkeys(CONTENT, "deleted")


def test_a_disk_that_says_nothing_of_its_room_is_tried(place, monkeypatch):
    refuse_links(monkeypatch, errno.ENOSYS)
    monkeypatch.setattr(os, "fstatvfs", lambda _: os.statvfs_result([0] * 10))
    assert place.move() == dict.fromkeys(CONTENT, "deleted")


@pytest.mark.parametrize("name", NO_LINK)
def test_where_the_system_takes_no_link_it_is_a_copy_and_so_it_is_on_the_way_back(
    place, monkeypatch, name
):
    refuse_links(monkeypatch, getattr(errno, name))
    inodes = {key: (place.root / key).stat().st_ino for key in CONTENT}
    assert place.move() == dict.fromkeys(CONTENT, "deleted")
    assert (place.in_place, place.aside) == ({}, CONTENT)
    aside = place.root / lakegc_keys.in_quarantine(RUN)
    assert not {(aside / key).stat().st_ino for key in CONTENT} & set(inodes.values())
    assert place.restore() == dict.fromkeys(CONTENT, "restored")
    assert (place.in_place, place.aside) == (CONTENT, CONTENT)


def test_where_two_names_of_a_file_do_not_look_like_one_it_is_a_copy(place, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(os.path, "samestat", lambda *_: False)
        assert place.move() == dict.fromkeys(CONTENT, "deleted")
    assert (place.in_place, place.aside) == ({}, CONTENT)
    assert place.restore() == dict.fromkeys(CONTENT, "restored")


def test_a_disk_that_fails_at_a_link_is_no_reason_to_copy(place, monkeypatch):
    refuse_links(monkeypatch, errno.EIO)
    assert place.move() == dict.fromkeys(CONTENT, "failed")
    assert (place.in_place, place.aside) == (CONTENT, {})


def test_a_file_of_somebody_else_whose_time_nobody_may_set_comes_back_as_a_young_copy(
    place, monkeypatch
):
    place.move()

    def refused(*_given, **_more):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    before = datetime.now(UTC) - timedelta(seconds=5)
    monkeypatch.setattr(os, "utime", refused)
    assert place.restore() == dict.fromkeys(CONTENT, "restored")
    assert place.store.head(A).last_modified > before
    assert place.in_place == CONTENT


def test_what_a_restore_brings_back_is_as_young_as_if_it_were_written_now(place):
    place.move()
    before = datetime.now(UTC) - timedelta(seconds=5)
    assert place.restore() == dict.fromkeys(CONTENT, "restored")
    assert all(place.store.head(key).last_modified > before for key in CONTENT)


def test_a_restore_whose_name_was_taken_again_leaves_both_objects_where_they_are(place):
    place.move()
    place.plant({A: b"another upload"})
    assert place.restore() == {A: "failed", B: "restored"}
    assert place.in_place == {A: b"another upload", B: CONTENT[B]}
    assert place.aside == CONTENT


def test_what_was_brought_back_stays_when_its_name_in_quarantine_is_purged_and_can_go_again(place):
    place.move()
    place.restore()
    assert place.store.delete([key_of(RUN, A)]) == [DeleteOutcome(key_of(RUN, A), "deleted")]
    assert place.in_place == CONTENT
    place.look()
    assert place.move() == dict.fromkeys(CONTENT, "deleted")
    assert (place.in_place, place.aside) == ({}, CONTENT)


def test_the_second_name_is_durable_before_the_first_one_goes(place, monkeypatch):
    calls = SystemCalls(monkeypatch)
    calls.arm()
    assert place.move(A) == {A: "deleted"}
    assert calls.made[-3:] == ["link", "fsync", "unlink"]
    # Each folder of the way is made, and its name is durable, before the link.
    assert calls.made[:-3] == ["mkdir", "fsync"] * (len(calls.made[:-3]) // 2) != []
    calls.arm()
    assert place.restore()[A] == "restored"
    assert [name for name in calls.made if name != "mkdir"] == ["utime", "link", "fsync"]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("links", [True, False], ids=["links", "copies"])
def test_killed_at_any_call_each_object_is_readable_and_the_next_move_ends_it(
    tmp_path, monkeypatch, after, links
):
    if not links:
        refuse_links(monkeypatch, errno.EXDEV)
    monkeypatch.setattr(quarantine, "_COPIES_AT_ONCE", 1)
    calls = SystemCalls(monkeypatch)
    calls.arm()
    whole = Place(tmp_path / "whole")
    calls.arm()
    whole.move()
    number = len(calls.made)
    assert number > 10
    for at in range(1, number + 1):
        calls.arm()
        place = Place(tmp_path / str(at))
        calls.arm(at, after=after)
        with pytest.raises(Killed):
            place.move()
        calls.arm()
        there, aside = place.in_place, place.aside
        for key, data in CONTENT.items():
            assert data in (there.get(key), aside.get(key)), f"LOST {key} at {at}"
        assert {**there, **aside}.items() <= CONTENT.items()
        assert place.listed() == sorted(there), "no object is listed twice"
        assert place.move() == dict.fromkeys(CONTENT, "deleted"), at
        assert (place.in_place, place.aside) == ({}, CONTENT)
        if links:
            moved = place.root / lakegc_keys.in_quarantine(RUN)
            assert {(moved / key).stat().st_nlink for key in CONTENT} == {1}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_restore_that_was_killed_at_any_call_is_ended_by_the_next_one(
    tmp_path, monkeypatch, after
):
    calls = SystemCalls(monkeypatch)
    calls.arm()
    whole = Place(tmp_path / "whole")
    whole.move()
    calls.arm()
    whole.restore()
    number = len(calls.made)
    assert number > 5
    for at in range(1, number + 1):
        calls.arm()
        place = Place(tmp_path / str(at))
        place.move()
        before = datetime.now(UTC) - timedelta(seconds=30)
        calls.arm(at, after=after)
        with pytest.raises(Killed):
            place.restore()
        calls.arm()
        there, aside = place.in_place, place.aside
        for key, data in CONTENT.items():
            assert data in (there.get(key), aside.get(key)), f"LOST {key} at {at}"
            assert key not in there or place.store.head(key).last_modified > before
        assert set(place.restore().values()) <= {"restored", "already_there"}
        assert (place.in_place, place.aside) == (CONTENT, CONTENT), at
        assert all(place.store.head(key).last_modified > before for key in CONTENT)


def _replaced(place):
    place.plant({A: b"AAAA"}, at=WRITTEN)  # by another file of that size and time


def _written_in_place(place):
    (place.root / A).write_bytes(b"AAAA")


def _touched(place):
    os.utime(place.root / A)


def _longer(place):
    path = place.root / A
    path.write_bytes(b"AAAAAA")
    os.utime(path, (WRITTEN.timestamp(), WRITTEN.timestamp()))


@pytest.mark.parametrize("write", [_replaced, _written_in_place, _touched, _longer])
def test_another_writer_before_any_call_up_to_the_last_look_keeps_what_it_wrote(
    tmp_path, monkeypatch, write
):
    calls = SystemCalls(monkeypatch, (*CHANGES, *QUESTIONS))
    calls.arm()
    whole = Place(tmp_path / "whole")
    calls.arm()
    whole.move(A)
    # The call before the one that takes the first name away is the last look.
    last = calls.made.index("unlink")
    assert calls.made[last - 1] == "stat"
    begins = 1
    if write is _replaced:
        # Before the link nobody can tell it from what was looked at.
        begins = calls.made.index("link") + 2
    for at in range(begins, last + 1):
        calls.arm()
        place = Place(tmp_path / str(at))
        calls.arm(at, act=lambda place=place: write(place))
        assert place.move(A) == {A: "changed"}, at
        calls.arm()
        wanted = CONTENT[A] if write is _touched else (place.root / A).read_bytes()
        assert place.in_place[A] == wanted != (b"" if write is _touched else CONTENT[A])
        assert place.aside == {}, "the link is taken back"
        assert (place.root / A).stat().st_nlink == 1


def test_what_became_a_symbolic_link_meanwhile_stays_and_is_not_followed(place, monkeypatch):
    link_to = place.store.link_to

    def replacing(key, target, **more):
        is_link = link_to(key, target, **more)
        (place.root / A).unlink()
        (place.root / A).symlink_to(place.root / B)
        return is_link

    monkeypatch.setattr(place.store, "link_to", replacing)
    assert place.move(A) == {A: "refused"}
    assert (place.root / A).is_symlink()
    assert place.in_place[B] == CONTENT[B]


def test_an_original_stays_where_its_second_name_vanished(place, monkeypatch):
    link_to = place.store.link_to

    def vanishing(key, target, **more):
        is_link = link_to(key, target, **more)
        (place.root / target).unlink()
        return is_link

    monkeypatch.setattr(place.store, "link_to", vanishing)
    assert place.move(A) == {A: "refused"}
    assert place.in_place == CONTENT


def test_an_equal_copy_of_an_earlier_version_stands_and_another_one_keeps_the_original(place):
    for key, data in {A: CONTENT[A], B: b"BBBBBB"}.items():
        place.store.put(key_of(RUN, key), data)
    assert place.move() == {A: "deleted", B: "failed"}
    assert (place.in_place, place.aside) == (
        {B: CONTENT[B]},
        {A: CONTENT[A], B: b"BBBBBB"},
    )


def test_a_copy_of_an_earlier_version_does_not_let_go_what_was_written_since(place):
    place.store.put(key_of(RUN, A), b"AAAA")
    place.plant({A: b"AAAA"}, at=WRITTEN + timedelta(seconds=1))
    assert place.move(A) == {A: "changed"}
    assert place.in_place[A] == b"AAAA"


def test_two_objects_that_are_one_file_are_moved_each_by_its_name(place):
    twin = "data/s/twin"
    os.link(place.root / A, place.root / twin)
    place.seen[twin] = (twin, *place.seen[A][1:])
    assert place.move(A) == {A: "deleted"}
    assert place.in_place[twin] == CONTENT[A]
    assert place.restore()[A] == "restored"
    for name in (A, twin):
        place.seen[name] = (name, 4, place.store.head(name).last_modified)
    assert place.move(A, twin) == {A: "deleted", twin: "deleted"}
    assert place.aside == {A: CONTENT[A], twin: CONTENT[A]}


def test_a_name_that_is_no_link_of_the_file_lets_nothing_go(place):
    told = place.store.delete_first_names({A: SecondName(B, is_link=True)})
    assert told == [DeleteOutcome(A, "changed")]
    assert place.in_place == CONTENT
