"""A collection of a live repository, and what must hold after it."""

from __future__ import annotations

import time
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from spark_core import lakegc_keys
from spark_core.checks import CheckResult
from spark_core.run import Run
from tests.support import live_oracle
from tests.support.live_repository import LiveRepository
from tests.support.pipeline import Marked, mark_and_conclude, sweep_only


@dataclass(frozen=True)
class Collected:
    """A collection that went through.

    Attributes:
        run: The run.
        marked: Its tables.
        results: What the checks said.
        outcomes: Address -> what the store answered.
    """

    run: Run
    marked: Marked
    results: list[CheckResult]
    outcomes: dict[str, str]

    @property
    def gone(self) -> set[str]:
        return {address for address, outcome in self.outcomes.items() if outcome == "deleted"}

    @property
    def facts(self) -> dict[str, Any]:
        """Facts of `expired_addresses`."""
        return dict(self.marked.expired.manifest.facts)


def open_anew(repository: LiveRepository, spark: Any, **options: Any) -> Run:
    """Open a run that no mark has yet: one can end within the second that its key names."""
    run = repository.server.open_run(spark, repository.name, **options)
    while run.store.exists(lakegc_keys.verdict_key(run.key)):
        time.sleep(0.2)
        run = repository.server.open_run(spark, repository.name, **options)
    return run


def collect(
    repository: LiveRepository, spark: Any, *, settle: bool = True, **options: Any
) -> Collected:
    """Mark and sweep; everything that was written so far is old."""
    if settle:
        repository.settle()
    run = open_anew(repository, spark, **options)
    marked, verdict, results = mark_and_conclude(run)
    assert verdict.passed, [result for result in results if not result.passed]
    return Collected(run, marked, results, sweep_only(run))


def require_exactly_the_dead_gone(
    repository: LiveRepository,
    spark: Any,
    default: int | None = None,
    rules: dict[str, int] | None = None,
    *,
    gone_before: AbstractSet[str] = frozenset(),
    **options: Any,
) -> Collected:
    """Collect, and compare what is left and what it holds with the oracle.

    Args:
        repository: Whose garbage.
        spark: The session.
        default: Days of branches without a rule; None without any rules.
        rules: Days by branch.
        gone_before: What an earlier collection took: whoever goes back to a commit that had expired
            meets it again.
        **options: Of `RunOptions`, and `endpoint` and `server` of `LiveServer.open_run`.
    """
    kept_commits = live_oracle.retained(repository, default, rules or {})
    refs = live_oracle.refs_of(repository, kept_commits)
    alive, before = live_oracle.alive(repository, refs), repository.data()
    done = collect(repository, spark, **options)
    after = repository.data()
    # Nothing is lost ...
    assert before & alive <= after, sorted(before & alive - after)
    assert repository.require_readable(refs, but=gone_before) >= len(alive - gone_before)
    # ... nothing dead stays, and the report says what the store did.
    assert after == before & alive, sorted(after - alive)
    assert done.outcomes == dict.fromkeys(before - alive, "deleted")
    twins = done.facts["twins"]
    assert twins["unchecked_named"] == [], "what a guard keeps would have to be counted as kept"
    return done
