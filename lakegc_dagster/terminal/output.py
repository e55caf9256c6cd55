"""Output that cannot fail a command: letters that a terminal lacks, and a disk that is full."""

from __future__ import annotations

import codecs
import os
import sys
from io import TextIOWrapper

from spark_core.errors import LakegcError

_ERRORS = "lakegc"
# lakegc's own signs; of names every letter is told by its number.
_PLAIN = {"✓": "+", "✗": "x", "–": "-", "…": "...", "→": "->", "·": "."}  # noqa: RUF001 - signs


def show_any_letter() -> None:
    """Let standard output take every letter, whatever encoding the terminal has."""
    codecs.register_error(_ERRORS, _plainly)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors=_ERRORS)


def lost_output(more: str = "") -> LakegcError | None:
    """Write what still waits to be shown; return the error if it cannot be written.

    What could not be written is dropped then, so that Python does not try once more at its end.

    Args:
        more: What is written after it, to see whether anything can be.
    """
    try:
        sys.stdout.write(more)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        drop_output()
        return LakegcError(
            f"what the command shows cannot be written ({error.strerror})",
            "Make room where the output goes. `lakegc runs` and `lakegc report` show what runs "
            "did.",
        )
    return None


def drop_output() -> None:
    """Let standard output go nowhere from now on."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _plainly(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(_PLAIN.get(one) or ascii(one)[1:-1] for one in letters), error.end
