"""Decide which commits a repository's retention rules retain, why, and until when.

This package is pure: it takes the commit graph and the rules, and returns values.
`spark_core.lakefs` and `spark_core.graveler` read them.
"""

from spark_core.retention.retained import (
    Expiry,
    Retention,
    decide,
    require_whole,
    retained_commits,
)
from spark_core.retention.sole_keepers import DEFAULT_RULE, sole_keepers
from spark_core.retention.union import (
    COMPACTED,
    SERVER_ONLY,
    compacted_in,
    merge,
    unknown_commits,
    with_compacted,
    with_holds,
)

__all__ = [
    "COMPACTED",
    "DEFAULT_RULE",
    "SERVER_ONLY",
    "Expiry",
    "Retention",
    "compacted_in",
    "decide",
    "merge",
    "require_whole",
    "retained_commits",
    "sole_keepers",
    "unknown_commits",
    "with_compacted",
    "with_holds",
]
