"""What the kernel of one machine knows of the processes of a lease."""

import os
import signal
from contextlib import ExitStack
from datetime import timedelta
from types import SimpleNamespace

import pytest

from spark_core.errors import LeaseLostError
from spark_core.lock import processes
from tests.support import lease_processes

ID = "0123456789abcdef"


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """One machine: where its locks lie, which of its starts this is, and its count of seconds."""
    machine = SimpleNamespace(
        seconds=1_000.0, folder=tmp_path, file=tmp_path / f"lakegc-lease-{ID}"
    )
    monkeypatch.setattr(processes, "folder", lambda: str(tmp_path))
    monkeypatch.setattr(processes, "monotonic", lambda: machine.seconds)
    return machine


@pytest.fixture
def announced(machine):
    presence = processes.announce(ID)
    yield presence
    presence.close(nothing_under_way=True)


def test_while_the_holder_or_a_task_is_left_nobody_knows_an_end(announced):
    with ExitStack() as tasks:
        for _ in range(2):
            tasks.enter_context(processes.at_work(announced.path))
        assert processes.ended_for(ID) is None
        announced.close(nothing_under_way=False)
        assert processes.ended_for(ID) is None, "its tasks are left"
    assert processes.ended_for(ID) == timedelta()


def test_the_end_counts_from_when_it_was_first_known(announced, machine):
    announced.close(nothing_under_way=False)
    for seconds in (0, 40, 41.5):
        machine.seconds = 1_000 + seconds
        assert processes.ended_for(ID) == timedelta(seconds=seconds)
    # A count that is less than it was, in another container, is no time.
    machine.seconds = 3
    assert processes.ended_for(ID) == timedelta()


def test_no_task_begins_once_the_end_is_known(announced):
    announced.close(nothing_under_way=False)
    with processes.at_work(announced.path):
        pass
    processes.ended_for(ID)
    with (
        pytest.raises(LeaseLostError, match=r"did not begin: another process has ended the lease"),
        processes.at_work(announced.path),
    ):
        raise AssertionError


def test_a_task_whose_lock_is_gone_does_not_begin_for_nobody_would_see_it(announced, machine):
    machine.file.unlink()
    with (
        pytest.raises(LeaseLostError, match=r"cannot be opened.*run the same command again"),
        processes.at_work(announced.path),
    ):
        raise AssertionError
    assert processes.ended_for(ID) is None


def test_a_lease_without_a_lock_lets_its_tasks_begin():
    with processes.at_work(None):
        pass


def test_a_lease_that_ended_well_leaves_nothing(announced, machine):
    announced.close(nothing_under_way=True)
    assert [*machine.folder.iterdir()] == []


@pytest.mark.parametrize("which", ["holder", "task"])
def test_a_process_that_is_stopped_is_left_and_a_killed_one_is_not(announced, machine, which):
    """The kernel lets go of the lock when a process ends, and not before."""
    if which == "holder":
        announced.close(nothing_under_way=True)
        process = lease_processes.holder(machine.folder, ID)
    else:
        process = lease_processes.task(announced.path)
        announced.close(nothing_under_way=False)
    try:
        os.kill(process.pid, signal.SIGSTOP)
        assert processes.ended_for(ID) is None
    finally:
        process.kill()
        process.wait()
    assert processes.ended_for(ID) == timedelta()


def _other_boot(machine, monkeypatch):
    other = machine.folder / "boot"
    other.write_text("f" * 36)
    monkeypatch.setattr(processes, "BOOT", other)


def _other_user(_machine, monkeypatch):
    monkeypatch.setattr(processes.os, "geteuid", lambda: os.getuid() + 1)


def _other_folder(machine, monkeypatch):
    monkeypatch.setattr(processes, "folder", lambda: str(machine.folder / "other"))


def _no_boot(machine, monkeypatch):
    monkeypatch.setattr(processes, "BOOT", machine.folder / "none")


def _a_copy(machine, _monkeypatch):
    """As in a container that was copied while a sweep ran in it."""
    copied = machine.folder / "copy"
    copied.write_bytes(machine.file.read_bytes())
    copied.rename(machine.file)


def _damaged(machine, _monkeypatch):
    machine.file.write_bytes(machine.file.read_bytes() + b"12")


def _emptied(machine, _monkeypatch):
    machine.file.write_bytes(b"")


@pytest.mark.parametrize(
    "doubt", [_other_boot, _other_user, _other_folder, _no_boot, _a_copy, _damaged, _emptied]
)
def test_in_doubt_nobody_knows_an_end(announced, machine, monkeypatch, doubt):
    announced.close(nothing_under_way=False)
    doubt(machine, monkeypatch)
    assert processes.ended_for(ID) is None


def test_a_mark_that_cannot_be_written_whole_lets_nobody_go_on_and_no_task_begin(
    announced, machine
):
    announced.close(nothing_under_way=False)
    _damaged(machine, None)
    with (
        pytest.raises(LeaseLostError, match=r"did not begin: .* is damaged"),
        processes.at_work(announced.path),
    ):
        raise AssertionError


def _on_a_network(_machine, monkeypatch):
    monkeypatch.setattr(processes, "is_of_this_machine", lambda *_, **__: False)


def _full(_machine, monkeypatch):
    monkeypatch.setattr(processes.os, "write", lambda _, data: len(data) - 1)


@pytest.mark.parametrize("doubt", [_no_boot, _other_folder, _on_a_network, _full])
def test_where_nobody_could_rely_on_it_no_lock_is_begun(machine, monkeypatch, doubt):
    doubt(machine, monkeypatch)
    assert processes.announce(ID) is None
    assert [*machine.folder.iterdir()] == []


def test_a_file_that_is_there_already_is_nobodys_lock(machine):
    machine.file.symlink_to(machine.folder / "elsewhere")
    assert processes.announce(ID) is None
    assert not (machine.folder / "elsewhere").exists()
