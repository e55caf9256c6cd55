"""The rooms of the engine that do the work of runs, each imported when it is first used.

Dagster loads the code location in every one of its processes, and most of them never make a table.
What Dagster shows of tables and checks needs none of these modules.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_core import checks_of_stored_tables, closed_runs, explain, lakefs, report, sweep
    from spark_core import mark_and_sweep as collect
    from spark_core.checks import verdict
    from spark_core.references.policies import expirations
    from spark_core.upkeep import house_keeping

__all__ = [
    "checks_of_stored_tables",
    "closed_runs",
    "collect",
    "expirations",
    "explain",
    "house_keeping",
    "lakefs",
    "report",
    "sweep",
    "verdict",
]

_ROOMS = {
    "collect": "spark_core.mark_and_sweep",
    "expirations": "spark_core.references.policies.expirations",
    "house_keeping": "spark_core.upkeep.house_keeping",
    "verdict": "spark_core.checks.verdict",
}


def __getattr__(name: str) -> Any:
    """Import a module.

    Raises:
        AttributeError: If it is none of the modules above.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(_ROOMS.get(name, f"spark_core.{name}"))
