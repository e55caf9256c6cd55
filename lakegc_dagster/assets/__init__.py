"""The assets: six tables, the verdict between the last two, what a policy names, and house-keeping.

Each asset calls one function of the engine.
"""

from lakegc_dagster.assets.declaration import Asset
from lakegc_dagster.assets.mark import (
    committed_addresses,
    expired_addresses,
    namespace_slices,
    retained_commits,
    uncommitted_addresses,
    verdict,
)
from lakegc_dagster.assets.policies import policy_expirations
from lakegc_dagster.assets.sweep import deletion_report
from lakegc_dagster.assets.upkeep import house_keeping
from lakegc_dagster.assets.what_if import what_if

MARK_ASSETS = [
    namespace_slices,
    uncommitted_addresses,
    retained_commits,
    committed_addresses,
    policy_expirations,
    expired_addresses,
    verdict,
]
SWEEP_ASSETS = [deletion_report]
UPKEEP_ASSETS = [house_keeping]
# Made when a person asks.
ASKED_ASSETS = [what_if]
ALL_ASSETS = [*MARK_ASSETS, *SWEEP_ASSETS, *UPKEEP_ASSETS, *ASKED_ASSETS]

__all__ = [
    "ALL_ASSETS",
    "ASKED_ASSETS",
    "MARK_ASSETS",
    "SWEEP_ASSETS",
    "UPKEEP_ASSETS",
    "Asset",
    "committed_addresses",
    "deletion_report",
    "expired_addresses",
    "house_keeping",
    "namespace_slices",
    "policy_expirations",
    "retained_commits",
    "uncommitted_addresses",
    "verdict",
    "what_if",
]
