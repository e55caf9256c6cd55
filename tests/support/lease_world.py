"""Collectors that compete for a lease; each is a thread with its own clock that stops before every
call to the store.

The test decides which one continues, how much time passes, and the result of the call. So every
interleaving can be made and repeated.
"""

import threading
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import SimpleNamespace

from spark_core.errors import LakegcError, LeaseLostError, ObjectExistsError, TransientError
from spark_core.lock import lease, lease_log
from spark_core.model import RunKey
from tests.support.memory_store import MemoryStore
from tests.support.written_run import NOW

FAULTS = ("away", "lost", "sent twice", "killed before", "killed after")


@dataclass(frozen=True)
class Command:
    """What somebody starts, again and again: a run's work on a machine whose clock is off by `skew`
    seconds.
    """

    run: int
    work: str
    host: int
    skew: int
    take_over: int | None
    beats: int
    clean: bool


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
    ended_well: bool = False
    fault: str | None = None
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
        """It, or what it sent, may still be deleting: before the lease's end by its own clock,
        unless it ended well.
        """
        return self.lease is not None and not self.ended_well and self.now() < self.lease.expires_at

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
            self.lease = lease.acquire(mine, take_over=take_over, work=command.work)
            lease.prune(mine.store, self.lease)
            for _ in range(command.beats):
                try:
                    self.lease.beat()
                except TransientError:
                    continue
            if not command.clean:
                self.lease.sent_until = self.lease.expires_at
            self.lease.close()
            self.ended_well = command.clean
        except (LeaseLostError, LakegcError, _Killed):
            pass
        finally:
            self.alive = False
            self.stopped.release()


class _Stepped:
    """The store as one process sees it."""

    delete_batch_size = 1_000
    root = MemoryStore.root

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

    def __init__(self, run, commands, monkeypatch):
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

    def require_one_collector(self):
        """No two processes may believe that they hold the lease, nor may anybody hold it while what
        a dead one sent may be under way.
        """
        active = [process for process in self.processes if process.may_delete]
        assert len(active) <= 1, f"two at work at {self.now}: {active}"


def _key(number):
    return RunKey.at(NOW + timedelta(days=number))
