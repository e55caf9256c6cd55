"""Each fate in words for people."""

from __future__ import annotations

from collections.abc import Mapping

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
