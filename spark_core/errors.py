"""The one error tree: a class exists because a caller treats it differently.

    LakegcError
    ├── SettingsError            the settings or the environment are wrong; the user edits and tries again
    ├── TransientError           the server or the store did not answer in time; the same call may succeed later
    ├── PermissionDeniedError    401 or 403: credentials or policy
    ├── NotFoundError            404 of the server, or no such object in the store
    ├── ObjectExistsError        a create-if-absent put lost to another writer
    ├── DeletionFailedError      some objects of a sweep were not deleted; the report names them
    ├── LeaseLostError           the lease ran out or another collector has it; nothing more may be deleted under it
    └── RefusedError             doubt: going on could delete a live object, so nothing was deleted
        ├── CorruptTableError    a file is not what lakeFS writes; carries its name and the offset
        ├── AddressError         an address has a form that nobody documented
        ├── IncompleteReadError  a live set could not be read to its end
        ├── RepositoryStateError bare, read-only, deleted, replaced or sharing its namespace
        ├── ChainError           the tables of a run were not made in the order that makes them safe
        ├── ClosedPartitionError the run already has a verdict
        ├── LeaseHeldError       another collector may be at work in the namespace
        │   └── SameWorkError    it does the very same work and ends by itself, or its lease does: trying again may help
        ├── VerdictError         the stored verdict is missing, failed, or does not match the mark
        └── UnsafePlanError      the plan breaks a limit

Every message says: the thing, what was found, what was wanted, the state of
the world, the next step. No message carries a credential.
"""

from __future__ import annotations


class LakegcError(Exception):
    """Root of everything that lakegc raises on purpose."""


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
    """The lease is no longer this process's own; what it deleted before stands, and nothing more may be."""


class RefusedError(LakegcError):
    """Going on could delete a live object; nothing was deleted."""


class CorruptTableError(RefusedError):
    """A table file is broken or has a form that lakeFS does not write.

    Args:
        name: File name or key of the table.
        offset: Byte offset in the file where the reader stood; None when the
            fault belongs to the file as a whole.
        problem: What was found and what was wanted.
    """

    def __init__(self, name: str, offset: int | None, problem: str) -> None:
        self.name = name
        self.offset = offset
        self.problem = problem
        where = name if offset is None else f"{name} at offset {offset}"
        super().__init__(
            f"{where}: {problem}; nothing was deleted. "
            "Compare the file with the server's copy (a broken download is the usual cause) and run again; "
            "a file that is really damaged must be repaired in the store first."
        )

    def __reduce__(self) -> tuple[type[CorruptTableError], tuple[str, int | None, str]]:
        """Pickle by the constructor's arguments, so that the error survives the way from an executor."""
        return (type(self), (self.name, self.offset, self.problem))


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
