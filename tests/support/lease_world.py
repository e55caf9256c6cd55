"""Collectors that compete for a lease; each is a thread with its own clock that stops before every
call to the store.

The test decides which one continues, how much time passes, and the result of the call. So every
interleaving can be made and repeated.
"""

import threading
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import combinations
from types import SimpleNamespace

from spark_core.errors import LakegcError, LeaseLostError, ObjectExistsError, TransientError
from spark_core.lock import lease, lease_log, processes
from spark_core.model import RunKey
from tests.support.memory_store import MemoryStore
from tests.support.written_run import NOW

LONGEST_REQUEST = timedelta(seconds=130)
FAULTS = ("away", "lost", "sent twice", "killed before", "killed after")


@dataclass(frozen=True)
class Command:
    """What somebody starts, again and again: a run's work on a machine whose clock is off by `skew`
    seconds.

    When its process ends otherwise than well, a task goes on for `lingers` seconds, if any, and
    Spark begins others after it.
    """

    run: int
    work: str
    host: int
    skew: int
    take_over: int | None
    beats: int
    clean: bool
    lingers: int = 0

    def is_given_as(self, other):
        """Say whether both are one command on one machine."""
        return (self.run, self.work, self.host) == (other.run, other.work, other.host)


class _Killed(BaseException):
    """kill -9."""


@dataclass
class Process:
    """One start of a command."""

    world: "World"
    command: Command
    pid: int
    alive: bool = True
    lease: object = None
    tasks_ended: bool = False
    fault: str | None = None
    problem: BaseException | None = None
    task: ExitStack = field(default_factory=ExitStack)
    ended: object = None
    sent: object = None
    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    stopped: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def start(self):
        threading.Thread(target=self._work, daemon=True).start()
        self.stopped.acquire()

    def step(self, fault=None):
        """Let it make its next call to the store, and come to the one after that or to its end."""
        self.fault = fault
        self.go.release()
        self.stopped.acquire()

    def now(self):
        return self.world.now + timedelta(seconds=self.command.skew)

    @property
    def may_delete(self):
        """Others must take it, or what it sent, for deleting: before the lease's end by its own
        clock, unless each of its tasks has ended.
        """
        return (
            self.lease is not None and not self.tasks_ended and self.now() < self.lease.expires_at
        )

    @property
    def is_deleting(self):
        """It has the lease and lives, or a task does, or what one of them sent is under way."""
        if not self.may_delete:
            return False
        if self.ended is None:
            return True
        return self.world.now < self.sent + LONGEST_REQUEST

    def linger(self):
        """Bring what the process left behind up to now, on its machine."""
        task_ends, now = self.ended + timedelta(seconds=self.command.lingers), self.world.now
        if now < task_ends:
            self.sent = now
            return
        self.sent = max(self.sent, task_ends)
        self.task.close()
        if self.command.lingers:
            try:
                with processes.at_work(self.lease.tasks_lock):
                    self.sent = now
            except LeaseLostError:
                pass

    def has_ended(self):
        """Let go of what the kernel lets go of when a process ends."""
        self.alive, self.ended = False, self.world.now
        self.sent = self.ended
        if self.lease is not None:
            if self.lease._presence is not None:
                self.lease._presence._file.close()
            if not self.tasks_ended:
                self.linger()

    def _work(self):
        self.world.here.process = self
        command, run = self.command, self.world.run
        mine = replace(
            run,
            key=_key(command.run),
            store=_Stepped(self),
            environment=replace(run.environment, clock=SimpleNamespace(now=self.now)),
        )
        try:
            take_over = None if command.take_over is None else str(_key(command.take_over))
            self.lease = lease.acquire(
                mine,
                take_over=take_over,
                work=command.work,
                on_this_machine=command.work == "sweep",
            )
            self.task.enter_context(processes.at_work(self.lease.tasks_lock))
            lease.prune(mine.store, self.lease)
            for _ in range(command.beats):
                try:
                    self.lease.beat()
                except TransientError:
                    continue
            if command.clean:
                self.tasks_ended = True
                self.task.close()
            else:
                self.lease.sent_until = self.lease.expires_at
            self.lease.close()
        except (LeaseLostError, LakegcError, _Killed):
            pass
        except BaseException as problem:  # noqa: BLE001 - raised at the end, in the test's thread
            self.problem = problem
        finally:
            self.has_ended()
            self.stopped.release()


