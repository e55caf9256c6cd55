"""The checks of a mark.

A check is a function of the mark's manifests and of earlier verdicts. Dagster shows its result, and
the verdict keeps it.
"""

from __future__ import annotations

from spark_core.checks.alive import commits_are_known as commits_are_known
from spark_core.checks.alive import uncommitted_was_read_whole as uncommitted_was_read_whole
from spark_core.checks.audit import optimized_runs_were_right as optimized_runs_were_right
from spark_core.checks.committed_tables import heads_are_readable as heads_are_readable
from spark_core.checks.committed_tables import ranges_were_read_whole as ranges_were_read_whole
from spark_core.checks.committed_tables import zero_ranges_are_proved as zero_ranges_are_proved
from spark_core.checks.expired import expired_share_is_plausible as expired_share_is_plausible
from spark_core.checks.expired import hidden_entries_were_asked as hidden_entries_were_asked
from spark_core.checks.expired import mark_is_recent as mark_is_recent
from spark_core.checks.expired import only_data_expires as only_data_expires
from spark_core.checks.expired import only_old_objects_expire as only_old_objects_expire
from spark_core.checks.expired import plan_is_a_selection_of_fates as plan_is_a_selection_of_fates
from spark_core.checks.expired import tables_were_made_in_order as tables_were_made_in_order
from spark_core.checks.last_runs_compared import (
    nothing_changed_suddenly as nothing_changed_suddenly,
)
from spark_core.checks.live_objects import live_objects_are_listed as live_objects_are_listed
from spark_core.checks.namespace_and_clocks import clocks_agree as clocks_agree
from spark_core.checks.namespace_and_clocks import (
    listing_lies_in_one_repository as listing_lies_in_one_repository,
)
from spark_core.checks.namespace_and_clocks import namespace_is_its_own as namespace_is_its_own
from spark_core.checks.result import NOTHING_LIFTS_IT as NOTHING_LIFTS_IT
from spark_core.checks.result import Check as Check
from spark_core.checks.result import CheckResult
from spark_core.checks.result import Manifests as Manifests
from spark_core.records.verdict_document import ADVISORY as ADVISORY
from spark_core.run import Run

__all__ = ["CheckResult"]

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
