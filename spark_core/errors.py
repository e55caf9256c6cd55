"""Define the one error tree: a class exists because a caller treats it differently.

    LakegcError
    ├── SettingsError            the settings or the environment are wrong; correct them
    ├── TransientError           the server or the store did not answer in time; try again later
    ├── PermissionDeniedError    401 or 403: credentials or policy
    ├── NotFoundError            404 of the server, or no such object in the store
    ├── ObjectExistsError        a create-if-absent put lost to another writer
    ├── DeletionFailedError      a sweep could not delete some objects; the report names them
    ├── LeaseLostError           the lease ran out or was taken over; it allows no more deletions
    └── RefusedError             doubt: going on could delete a live object
        ├── CorruptTableError    a file is not what lakeFS or lakegc writes; names file and offset
        ├── AddressError         an address has a form that nobody documented
        ├── IncompleteReadError  a live set could not be read to its end
        ├── RepositoryStateError bare, read-only, deleted, replaced or sharing its namespace
        ├── ChainError           the tables of a run were not made in the safe order
        ├── ClosedPartitionError the run already has a verdict
        ├── LeaseHeldError       another collector may be at work in the namespace
        │   └── SameWorkError    it does the same work, which ends by itself; try again later
        ├── VerdictError         the stored verdict is missing, failed, or does not match the mark
        └── UnsafePlanError      the plan breaks a limit

An error says what was found and the next step, never a credential. What had been done by then is
added by the phase that it ends (`spark_core.phases`).
"""

from __future__ import annotations

from typing import Any, Literal, Self

# What may follow the end of a sentence.
_CLOSING = ")'\"`]"


class LakegcError(Exception):
    """Root of everything that lakegc raises on purpose.

    Args:
        found: What was found and what was wanted, as a sentence without its full stop; or the whole
            message.
        next_step: What to do about it, in whole sentences; empty if `found` says that too.

    Attributes:
        state: What the work that this error ended had done, in a sentence; None until the error has
            left a phase.
    """

    def __init__(self, found: str = "", next_step: str = "") -> None:
        super().__init__(found, next_step)
        self.found = found
        self.next_step = next_step
        self.state: str | None = None

    @property
    def kind(self) -> str:
        """Name of the nearest class of the tree above, by which others make the error again.

        Examples:
            >>> CorruptTableError("it", None, "no table").kind
            'CorruptTableError'
        """
        return next(each.__name__ for each in type(self).__mro__ if each.__module__ == __name__)

    @property
    def message(self) -> str:
        """What was found and the next step, without the state of the world."""
        return sentences(self.found, self.next_step)

    def __str__(self) -> str:
        return sentences(self.message, self.state or "")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by attributes, so that the state that a phase added is kept."""
        return (_made_anew, (type(self),), {**vars(self), "args": self.args})

    @classmethod
    def from_message(cls, message: str) -> Self:
        """Rebuild an error from its class and message, which is all that Spark returns of it."""
        error = cls.__new__(cls)
        LakegcError.__init__(error, message)
        return error


class SettingsError(LakegcError):
    """The settings, the command line or the environment cannot be used as they are."""


class TransientError(LakegcError):
    """The server or the store did not answer, or said that it could not do so now."""


class PermissionDeniedError(LakegcError):
    """The server or the store refused the credentials or lacks a permission."""


class NotFoundError(LakegcError):
    """The server or the store has no such thing."""


class ObjectExistsError(LakegcError):
    """A create-if-absent put found the object already there."""


class DeletionFailedError(LakegcError):
    """A sweep finished, and some of its objects could not be deleted."""


class LeaseLostError(LakegcError):
    """This process no longer has the lease and may delete nothing more under it."""


class RefusedError(LakegcError):
    """Going on could delete a live object."""


# What to do about a damaged file, depending on who wrote it.
OF_THE_SERVER = (
    "Compare the file with the server's copy (a broken download is the usual cause) and run again; "
    "a file that is really damaged must be repaired in the store first."
)
OF_A_RUN = (
    "This is a file of lakegc's own, not of the server. Nothing lifts that: mark again under a new "
    "run key, and leave the files of a run as they were written."
)


class CorruptTableError(RefusedError):
    """A file is broken, or has a form that neither lakeFS nor lakegc writes.

    Args:
        name: File name or key.
        offset: Byte offset of the fault in the file; None when it belongs to the file as a whole.
        problem: What was found and what was wanted.
        next_step: What to do about it; by default, what helps with a file of the server.
    """

    name = ""
    offset: int | None = None
    problem = ""

    def __init__(
        self, name: str, offset: int | None, problem: str, next_step: str = OF_THE_SERVER
    ) -> None:
        where = name if offset is None else f"{name} at offset {offset}"
        super().__init__(f"{where}: {problem}", next_step)
        self.name = name
        self.offset = offset
        self.problem = problem


class AddressError(RefusedError):
    """An address has a form that is neither relative nor a known absolute one."""


class IncompleteReadError(RefusedError):
    """A live set (listing, staged entries, commits) was not read to its end."""


class RepositoryStateError(RefusedError):
    """The repository is in a state in which its live set cannot be trusted."""


class ChainError(RefusedError):
    """The stored tables of a run do not form one unbroken chain in the right order."""


class ClosedPartitionError(RefusedError):
    """The run already has a verdict, so its tables may not be made again."""


class LeaseHeldError(RefusedError):
    """Another collector has the lease of the namespace, or died with it."""


class SameWorkError(LeaseHeldError):
    """Another process does the same work of the same run, or died with its lease."""


class VerdictError(RefusedError):
    """The stored verdict does not allow this sweep."""


class UnsafePlanError(RefusedError):
    """The plan would delete more than a limit allows."""


def _made_anew(kind: type[LakegcError]) -> LakegcError:
    """Make an empty error for unpickling, which sets its attributes afterwards."""
    return kind.__new__(kind)


def sentences(*parts: str) -> str:
    """Join texts as sentences, with a full stop after each but the last; leave out empty ones."""
    *before, last = [part for part in parts if part] or [""]
    return " ".join(
        [
            *(
                part if part.rstrip(_CLOSING).endswith((".", "!", "?", ":")) else f"{part}."
                for part in before
            ),
            last,
        ]
    )


# Exit codes of commands. The larger one is that of a command over several repositories: from
# `WRONG_SETTINGS` on a person must look, and after `FAILED` alone it may be tried again.
FAILED = 1
WRONG_SETTINGS = 2
REFUSED = 3
INTERRUPTED = 130


def kind_of(error: LakegcError) -> Literal["settings", "refused", "failed"]:
    """Return the word with which a command shows an error."""
    if isinstance(error, SettingsError):
        return "settings"
    return "refused" if isinstance(error, RefusedError) else "failed"


def exit_code(error: LakegcError) -> int:
    """Return the exit code of a command that an error ended.

    Examples:
        >>> exit_code(TransientError()), exit_code(SettingsError()), exit_code(UnsafePlanError())
        (1, 2, 3)
    """
    return {"settings": WRONG_SETTINGS, "refused": REFUSED, "failed": FAILED}[kind_of(error)]


# Failures to read what a run stored, for readers that can do without it.
TABLES_UNREADABLE = (ChainError, CorruptTableError, NotFoundError)

# What keeps everything that a policy names, and nothing else.
POLICY_UNREADABLE = (ChainError, CorruptTableError, IncompleteReadError)
