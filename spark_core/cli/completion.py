"""What a shell completes: repositories of the settings, and run keys of a repository.

A shell that waits for an answer gets what is known within seconds, and no error.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from click.shell_completion import CompletionItem

from spark_core.errors import LakegcError

if TYPE_CHECKING:
    import click

    from spark_core.settings import Settings

_PATIENCE_SECONDS = 2.0


def repositories(ctx: click.Context | None, begun: str) -> list[CompletionItem]:
    """Return the repositories that the settings collect; patterns are looked up on the server."""
    from spark_core.settings.collected_repositories import collected_repositories

    settings = _settings(ctx)
    if settings is None:
        return []
    names: Iterable[str] = settings.repository_ids
    with suppress(LakegcError):
        names = collected_repositories(settings)
    return _beginning(names, begun)


def runs(ctx: click.Context | None, begun: str) -> list[CompletionItem]:
    """Return the run keys of the repository that was named before, newest first."""
    settings, repository = _settings(ctx), _named_before(ctx)
    if settings is None or repository is None:
        return []
    from datetime import UTC, datetime

    from spark_core.model import RunKey
    from spark_core.report.past_runs import run_keys
    from spark_core.stored_runs import open_stored

    with suppress(LakegcError):
        store = open_stored(settings, repository, RunKey.at(datetime.now(UTC))).store
        return _beginning(map(str, run_keys(store)), begun)
    return []


def _named_before(ctx: click.Context | None) -> str | None:
    """Return the repository of the line so far.

    Behind an option that has no value yet, click leaves it among the words that it did not place.
    """
    if ctx is None:
        return None
    placed = ctx.params.get("repository") or ctx.params.get("repositories") or ()
    words = [placed] if isinstance(placed, str) else [*placed, *ctx.args]
    return next((word for word in words if not word.startswith("-")), None)


def _settings(ctx: click.Context | None) -> Settings | None:
    """Return the settings of the command so far, with little patience for the server."""
    from pathlib import Path

    from spark_core.settings import load_settings

    config = None if ctx is None else ctx.params.get("config")
    with suppress(LakegcError):
        settings = load_settings(None if config is None else Path(config))
        patience = {
            "read_timeout_seconds": _PATIENCE_SECONDS,
            "longest_outage_seconds": 0.0,
        }
        return settings.model_copy(update={"server": settings.server.model_copy(update=patience)})
    return None


def _beginning(names: Iterable[str], begun: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(begun)]
