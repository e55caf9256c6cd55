"""The parent of Spark's Python workers on this machine; it imports once what all tasks import.

Spark's own parent imports nothing. Each worker then takes a second and more for the same libraries,
in memory of its own, and collects garbage among all their objects after each task: 29 % more of
the CPU of a mark of 5 million objects (docs/performance.md). Workers forked here have everything.
Frozen objects are left out of the collection of garbage.
"""

import gc
import sys
from contextlib import redirect_stdout, suppress
from importlib import import_module
from runpy import run_module

# The modules where tasks enter the engine, and those Spark imports for a task on Arrow batches.
ENTRANCES = (
    "pyspark.worker",
    "pandas",
    "spark_core.mark",
    "spark_core.sweep",
    "spark_core.upkeep.purge_quarantine",
    "spark_core.undo.restore",
)


def import_ahead() -> None:
    """Import the modules that tasks need, and load the compiled loops."""
    gc.disable()
    # An import that fails here fails again in the task that needs it, which can report it.
    with suppress(Exception):
        for module in ENTRANCES:
            import_module(module)
        import_module("spark_core.compile_loops").compile_loops()
    gc.collect()
    gc.freeze()
    gc.enable()


if __name__ == "__main__":
    # Spark reads the port from standard output.
    with redirect_stdout(sys.stderr):
        import_ahead()
    # The name that `spark.python.daemon.module` has by itself.
    run_module("pyspark.daemon", run_name="__main__")
