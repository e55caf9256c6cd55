"""Which commits a repository's garbage-collection rules retain, why, and until when.

Pure: takes the commit graph and the rules, returns values. Reading either is
the business of `spark_core.lakefs` and `spark_core.graveler`.
"""

from spark_core.retention.retained import Retention, require_whole, retained_commits
from spark_core.retention.union import SERVER_ONLY, merge, unknown_commits, with_holds

__all__ = ["SERVER_ONLY", "Retention", "merge", "require_whole", "retained_commits", "unknown_commits", "with_holds"]
