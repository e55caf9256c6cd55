"""The jobs. Mark, mark and sweep, sweep end with house-keeping if they did their work."""

from __future__ import annotations

import dagster as dg

from lakegc_dagster.assets import ASKED_ASSETS, MARK_ASSETS, SWEEP_ASSETS, UPKEEP_ASSETS

# Each selection includes the checks of its assets. A run has one process and one Spark session.
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

ask_what_if = dg.define_asset_job(
    "ask_what_if",
    selection=dg.AssetSelection.assets(*ASKED_ASSETS),
    description="Ask what other rules would free, by the listing of a mark; changes nothing but "
    "the page of its run.",
    executor_def=dg.in_process_executor,
)

JOBS = [mark, mark_and_sweep, sweep, ask_what_if]
