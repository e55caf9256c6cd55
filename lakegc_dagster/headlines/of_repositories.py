"""How each repository stands, and what other rules would free in one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import dagster as dg

from lakegc_dagster.headlines.words import columns, costs, escaped, headline, sentence
from lakegc_dagster.metadata import Metadata
from spark_core.plain_text import bytes_text, visible
from spark_core.prices import Price

if TYPE_CHECKING:
    from spark_core.report.status import RepositoryStatus
    from spark_core.report.what_if import WhatIfCurve

_STATUS = columns(
    ("repository", "string"),
    ("overdue", "string"),
    ("waits", "string"),
    ("reclaimed in 30 days", "string"),
    ("last good mark", "string"),
    ("last sweep", "string"),
)


def of_repositories(statuses: Sequence[RepositoryStatus]) -> Metadata:
    """Say of all repositories how each stands; the figures of each have its name, to be plotted.

    Args:
        statuses: One for each repository.
    """
    waiting = [one for one in statuses if one.most_waiting[0]]
    late = [one.repository for one in statuses if one.overdue]
    reclaimed = _lately(
        sum(one.reclaimed_lately[1] for one in statuses),
        is_whole=all(one.lately_is_whole for one in statuses),
    )
    waits = bytes_text(sum(one.most_waiting[1] for one in waiting))
    words = [
        f"**{reclaimed} reclaimed in 30 days**",
        f"in {len(statuses)} repositor{'y' if len(statuses) == 1 else 'ies'}.",
        f"{waits} wait in {len(waiting)} of them." if waiting else "Nothing waits.",
        f"Overdue: {', '.join(map(escaped, late))}." if late else "Nothing is overdue.",
    ]
    plots: Metadata = {}
    for one in statuses:
        plots[f"{one.repository}: bytes waiting"] = dg.MetadataValue.int(one.most_waiting[1])
        lately = one.reclaimed_lately[1]
        plots[f"{one.repository}: bytes reclaimed in 30 days"] = dg.MetadataValue.int(lately)
    return {
        "headline": headline(*words),
        "repositories": dg.MetadataValue.table([_status(one) for one in statuses], _STATUS),
        "repositories_overdue": dg.MetadataValue.int(len(late)),
        **plots,
    }


def _status(one: RepositoryStatus) -> dg.TableRecord:
    waits = "; ".join(
        f"{bytes_text(kind.waiting[1])}: {kind.waits_for}" for kind in one.kinds if kind.waits_for
    )
    none = "none" if one.only_newest is None else f"none of the newest {one.only_newest}"
    return dg.TableRecord(
        {
            "repository": one.repository,
            "last good mark": _last_mark(one) or none,
            "last sweep": one.last_sweep or none,
            "reclaimed in 30 days": _lately(one.reclaimed_lately[1], is_whole=one.lately_is_whole),
            "waits": visible(waits),
            "overdue": visible(one.problem or one.overdue),
        }
    )


def _last_mark(one: RepositoryStatus) -> str:
    kind = f" ({one.last_mark_kind})" if one.last_mark_kind else ""
    return f"{one.last_mark}{kind}" if one.last_mark else ""


def _lately(size: int, *, is_whole: bool) -> str:
    return bytes_text(size) if is_whole else f"at least {bytes_text(size)}"


def of_what_if(curve: WhatIfCurve, price: Price | None = None) -> Metadata:
    """Say what other rules would free.

    Args:
        curve: The answer.
        price: As above.
    """
    today, *later = curve.now
    soon = [sentence(f"{one.name.partition(', ')[2]}: {one}") for one in later]
    records = [
        dg.TableRecord(
            {"objects": one.objects, "bytes": bytes_text(one.size_bytes), "if": one.name}
        )
        for one in (*curve.free, *curve.now)
    ]
    schema = columns(("objects", "int"), ("bytes", "string"), ("if", "string"))
    return {
        "headline": headline(
            f"Under the rules of now: **{today}**.",
            *costs(today.size_bytes, price),
            *soon,
            "Each is an upper bound.",
        ),
        "what_if": dg.MetadataValue.table(records, schema),
        **{
            f"bytes_if_kept_{days}_days": dg.MetadataValue.int(one.size_bytes)
            for days, one in zip(curve.days, curve.free, strict=True)
        },
    }
