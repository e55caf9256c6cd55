"""What headlines are made of: short lines of Markdown, figures and small tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import dagster as dg

from lakegc_dagster.metadata import Metadata
from spark_core.plain_text import bytes_text, counted, visible
from spark_core.prices import Price, money_text
from spark_core.records.figures import Groups

if TYPE_CHECKING:
    from spark_core.report import Group, Kind

# What Markdown would take for its own.
_MARKDOWN = str.maketrans({sign: f"\\{sign}" for sign in "\\`*_{}[]()<>#+-!|~"})
# Characters of a value that a window of 1,280 pixels shows beside its key and time; the table
# scrolls for the rest.
_WIDTH = 33


def escaped(text: str) -> str:
    """Make text from elsewhere safe for Markdown: no markup, and nothing that cannot be seen."""
    return visible(text).translate(_MARKDOWN)


def headline(*lines: str) -> dg.MarkdownMetadataValue:
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


def sentence(text: str) -> str:
    """Make a sentence of a clause from elsewhere."""
    return escaped(f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}")


def objects_text(objects: int, size: int) -> str:
    """Print a number of objects and their bytes."""
    return f"{counted(objects, 'object')} ({bytes_text(size)})"


def may_go(objects: int, size: int, of_objects: int, of_size: int) -> tuple[str, ...]:
    """Say how much may go, and of how much."""
    of = (f"of {objects_text(of_objects, of_size)}.",) if of_objects else ()
    return (f"**{objects_text(objects, size)} may go**", *of)


def costs(size: int, price: Price | None) -> tuple[str, ...]:
    """Say what bytes cost; nothing without a price."""
    return () if price is None else (f"They cost {money_text(size, price)}.",)


def kind_words(kind: Kind | None) -> tuple[str, ...]:
    """Say whether a mark read everything, where it might have read less."""
    if kind is None or not (kind.is_optimized or kind.why_full):
        return ()
    words = f"with the index of run {kind.index}" if kind.is_optimized else kind.why_full
    return (f"{kind.name.capitalize()}: {escaped(words)}.",)


def amount(what: str, objects: int, size: int) -> Metadata:
    """Return objects and bytes as figures."""
    return {
        f"objects_{what}": dg.MetadataValue.int(objects),
        f"bytes_{what}": dg.MetadataValue.int(size),
    }


def share(size: int, of: int) -> Metadata:
    """Return the share of bytes as a figure; nothing of nothing."""
    return {"share_of_bytes": dg.MetadataValue.float(round(size / of, 4))} if of else {}


def of_group(group: Group) -> tuple[str, int, int]:
    """Return the row of a group for `groups_table`."""
    return group.name, group.objects, group.size_bytes


def groups_table(
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
    schema = columns(("objects", "int"), ("bytes", "string"), ("what", "string"))
    return {name: dg.MetadataValue.table(records, schema)}


def columns(*of: tuple[str, str]) -> dg.TableSchema:
    """Return the columns of a table, each by its name and type."""
    return dg.TableSchema([dg.TableColumn(name, kind) for name, kind in of])


def after_headline(found: Metadata, page: Metadata) -> Metadata:
    """Put the page between the headline and the figures."""
    first = {name: value for name, value in found.items() if name == "headline"}
    return {**first, **page, **found}
