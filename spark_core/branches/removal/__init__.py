"""Remove what rules with `effect: remove` name: by commits, so that it can be undone.

Nothing is deleted from the store here. What no branch shows any more is for the collection, after
the days of the rules.
"""

from spark_core.branches.removal.record import AS_WANTED as AS_WANTED
from spark_core.branches.removal.record import Outcome as Outcome
from spark_core.branches.removal.record import list_removals as list_removals
from spark_core.branches.removal.removal_rules import RemovalRule as RemovalRule
from spark_core.branches.removal.removal_rules import removal_rules as removal_rules
from spark_core.branches.removal.remove import Named as Named
from spark_core.branches.removal.remove import Removal as Removal
from spark_core.branches.removal.remove import look_at as look_at
from spark_core.branches.removal.remove import newest as newest
from spark_core.branches.removal.remove import remove as remove
from spark_core.branches.removal.undo import Reverted as Reverted
from spark_core.branches.removal.undo import undo as undo
