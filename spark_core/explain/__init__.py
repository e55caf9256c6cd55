"""Explains: why an object is kept, may go or is gone, and what other rules would let go.

It reads the stored tables of a run and lakeFS's own. It must not decide, and changes nothing.
"""

from spark_core.explain.address_or_path import (
    address_of,
    addresses_of,
    deleted_addresses,
    let_go_under,
    not_on_record,
)
from spark_core.explain.last_commits import LastCommit, last_commits
from spark_core.explain.store_what_if import keep_answer
from spark_core.explain.under_folder import FolderExplanation, explain_folder, is_folder
from spark_core.explain.unnamed_tables import TablesReport, unnamed_tables
from spark_core.explain.what_if import DAYS, WhatIf, what_if
from spark_core.explain.why import Explanation, Reason, explain, explain_each, instant_in_words

__all__ = [
    "DAYS",
    "Explanation",
    "FolderExplanation",
    "LastCommit",
    "Reason",
    "TablesReport",
    "WhatIf",
    "address_of",
    "addresses_of",
    "deleted_addresses",
    "explain",
    "explain_each",
    "explain_folder",
    "instant_in_words",
    "is_folder",
    "keep_answer",
    "last_commits",
    "let_go_under",
    "not_on_record",
    "unnamed_tables",
    "what_if",
]
