"""Where the lines of Spark's Java process go: into a file in a command, else to the terminal.

No heavy library is imported here: every command reads it when an error ends it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass
class SparkOutput:
    """What this process does with Spark's own lines.

    Attributes:
        is_shown: Whether they go where this process's own lines go, whatever else is asked.
        kept_in: The file for them if Java is started; None lets them go where this process's lines
            go.
        log: The file with them; None before Java was started.
    """

    is_shown: bool = False
    kept_in: Path | None = None
    log: Path | None = None

    def keep_in(self, home: Path) -> None:
        """Let them go into a file in Dagster's home."""
        self.kept_in = home / "spark.log"


# Java is one process for each Python process, so there is one output as well.
OUTPUT = SparkOutput()
