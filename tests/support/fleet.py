"""Repositories that have stood for a while, without a store behind them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from spark_core.prices import Price
from spark_core.report.fleet import FleetRow
from spark_core.report.past_run import PastRun
from spark_core.report.status_of_runs import status_of

NOW = datetime(2026, 11, 20, 8, tzinfo=UTC)
GB = 10**9


def past_run(ago: int, *, size: int = 100 * GB, gone: int = GB, **words: object) -> PastRun:
    """Return a run of some nights ago that was swept, unless `words` say otherwise."""
    at = NOW - timedelta(days=ago, hours=6)
    found = {
        "state": "swept",
        "began": at,
        "concluded_at": at + timedelta(minutes=5),
        "swept_at": at + timedelta(minutes=9),
        "expired_objects": gone // 10**6,
        "expired_bytes": gone,
        "collects": "all",
        "fates": {"committed": (size // 10**6, size), "expired": (gone // 10**6, gone)},
        "outcomes": {"deleted": (gone // 10**6, gone)},
        "kind": "optimized",
    }
    return PastRun(f"{at:%Y-%m-%dT%H-%M-%SZ}", **{**found, **words})


def fleet_row(name: str, runs: list[PastRun], price: float | None = 0.023) -> FleetRow:
    """Return a repository with its runs."""
    status = status_of(
        name,
        runs,
        NOW,
        pause=timedelta(days=1),
        may_sweep=True,
        price=None if price is None else Price(price),
    )
    return FleetRow(status, runs)


def refused_run(ago: int = 0) -> PastRun:
    """Return a mark that its own checks refuse, and a person may confirm."""
    why = {"expired_share_is_plausible": "60.0% of the objects would go, above the limit of 50.0%"}
    return past_run(
        ago, gone=60 * GB, state="refused", swept_at=None, outcomes={}, refused=why,
        confirmable=tuple(why),
    )  # fmt: skip
