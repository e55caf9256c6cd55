"""What a reader must know about how a mark was made, before its figures are believed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from spark_core.fates import Fate
from spark_core.plain_text import counted
from spark_core.records.figures import (
    CommitsFigures,
    DeletionFigures,
    ExpiredFigures,
    ListedFigures,
)
from spark_core.report.fate_counts import fates_of
from spark_core.report.values import bytes_text

NAMED_HOLDS = 10

_BY_SETTING = {
    Fate.STRANGER: "have names that lakeFS does not give; they may be somebody else's. `strangers "
    '= "collect"` considers them as well',
    Fate.INHERITED: "are older than the repository: they were in the bucket before it, or belong "
    'to refs that are not restored yet. `inherited = "collect"` considers them as well',
    Fate.UPLOADING: "were left beside the address of an upload in parts, which may still go on. "
    "They are considered once they are older than `longest_upload_days`",
}

_ICEBERG = (
    "Iceberg's own `expire_snapshots` and `remove_orphan_files` (where a table has `gc.enabled = "
    "false`, as tables of lakeFS Enterprise's catalog do, only what its vendor gives for it)"
)
_DELTA = "Delta's own `VACUUM`"


def cautions(
    asked: ListedFigures, commits: CommitsFigures, expired: ExpiredFigures
) -> tuple[str, ...]:
    """Say what was unusual about a mark; empty for an ordinary one.

    Args:
        asked: Figures of `namespace_slices`.
        commits: Figures of `retained_commits`.
        expired: Figures of `expired_addresses`.

    Returns:
        Sentences without their full stop.
    """
    return (
        *_of_what_was_asked(asked, expired),
        *_of_the_references(commits),
        *_of_unsafe_names(asked),
        *_of_the_store(expired),
        *_of_kept_by_setting(asked, expired),
    )


def busy_store(swept: DeletionFigures) -> tuple[str, ...]:
    """Say that a store was too busy for a sweep; a sentence without its full stop, or nothing.

    Args:
        swept: Figures of `deletion_report`.
    """
    takes = swept.store_keys_per_second
    if not swept.store_was_busy or takes is None:
        return ()
    busy = counted(swept.store_was_busy, "time")
    said = (
        f"the store was busy {busy} during the deletion, which went slower then: it takes about "
        f"{takes:,} objects a second, and the next sweep begins a little below that"
    )
    return (said,)


def _of_what_was_asked(asked: ListedFigures, expired: ExpiredFigures) -> Iterator[str]:
    """Say which settings made the mark consider more, or less, than a mark usually does."""
    if asked.unsafe_min_age:
        considered = timedelta(seconds=asked.min_age_seconds)
        grace = timedelta(seconds=asked.grace_period_seconds)
        yield (
            f"allow_unsafe_min_age is on: objects from an age of {considered} on were considered, "
            f"although the server lets an upload wait {grace} for its reference, so what is still "
            "being uploaded may be among what may go"
        )
    if expired.collects == "policies":
        yield (
            "only what the retention policy names was considered: what nothing reaches is left to "
            "a run that collects all, and this run is no mark of the collection"
        )
    if inventory := asked.inventory:
        old = f"; {inventory.old_words}" if inventory.old_words else ""
        yield (
            f"the objects were read from the inventory {inventory.manifest} of "
            f"{inventory.created_at}, and not from the store{old}"
        )


def _of_the_references(commits: CommitsFigures) -> Iterator[str]:
    """Say what keeps commits and objects otherwise than the rules alone would."""
    if commits.refs_read_by == "walk":
        yield (
            "refs read by: walk, because the user may not make a refs dump, or the server has "
            "none. A commit that no branch or tag leads to keeps its objects only if the server's "
            f"own list retains it ({commits.unknown_to_walk} do so), without the clock margin "
            "that lakegc adds elsewhere"
        )
    if held := commits.holds:
        names = ", ".join(hold.name for hold in held[:NAMED_HOLDS])
        more = f" and {len(held) - NAMED_HOLDS} more" if len(held) > NAMED_HOLDS else ""
        yield (
            f"holds keep objects whatever the rules say: {names}{more} (`lakegc hold list` shows "
            "them)"
        )


def _of_unsafe_names(asked: ListedFigures) -> Iterator[str]:
    if unsafe := asked.unsafe_name_objects:
        yield (
            f"{unsafe} objects ({bytes_text(asked.unsafe_name_bytes)}) have names that some "
            "client would take for another object's (empty, `.` or `..` segments, control "
            "characters and the like), so they stay, whether anything reaches them or not. Look "
            "at them with the store's own tools"
        )


def _of_kept_by_setting(asked: ListedFigures, expired: ExpiredFigures) -> Iterator[str]:
    """Say what nothing refers to and a setting keeps."""
    for fate, (objects, size_bytes) in fates_of(expired).items():
        if fate in _BY_SETTING:
            yield (
                f"{objects} objects ({bytes_text(size_bytes)}) that nothing refers to are "
                f"kept: they {_BY_SETTING[Fate(fate)]}"
            )
            if fate == Fate.STRANGER:
                yield from _tables_past_lakefs(asked)


def _tables_past_lakefs(asked: ListedFigures) -> Iterator[str]:
    """Say which formats the strangers are of that their names tell, and what collects those."""
    for name, objects, size_bytes, by in (
        ("Iceberg", asked.iceberg_objects, asked.iceberg_bytes, _ICEBERG),
        ("Delta", asked.delta_objects, asked.delta_bytes, _DELTA),
    ):
        if objects:
            yield (
                f"{counted(objects, 'file')} ({bytes_text(size_bytes or 0)}) of those that lakeFS "
                f"did not name are metadata of {name} tables, which were written past lakeFS; "
                f"their data lies beside them. What the tables need no more, {by} collects, and "
                "lakegc does not know it"
            )


def _of_the_store(expired: ExpiredFigures) -> Iterator[str]:
    """Say what may be otherwise in the store than the figures of what may go have it."""
    if expired.seen is not None and (unseen := expired.seen.unseen_objects):
        yield (
            f"{counted(unseen, 'object')} of those that may go were taken from the index and not "
            "looked at in the store, as that would have cost too much: some may be gone, or have "
            "been written over. A sweep looks at each before its request"
        )
    if again := expired.deleted_before:
        yield (
            f"{counted(again.objects, 'object')} ({bytes_text(again.bytes)}) of those that may go "
            "were reported deleted by an earlier sweep and are still there, so the store says that "
            "it deletes and does not, or somebody brought them back. Totals of what was reclaimed "
            "count them once. Look at the bucket's settings (versions, locks, replication)"
        )
