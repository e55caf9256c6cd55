"""Turn what the operating system, YAML and Dagster raise into errors of the one tree.

What else is no error of lakegc is a mistake in it, and its traceback is shown.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spark_core.errors import LakegcError, SettingsError
from spark_core.json_and_toml import NamedTwiceError
from spark_core.phases import add_state, state_of

_NEXT_STEPS = {
    errno.ENOENT: "Correct the name, or make its folder first.",
    errno.ENOTDIR: "Correct the name: a part of it is a file where a folder is needed.",
    errno.EACCES: "Give this user the right to it, or name another place.",
    errno.EPERM: "Give this user the right to it, or name another place.",
    errno.EROFS: "Name a place on a file system that may be written to.",
    errno.ENOSPC: "Make room there, and run the same command again.",
    errno.EDQUOT: "Make room there, and run the same command again.",
}
_LOOK = "Look at the disk or the mount, and run the same command again."
_SHOWN = 300


def in_a_sentence(error: Exception) -> LakegcError | None:
    """Return a foreign error as one of lakegc; None for what is neither the system's nor YAML's.

    A pipe that its reader closed is left to whoever writes to it.
    """
    import yaml

    made: LakegcError
    if isinstance(error, OSError) and error.errno and not isinstance(error, BrokenPipeError):
        made = _of_the_system(error)
    elif isinstance(error, yaml.YAMLError):
        made = SettingsError(f"a file is not YAML ({_one_line(error)})", "Correct it.")
    else:
        return None
    return _with_state(made, error)


@contextmanager
def in_dagsters_home(home: Path) -> Iterator[None]:
    """Say of an error of Dagster's home, its settings or its database, which one it is of.

    Args:
        home: The home.

    Raises:
        SettingsError: If `dagster.yaml` cannot be used.
        LakegcError: If the database cannot be read or written.
    """
    import dagster as dg
    import yaml
    from dagster_shared.check import CheckError
    from sqlalchemy.exc import SQLAlchemyError

    unusable = (yaml.YAMLError, UnicodeDecodeError, NamedTwiceError, CheckError, dg.DagsterError)
    try:
        yield
    except SQLAlchemyError as error:
        what = LakegcError(
            f"Dagster's database in {home} cannot be used ({_one_line(_cause(error))})",
            "Look at the room and the rights of its disk. Move a damaged file away: Dagster then "
            "begins a new history, and what runs stored in the repositories stays.",
        )
        raise _with_state(what, error) from error
    except unusable as error:
        wrong = SettingsError(
            f"{home / 'dagster.yaml'} cannot be used ({_one_line(error)})",
            "Correct it, or move it away: the next run writes one anew.",
        )
        raise _with_state(wrong, error) from error


def _of_the_system(error: OSError) -> LakegcError:
    what = "what is read or written" if error.filename is None else str(error.filename)
    return LakegcError(
        f"{what} cannot be used ({error.strerror})", _NEXT_STEPS.get(error.errno or 0, _LOOK)
    )


def _cause(error: Any) -> Exception:
    """Return what the database itself said of a statement."""
    found: Exception = getattr(error, "orig", None) or error
    return found


def _with_state(made: LakegcError, error: Exception) -> LakegcError:
    state = state_of(error)
    return made if state is None else add_state(made, state)


def _one_line(error: Exception) -> str:
    words = " ".join(str(error).split())
    return words if len(words) <= _SHOWN else f"{words[:_SHOWN]} (cut)"
