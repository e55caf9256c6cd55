"""Holds: what people keep from ever being collected, by name, whatever the rules say.

This package knows nothing of what a mark or a sweep does.
"""

from spark_core.holds.add_and_remove import add, remove
from spark_core.holds.hold import NONE as NONE
from spark_core.holds.hold import OF_COMMITS as OF_COMMITS
from spark_core.holds.hold import Hold, Holds, load
from spark_core.holds.hold import Kind as Kind

__all__ = ["Hold", "Holds", "add", "load", "remove"]
