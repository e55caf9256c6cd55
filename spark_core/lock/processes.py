"""The processes of this machine that work under a lease, known by a lock that the kernel keeps.

A lease says until when its holder may delete. It does not say whether the holder still lives. Where
all that deletes runs on one machine, its kernel knows: the holder and each of its tasks keep a
shared lock on one file while they work, and the kernel gives it back when a process ends, however
it ends, and not before. Whoever gets the whole lock knows that none of them is left, nor one that
is stopped or asleep between its last look at the clock and its request. The whole lock is marked in
the file, so that no task begins under the lease any more.

Nothing is known, and nobody goes on sooner, where any of this is in doubt: tasks on other machines,
a file that is gone, a copy, another user's, of another start of the machine, or on a file system
that other machines write.
"""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

from spark_core.errors import LeaseLostError
from spark_core.storage.mounts import is_of_this_machine

# A random name for each start of the machine's kernel (Linux). Tests replace it, and what follows.
BOOT = Path("/proc/sys/kernel/random/boot_id")
folder: Callable[[], str] = tempfile.gettempdir
# The same for all processes of a machine. It stands still while the machine sleeps, and so do the
# bytes that the kernel has yet to send for a process that ended.
monotonic: Callable[[], float] = time.monotonic

_OPENED = os.O_NOFOLLOW | os.O_CLOEXEC
# Which file of which boot it is; and, once none is left, since which second.
_CONTENT = re.compile(rb"([0-9a-f-]{36} \d+:\d+)\n(?:(\d{1,15}\.\d{3})\n)?")


class Presence:
    """The holder's own share of the lock.

    Attributes:
        path: The file, for the holder's tasks.
    """

    def __init__(self, path: str, opened: int) -> None:
        self.path = path
        self._file = os.fdopen(opened, "rb")

    def close(self, *, nothing_under_way: bool) -> None:
        """Give the share back, as the end of the process does.

        Args:
            nothing_under_way: Nobody need ask again, so the file goes.
        """
        if nothing_under_way:
            with suppress(OSError):
                Path(self.path).unlink()
        self._file.close()


def announce(lease_id: str) -> Presence | None:
    """Begin the lock of a new lease, before anybody can know of that lease.

    Args:
        lease_id: Random, and never used before.

    Returns:
        The holder's share; None where nobody could rely on the lock.
    """
    boot = _boot()
    if boot is None or not is_of_this_machine(folder(), whole=False):
        return None
    path = _path(lease_id)
    with suppress(OSError):
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _OPENED, 0o600)
        presence = Presence(path, opened)
        try:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
            written = _identity(boot, opened) + b"\n"
            is_whole = os.write(opened, written) == len(written)
        except OSError:
            is_whole = False
        if is_whole:
            return presence
        presence.close(nothing_under_way=True)
    return None


@contextmanager
def at_work(path: str | None) -> Iterator[None]:
    """Share the lock of a lease while the block works for its holder.

    Args:
        path: Where `Presence` says; None: the lease has no such lock.

    Raises:
        LeaseLostError: If another process has found that none of the holder's was left, or the file
            is gone or damaged, so that none would see this one. Nothing was done.
    """
    if path is None:
        yield
        return
    try:
        file = os.fdopen(os.open(path, os.O_RDONLY | _OPENED), "rb")
    except OSError as error:
        raise _not_known(f"{path} cannot be opened ({error.strerror})") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            raise _not_known("another process is ending the lease") from error
        content = _CONTENT.fullmatch(file.read())
        if content is None:
            raise _not_known(f"{path} is damaged, or of another version")
        if content[2] is not None:
            raise _not_known("another process has ended the lease")
        yield


def ended_for(lease_id: str) -> timedelta | None:
    """Tell for how long it has been known that no process works under a lease any more.

    Who finds it first marks it, so every process from then on counts from that moment.

    Returns:
        None if a process may be left.
    """
    boot = _boot()
    if boot is None:
        return None
    with suppress(OSError):
        opened = os.open(_path(lease_id), os.O_RDWR | os.O_APPEND | _OPENED)
        with os.fdopen(opened, "rb") as file:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(opened).st_uid != os.geteuid():
                return None
            content = _CONTENT.fullmatch(file.read())
            # A container that was copied while it ran has the file, and none of the locks.
            if content is None or content[1] != _identity(boot, opened):
                return None
            now = monotonic()
            if content[2] is None:
                os.write(opened, b"%.3f\n" % now)
                return timedelta()
            return timedelta(seconds=max(0.0, now - float(content[2])))
    return None


def _boot() -> bytes | None:
    try:
        return BOOT.read_bytes().strip()
    except OSError:
        return None


def _identity(boot: bytes, opened: int) -> bytes:
    status = os.fstat(opened)
    return b"%s %d:%d" % (boot, status.st_dev, status.st_ino)


def _path(lease_id: str) -> str:
    return str(Path(folder(), f"lakegc-lease-{lease_id}"))


def _not_known(why: str) -> LeaseLostError:
    return LeaseLostError(
        f"a task of a sweep did not begin: {why}, and what it would have deleted stays",
        "Look who collects this namespace, and run the same command again: it goes on where it "
        "ended.",
    )
