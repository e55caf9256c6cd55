"""The checks of a mark: pure functions of its manifests, shown by Dagster and kept in the verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from spark_core import chain
from spark_core.errors import ChainError
from spark_core.run import Run
from spark_core.tables import Manifest

Manifests = Mapping[str, Manifest]


@dataclass(frozen=True)
class CheckResult:
    """What one check says.

    Attributes:
        name: Name of the check.
        table: Table that the check sits on.
        passed: Whether the mark may be swept as far as this check sees.
        summary: One sentence for people: what was found, what was wanted, what to do.
        figures: The numbers and names behind it; JSON values only.
    """

    name: str
    table: str
    passed: bool
    summary: str
    figures: Mapping[str, Any]


Check = Callable[[Run, Manifests], CheckResult]


def listing_lies_in_one_repository(run: Run, manifests: Manifests) -> CheckResult:
    """No other repository's tables lie below `data/` (safety 31)."""
    nested = manifests["namespace_slices"].facts.get("nested_objects", 0)
    return CheckResult(
        "listing_lies_in_one_repository",
        "namespace_slices",
        nested == 0,
        "no repository was made inside data/"
        if nested == 0
        else f"{nested} objects below data/ belong to a repository made inside {run.repository.storage_namespace}; "
        "nothing was deleted. Move that repository out of data/ before this one is collected.",
        {"nested_objects": nested},
    )


def uncommitted_was_read_whole(run: Run, manifests: Manifests) -> CheckResult:  # noqa: ARG001 - all checks look alike
    """Every page that claimed rows left a file, and every file was read (safety 1)."""
    facts = manifests["uncommitted_addresses"].facts
    passed = facts["files"] >= facts["pages_with_data"] and facts["pages"] >= 1
    return CheckResult(
        "uncommitted_was_read_whole",
        "uncommitted_addresses",
        passed,
        f"{facts['pages']} pages, {facts['pages_with_data']} with data, {facts['files']} files read"
        + ("" if passed else "; a page claimed rows that are in no file, so nothing was deleted. Run again."),
        {name: facts[name] for name in ("pages", "pages_with_data", "files", "from_diffs")},
    )


def commits_are_known(run: Run, manifests: Manifests) -> CheckResult:  # noqa: ARG001 - all checks look alike
    """There are commits, and both readings speak of the same ones (safety 3, 17, 21)."""
    manifest = manifests["retained_commits"]
    unknown = manifest.facts["unknown_to_dump"]
    passed = manifest.rows > 0 and not unknown
    if manifest.rows == 0:
        summary = (
            "no commit is retained, so every object would look unreachable; nothing was deleted. Run again in a minute."
        )
    elif unknown:
        summary = (
            f"the server retains {len(unknown)} commits that its own dump does not know ({unknown[0][:12]}...); "
            "nothing was deleted. Run again; if it stays, report it with this run's manifest."
        )
    else:
        summary = f"{manifest.rows} of {manifest.facts['commits']} commits keep their objects"
        if manifest.facts.get("refs_read_by") == "walk":
            summary += (
                f"; refs read by: walk, {manifest.facts['unknown_to_walk']} more are known from the server's list only"
            )
    return CheckResult(
        "commits_are_known",
        manifest.table,
        passed,
        summary,
        {
            "retained": manifest.rows,
            "retained_by_server": manifest.facts["retained_by_server"],
            "commits": manifest.facts["commits"],
            "unknown_to_dump": unknown[:20],
            "refs_read_by": manifest.facts.get("refs_read_by", "dump"),
            "unknown_to_walk": manifest.facts.get("unknown_to_walk", 0),
            "rules_without_branch": manifest.facts["rules_without_branch"],
        },
    )


def ranges_were_read_whole(run: Run, manifests: Manifests) -> CheckResult:  # noqa: ARG001 - all checks look alike
    """Every metarange and every range of every retained commit was read, entry by entry (safety 5)."""
    facts = manifests["committed_addresses"].facts
    # A retried Spark task counts twice, so more than wanted is no fault; each file's own count was compared when read.
    passed = (
        facts["metaranges_read"] >= facts.get("metaranges", 0)
        and facts["ranges_read"] >= facts["ranges"]
        and facts["entries_read"] >= facts["entries"]
    )
    return CheckResult(
        "ranges_were_read_whole",
        "committed_addresses",
        passed,
        f"{facts.get('metaranges', 0)} metaranges, {facts['ranges']} ranges with {facts['entries']} entries"
        + (
            ""
            if passed
            else f", of which only {facts['metaranges_read']}, {facts['ranges_read']} and {facts['entries_read']} were read; "
            "nothing was deleted. Run again."
        ),
        {
            "metaranges": facts.get("metaranges", 0),
            **{name: facts[name] for name in ("metaranges_read", "ranges", "ranges_read", "entries", "entries_read")},
        },
    )


