"""Each fate in words for people, and those of one object that time alone keeps."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from spark_core.plain_text import span_text

SENTENCES: Mapping[str, str] = {
    "taken_by_policy": "may go: its retention policy names it",
    "committed": "a retained commit reaches it",
    "staged": "staged on a branch, not yet committed",
    "held": "held by name",
    "unsafe_name": "has a name that is never collected",
    "young": "unreachable, but younger than the cutoff",
    "uploading": "of an upload that may still go on (longest_upload_days)",
    "stranger": 'a name that lakeFS does not give (strangers = "keep")',
    "inherited": 'older than the repository (inherited = "keep")',
    "left_to_others": "unreachable, and left to a run that collects all",
    "not_named": "unreachable, but not named by the mark of the reference job",
    "read_by_branch": "identical content uploaded again: a branch reads from it",
    "may_hide": "may be such a re-upload, and was not checked",
    "expired": "may go",
}
"""By the value of the fate, in the order of `Fate`."""


def written_too_lately(modified: datetime, left_alone: timedelta) -> str:
    """Say of one object what `young` and `uploading` say of all.

    Args:
        modified: When it was written.
        left_alone: Objects younger than this are left alone.

    Examples:
        >>> from datetime import UTC
        >>> written_too_lately(datetime(2026, 11, 20, 2, tzinfo=UTC), timedelta(hours=24))
        'it was written at 2026-11-20 02:00 UTC, and objects younger than 1 day are left alone'
    """
    return f"{_written(modified)}, and objects younger than {span_text(left_alone)} are left alone"


def written_after_inventory(modified: datetime, made_at: object) -> str:
    """Say why an object that is older than the cutoff is `young` for a run with an inventory."""
    return (
        f"{_written(modified)}, about when the inventory of {made_at} was made, or later: "
        "the next one decides"
    )


def _written(modified: datetime) -> str:
    return f"it was written at {modified:%Y-%m-%d %H:%M} UTC"
