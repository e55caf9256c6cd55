"""What a collection of a searched repository must leave and take, and the comparison with what it did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tests.support import live_oracle
from tests.support.sandbox_repository import SandboxRepository

GONE = {"deleted", "already_gone"}


@dataclass(frozen=True)
class Options:
    """The options of a run that decide what may go, and those that only a guard asks for.

    Attributes:
        margin_hours: How much more generous than the rules the run is.
        tags_protect: Tags keep the commits they name.
        twin_calls: Calls that looking for twins may take; what is not reached is kept.
        page_rows: Rows of a page of the server's scan of staged entries; None: one page.
    """

    margin_hours: int = 1
    tags_protect: bool = True
    twin_calls: int = 1_000
    page_rows: int | None = None

    @property
    def of_run(self) -> dict[str, Any]:
        """As `RunOptions` takes them."""
        return {
            "clock_margin": timedelta(hours=self.margin_hours),
            "tags_protect": self.tags_protect,
            "twin_calls": self.twin_calls,
        }


def reachable(repository: SandboxRepository, now: datetime, options: Options) -> set[str]:
    """Return every address that a branch, a staged entry, a tag or a retained commit shows at `now`, in or out of the store."""
    default, days = repository.days()
    kept = live_oracle.retained(
        repository,
        default,
        days,
        tags_protect=options.tags_protect,
        now=now - timedelta(hours=options.margin_hours),
    )
    return live_oracle.alive(repository, live_oracle.refs_of(repository, kept))


def young(repository: SandboxRepository, objects: Mapping[str, bytes], cutoff: datetime) -> set[str]:
    """Return the objects that no collection of that cutoff may consider."""
    return {address for address in objects if repository.born(address) >= cutoff}


def require_plan(
    repository: SandboxRepository,
    plan: set[str],
    *,
    alive: set[str],
    objects: Mapping[str, bytes],
    cutoff: datetime,
    twins: Any,
) -> None:
    """Compare the plan of a mark during which nothing else happened: all that is dead, and nothing more.

    Args:
        repository: Whose objects.
        plan: Addresses that the mark lets go.
        alive: Addresses that `reachable` gave for the mark's instant.
        objects: What lay in the store.
        cutoff: The mark's.
        twins: The facts of the search for twins: what could not be checked is kept, counted and named.
    """
    dead = set(objects) - alive - young(repository, objects, cutoff)
    assert plan <= dead, f"the plan lets go what is alive or young: {sorted(plan - dead)}"
    left = sorted(dead - plan)
    assert len(left) == twins["unchecked_objects"], f"dead, and neither let go nor named as kept: {left}"
    assert left[: len(twins["unchecked_named"])] == twins["unchecked_named"], left


def require_swept(
    before: Mapping[str, bytes],
    after: Mapping[str, bytes],
    plan: set[str],
    outcomes: Mapping[str, str],
    *,
    must_stay: set[str],
    may_stay: set[str],
) -> None:
    """Compare what a sweep did with what it had to do and had to leave.

    Args:
        before: What lay in the store.
        after: What lies there now.
        plan: What the mark let go.
        outcomes: The report: address -> outcome.
        must_stay: Addresses that something refers to at the time of the sweep.
        may_stay: Addresses that the sweep may keep, and then names.
    """
    lost = {address for address in must_stay & set(before) if after.get(address) != before[address]}
    assert not lost, f"lost, or changed: {sorted(lost)}"
    assert all(after.get(address) == before[address] for address in set(before) - plan), "gone, and in no plan"
    assert set(outcomes) == plan, f"the report is not about the plan: {sorted(set(outcomes) ^ plan)}"
    stayed = plan & set(after)
    assert stayed == {address for address, outcome in outcomes.items() if outcome == "kept"}, "the report is wrong"
    assert stayed <= may_stay, f"dead, and not gone: {sorted(stayed - may_stay)}"
    assert set(after) == set(before) - (plan - stayed)
    for address, outcome in outcomes.items():
        wanted = "kept" if address in stayed else "deleted" if address in before else "already_gone"
        assert outcome == wanted, f"{address}: {outcome}, wanted {wanted}"