def tables_were_made_in_order(run: Run, manifests: Manifests) -> CheckResult:
    """Listing, staged, commits, committed: one after the other, each from the one before (safety 6, 27)."""
    expired = manifests["expired_addresses"]
    try:
        chain.require_unbroken(run, [manifest for name, manifest in manifests.items() if name != expired.table])
        stale = [name for name, digest in expired.parents.items() if manifests[name].sha256 != digest]
        problem = (
            f"expired_addresses was made from another attempt of {', '.join(stale)}; nothing was deleted. Materialize it again."
            if stale
            else ""
        )
    except ChainError as refusal:
        problem = str(refusal)
    return CheckResult(
        "tables_were_made_in_order",
        expired.table,
        not problem,
        problem or "the chain of tables is unbroken",
        {"manifests": {name: manifest.sha256 for name, manifest in manifests.items()}},
    )


def only_old_data_expires(run: Run, manifests: Manifests) -> CheckResult:
    """Nothing outside `data/`, nothing at or after the cutoff (safety 6, 7)."""
    facts = manifests["expired_addresses"].facts
    elsewhere, young = facts.get("not_collectable", 0), facts.get("too_young", 0)
    cutoff = manifests["namespace_slices"].facts["cutoff"]
    passed = elsewhere == 0 and young == 0 and cutoff == run.cutoff.isoformat()
    return CheckResult(
        "only_old_data_expires",
        "expired_addresses",
        passed,
        f"all lie under data/ and were written before {cutoff}"
        if passed
        else f"{elsewhere} lie outside data/, {young} were written at or after {cutoff} (this run's cutoff is "
        f"{run.cutoff.isoformat()}); nothing was deleted. Report it with this run's manifest.",
        {"not_collectable": elsewhere, "too_young": young, "cutoff": cutoff},
    )


def live_objects_are_listed(run: Run, manifests: Manifests) -> CheckResult:
    """What heads and staged entries reach is in the listing, but for a few that are lost or never existed (safety 5)."""
    listed = manifests["namespace_slices"].facts.get("objects", 0)
    facts = manifests["expired_addresses"].facts
    live, missing = facts["live_objects"], facts["missing_objects"]
    retained = manifests["committed_addresses"].facts.get("in_data", 0)
    share = missing / live if live else 0.0
    limit = run.options.max_missing_share
    empty = listed == 0 and (live > 0 or retained > 0)
    too_many = live >= run.options.share_from_objects and share > limit
    if empty:
        summary = (
            f"the listing of {run.store.root}data/ is empty, although {max(live, retained)} retained or staged addresses "
            "lie in it: this is not the place where the objects are; nothing was deleted. Check the store's settings "
            "(path, bucket, endpoint) with a look at one object's physical address."
        )
    elif too_many:
        summary = (
            f"{missing} of {live} objects that branches reach are not in the listing ({share:.1%}, limit {limit:.1%}), "
            f"for example {facts['missing_named'][0]}; nothing was deleted. Look for them; if they are lost for good, "
            "raise max_missing_share."
        )
    else:
        summary = f"{live - missing} of {live} objects that branches reach are in the listing"
    return CheckResult(
        "live_objects_are_listed",
        "expired_addresses",
        not (empty or too_many),
        summary,
        {
            "listed": listed,
            "live": live,
            "missing": missing,
            "missing_share": share,
            "max_missing_share": limit,
            "missing_named": facts["missing_named"],
        },
    )


def expired_share_is_plausible(run: Run, manifests: Manifests) -> CheckResult:
    """Not more than the limit's share of the objects, nor of the bytes, would go."""
    listing, expired = manifests["namespace_slices"].facts, manifests["expired_addresses"].facts
    objects, size = expired.get("expired_objects", 0), expired.get("expired_bytes", 0)
    listed, listed_bytes = listing.get("objects", 0), listing.get("object_bytes", 0)
    share = objects / listed if listed else 0.0
    bytes_share = size / listed_bytes if listed_bytes else 0.0
    limit = run.options.max_expired_share
    passed = listed < run.options.share_from_objects or max(share, bytes_share) <= limit
    return CheckResult(
        "expired_share_is_plausible",
        "expired_addresses",
        passed,
        f"{objects} of {listed} objects ({share:.1%}) and {bytes_share:.1%} of the bytes would go"
        + (
            ""
            if passed
            else f", above the limit of {limit:.1%}; nothing was deleted. Read the report; if it is right, raise "
            "max_expired_share and mark under a new run key."
        ),
        {
            "expired_objects": objects,
            "expired_bytes": size,
            "expired_share": share,
            "expired_bytes_share": bytes_share,
            "max_expired_share": limit,
        },
    )


CHECKS: tuple[tuple[str, str, Check], ...] = tuple(
    (check.__name__, table, check)
    for table, check in (
        ("namespace_slices", listing_lies_in_one_repository),
        ("uncommitted_addresses", uncommitted_was_read_whole),
        ("retained_commits", commits_are_known),
        ("committed_addresses", ranges_were_read_whole),
        ("expired_addresses", tables_were_made_in_order),
        ("expired_addresses", only_old_data_expires),
        ("expired_addresses", live_objects_are_listed),
        ("expired_addresses", expired_share_is_plausible),
    )
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
