"""What a person asks of each asset, as its first metadata: a headline, figures, tables, the page.

The engine's own counters stand below them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from lakegc_dagster import engine
from lakegc_dagster.metadata import Metadata, above, counters_metadata, page_metadata
from spark_core.plain_text import Price, bytes_text, counted, money_text, visible
from spark_core.records import tables
from spark_core.records.figures import (
    CommitsFigures,
    CommittedFigures,
    DeletionFigures,
    ExpiredFigures,
    Groups,
    InventoryFigures,
    ListedFigures,
    StagedFigures,
)
from spark_core.records.manifest import Manifest

if TYPE_CHECKING:
    from spark_core.checks import CheckResult
    from spark_core.model import RunKey
    from spark_core.report import Group, Kind, Report
    from spark_core.report.status import RepositoryStatus
    from spark_core.report.what_if import WhatIfCurve

# What the asset of a repository shows of its newest run, beside the headlines.
_OF_A_RUN = (
    "page", "objects_that_may_go", "bytes_that_may_go", "share_of_bytes", "objects_deleted",
    "bytes_deleted",
)  # fmt: skip
# What Markdown would take for its own.
_MARKDOWN = str.maketrans({sign: f"\\{sign}" for sign in "\\`*_{}[]()<>#+-!|~"})
# Characters of a value that a window of 1,280 pixels shows beside its key and time; the table
# scrolls for the rest.
_WIDTH = 33


def of_stored(manifest: Manifest, price: Price | None, page: Mapping[str, str]) -> Metadata:
    """Say of a stored table what a person asks, with the page of its run.

    Args:
        manifest: The table's manifest.
        price: As for `of_table`.
        page: As `local_path.page_to_open` gives it.
    """
    return _after_headline(of_table(manifest, price), page_metadata(page))


def of_verdict(report: Report | None, price: Price | None, page: Mapping[str, str]) -> Metadata:
    """Say of a mark that ended what a person asks.

    Args:
        report: Its report; None if there is none.
        price: As for `of_table`.
        page: As `local_path.page_to_open` gives it.
    """
    shown = page_metadata(page)
    return shown if report is None else _after_headline(of_mark(report, price), shown)


def of_house_keeping(words: str) -> Metadata:
    """Say what house-keeping did, each thing on a line."""
    return {"headline": _words(*map(_sentence, words.split("; ")))}


def of_a_run(key: RunKey, verdict: Metadata, report: Metadata) -> Metadata:
    """Say of a run that did its work what its repository is asked for.

    Args:
        key: Its run key.
        verdict: What its verdict says; empty if it made none.
        report: What its sweep says; empty if it swept nothing.
    """
    said = [str(each["headline"].value) for each in (report, verdict) if "headline" in each]
    shown = {
        name: value
        for each in (verdict, report)
        for name, value in each.items()
        if name in _OF_A_RUN
    }
    return {
        "headline": dg.MetadataValue.md("  \n".join(said)),
        "run": dg.MetadataValue.text(str(key)),
        **shown,
    }


def of_not_swept(why: str) -> Metadata:
    """Say why a sweep was not begun."""
    return {"headline": _words(_sentence(why))}


def of_ended(words: str) -> Metadata:
    """Say of what a failed run did not make that it is over."""
    return {"headline": _words(_sentence(words))}


def of_policy(found: Sequence[CheckResult], facts: Mapping[str, Any]) -> Metadata:
    """Say what the retention policy names, as its checks have it, with the counters below.

    Args:
        found: What the checks of the policy say.
        facts: The facts of its table.
    """
    # All of them say the same where no policy was looked at.
    said = dict.fromkeys(result.summary for result in found)
    headline = _words(*(map(_sentence, said) if said else ["No policy was looked at."]))
    looked = bool(facts.get("policy_version"))
    apart = {result.name: result.summary for result in found} if looked else {}
    return above({"headline": headline}, counters_metadata({**facts, **apart}))


def _after_headline(found: Metadata, page: Metadata) -> Metadata:
    headline = {name: value for name, value in found.items() if name == "headline"}
    return {**headline, **page, **found}


def of_table(manifest: Manifest, price: Price | None = None) -> Metadata:
    """Say of a stored table what a person asks.

    Args:
        manifest: Its manifest.
        price: What a GB costs in a month; None to leave money out.
    """
    made = _BY_TABLE[manifest.table]
    return made(manifest, price)


def of_mark(report: Report, price: Price | None = None) -> Metadata:
    """Say of a mark with its verdict what a person asks.

    Args:
        report: Its report.
        price: As above.
    """
    goes, listed = report.expired, report.listed
    passed = sum(check.passed for check in report.checks)
    refused = [
        f"Refused by **{escaped(name)}**: {escaped(why)}" for name, why in report.refused.items()
    ]
    standing = "This mark may be swept." if report.passed else "This mark cannot be swept."
    return {
        "headline": _words(
            *_may_go(goes.objects, goes.size_bytes, listed.objects, listed.size_bytes),
            *_costs(goes.size_bytes, None if price is None else report.price_of_expired(price)),
            *_kind(report.kind),
            f"{passed} of {len(report.checks)} checks passed.",
            standing,
            *refused,
        ),
        **_amount("that_may_go", goes.objects, goes.size_bytes),
        **_share(goes.size_bytes, listed.size_bytes),
        **_groups("by_reason", map(_group, report.by_reason)),
        **_groups("kept", map(_group, report.kept)),
    }


def of_what_if(curve: WhatIfCurve, price: Price | None = None) -> Metadata:
    """Say what other rules would free.

    Args:
        curve: The answer.
        price: As above.
    """
    today, *later = curve.now
    soon = [_sentence(f"{one.name.partition(', ')[2]}: {one}") for one in later]
    records = [
        dg.TableRecord(
            {"objects": one.objects, "bytes": bytes_text(one.size_bytes), "if": one.name}
        )
        for one in (*curve.free, *curve.now)
    ]
    schema = _schema(("objects", "int"), ("bytes", "string"), ("if", "string"))
    return {
        "headline": _words(
            f"Under the rules of now: **{today}**.",
            *_costs(today.size_bytes, price),
            *soon,
            "Each is an upper bound.",
        ),
        "what_if": dg.MetadataValue.table(records, schema),
        **{
            f"bytes_if_kept_{days}_days": dg.MetadataValue.int(one.size_bytes)
            for days, one in zip(curve.days, curve.free, strict=True)
        },
    }


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
        "headline": _words(*words),
        "repositories": dg.MetadataValue.table([_status(one) for one in statuses], _STATUS),
        "repositories_overdue": dg.MetadataValue.int(len(late)),
        **plots,
    }


def escaped(text: str) -> str:
    """Make text from elsewhere safe for Markdown: no markup, and nothing that cannot be seen."""
    return visible(text).translate(_MARKDOWN)


def _listed(manifest: Manifest, _price: Price | None) -> Metadata:
    listed = ListedFigures.of(manifest)
    old = _objects(listed.old_objects, listed.old_bytes)
    found: Metadata = {
        "headline": _words(
            f"**{_objects(listed.objects, listed.object_bytes)}**",
            "lie under `data/`.",
            f"{old} are old enough.",
            *_kind(engine.report.kind_of(manifest)),
            *_inventory_words(listed.inventory),
        ),
        **_amount("listed", listed.objects, listed.object_bytes),
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
        "headline": _words(f"**{staged:,} staged entries** keep their objects."),
        "staged_entries": dg.MetadataValue.int(staged),
    }


def _committed(manifest: Manifest, _price: Price | None) -> Metadata:
    figures = CommittedFigures.of(manifest)
    taken = figures.taken
    if taken.ranges:
        # Which of their addresses are the same is known once they are compared.
        return {
            "headline": _words(
                f"**{taken.entries:,} entries of {counted(taken.ranges, 'range')}**",
                "were taken from the index.",
                f"{counted(figures.ranges_read, 'range')} were read.",
            ),
            "ranges_not_read": dg.MetadataValue.int(taken.ranges),
            "entries_taken": dg.MetadataValue.int(taken.entries),
        }
    return {
        "headline": _words(
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
        "headline": _words(
            *_may_go(figures.expired_objects, figures.expired_bytes, objects, size),
            *_costs(figures.expired_bytes, _mean(price, figures)),
            "The verdict decides.",
        ),
        **_amount("that_may_go", figures.expired_objects, figures.expired_bytes),
        **_share(figures.expired_bytes, size),
        **_groups("by_reason", figures.by_reason),
        **_groups("by_age", engine.report.youngest_first(figures.by_age), most_first=False),
        **(_groups("by_storage_class", figures.by_class) if figures.by_class else {}),
        **_groups("kept", map(_group, engine.report.kept_of(fates))),
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
        "headline": _words(
            f"**{_objects(objects, size)} deleted**",
            f"of {figures['planned_objects']:,} that may go.",
            *_costs(size, price),
        ),
        **_amount("deleted", objects, size),
        **_groups("by_outcome", outcomes),
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
        "headline": _words(
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
            records, _schema(("branch", "string"), ("days", "int"))
        )
    return found


def _kind(kind: Kind | None) -> tuple[str, ...]:
    """Say whether a mark read everything, where it might have read less."""
    if kind is None or not (kind.is_optimized or kind.why_full):
        return ()
    words = f"with the index of run {kind.index}" if kind.is_optimized else kind.why_full
    return (f"{kind.name.capitalize()}: {escaped(words)}.",)


def _group(group: Group) -> tuple[str, int, int]:
    return group.name, group.objects, group.size_bytes


def _may_go(objects: int, size: int, of_objects: int, of_size: int) -> tuple[str, ...]:
    of = (f"of {_objects(of_objects, of_size)}.",) if of_objects else ()
    return (f"**{_objects(objects, size)} may go**", *of)


def _objects(objects: int, size: int) -> str:
    return f"{objects:,} object{'' if objects == 1 else 's'} ({bytes_text(size)})"


def _costs(size: int, price: Price | None) -> tuple[str, ...]:
    return () if price is None else (f"They cost {money_text(size, price)}.",)


def _sentence(text: str) -> str:
    """Make a sentence of a clause from elsewhere."""
    return escaped(f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}")


def _words(*lines: str) -> dg.MarkdownMetadataValue:
    """Put short lines below each other: Dagster cuts a long one off at the width of its column."""
    return dg.MetadataValue.md("  \n".join(part for line in lines for part in _folded(line)))


def _folded(line: str) -> list[str]:
    """Fold a line of Markdown by what is seen of it."""
    parts = [""]
    for word in line.split():
        longer = f"{parts[-1]} {word}".strip()
        if parts[-1] and len(longer.replace("**", "").replace("\\", "")) > _WIDTH:
            parts.append(word)
        else:
            parts[-1] = longer
    return parts


def _amount(what: str, objects: int, size: int) -> Metadata:
    return {
        f"objects_{what}": dg.MetadataValue.int(objects),
        f"bytes_{what}": dg.MetadataValue.int(size),
    }


def _share(size: int, of: int) -> Metadata:
    return {"share_of_bytes": dg.MetadataValue.float(round(size / of, 4))} if of else {}


def _groups(
    name: str, groups: Groups | Iterable[tuple[str, int, int]], *, most_first: bool = True
) -> Metadata:
    """Show groups of objects as a table, most bytes first; none of them, and there is no table."""
    shown = [each for each in groups if each[1]]
    if most_first:
        shown.sort(key=lambda each: -each[2])
    if not shown:
        return {}
    records = [
        dg.TableRecord({"objects": objects, "bytes": bytes_text(size), "what": visible(what)})
        for what, objects, size in shown
    ]
    # The figures first: what a window has no room for is the end of the words.
    schema = _schema(("objects", "int"), ("bytes", "string"), ("what", "string"))
    return {name: dg.MetadataValue.table(records, schema)}


def _schema(*columns: tuple[str, str]) -> dg.TableSchema:
    return dg.TableSchema([dg.TableColumn(name, kind) for name, kind in columns])


_STATUS = _schema(
    ("repository", "string"),
    ("overdue", "string"),
    ("waits", "string"),
    ("reclaimed in 30 days", "string"),
    ("last good mark", "string"),
    ("last sweep", "string"),
)


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


_BY_TABLE = {
    tables.NAMESPACE_SLICES.name: _listed,
    tables.UNCOMMITTED_ADDRESSES.name: _staged,
    tables.RETAINED_COMMITS.name: _commits,
    tables.COMMITTED_ADDRESSES.name: _committed,
    tables.EXPIRED_ADDRESSES.name: _expired,
    tables.DELETION_REPORT.name: _deleted,
}
