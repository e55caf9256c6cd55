"""What the system's errors mean: the project's error, or the answer to a deletion."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from spark_core.errors import (
    IncompleteReadError,
    LakegcError,
    NotFoundError,
    ObjectExistsError,
    PermissionDeniedError,
    TransientError,
)
from spark_core.storage.deletion import KeyAnswer
from spark_core.storage.local.directories import LinkError

# A busy mount; asked again it may succeed.
_PASSING = (errno.EAGAIN, errno.EBUSY, errno.ETIMEDOUT, errno.EINTR)
_NOT_A_FILE_THERE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


@contextmanager
def telling(action: str, key: str, root: str) -> Iterator[None]:
    """Turn the system's errors into the project's, with the key and the root in the text.

    Args:
        action: What is done.
        key: With which object.
        root: The namespace, with its folder on this machine.
    """
    try:
        yield
    except LinkError as error:
        raise IncompleteReadError(
            f"{action} {key!r} of {root}: {error.filename!r} on the way is a symbolic "
            "link, which is not followed",
            "Replace it by what it points to.",
        ) from error
    except _NOT_A_FILE_THERE as error:
        raise NotFoundError(
            f"{action} {key!r}: {root} has no such object. Look whether it was moved."
        ) from error
    except FileExistsError as error:
        raise ObjectExistsError(
            f"{action} {key!r}: {root} has such an object already; it was left as it is. "
            "Another writer was first."
        ) from error
    except OSError as error:
        if is_refusal(error):
            raise PermissionDeniedError(
                f"{action} {key!r} of {root}: the system refuses ({error.strerror})",
                "Mount it so that it can be written to, or correct local_path."
                if error.errno == errno.EROFS
                else f"Give this user the permission to {action} there, for files and their "
                "directories.",
            ) from error
        raise TransientError(
            f"{action} {key!r} of {root}: the system could not ({error.strerror})",
            "Look at the disk or the mount and run again.",
        ) from error


def deletion_answer(error: OSError | LakegcError) -> KeyAnswer:
    """Say what became of a file whose deletion ended with an error."""
    if isinstance(error, LinkError):
        return KeyAnswer("refused", f"{error.filename!r} is a symbolic link")
    if isinstance(error, IsADirectoryError):
        return KeyAnswer("refused", "it is a directory or no plain file")
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return KeyAnswer("already_gone")
    if isinstance(error, OSError):
        return KeyAnswer(
            "refused" if is_refusal(error) else "failed",
            error.strerror,
            passing=error.errno in _PASSING,
        )
    return KeyAnswer("failed" if isinstance(error, TransientError) else "refused", error.found)


def is_refusal(error: OSError) -> bool:
    """Say whether the system does not allow it."""
    return isinstance(error, PermissionError) or error.errno == errno.EROFS
