"""The embedded lakeFS-compatible server: one process on local files, for demos and tests.

This package knows nothing of Dagster, Spark or how a collection decides.
"""

from lakegc_dagster.sandbox.clock import SandboxClock
from lakegc_dagster.sandbox.server import Sandbox

__all__ = ["Sandbox", "SandboxClock"]
