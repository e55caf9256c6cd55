"""The checks of a mark.

A check is a function of the mark's manifests and of earlier verdicts. Dagster shows its result, and
the verdict keeps it.
"""

from typing import TYPE_CHECKING

from spark_core.checks.result import NOTHING_LIFTS_IT as NOTHING_LIFTS_IT
from spark_core.checks.result import Check as Check
from spark_core.checks.result import CheckResult
from spark_core.checks.result import Manifests as Manifests
from spark_core.on_demand import on_demand
from spark_core.records.verdict_document import ADVISORY as ADVISORY

if TYPE_CHECKING:
    from spark_core.checks.every_check import CHECKS as CHECKS
    from spark_core.checks.every_check import CONFIRMABLE as CONFIRMABLE
    from spark_core.checks.every_check import check_mark as check_mark
    from spark_core.checks.every_check import check_table as check_table
else:
    __getattr__ = on_demand(__name__, {"every_check": "CHECKS CONFIRMABLE check_mark check_table"})

__all__ = ["CheckResult"]
