"""The figures of each stored table, as its manifest keeps them under `facts`.

Each table has one class, which names every figure, its type and its unit. This package knows
nothing of how a figure is found.
"""

from spark_core.records.figures.base import Figures, Groups
from spark_core.records.figures.commits import (
    DUMP,
    EARLIER_DUMP,
    WALK,
    CommitsFigures,
    ExpiredMetarangesFigures,
    HeadsFigures,
    HoldFigures,
    RulesFigures,
)
from spark_core.records.figures.committed import CommittedFigures, ReachedFigures, TakenFigures
from spark_core.records.figures.deletion import (
    DeletionFigures,
    QuarantineFigures,
    SecondLookFigures,
)
from spark_core.records.figures.expired import (
    AmountFigures,
    AuditFigures,
    Collects,
    ComparedFigures,
    ExpiredFigures,
    PolicyFigures,
    SeenFigures,
    SumFigures,
)
from spark_core.records.figures.listed import (
    IndexFigures,
    InventoryFigures,
    ListedFigures,
    PreflightFigures,
)
from spark_core.records.figures.policy import NamedFigures, PolicyExpirationsFigures
from spark_core.records.figures.reference_job import ReferenceFigures, VerifiedFigures
from spark_core.records.figures.staged import StagedFigures, StagedReadFigures
from spark_core.records.figures.twins import TwinFigures

__all__ = [
    "DUMP",
    "EARLIER_DUMP",
    "WALK",
    "AmountFigures",
    "AuditFigures",
    "Collects",
    "CommitsFigures",
    "CommittedFigures",
    "ComparedFigures",
    "DeletionFigures",
    "ExpiredFigures",
    "ExpiredMetarangesFigures",
    "Figures",
    "Groups",
    "HeadsFigures",
    "HoldFigures",
    "IndexFigures",
    "InventoryFigures",
    "ListedFigures",
    "NamedFigures",
    "PolicyExpirationsFigures",
    "PolicyFigures",
    "PreflightFigures",
    "QuarantineFigures",
    "ReachedFigures",
    "ReferenceFigures",
    "RulesFigures",
    "SecondLookFigures",
    "SeenFigures",
    "StagedFigures",
    "StagedReadFigures",
    "SumFigures",
    "TakenFigures",
    "TwinFigures",
    "VerifiedFigures",
]
