"""One run over one repository, and what must hold before any of it is read.

This package knows nothing of what a mark or a sweep does.
"""

from typing import TYPE_CHECKING

from spark_core.on_demand import on_demand

if TYPE_CHECKING:
    from spark_core.run.environment import Environment
    from spark_core.run.environment import Storage as Storage
    from spark_core.run.environment import known_endpoint as known_endpoint
    from spark_core.run.opening import open_run
    from spark_core.run.opening import require_past as require_past
    from spark_core.run.options_and_defaults import RunOptions
    from spark_core.run.run import Run
    from spark_core.run.run_preflight import preflight as preflight
    from spark_core.run.run_preflight import require_alone as require_alone
else:
    __getattr__ = on_demand(
        __name__,
        {
            "environment": "Environment Storage known_endpoint",
            "opening": "open_run require_past",
            "options_and_defaults": "RunOptions",
            "run": "Run",
            "run_preflight": "preflight require_alone",
        },
    )


__all__ = ["Environment", "Run", "RunOptions", "open_run"]
