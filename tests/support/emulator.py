"""An emulator of a store: found on this machine, run on loopback and a free port, and ended."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).resolve().parents[2]
_STARTS_WITHIN_SECONDS = 60


@dataclass(frozen=True)
class Emulator:
    """A program that may be on this machine.

    Attributes:
        name: What people call it.
        program: Its name on the PATH.
        installed: Where its script puts it, below the project.
        script: Installs it, with what it needs.
        variable: Names it in the environment.
    """

    name: str
    program: str
    installed: str
    script: str
    variable: str

    def find(self) -> str | None:
        """Find the program: named by its variable, installed by its script, or on the PATH."""
        installed = _HERE / self.installed
        own = str(installed) if installed.exists() else shutil.which(self.program)
        return os.environ.get(self.variable) or own

    def why_not(self) -> str | None:
        """Say why the tests that need it are skipped; None when it is there."""
        if self.find() is None:
            return (
                f"{self.name} is not installed: run {self.script}, or name the program in "
                f"{self.variable}"
            )
        return None

    @contextmanager
    def running(
        self,
        options: Callable[[int], list[str]],
        ask: Callable[[int], object],
        *,
        before: list[str] | None = None,
        folder: Path | None = None,
    ) -> Iterator[int]:
        """Run the program until the end of the block, and give its port.

        Args:
            options: Its options, by the port.
            ask: Raises OSError until the program serves at the port.
            before: Words before the command.
            folder: Where it runs.
        """
        program = self.find()
        if program is None:
            raise FileNotFoundError(self.why_not())
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with subprocess.Popen(
            [*(before or []), program, *options(port)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
        ) as process:
            try:
                self._wait(process, lambda: ask(port))
                yield port
            finally:
                process.terminate()
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()

    def _wait(self, process: subprocess.Popen[bytes], ask: Callable[[], object]) -> None:
        """Wait until the emulator answers; say what it said when it does not."""
        until = time.monotonic() + _STARTS_WITHIN_SECONDS
        while time.monotonic() < until and process.poll() is None:
            try:
                ask()
            except OSError:
                time.sleep(0.05)
            else:
                return
        process.kill()
        assert process.stdout is not None
        said = process.stdout.read().decode(errors="replace")[-2000:]
        raise RuntimeError(f"{self.name} did not start: {said}")
