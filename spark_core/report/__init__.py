"""The findings of a mark and the outcomes of a sweep: small plain values, a chart and a page.

This package decides nothing.
"""

from spark_core.report.chart import chart
from spark_core.report.fates import fates_of, total
from spark_core.report.kind import kind_of
from spark_core.report.page import page
from spark_core.report.stored import as_stored, load, make, page_of, save
from spark_core.report.summary import kept_of, of_mark, of_sweep, youngest_first
from spark_core.report.values import (
    Check,
    FailedObject,
    Group,
    Kind,
    Named,
    PolicyTaken,
    ReferenceReport,
    Report,
    Rules,
    Standing,
    bytes_text,
)

__all__ = [
    "Check",
    "FailedObject",
    "Group",
    "Kind",
    "Named",
    "PolicyTaken",
    "ReferenceReport",
    "Report",
    "Rules",
    "Standing",
    "as_stored",
    "bytes_text",
    "chart",
    "fates_of",
    "kept_of",
    "kind_of",
    "load",
    "make",
    "of_mark",
    "of_sweep",
    "page",
    "page_of",
    "save",
    "total",
    "youngest_first",
]
