"""The one error tree: a class exists because a caller treats it differently.

    LakegcError
    ├── SettingsError            the settings or the environment are wrong; the user edits and tries again
    ├── TransientError           the server or the store did not answer in time; the same call may succeed later
    ├── PermissionDeniedError    401 or 403: credentials or policy
    ├── NotFoundError            404 of the server, or no such object in the store
    ├── ObjectExistsError        a create-if-absent put lost to another writer
    ├── DeletionFailedError      some objects of a sweep were not deleted; the report names them
    ├── LeaseLostError           the lease ran out or another collector has it; nothing more may be deleted under it
    └── RefusedError             doubt: going on could delete a live object
        ├── CorruptTableError    a file is not what lakeFS or lakegc writes; carries its name and the offset
        ├── AddressError         an address has a form that nobody documented
        ├── IncompleteReadError  a live set could not be read to its end
        ├── RepositoryStateError bare, read-only, deleted, replaced or sharing its namespace
        ├── ChainError           the tables of a run were not made in the order that makes them safe
        ├── ClosedPartitionError the run already has a verdict
        ├── LeaseHeldError       another collector may be at work in the namespace
        │   └── SameWorkError    it does the very same work and ends by itself, or its lease does: trying again may help
        ├── VerdictError         the stored verdict is missing, failed, or does not match the mark
        └── UnsafePlanError      the plan breaks a limit

An error says what was found (the thing, what it is, what was wanted) and the
next step. What had been done when it was raised it cannot know: that is added
by the phase of the work that it ends (`spark_core.phases`), and nowhere else.
No message carries a credential.
"""

from __future__ import annotations

from typing import Any, Self

# What may stand behind the end of a sentence.
_CLOSING = ")'\"`]"


class LakegcError(Exception):
    """Root of everything that lakegc raises on purpose.

    Args:
        found: What was found and what was wanted, as a sentence without its full stop; or all that there is to say.
        next_step: What to do about it, in whole sentences; empty where `found` says that, too.

    Attributes:
        state: What the work that this ended had done, in a sentence; None until it has left a phase.
    """

    def __init__(self, found: str = "", next_step: str = "") -> None:
        super().__init__(found, next_step)
        self.found = found
        self.next_step = next_step
        self.state: str | None = None

    @property
    def message(self) -> str:
        """What was found and the next step, without the state of the world."""
        return sentences(self.found, self.next_step)

    def __str__(self) -> str:
        return sentences(self.message, self.state or "")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by attributes, whatever the constructor takes: what a phase has added travels along."""
        return (_made_anew, (type(self),), {**vars(self), "args": self.args})

    @classmethod
    def from_message(cls, message: str) -> Self:
        """Make an error again of its class and its words, which is what Spark hands on from an executor."""
        error = cls.__new__(cls)
        LakegcError.__init__(error, message)
        return error


class SettingsError(LakegcError):
    """The settings, the command line or the environment cannot be used as they are."""


class TransientError(LakegcError):
    """The server or the store did not answer, or said that it could not now."""


class PermissionDeniedError(LakegcError):
    """The server or the store refused the credentials or lacks a permission."""


class NotFoundError(LakegcError):
    """The server or the store has no such thing."""


class ObjectExistsError(LakegcError):
    """A create-if-absent put found the object already there."""


class DeletionFailedError(LakegcError):
    """A sweep finished, and some of its objects could not be deleted."""


class LeaseLostError(LakegcError):
    """The lease is no longer this process's own: nothing more may be deleted under it."""


class RefusedError(LakegcError):
    """Going on could delete a live object."""


# What to do about a damaged file, by whose it is.
OF_THE_SERVER = (
    "Compare the file with the server's copy (a broken download is the usual cause) and run again; "
    "a file that is really damaged must be repaired in the store first."
)
OF_A_RUN = (
    "This is a file of lakegc's own, not of the server. Nothing lifts that: mark again under a new run key, and leave "
    "the files of a run as they were written."
)


class CorruptTableError(RefusedError):
    """A file is broken, or has a form that neither lakeFS nor lakegc writes.

    Args:
        name: File name or key.
        offset: Byte offset in the file where the reader stood; None when the
            fault belongs to the file as a whole.
        problem: What was found and what was wanted.
        next_step: What to do about it. Who reads a file knows whose it is: one of the server's by default, which is what
            most readers read.
    """

    name = ""
    offset: int | None = None
    problem = ""

    def __init__(self, name: str, offset: int | None, problem: str, next_step: str = OF_THE_SERVER) -> None:
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
    """Make an error whose attributes come after it, out of a pickle."""
    return kind.__new__(kind)


def sentences(*parts: str) -> str:
    """Join texts as sentences: a full stop at the end of each that another one follows; empty ones are left out."""
    *before, last = [part for part in parts if part] or [""]
    return " ".join(
        [*(part if part.rstrip(_CLOSING).endswith((".", "!", "?", ":")) else f"{part}." for part in before), last]
    )
