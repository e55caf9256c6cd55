"""The resources of assets: Spark session, stores' credentials, and the open run of a partition.

This package knows nothing of single assets, and no command.
"""

from lakegc_dagster.resources.runs import Runs as Runs
from lakegc_dagster.resources.runs import build_resources as build_resources
from lakegc_dagster.resources.spark import SparkResource as SparkResource
from lakegc_dagster.resources.wiring import Wiring as Wiring
