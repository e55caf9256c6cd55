"""Where the lines of Spark's Java process go: into a file, and with --verbose also to the terminal.

No heavy library is imported here: every command reads it when an error ends it.
"""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

_AT_ONCE = 65_536


@dataclass
class SparkOutput:
    """What this process does with Spark's own lines.

    Attributes:
        is_shown: Whether they also go to the terminal.
        log: The file with them; None before Java was started.
        kept_in: The file for them if a run starts Java; None lets them go where this process's
            lines go.
    """

    is_shown: bool = False
    log: Path | None = None
    kept_in: Path | None = None

    def opened(self, log: Path) -> int:
        """Open the file for a Java process that is about to start.

        Returns:
            A descriptor to write to; whoever called closes it.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log = log
        if not self.is_shown:
            return os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        reading, writing = os.pipe()
        threading.Thread(target=_copy, args=(reading, log), daemon=True).start()
        return writing


# Java is one process for each Python process, so there is one output as well.
OUTPUT = SparkOutput()


def _copy(reading: int, log: Path) -> None:
    with os.fdopen(reading, "rb", buffering=0) as lines, log.open("wb", buffering=0) as kept:
        while found := lines.read(_AT_ONCE):
            kept.write(found)
            sys.stderr.buffer.write(found)
            sys.stderr.flush()
