"""The parent of Spark's Python workers on this machine: what all tasks import is imported once, before any worker exists.

Spark's own parent imports nothing: each worker then takes a second and more
for the same libraries, in memory of its own, and collects garbage among all
their objects after each task. Workers forked here have everything, and what is
frozen is left out of that collection.
"""

import gc
import sys
from contextlib import redirect_stdout, suppress
from importlib import import_module

from pyspark.daemon import manager

# Where tasks enter the engine, and what Spark itself imports for a task on Arrow batches.
ENTRANCES = (
    "pyspark.worker",
    "pandas",
    "spark_core.mark",
    "spark_core.sweep",
    "spark_core.upkeep.purge",
    "spark_core.undo.restore",
)


def import_ahead() -> None:
    """Import what tasks need, and load the compiled loops."""
    gc.disable()
    # Whatever fails here fails again in the task that needs it, which can say so.
    with suppress(Exception):
        for module in ENTRANCES:
            import_module(module)
        for module in ("spark_core.graveler", "spark_core.addresses.address_hashes"):
            import_module(module).warm_up()
    gc.collect()
    gc.freeze()
    gc.enable()


if __name__ == "__main__":
    # Standard output is where Spark reads the port from.
    with redirect_stdout(sys.stderr):
        import_ahead()
    manager()
