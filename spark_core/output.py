"""The outputs of a program: they take every letter, and what nobody takes of them is dropped.

Who shows what was done must not end the doing: a reader that leaves (`| head -1`), a full disk and
a closed output cost what is shown, never the work.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Callable
from select import select
from typing import Any, TextIO

from spark_core.errors import FAILED

_ERRORS = "lakegc"
# lakegc's own signs; of names every letter is told by its number.
_PLAIN = {"✓": "+", "✗": "x", "–": "-", "…": "...", "→": "->", "·": "."}  # noqa: RUF001 - signs


class _Dropping(io.FileIO):
    """Writes to an output until that fails once, and drops the rest."""

    lost: OSError | None = None

    def write(self, data: Any) -> int:
        if self.lost is None:
            try:
                while (written := super().write(data)) is None:
                    # Whoever started the program does not let a write wait.
                    select([], [self], [])
            except OSError as error:
                self.lost = error
            else:
                return written
        return len(data)


def exit_code_of(program: Callable[[], Any]) -> int:
    """Run a program with outputs that never fail, and return its exit code.

    Args:
        program: Returns its exit code, or raises SystemExit with it.

    Returns:
        That of the program, also where the reader of its output left; 1 instead of 0 where the
        output could not be written, which standard error says.
    """
    codecs.register_error(_ERRORS, _plainly)
    if not os.environ.get("COLUMNS", "0").strip("0"):
        # A width of 0 is no width.
        os.environ.pop("COLUMNS", None)
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # Else a file of the work would get this number, and what is meant for people.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stdout is sys.__stdout__:
        sys.stdout = _opened(1, sys.stdout)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _opened(2, sys.stderr)
    try:
        code = program()
    except SystemExit as ended:
        code = ended.code
    why = lost()
    if why is None or isinstance(why, BrokenPipeError):
        return int(code or 0)
    sys.stderr.write(
        f"lakegc: failed: what the command shows cannot be written ({why.strerror}); what it does "
        "was not ended by that. Make room where the output goes. `lakegc runs` and `lakegc report` "
        "show what runs did.\n"
    )
    return int(code or FAILED)


def lost() -> OSError | None:
    """Return why standard output takes nothing any more; None while it does."""
    sys.stdout.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return raw.lost if isinstance(raw, _Dropping) else None


def _opened(number: int, before: TextIO | None) -> TextIO:
    raw = io.BufferedWriter(_Dropping(number, "w", closefd=False))
    # Whoever follows a log sees each line when it is written.
    return io.TextIOWrapper(raw, before.encoding if before else None, _ERRORS, line_buffering=True)


def _plainly(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(_PLAIN.get(one) or ascii(one)[1:-1] for one in letters), error.end
