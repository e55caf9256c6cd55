"""The three jobs: mark, mark and sweep, sweep; each ends with house-keeping, if the run did its work."""

from __future__ import annotations

from typing import Literal

import dagster as dg

from lakegc_dagster.assets import MARK_ASSETS, SWEEP_ASSETS, UPKEEP_ASSETS
from lakegc_dagster.partitions import REPOSITORY_RUN

JobName = Literal["mark", "mark_and_sweep", "sweep"]

# Each selection brings the checks of its assets along.
mark = dg.define_asset_job(
    "mark",
    selection=dg.AssetSelection.assets(*MARK_ASSETS, *UPKEEP_ASSETS),
    partitions_def=REPOSITORY_RUN,
    description="Find what may go, check the mark and store its verdict; deletes nothing.",
)
mark_and_sweep = dg.define_asset_job(
    "mark_and_sweep",
    selection=dg.AssetSelection.assets(*MARK_ASSETS, *SWEEP_ASSETS, *UPKEEP_ASSETS),
    partitions_def=REPOSITORY_RUN,
    description="Mark, and delete what the mark names if every check passed and the repository's mode is sweep.",
)
sweep = dg.define_asset_job(
    "sweep",
    selection=dg.AssetSelection.assets(*SWEEP_ASSETS, *UPKEEP_ASSETS),
    partitions_def=REPOSITORY_RUN,
    description="Delete what an earlier mark names; refuses without its passed verdict.",
)

JOBS = [mark, mark_and_sweep, sweep]
