"""When an error ends a phase of work, add to it one sentence: what had been deleted by then.

An error from a store's client cannot know whether anything was deleted before. The code that sent
the deletions knows. So errors say what was found and what to do, and the phase that they leave adds
the state of the world. Phases nest, and the innermost one that an error leaves adds the sentence,
because it is closest to what was done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TypeVar

from spark_core.errors import LakegcError, SettingsError
from spark_core.foreign_errors import in_a_sentence

NOTHING_STARTED = "Nothing was started."
NOTHING_DELETED = "Nothing was deleted."
# A sweep may be the second one of its run, because Dagster retries it.
NOTHING_BY_THIS_SWEEP = (
    "Nothing was deleted by this attempt; an earlier one of the same run may have deleted."
)
NOTHING_BY_HOUSE_KEEPING = "House-keeping deleted nothing."
# For an error after a sweep, when its report is stored or shown.
SWEEP_STANDS = "What the sweep deleted stands."

Error = TypeVar("Error", bound=LakegcError)

# An end is shown in whole seconds, and never too early.
_ALMOST_A_SECOND = timedelta(microseconds=999_999)

# The attribute for the sentence on an error of another library; the error has it as a note, too.
_NOTED = "_lakegc_state"


@contextmanager
def phase(state: str | Callable[[], str]) -> Iterator[None]:
    """Add to any error that leaves the block what the block had done by then.

    Args:
        state: A sentence, or a function that returns it, called when an error leaves.

    Raises:
        BaseException: The error of the block. An error of lakegc carries the sentence as its
            `state`; one of the system or of Spark becomes such an error
            (`spark_core.foreign_errors`); any other, which is a mistake, has it as a note.
    """
    try:
        yield
    except LakegcError as error:
        add_state(error, state)
        raise
    except BaseException as error:
        made = in_a_sentence(error)
        if made is not None:
            raise add_state(made, state) from error
        # What a signal ends may have been at its end; only who counts knows what was done by then.
        if state_of(error) is None and (isinstance(error, Exception) or callable(state)):
            vars(error)[_NOTED] = _sentence(state)
            error.add_note(vars(error)[_NOTED])
        raise


def add_state(error: Error, state: str | Callable[[], str]) -> Error:
    """Add to an error what the work that it ended had done, unless an inner phase added it.

    Args:
        error: The error.
        state: As for `phase`.

    Returns:
        The same error.
    """
    if error.state is None:
        error.state = _sentence(state)
    return error


def state_of(error: BaseException) -> str | None:
    """Return the sentence of the phase that an error has left; None if it has left none."""
    found: str | None = error.state if isinstance(error, LakegcError) else vars(error).get(_NOTED)
    return found


def ended_a_command(error: Error) -> Error:
    """Add to an error without a phase that nothing was deleted: only phases delete."""
    return add_state(
        error, NOTHING_STARTED if isinstance(error, SettingsError) else NOTHING_DELETED
    )


class Deleting:
    """Keeps what one process of a sweep has deleted so far; call it for the sentence of a phase.

    Args:
        journal: The folder of the sweep's journal, in full.
    """

    def __init__(self, journal: str) -> None:
        self._journal = journal
        self._deleted = 0
        self._until: datetime | None = None
        self._left: int | None = None

    def round_begins(self, until: datetime) -> None:
        """Record that from now on executors may delete.

        Args:
            until: When they send their last request.
        """
        self._until, self._left = until, None

    def round_ended(self, deleted: int, left: int | None = None) -> None:
        """Record how many objects this process has deleted in all the rounds that ended.

        Args:
            deleted: Their number.
            left: How many are left, where nothing is under way; else None.
        """
        self._deleted, self._left = deleted, left

    def __call__(self) -> str:
        """Return the sentence."""
        if self._until is None:
            return NOTHING_BY_THIS_SWEEP
        if self._left is not None:
            return (
                f"Deletions had begun: this sweep is known to have deleted {self._deleted:,} "
                f"objects in rounds that ended, and left {self._left:,}; none is under way. The "
                f"journal is {self._journal}."
            )
        return (
            f"Deletions had begun: this sweep is known to have deleted {self._deleted:,} objects "
            "in rounds that ended; what the last round sent stands, too, and is in the journal "
            f"({self._journal}). No deletion is sent after "
            f"{(self._until + _ALMOST_A_SECOND).replace(microsecond=0).isoformat()}."
        )


def restoring(back: int) -> str:
    """Return the sentence for a restore, which never deletes.

    Args:
        back: Objects that are known to be back in their places.
    """
    return (
        f"Nothing was deleted, and {back:,} objects are known to be back in their places."
        if back
        else NOTHING_DELETED
    )


def keeping_house(gone: int | None) -> str:
    """Return the sentence for house-keeping.

    It deletes lakegc's own files, and objects whose days in quarantine are over.

    Args:
        gone: Number of objects known to be gone; None before the first was sent.
    """
    return (
        NOTHING_BY_HOUSE_KEEPING
        if gone is None
        else f"House-keeping had begun, and is known to have deleted {gone:,} objects."
    )


def _sentence(state: str | Callable[[], str]) -> str:
    return state if isinstance(state, str) else state()
