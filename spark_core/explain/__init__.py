"""Explains: why an object is kept, may go or is gone, and what other rules would let go.

It reads the stored tables of a run and lakeFS's own. It must not decide, and changes nothing.
"""

from spark_core.explain.address_or_path import address_of as address_of
from spark_core.explain.explanation import Explanation
from spark_core.explain.explanation import Reason as Reason
from spark_core.explain.explanation import instant_in_words as instant_in_words
from spark_core.explain.last_commits import LastCommit as LastCommit
from spark_core.explain.last_commits import last_commits as last_commits
from spark_core.explain.paths_let_go import addresses_of_path as addresses_of_path
from spark_core.explain.paths_let_go import deleted_addresses as deleted_addresses
from spark_core.explain.paths_let_go import let_go_under as let_go_under
from spark_core.explain.paths_let_go import not_on_record as not_on_record
from spark_core.explain.store_what_if import keep_answer as keep_answer
from spark_core.explain.under_folder import FolderExplanation as FolderExplanation
from spark_core.explain.under_folder import explain_folder as explain_folder
from spark_core.explain.under_folder import is_folder as is_folder
from spark_core.explain.unnamed_tables import TablesReport as TablesReport
from spark_core.explain.unnamed_tables import unnamed_tables as unnamed_tables
from spark_core.explain.what_if import DAYS as DAYS
from spark_core.explain.what_if import what_if
from spark_core.explain.what_if.answer import WhatIf
from spark_core.explain.why import explain
from spark_core.explain.why import explain_each as explain_each

__all__ = ["Explanation", "WhatIf", "explain", "what_if"]
