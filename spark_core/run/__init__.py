"""One run over one repository, and what must hold before any of it is read.

This package knows nothing of what a mark or a sweep does.
"""

from spark_core.run.options_and_defaults import RunOptions
from spark_core.run.run import (
    Environment,
    Run,
    Storage,
    known_endpoint,
    open_run,
    preflight,
    require_alone,
    require_past,
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
    "require_past",
]
