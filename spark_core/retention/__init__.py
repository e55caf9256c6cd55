"""Decide which commits a repository's retention rules retain, why, and until when.

This package is pure: it takes the commit graph and the rules, and returns values.
`spark_core.lakefs` and `spark_core.graveler` read them.
"""

from spark_core.retention.graph import require_whole as require_whole
from spark_core.retention.lines_of_parents import Expiry as Expiry
from spark_core.retention.retained import Retention, retained_commits
from spark_core.retention.retained import decide as decide
from spark_core.retention.sole_keepers import DEFAULT_RULE as DEFAULT_RULE
from spark_core.retention.sole_keepers import sole_keepers as sole_keepers
from spark_core.retention.union import COMPACTED as COMPACTED
from spark_core.retention.union import SERVER_ONLY as SERVER_ONLY
from spark_core.retention.union import compacted_in as compacted_in
from spark_core.retention.union import merge as merge
from spark_core.retention.union import unknown_commits as unknown_commits
from spark_core.retention.union import with_compacted as with_compacted
from spark_core.retention.union import with_holds as with_holds

__all__ = ["Retention", "retained_commits"]
