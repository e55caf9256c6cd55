"""The three jobs: mark, mark and sweep, sweep; each ends with house-keeping if it did its work."""

from __future__ import annotations

import dagster as dg

from lakegc_dagster.assets import MARK_ASSETS, SWEEP_ASSETS, UPKEEP_ASSETS

# Each selection includes the checks of its assets. A run has one process and one Spark session: the
# tables are frames that only Spark's own workers compute.
mark = dg.define_asset_job(
    "mark",
    selection=dg.AssetSelection.assets(*MARK_ASSETS, *UPKEEP_ASSETS),
    description="Find what may go, check the mark and store its verdict; deletes nothing.",
    executor_def=dg.in_process_executor,
)
mark_and_sweep = dg.define_asset_job(
    "mark_and_sweep",
    selection=dg.AssetSelection.assets(*MARK_ASSETS, *SWEEP_ASSETS, *UPKEEP_ASSETS),
    description="Mark, and delete what the mark names if every check passed and the repository's "
    "mode is sweep.",
    executor_def=dg.in_process_executor,
)
sweep = dg.define_asset_job(
    "sweep",
    selection=dg.AssetSelection.assets(*SWEEP_ASSETS, *UPKEEP_ASSETS),
    description="Delete what an earlier mark names; refuses without its passed verdict.",
    executor_def=dg.in_process_executor,
)

JOBS = [mark, mark_and_sweep, sweep]
