"""The jobs. Mark, mark and sweep, sweep end with house-keeping if they did their work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster as dg

from lakegc_dagster.assets import ASKED_ASSETS, MARK_ASSETS, SWEEP_ASSETS, UPKEEP_ASSETS, Asset
from lakegc_dagster.names import Names


def build_jobs(names: Names) -> Mapping[str, Any]:
    """Make the jobs, by their names without a prefix.

    Each selection includes the checks of its assets. A run has one process and one Spark session.
    """

    def job(name: str, description: str, *assets: Asset) -> Any:
        return dg.define_asset_job(
            names.named(name),
            selection=dg.AssetSelection.assets(*[names.key(asset.name) for asset in assets]),
            description=description,
            executor_def=dg.in_process_executor,
        )

    return {
        "mark": job(
            "mark",
            "Find what may go, check the mark and store its verdict; deletes nothing.",
            *MARK_ASSETS,
            *UPKEEP_ASSETS,
        ),
        "mark_and_sweep": job(
            "mark_and_sweep",
            "Mark, and delete what the mark names if every check passed and the repository's mode "
            "is sweep.",
            *MARK_ASSETS,
            *SWEEP_ASSETS,
            *UPKEEP_ASSETS,
        ),
        "sweep": job(
            "sweep",
            "Delete what an earlier mark names; refuses without its passed verdict.",
            *SWEEP_ASSETS,
            *UPKEEP_ASSETS,
        ),
        "ask_what_if": job(
            "ask_what_if",
            "Ask what other rules would free, by the listing of a mark; changes nothing but the "
            "page of its run.",
            *ASKED_ASSETS,
        ),
    }
