"""One run over one repository, and what must hold before anything of it is read.

Knows nothing of what a mark or a sweep does.
"""

from spark_core.run.run import (
    Environment,
    Run,
    RunOptions,
    Storage,
    known_endpoint,
    open_run,
    preflight,
    require_alone,
)

__all__ = [
    "Environment",
    "Run",
    "RunOptions",
    "Storage",
    "known_endpoint",
    "open_run",
    "preflight",
    "require_alone",
]
