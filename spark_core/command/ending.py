"""How a command ends: the line of the log that says why."""

from __future__ import annotations

import sys

from spark_core.errors import LakegcError, kind_of
from spark_core.phases import ended_a_command
from spark_core.plain_text import visible


def show_error(error: LakegcError) -> None:
    """Write an error as one line of the log, with what the command had done."""
    # Further lines are indented: an error may have somebody's name in it.
    told = visible(str(ended_a_command(error)), lines=True).replace("\n", "\n  ")
    sys.stderr.write(f"lakegc: {kind_of(error)}: {told}\n")
