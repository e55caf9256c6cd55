"""Every check of a mark, in the order of its tables, and which of them a person may confirm."""

from __future__ import annotations

from spark_core.checks.alive import commits_are_known, uncommitted_was_read_whole
from spark_core.checks.audit import optimized_runs_were_right
from spark_core.checks.committed_tables import (
    heads_are_readable,
    ranges_were_read_whole,
    zero_ranges_are_proved,
)
from spark_core.checks.expired import (
    expired_share_is_plausible,
    hidden_entries_were_asked,
    mark_is_recent,
    only_data_expires,
    only_old_objects_expire,
    plan_is_a_selection_of_fates,
    tables_were_made_in_order,
)
from spark_core.checks.last_runs_compared import (
    nothing_changed_suddenly,
)
from spark_core.checks.live_objects import live_objects_are_listed
from spark_core.checks.namespace_and_clocks import (
    clocks_agree,
    listing_lies_in_one_repository,
    namespace_is_its_own,
)
from spark_core.checks.result import Check, CheckResult, Manifests
from spark_core.run import Run

CHECKS: tuple[tuple[str, str, Check], ...] = tuple(
    (check.__name__, table, check)
    for table, check in (
        ("namespace_slices", listing_lies_in_one_repository),
        ("namespace_slices", namespace_is_its_own),
        ("namespace_slices", clocks_agree),
        ("uncommitted_addresses", uncommitted_was_read_whole),
        ("retained_commits", commits_are_known),
        ("committed_addresses", heads_are_readable),
        ("committed_addresses", ranges_were_read_whole),
        ("committed_addresses", zero_ranges_are_proved),
        ("expired_addresses", tables_were_made_in_order),
        ("expired_addresses", mark_is_recent),
        ("expired_addresses", plan_is_a_selection_of_fates),
        ("expired_addresses", only_data_expires),
        ("expired_addresses", only_old_objects_expire),
        ("expired_addresses", live_objects_are_listed),
        ("expired_addresses", hidden_entries_were_asked),
        ("expired_addresses", expired_share_is_plausible),
        ("expired_addresses", nothing_changed_suddenly),
        ("expired_addresses", optimized_runs_were_right),
    )
)

# Names of the checks whose findings a person may confirm for one mark: unusual, but right.
CONFIRMABLE = frozenset(
    check.__name__
    for check in (expired_share_is_plausible, nothing_changed_suddenly, optimized_runs_were_right)
)


def check_table(run: Run, table: str, manifests: Manifests) -> list[CheckResult]:
    """Run the checks that sit on one table.

    Args:
        run: The run.
        table: Name of the table.
        manifests: That table's manifest and those of the tables before it, by name.
    """
    return [check(run, manifests) for _, owner, check in CHECKS if owner == table]


def check_mark(run: Run, manifests: Manifests) -> list[CheckResult]:
    """Run every check on a whole mark, the manifests of its five tables by name."""
    return [check(run, manifests) for _, _, check in CHECKS]
