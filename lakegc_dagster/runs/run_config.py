"""What a person may ask of one run, as config of the assets that it concerns.

The launchpad offers it, and the run keeps it.
"""

from collections.abc import Collection, Mapping
from typing import Any

import dagster as dg
from pydantic import Field

from lakegc_dagster.names import OWN, Names
from spark_core.records.tables import DELETION_REPORT, EXPIRED_ADDRESSES, NAMESPACE_SLICES

VERDICT = "verdict"
HOUSE_KEEPING = "house_keeping"
# The sensor that starts runs for a person.
REQUESTED_RUNS = "requested_runs"

# The assets that take each option as config.
_ASKED_OF = {
    "full": (NAMESPACE_SLICES.name,),
    "reference_mark": (NAMESPACE_SLICES.name, EXPIRED_ADDRESSES.name, DELETION_REPORT.name),
    "take_over": (DELETION_REPORT.name, HOUSE_KEEPING),
}


class MarkConfig(dg.Config):
    """Config of the tables that begin and end a mark; both must be given the same."""

    reference_mark: str | None = Field(
        default=None,
        description="Id of a mark of lakeFS's own job to verify: only what it names and this run "
        "finds expired may go. "
        "namespace_slices and expired_addresses must be given the same one.",
    )

    def arguments(self) -> dict[str, Any]:
        """Return what is asked, as arguments of a run."""
        return dict(self.model_dump())


class ListingConfig(MarkConfig):
    """Config of the table that begins a mark, and decides what the mark reads."""

    full: bool = Field(
        default=False,
        description="Read everything, although the settings allow an optimized run.",
    )


class LeaseConfig(dg.Config):
    """Config of what deletes under the lease."""

    take_over: str | None = Field(
        default=None,
        description="Run key of the dead run whose lease may be taken over; refused while it may "
        "still be alive.",
    )

    def arguments(self) -> dict[str, Any]:
        """Return what is asked, as arguments of a run."""
        return dict(self.model_dump())


class SweepConfig(MarkConfig, LeaseConfig):
    """Config of the sweep."""


class LaunchedConfig(ListingConfig, LeaseConfig):
    """Config of a run that works elsewhere, which is one step."""


def ops_config(
    assets: Collection[str], asked: Mapping[str, str | bool | None], names: Names = OWN
) -> dict[str, Any]:
    """Return the `ops` of a run config that asks the same of each asset that takes it.

    Args:
        assets: Names of the assets of the job.
        asked: Option -> value; None or False where nothing is asked.
        names: Those of the collector.
    """
    ops: dict[str, Any] = {}
    for option, value in asked.items():
        for name in _ASKED_OF[option]:
            if value not in (None, False) and name in assets:
                ops.setdefault(names.op(name), {"config": {}})["config"][option] = value
    return ops
