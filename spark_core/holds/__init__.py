"""Holds: what people keep from ever being collected, by name, whatever the rules say.

This package knows nothing of what a mark or a sweep does.
"""

from typing import TYPE_CHECKING

from spark_core.holds.hold import NONE as NONE
from spark_core.holds.hold import OF_COMMITS as OF_COMMITS
from spark_core.holds.hold import Hold, Holds, load
from spark_core.holds.hold import Kind as Kind
from spark_core.on_demand import on_demand

if TYPE_CHECKING:
    from spark_core.holds.add_and_remove import add, remove
else:
    __getattr__ = on_demand(
        __name__,
        {
            "add_and_remove": "add remove",
        },
    )


__all__ = ["Hold", "Holds", "add", "load", "remove"]
