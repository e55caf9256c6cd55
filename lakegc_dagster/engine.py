"""The rooms of the engine that do the work, each imported when a run first comes to it.

Dagster loads the code location in every one of its processes, most of which
never make a table. What it shows of tables and checks needs none of these.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_core import collect, lakefs, mark, sweep
    from spark_core.checks import verdict
    from spark_core.upkeep import housekeeping

__all__ = ["collect", "housekeeping", "lakefs", "mark", "sweep", "verdict"]

_ROOMS = {"housekeeping": "upkeep.housekeeping", "verdict": "checks.verdict"}


def __getattr__(name: str) -> Any:
    """Import a room.

    Raises:
        AttributeError: If it is none of those above.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"spark_core.{_ROOMS.get(name, name)}")
