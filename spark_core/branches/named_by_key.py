"""Which of two things a key names: a removal of entries, or a mark of stale branches.

Both have keys of the same form and records of their own, and one command takes either back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from spark_core.branches.removal import record
from spark_core.branches.stale import marked
from spark_core.errors import NotFoundError, SettingsError
from spark_core.model import RunKey
from spark_core.run import Run

Named = Literal["entries", "branches"]
_MOST = 5


def named_by_key(run: Run, key: RunKey) -> Named:
    """Say which a key names, by what is on record under it.

    Args:
        run: The repository, opened.
        key: Key of a removal or of a mark of branches.

    Returns:
        `entries` for a removal, `branches` for a mark of branches.

    Raises:
        NotFoundError: If it names neither; some of those there are, are named.
        SettingsError: If it names both, which two commands in one second can do.
    """
    is_removal, is_mark = record.is_there(run, key), marked.is_there(run, key)
    if is_removal and is_mark:
        raise SettingsError(
            f"{key} of {run.repository.id} names both a removal of entries and a mark of branches; "
            "nothing was brought back",
            "Name each branch with --branch to make branches again; give --what-is-there to bring "
            "back entries.",
        )
    if not is_removal and not is_mark:
        raise NotFoundError(
            f"there is no removal and no mark of branches {key} of {run.repository.id}",
            f"There are: removals {_some(record.list_removals(run.store))}; marks "
            f"{_some(marked.keys(run.store))}.",
        )
    return "entries" if is_removal else "branches"


def _some(keys: Sequence[RunKey]) -> str:
    return ", ".join(map(str, keys[:_MOST])) or "none"
