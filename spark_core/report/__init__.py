"""The findings of a mark and the outcomes of a sweep: small plain values, a chart and a page.

This package decides nothing.
"""

from typing import TYPE_CHECKING

from spark_core.on_demand import on_demand
from spark_core.report.chart import chart as chart
from spark_core.report.fate_counts import fates_of as fates_of
from spark_core.report.fate_counts import total as total
from spark_core.report.kind import kind_of as kind_of
from spark_core.report.page import page
from spark_core.report.report import Report
from spark_core.report.values import Check as Check
from spark_core.report.values import FailedObject as FailedObject
from spark_core.report.values import Group as Group
from spark_core.report.values import Kind as Kind
from spark_core.report.values import Named as Named
from spark_core.report.values import PolicyTaken as PolicyTaken
from spark_core.report.values import ReferenceReport as ReferenceReport
from spark_core.report.values import Rules as Rules
from spark_core.report.values import Standing as Standing
from spark_core.report.values import bytes_text as bytes_text

if TYPE_CHECKING:
    from spark_core.report.mark_summary import kept_of as kept_of
    from spark_core.report.mark_summary import of_mark as of_mark
    from spark_core.report.mark_summary import youngest_first as youngest_first
    from spark_core.report.stored import as_stored as as_stored
    from spark_core.report.stored import load
    from spark_core.report.stored import make as make
    from spark_core.report.stored import page_of as page_of
    from spark_core.report.stored import save as save
    from spark_core.report.sweep_summary import of_sweep as of_sweep
else:
    __getattr__ = on_demand(
        __name__,
        {
            "mark_summary": "kept_of of_mark youngest_first",
            "stored": "as_stored load make page_of save",
            "sweep_summary": "of_sweep",
        },
    )


__all__ = ["Report", "load", "page"]
