"""Holds: what people keep from ever being collected, by name, whatever the rules say.

This package knows nothing of what a mark or a sweep does.
"""

from spark_core.holds.change import add, remove
from spark_core.holds.hold import NONE, OF_COMMITS, Hold, Holds, Kind, load

__all__ = ["NONE", "OF_COMMITS", "Hold", "Holds", "Kind", "add", "load", "remove"]
