"""Where a person opens what lies in a store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from spark_core import lakegc_keys
from spark_core.errors import LakegcError
from spark_core.records.tables import EXPIRED_ADDRESSES

if TYPE_CHECKING:
    from spark_core.run import Run


def local_path(run: Run, key: str) -> str:
    """Return where a person opens a key: a path if the store is on this machine, else its URI."""
    options = run.environment.storage_of(run.repository).store_options
    if run.namespace.scheme != "local" or options.local_path is None:
        return f"{run.store.root}{key}"
    return f"{options.local_path.rstrip('/')}/{run.namespace.root.removeprefix('local://')}{key}"


def page_after(run: Run, table: str, facts: Mapping[str, str]) -> Mapping[str, str]:
    """Return the facts of `report.make` for a table that was just stored.

    After the mark's last table they are those of the page that the verdict makes in a moment,
    passed or not.

    Args:
        run: The run.
        table: Name of the table.
        facts: Those that storing it gave; empty for a table after which no report is made.
    """
    if table != EXPIRED_ADDRESSES.name:
        return facts
    return {"page": f"{run.store.root}{lakegc_keys.report_keys(run.key, swept=False)['html']}"}


def page_to_open(run: Run, facts: Mapping[str, str]) -> Mapping[str, str]:
    """Return the facts of `report.make` with the page where a person opens it: a link or a path."""
    if "page" not in facts:
        return facts
    key = facts["page"].removeprefix(run.store.root)
    return {**facts, "page": link_to(run, key) or local_path(run, key)}


def link_to(run: Run, key: str) -> str | None:
    """Return a link to a page for everybody's browser, as `[report]` says; None if there is none.

    What serves the pages comes first; else the store signs a link, where people asked for that.
    """
    base, life = run.environment.pages_url, run.environment.signed_links_live
    if base is not None:
        return f"{base.rstrip('/')}/{run.repository.id}/{key}"
    if not life:
        return None
    try:
        return run.store.link(key, life)
    except LakegcError:
        # No run fails for a link: where the page lies is said instead.
        return None
