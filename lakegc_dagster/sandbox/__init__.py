"""The embedded lakeFS-compatible server: one process on local files, for a first look, tests and benchmarks."""

from lakegc_dagster.sandbox.clock import SandboxClock
from lakegc_dagster.sandbox.server import Sandbox

__all__ = ["Sandbox", "SandboxClock"]
