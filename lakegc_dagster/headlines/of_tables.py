"""What a person asks of each stored table."""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg

from lakegc_dagster import engine
from lakegc_dagster.headlines.words import (
    after_headline,
    amount,
    columns,
    costs,
    groups_table,
    headline,
    kind_words,
    may_go,
    objects_text,
    of_group,
    share,
)
from lakegc_dagster.metadata import Metadata, page_metadata
from spark_core.plain_text import counted, visible
from spark_core.prices import Price
from spark_core.records import tables
from spark_core.records.figures import (
    CommitsFigures,
    CommittedFigures,
    DeletionFigures,
    ExpiredFigures,
    InventoryFigures,
    ListedFigures,
    StagedFigures,
)
from spark_core.records.manifest import Manifest


def of_stored(manifest: Manifest, price: Price | None, page: Mapping[str, str]) -> Metadata:
    """Say of a stored table what a person asks, with the page of its run.

    Args:
        manifest: The table's manifest.
        price: As for `of_table`.
        page: As `local_path.page_to_open` gives it.
    """
    return after_headline(of_table(manifest, price), page_metadata(page))


def of_table(manifest: Manifest, price: Price | None = None) -> Metadata:
    """Say of a stored table what a person asks.

    Args:
        manifest: Its manifest.
        price: What a GB costs in a month; None to leave money out.
    """
    made = _BY_TABLE[manifest.table]
    return made(manifest, price)


def _of_listing(manifest: Manifest, _price: Price | None) -> Metadata:
    listed = ListedFigures.of(manifest)
    old = objects_text(listed.old_objects, listed.old_bytes)
    found: Metadata = {
        "headline": headline(
            f"**{objects_text(listed.objects, listed.object_bytes)}**",
            "lie under `data/`.",
            f"{old} are old enough.",
            *kind_words(engine.report.kind_of(manifest)),
            *_inventory_words(listed.inventory),
        ),
        **amount("listed", listed.objects, listed.object_bytes),
    }
    if listed.index is not None:
        found["slices_not_listed"] = dg.MetadataValue.int(listed.index.slices)
        found["objects_taken"] = dg.MetadataValue.int(listed.index.objects)
        found["index_of_run"] = dg.MetadataValue.text(listed.index.run)
    return found


def _inventory_words(inventory: InventoryFigures | None) -> list[str]:
    if inventory is None:
        return []
    old = f"; **{inventory.old_words}**" if inventory.old_words else ""
    return [f"They were read from the inventory of {inventory.created_at}{old}."]


def _staged(manifest: Manifest, _price: Price | None) -> Metadata:
    staged = StagedFigures.of(manifest).staged_in_data
    return {
        "headline": headline(f"**{staged:,} staged entries** keep their objects."),
        "staged_entries": dg.MetadataValue.int(staged),
    }


def _committed(manifest: Manifest, _price: Price | None) -> Metadata:
    figures = CommittedFigures.of(manifest)
    taken = figures.taken
    if taken.ranges:
        # Which of their addresses are the same is known once they are compared.
        return {
            "headline": headline(
                f"**{taken.entries:,} entries of {counted(taken.ranges, 'range')}**",
                "were taken from the index.",
                f"{counted(figures.ranges_read, 'range')} were read.",
            ),
            "ranges_not_read": dg.MetadataValue.int(taken.ranges),
            "entries_taken": dg.MetadataValue.int(taken.entries),
        }
    return {
        "headline": headline(
            f"**{figures.in_data:,} addresses** under `data/`",
            "are in a retained commit.",
            f"{figures.ranges_read:,} ranges were read for them.",
        ),
        "reached_addresses": dg.MetadataValue.int(figures.in_data),
    }


def _expired(manifest: Manifest, price: Price | None) -> Metadata:
    figures = ExpiredFigures.of(manifest)
    fates = engine.report.fates_of(figures)
    objects, size = engine.report.total(fates.values())
    return {
        "headline": headline(
            *may_go(figures.expired_objects, figures.expired_bytes, objects, size),
            *costs(figures.expired_bytes, _mean(price, figures)),
            "The verdict decides.",
        ),
        **amount("that_may_go", figures.expired_objects, figures.expired_bytes),
        **share(figures.expired_bytes, size),
        **groups_table("by_reason", figures.by_reason),
        **groups_table("by_age", engine.report.youngest_first(figures.by_age), most_first=False),
        **(groups_table("by_storage_class", figures.by_class) if figures.by_class else {}),
        **groups_table("kept", map(of_group, engine.report.kept_of(fates))),
    }


def _mean(price: Price | None, figures: ExpiredFigures) -> Price | None:
    """Return what a GB of the objects that may go costs on the average."""
    return price and price.over(figures.bytes_by_class, figures.expired_bytes)


def _deleted(manifest: Manifest, price: Price | None) -> Metadata:
    figures = vars(DeletionFigures.of(manifest))
    outcomes = [
        (name, figures[f"{name}_objects"] or 0, figures[f"{name}_bytes"])
        for name in ("deleted", "already_gone", "kept", "refused", "failed")
    ]
    _, objects, size = outcomes[0]
    if price is not None:
        price = price.over(figures["planned_by_class"] or {}, figures["planned_bytes"] or 0)
    return {
        "headline": headline(
            f"**{objects_text(objects, size)} deleted**",
            f"of {figures['planned_objects']:,} that may go.",
            *costs(size, price),
        ),
        **amount("deleted", objects, size),
        **groups_table("by_outcome", outcomes),
    }


def _commits(manifest: Manifest, _price: Price | None) -> Metadata:
    figures = CommitsFigures.of(manifest)
    rules, retained = figures.rules, manifest.rows - (figures.compacted or 0)
    words = (
        "The repository has no retention rules, so every commit keeps its objects."
        if rules is None
        else f"A branch keeps {rules.default_retention_days} days unless it has a rule of its own."
    )
    found: Metadata = {
        "headline": headline(
            f"**{retained:,} of {figures.commits:,} commits** keep their objects.", words
        ),
        "commits_that_keep": dg.MetadataValue.int(retained),
    }
    if rules is not None and rules.branches:
        records = [
            dg.TableRecord({"branch": visible(branch), "days": days})
            for branch, days in sorted(rules.branches.items())[:100]
        ]
        found["rules_of_branches"] = dg.MetadataValue.table(
            records, columns(("branch", "string"), ("days", "int"))
        )
    return found


_BY_TABLE = {
    tables.NAMESPACE_SLICES.name: _of_listing,
    tables.UNCOMMITTED_ADDRESSES.name: _staged,
    tables.RETAINED_COMMITS.name: _commits,
    tables.COMMITTED_ADDRESSES.name: _committed,
    tables.EXPIRED_ADDRESSES.name: _expired,
    tables.DELETION_REPORT.name: _deleted,
}
