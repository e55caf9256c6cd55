"""What a reader must know about how a mark was made, before its figures are believed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from spark_core.report.values import bytes_text

NAMED_HOLDS = 10


_BY_SETTING = {
    "strangers": 'have names that lakeFS does not give; they may be somebody else\'s. `strangers = "collect"` considers them '
    "as well",
    "inherited": "are older than the repository: they were in the bucket before it, or belong to refs that are not restored "
    'yet. `inherited = "collect"` considers them as well',
    "longest_upload_days": "were left beside the address of an upload in parts, which may still go on. They are considered "
    "once they are older than `longest_upload_days`",
}


def cautions(
    asked: Mapping[str, Any], commits: Mapping[str, Any], expired: Mapping[str, Any] | None = None
) -> tuple[str, ...]:
    """Say what was unusual about a mark; empty for an ordinary one.

    Args:
        asked: Facts of `namespace_slices`, where the preflight's are kept.
        commits: Facts of `retained_commits`.
        expired: Facts of `expired_addresses`. Each may be of a mark that an earlier lakegc made, without the facts that
            are looked for here.

    Returns:
        Sentences without their full stop.
    """
    found = []
    if asked.get("unsafe_min_age"):
        considered, grace = (timedelta(seconds=asked[name]) for name in ("min_age_seconds", "grace_period_seconds"))
        found.append(
            f"allow_unsafe_min_age is on: objects from an age of {considered} on were considered, although the server lets "
            f"an upload wait {grace} for its reference, so what is still being uploaded may be among what may go"
        )
    if commits.get("refs_read_by") == "walk":
        found.append(
            "refs read by: walk, because the user may not make a refs dump, or the server has none. Of commits that no branch or tag leads to, "
            f"those that the server's own list retains keep their objects ({commits['unknown_to_walk']} of them), without the "
            "clock margin that lakegc adds elsewhere"
        )
    if held := commits.get("holds"):
        names = ", ".join(hold["name"] for hold in held[:NAMED_HOLDS])
        more = f" and {len(held) - NAMED_HOLDS} more" if len(held) > NAMED_HOLDS else ""
        found.append(f"holds keep objects whatever the rules say: {names}{more} (`lakegc hold list` shows them)")
    if unsafe := asked.get("unsafe_name_objects"):
        found.append(
            f"{unsafe} objects ({bytes_text(asked['unsafe_name_bytes'])}) have names that some client would take for another "
            "object's (empty, `.` or `..` segments, control characters and the like), so they stay, whether anything reaches "
            "them or not. Look at them with the store's own tools"
        )
    for setting, figures in (expired or {}).get("kept_by_setting", {}).items():
        if objects := figures["objects"]:
            found.append(
                f"{objects} objects ({bytes_text(figures['bytes'])}) that nothing refers to are kept: they {_BY_SETTING[setting]}"
            )
    return tuple(found)
