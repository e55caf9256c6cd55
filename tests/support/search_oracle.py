"""What a collection of a searched repository must leave and take, and the comparison with what it
did.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tests.support import live_oracle
from tests.support.sandbox_repository import SandboxRepository

GONE = {"deleted", "already_gone"}
# How a sweep names what it keeps for want of calls.
UNASKED = "may be the twin of an entry"


@dataclass(frozen=True)
class Options:
    """The options of a run that decide what may go, and those that only a guard asks for.

    Attributes:
        margin_hours: How much more generous than the rules the run is.
        tags_protect: Tags keep the commits they name.
        keep_last: Commits of each branch that stay whatever their age.
        twin_calls: Calls that looking for twins may take; what is not reached is kept.
        page_rows: Rows of a page of the server's scan of staged entries; None: one page.
        ask_all: Every branch is asked about everything that may hide, whatever the times.
        longest_upload_hours: How much older than its staging an object may be.
    """

    margin_hours: int = 1
    tags_protect: bool = True
    keep_last: int = 0
    twin_calls: int = 1_000
    page_rows: int | None = None
    ask_all: bool = False
    longest_upload_hours: int = 7 * 24

    @property
    def of_run(self) -> dict[str, Any]:
        """As `RunOptions` takes them."""
        return {
            "clock_margin": timedelta(hours=self.margin_hours),
            "tags_protect": self.tags_protect,
            "keep_last": self.keep_last,
            "twin_calls": self.twin_calls,
            "hidden_entries": "ask_all" if self.ask_all else "by_time",
            "longest_upload": timedelta(hours=self.longest_upload_hours),
        }


@dataclass
class Held:
    """What people keep by name; each hold's own name leads to what it keeps.

    Attributes:
        addresses: An address, or a prefix of addresses that ends in a slash.
        commits: A commit.
        tags: A tag, and the commit that it named when the hold was made.
        branches: A branch, and its head when the hold was made.
    """

    addresses: dict[str, str] = field(default_factory=dict)
    commits: dict[str, str] = field(default_factory=dict)
    tags: dict[str, tuple[str, str]] = field(default_factory=dict)
    branches: dict[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """Names of all holds."""
        return [*self.addresses, *self.commits, *self.tags, *self.branches]

    def forget(self, name: str) -> None:
        """Take a hold away."""
        for kind in (self.addresses, self.commits, self.tags, self.branches):
            kind.pop(name, None)

    def held_commits(self, repository: SandboxRepository) -> set[str]:
        """Return the commits that keep their objects: of a branch all that it reaches, now and when
        it was held.
        """
        heads, tagged = repository.branches(), repository.tags()
        kept = set(self.commits.values())
        for tag, commit in self.tags.values():
            kept |= {commit, tagged.get(tag, commit)}
        reached: set[str] = set()
        left = [
            at for branch, head in self.branches.values() for at in (head, heads.get(branch, head))
        ]
        while left:
            commit = left.pop()
            if commit not in reached:
                reached.add(commit)
                left += repository.commits[commit]["parents"]
        return kept | reached

    def held_addresses(self, addresses: Iterable[str]) -> set[str]:
        """Return those of some addresses that are held themselves."""
        return {
            address
            for address in addresses
            if any(
                address == held or (held.endswith("/") and address.startswith(held))
                for held in self.addresses.values()
            )
        }


def reachable(
    repository: SandboxRepository, now: datetime, options: Options, held: Held | None = None
) -> set[str]:
    """Return every address that a branch, a staged entry, a tag, a hold or a retained commit shows
    at `now`, or a branch has compacted, in or out of the store.
    """
    held = held or Held()
    kept = retained_commits(repository, now, options, held)
    shown = live_oracle.alive(repository, live_oracle.refs_of(repository, kept))
    return shown | held.held_addresses(repository.contents) | repository.under_branches()


def retained_commits(
    repository: SandboxRepository, now: datetime, options: Options, held: Held | None = None
) -> set[str]:
    """Return the commits that keep their objects at `now`: by rules, refs and holds."""
    default, days = repository.days()
    kept = live_oracle.retained(
        repository,
        default,
        days,
        tags_protect=options.tags_protect,
        keep_last=options.keep_last,
        now=now - timedelta(hours=options.margin_hours),
    )
    return kept if held is None else kept | held.held_commits(repository)


def young(
    repository: SandboxRepository, objects: Mapping[str, bytes], cutoff: datetime
) -> set[str]:
    """Return the objects that no collection of that cutoff may consider; those older than the
    repository are among them.
    """
    return {
        address
        for address in objects
        if repository.born(address) >= cutoff or repository.is_older_than_itself(address)
    }


def require_plan(
    repository: SandboxRepository,
    plan: set[str],
    *,
    alive: set[str],
    objects: Mapping[str, bytes],
    cutoff: datetime,
    twins: Any,
) -> None:
    """Compare the plan of a mark during which nothing else happened: all that is dead, and nothing
    more.

    Args:
        repository: Whose objects.
        plan: Addresses that the mark lets go.
        alive: Addresses that `reachable` gave for the mark's instant.
        objects: What lay in the store.
        cutoff: The mark's.
        twins: The facts of the search for twins: what could not be checked is kept, counted and
            named.
    """
    dead = set(objects) - alive - young(repository, objects, cutoff)
    assert plan <= dead, f"the plan lets go what is alive or young: {sorted(plan - dead)}"
    if repository.may_compact:
        # An old commit's metarange looks like one that a branch may have: it may be kept whole.
        return
    left = sorted(dead - plan)
    # What could not be checked may be alive, hidden from all but the branch that answers from it.
    named = [address for address in twins["unchecked_named"] if address not in alive]
    unnamed = twins["unchecked_objects"] - len(twins["unchecked_named"])
    assert len(named) <= len(left) <= len(named) + unnamed, (
        f"dead, and neither let go nor named as kept: {left}"
    )
    assert left[: len(named)] == named, left


def require_swept(
    before: Mapping[str, bytes],
    after: Mapping[str, bytes],
    plan: set[str],
    outcomes: Mapping[str, str],
    *,
    why: Mapping[str, str | None],
    must_stay: set[str],
    may_stay: set[str],
    every_twin_asked: bool,
) -> None:
    """Compare what a sweep did with what it had to do and had to leave.

    Args:
        before: What lay in the store.
        after: What lies there now.
        plan: What the mark let go.
        outcomes: The report: address -> outcome.
        why: What the report says of the cause: address -> words.
        must_stay: Addresses that something refers to at the time of the sweep.
        may_stay: Addresses that something may be said to refer to.
        every_twin_asked: There were calls enough to ask about every possible twin; else one that
            was not asked about stays.
    """
    lost = {address for address in must_stay & set(before) if after.get(address) != before[address]}
    assert not lost, f"lost, or changed: {sorted(lost)}"
    assert all(after.get(address) == before[address] for address in set(before) - plan), (
        "gone, and in no plan"
    )
    assert set(outcomes) == plan, (
        f"the report is not about the plan: {sorted(set(outcomes) ^ plan)}"
    )
    stayed = plan & set(after)
    assert stayed == {address for address, outcome in outcomes.items() if outcome == "kept"}, (
        "the report is wrong"
    )
    unasked = {
        address
        for address in stayed - may_stay
        if not every_twin_asked and UNASKED in str(why[address])
    }
    assert stayed <= may_stay | unasked, (
        f"dead, and not gone: {[(one, why[one]) for one in sorted(stayed - may_stay - unasked)]}"
    )
    assert set(after) == set(before) - (plan - stayed)
    for address, outcome in outcomes.items():
        wanted = "kept" if address in stayed else "deleted" if address in before else "already_gone"
        assert outcome == wanted, f"{address}: {outcome}, wanted {wanted}"
