"""The parent of the Python workers of sessions that tests share: what all of them import is imported once.

Spark's own parent imports nothing, and its children collect garbage after each task: most of a tiny task's time, with so
many modules. What is frozen is left out of that.
"""

import gc
from importlib import import_module

from pyspark.daemon import manager

if __name__ == "__main__":
    for module in ("pandas", "spark_core.collect"):
        import_module(module)
    gc.freeze()
    manager()
