"""The figures of each stored table, as its manifest keeps them under `facts`.

Each table has one class, which names every figure, its type and its unit. This package knows
nothing of how a figure is found.
"""

from spark_core.records.figures.base import Figures as Figures
from spark_core.records.figures.base import Groups as Groups
from spark_core.records.figures.commits import DUMP as DUMP
from spark_core.records.figures.commits import EARLIER_DUMP as EARLIER_DUMP
from spark_core.records.figures.commits import WALK as WALK
from spark_core.records.figures.commits import CommitsFigures as CommitsFigures
from spark_core.records.figures.commits import ExpiredMetarangesFigures as ExpiredMetarangesFigures
from spark_core.records.figures.commits import HeadsFigures as HeadsFigures
from spark_core.records.figures.commits import HoldFigures as HoldFigures
from spark_core.records.figures.commits import RulesFigures as RulesFigures
from spark_core.records.figures.committed import CommittedFigures as CommittedFigures
from spark_core.records.figures.committed import ReachedFigures as ReachedFigures
from spark_core.records.figures.committed import TakenFigures as TakenFigures
from spark_core.records.figures.deletion import DeletionFigures as DeletionFigures
from spark_core.records.figures.deletion import QuarantineFigures as QuarantineFigures
from spark_core.records.figures.deletion import SecondLookFigures as SecondLookFigures
from spark_core.records.figures.expired import AmountFigures as AmountFigures
from spark_core.records.figures.expired import AuditFigures as AuditFigures
from spark_core.records.figures.expired import Collects as Collects
from spark_core.records.figures.expired import ComparedFigures as ComparedFigures
from spark_core.records.figures.expired import ExpiredFigures as ExpiredFigures
from spark_core.records.figures.expired import PolicyFigures as PolicyFigures
from spark_core.records.figures.expired import SeenFigures as SeenFigures
from spark_core.records.figures.expired import SumFigures as SumFigures
from spark_core.records.figures.listed import IndexFigures as IndexFigures
from spark_core.records.figures.listed import InventoryFigures as InventoryFigures
from spark_core.records.figures.listed import ListedFigures as ListedFigures
from spark_core.records.figures.listed import PreflightFigures as PreflightFigures
from spark_core.records.figures.policy import NamedFigures as NamedFigures
from spark_core.records.figures.policy import PolicyExpirationsFigures as PolicyExpirationsFigures
from spark_core.records.figures.reference_job import ReferenceFigures as ReferenceFigures
from spark_core.records.figures.reference_job import VerifiedFigures as VerifiedFigures
from spark_core.records.figures.staged import StagedFigures as StagedFigures
from spark_core.records.figures.staged import StagedReadFigures as StagedReadFigures
from spark_core.records.figures.twins import TwinFigures as TwinFigures
