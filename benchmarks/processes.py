"""Run one command, and measure time, CPU and memory of all its processes.

    python -m benchmarks.processes RESULT.json -- COMMAND [ARGUMENT]...

It is a separate process, so that all its children belong to the command. Linux only: it reads
/proc, and adopts orphans of the command (Spark's Java ends a moment after the Python that started
it).
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

DRIVER, JAVA, EXECUTOR, WORKERS, PLANNING, OTHER = (
    "driver Python",
    "Java",
    "executor Java",
    "Python workers",
    "Spark's planning Python",
    "other",
)
# CPU of processes that began and ended between two samples, and of the last moments of the others.
UNSEEN = "unseen"

_LOOK_EVERY_SECONDS = 0.2
_PAUSE_PER_LOOK = 10
# How long processes of the command may run after its end.
_LEFT_BEHIND_SECONDS = 60.0
_PR_SET_CHILD_SUBREAPER = 36
_PASSING_JAVA = {b"-version", b"--version", b"org.apache.spark.launcher.Main"}
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Measured:
    """The measured resources of one command.

    Attributes:
        exit_code: Exit code of the command.
        seconds: From its start to its exit.
        cpu_seconds: User and system time by kind of process, from the last sample; `UNSEEN` is the
            rest that the kernel counted.
        pss_bytes: Proportional memory by kind of process, at the moment of the largest sum.
        most_processes: Largest number of concurrent processes of each kind.
        lines: Lines of its standard output, each with the seconds since its start ...
        line_cpu: ... and the CPU seconds until then, as far as they were seen.
        errors: The end of its standard error.
        load: Load average of the machine at the end.
        watching_seconds: CPU of the measurement itself, not included in the others.
    """

    exit_code: int = 0
    seconds: float = 0.0
    cpu_seconds: dict[str, float] = field(default_factory=dict)
    pss_bytes: dict[str, int] = field(default_factory=dict)
    most_processes: dict[str, int] = field(default_factory=dict)
    lines: list[tuple[float, str]] = field(default_factory=list)
    line_cpu: list[float] = field(default_factory=list)
    errors: str = ""
    load: float = 0.0
    watching_seconds: float = 0.0


def kind_of(command: bytes, *, is_root: bool) -> str:
    r"""Return the kind of a process by its command line from /proc.

    Examples:
        >>> kind_of(b"/usr/bin/java\0-Xmx2g\0org.apache.spark.deploy.SparkSubmit\0", is_root=False)
        'Java'
        >>> kind_of(b"python3\0-m\0pyspark.daemon\0pyspark.worker\0", is_root=False)
        'Python workers'
        >>> worker = b"pyspark.sql.worker.plan_data_source_read"
        >>> kind_of(b"python3\0-m\0pyspark.daemon\0" + worker + b"\0", is_root=False)
        "Spark's planning Python"
    """
    if is_root:
        return DRIVER
    program, *arguments = command.split(b"\0")
    if program.rpartition(b"/")[2] == b"java":
        if b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in arguments:
            return EXECUTOR
        # Java's version query, and the class that prints the command line of the real process.
        return OTHER if _PASSING_JAVA & set(arguments) else JAVA
    # Separate daemons fork the workers that plan a Python data source and commit its writes.
    if any(b"pyspark.sql.worker" in argument for argument in arguments[:3]):
        return PLANNING
    # Workers are forks of the daemon, which may be a module other than Spark's own.
    return WORKERS if any(b"daemon" in argument for argument in arguments[:3]) else OTHER


@dataclass(frozen=True)
class _Stat:
    """The fields of /proc/PID/stat.

    Attributes:
        parent: Process id of the parent.
        cpu_seconds: User and system time of the process itself.
        began: Ticks between the start of the machine and that of the process.
    """

    parent: int
    cpu_seconds: float
    began: int


def _stat(text: str) -> _Stat:
    fields = text.rpartition(")")[2].split()
    return _Stat(int(fields[1]), (int(fields[11]) + int(fields[12])) / _TICKS, int(fields[19]))


def cpu_seconds(pid: int) -> float:
    """Return user and system time of a process and of the children that it waited for.

    Raises:
        OSError: If there is no such process.
    """
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(value) for value in fields[11:15]) / _TICKS


def listening(port: int) -> int | None:
    """Return the process that listens on a local TCP port; None if none is visible."""
    sockets = {
        f"socket:[{line.split()[9]}]"
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        if Path(table).exists()
        for line in Path(table).read_text().splitlines()[1:]
        # State 0A is LISTEN; the address is hexadecimal, HOST:PORT.
        if line.split()[3] == "0A" and int(line.split()[1].rpartition(":")[2], 16) == port
    }
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                if any(str(file.readlink()) in sockets for file in (process / "fd").iterdir()):
                    return int(process.name)
            except OSError:
                continue  # It ended, or belongs to another user.
    return None


def proportional_bytes(rollup: str) -> int:
    r"""Read the PSS from /proc/PID/smaps_rollup.

    Examples:
        >>> lines = ["0-1 ---p 0 00:00 0 [x]", "Rss: 20 kB", "Pss:    12 kB", "Pss_Dirty: 9 kB"]
        >>> proportional_bytes("\n".join(lines))
        12288
    """
    for line in rollup.splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


class Family:
    """Samples all descendants of this process repeatedly.

    Attributes:
        pss_bytes: As in `Measured`.
        most_processes: As in `Measured`.
    """

    def __init__(self) -> None:
        self.pss_bytes: Counter[str] = Counter()
        self.most_processes: Counter[str] = Counter()
        self.root: int | None = None
        # Keys are process id and start, because ids are reused.
        self._cpu: dict[tuple[int, int], tuple[str, float]] = {}
        self._looking = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def start(self, root: int) -> None:
        """Start sampling; the root is the command itself."""
        self.root = root
        self._thread.start()

    def stop(self) -> None:
        """Stop sampling."""
        self._ended.set()
        self._thread.join()

    def cpu_by_kind(self) -> Counter[str]:
        """Return the sampled CPU seconds by kind."""
        seen: Counter[str] = Counter()
        for kind, seconds in self._cpu.values():
            seen[kind] += seconds  # type: ignore[assignment]  # a Counter of seconds
        return seen

    def cpu_now(self) -> float:
        """Return the CPU seconds up to now."""
        self._look(memory=False)
        return round(sum(self.cpu_by_kind().values()), 2)

    def _watch(self) -> None:
        pause = _LOOK_EVERY_SECONDS
        while not self._ended.wait(pause):
            began = time.thread_time()
            self._look(memory=True)
            # Sampling many gigabytes takes time, which must not be taken from the measured command.
            pause = max(_LOOK_EVERY_SECONDS, _PAUSE_PER_LOOK * (time.thread_time() - began))

    def _look(self, *, memory: bool) -> None:
        with self._looking:
            self._look_at_all(memory=memory)

    def _look_at_all(self, *, memory: bool) -> None:
        stats: dict[int, _Stat] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    stats[int(entry.name)] = _stat((entry / "stat").read_text())
                except (OSError, IndexError):
                    continue  # it ended since it was listed
        children: dict[int, list[int]] = {}
        for pid, stat in stats.items():
            children.setdefault(stat.parent, []).append(pid)
        pss: Counter[str] = Counter()
        count: Counter[str] = Counter()
        todo = list(children.get(os.getpid(), []))
        while todo:
            pid = todo.pop()
            todo += children.get(pid, [])
            stat = stats[pid]
            kind = self._kind(pid, stat)
            self._cpu[pid, stat.began] = (kind, stat.cpu_seconds)
            count[kind] += 1
            if not memory:
                continue
            try:
                pss[kind] += proportional_bytes(Path(f"/proc/{pid}/smaps_rollup").read_text())
            except OSError:
                continue  # it ended since it was listed
        self.most_processes |= count
        if pss.total() > self.pss_bytes.total():
            self.pss_bytes = pss

    def _kind(self, pid: int, stat: _Stat) -> str:
        """Return the present kind of a process; a shell may become the Java that it starts."""
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            command = b""
        known = self._cpu.get((pid, stat.began))
        if not command and known is not None:
            return known[0]  # it is ending
        return kind_of(command, is_root=pid == self.root)


def run_measured(command: list[str]) -> Measured:
    """Run a command to its end and measure it.

    Args:
        command: Program and arguments; it gets this process's environment and directory.

    Returns:
        The measured resources.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    measured, family = Measured(), Family()
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    family.start(process.pid)
    if process.stdout is None or process.stderr is None:
        raise AssertionError  # both were asked for
    errors: list[str] = []
    reader = threading.Thread(target=errors.extend, args=(process.stderr,), daemon=True)
    reader.start()
    for line in process.stdout:
        measured.lines.append((time.monotonic() - began, line.rstrip("\n")))
        measured.line_cpu.append(family.cpu_now())
    measured.exit_code = process.wait()
    measured.seconds = time.monotonic() - began
    reader.join(timeout=5)
    _wait_for_what_is_left()
    family.stop()
    measured.errors = "".join(errors)[-8000:]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seen = family.cpu_by_kind()
    measured.cpu_seconds = {kind: round(seconds, 2) for kind, seconds in sorted(seen.items())}
    measured.cpu_seconds[UNSEEN] = round(
        max(0.0, used.ru_utime + used.ru_stime - sum(seen.values())), 2
    )
    measured.pss_bytes = dict(sorted(family.pss_bytes.items()))
    measured.most_processes = dict(sorted(family.most_processes.items()))
    measured.load = os.getloadavg()[0]
    measured.watching_seconds = round(time.process_time(), 2)
    return measured


def _wait_for_what_is_left() -> None:
    """Wait for processes that outlive the command, so that their CPU is counted."""
    until = time.monotonic() + _LEFT_BEHIND_SECONDS
    while time.monotonic() < until:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            time.sleep(0.05)
    sys.stderr.write(
        f"something that the command started still ran {_LEFT_BEHIND_SECONDS:g} seconds after it\n"
    )


def main() -> None:
    """Run the given command, and write its resources to a file."""
    result, separator, *command = sys.argv[1:]
    if separator != "--" or not command:
        raise SystemExit(__doc__)
    measured: dict[str, Any] = asdict(run_measured(command))
    Path(result).write_text(json.dumps(measured))


if __name__ == "__main__":
    main()