class _Stepped:
    """The store as one process sees it."""

    delete_batch_size = 1_000
    root = MemoryStore.root
    longest_request = LONGEST_REQUEST

    def __init__(self, process):
        self._process = process

    def list(self, prefix):
        yield from self._call("list", prefix)

    def read(self, key):
        return self._call("read", key)

    def put_if_absent(self, key, data):
        return self._call("put_if_absent", key, data)

    def delete(self, keys):
        return self._call("delete", keys)

    def _call(self, name, *arguments):
        process = self._process
        process.stopped.release()
        process.go.acquire()
        if process.fault == "killed before":
            raise _Killed
        if process.fault == "away":
            raise TransientError("the store is away")
        answer = getattr(process.world.store, name)(*arguments)
        answer = list(answer) if name == "list" else answer
        if process.fault == "killed after":
            raise _Killed
        if process.fault == "lost":
            raise TransientError("the answer was lost")
        if process.fault == "sent twice" and name == "put_if_absent":
            raise ObjectExistsError("the client sent it again after the first answer was lost")
        return answer


class World:
    """A store, the true time, and the processes; patched into `lease_log`, so that each thread is a
    process on its machine.
    """

    def __init__(self, run, commands, monkeypatch, folder):
        self.run, self.commands = run, commands
        self.store, self.now = MemoryStore(), NOW
        self.here = threading.local()
        self.processes = []
        self._newest = [None] * len(commands)
        monkeypatch.setattr(lease_log, "os", SimpleNamespace(getpid=lambda: self.here.process.pid))
        monkeypatch.setattr(
            lease_log,
            "socket",
            SimpleNamespace(gethostname=lambda: f"host-{self.here.process.command.host}"),
        )

        boot = folder / "boot"
        boot.write_text("0" * 36)
        for host in (0, 1):
            (folder / f"host-{host}").mkdir(exist_ok=True)
        monkeypatch.setattr(processes, "BOOT", boot)
        monkeypatch.setattr(
            processes,
            "folder",
            lambda: str(folder / f"host-{self.here.process.command.host}"),
        )
        monkeypatch.setattr(processes, "is_of_this_machine", lambda *_, **__: True)
        monkeypatch.setattr(processes, "monotonic", self.seconds)

    def seconds(self):
        return (self.now - NOW).total_seconds()

    def step(self, number, fault=None):
        """Let a command go on by one call; start it again if it has ended."""
        process = self._newest[number]
        if process is None or not process.alive:
            process = self._newest[number] = Process(
                self, self.commands[number], len(self.processes)
            )
            self.processes.append(process)
            process.start()
        else:
            process.step(fault)

    def end(self):
        for process in self.processes:
            while process.alive:
                process.step("killed before")
            process.task.close()
            assert process.problem is None, process.problem

    def require_one_collector(self):
        """No two processes may believe that they hold the lease, nor may anybody hold it while what
        a dead one sent may be under way: until its lease ends, or, for the same command on its
        machine, as long as anything really is.
        """
        for process in self.processes:
            if process.lease is not None and process.ended and not process.tasks_ended:
                process.linger()
        active = [process for process in self.processes if process.may_delete]
        for one, other in combinations(active, 2):
            apart = one.command.is_given_as(other.command) and not (
                one.is_deleting and other.is_deleting
            )
            assert apart, f"two at work at {self.now}: {one}, {other}"


def _key(number):
    return RunKey.at(NOW + timedelta(days=number))
