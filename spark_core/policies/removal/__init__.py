"""Remove what rules with `effect: remove` name: by commits, so that it can be undone.

Nothing is deleted from the store here. What no branch shows any more is for the collection, after
the days of the rules.
"""

from spark_core.policies.removal.record import AS_WANTED, Outcome, known
from spark_core.policies.removal.remove import Named, Removal, look_at, newest, remove
from spark_core.policies.removal.rules import RemovalRule, removal_rules
from spark_core.policies.removal.undo import Reverted, undo

__all__ = [
    "AS_WANTED",
    "Named",
    "Outcome",
    "Removal",
    "RemovalRule",
    "Reverted",
    "known",
    "look_at",
    "newest",
    "removal_rules",
    "remove",
    "undo",
]
