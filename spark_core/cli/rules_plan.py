"""What other rules would change: the rules side by side, and what each of them lets go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from spark_core.errors import LakegcError
from spark_core.plain_text import bytes_text, counted
from spark_core.prices import money_text

if TYPE_CHECKING:
    from spark_core.explain import WhatIf
    from spark_core.model import RetentionRules
    from spark_core.settings import Settings

_OTHERS, _NONE = "(every other branch)", "–"  # noqa: RUF001 - a dash, as in any table


def rules_asked(
    now: RetentionRules | None, default_days: int | None, branches: Mapping[str, int]
) -> RetentionRules:
    """Return the rules that options ask for.

    Args:
        now: The rules of now; None if there are none.
        default_days: Days for other branches, which replace all rules; None leaves all other rules
            as they are.
        branches: Days by branch.

    Raises:
        UsageError: If nobody says what counts for other branches.
    """
    from spark_core.model import RetentionRules

    if default_days is not None:
        return RetentionRules(default_days, dict(branches))
    if now is None:
        raise click.UsageError(
            "the repository has no rules yet, so --default must say what counts for other "
            "branches; nothing was changed."
        )
    return RetentionRules(now.default_retention_days, {**now.branches, **branches})


def differences(
    now: RetentionRules | None, asked: RetentionRules
) -> list[tuple[str, int | None, int | None]]:
    """Return each branch whose days change, with the days of now and then; None follows others.

    Examples:
        >>> from spark_core.model import RetentionRules
        >>> differences(RetentionRules(14, {"a": 1, "b": 2}), RetentionRules(14, {"b": 3}))
        [('a', 1, None), ('b', 2, 3)]
        >>> differences(None, RetentionRules(14, {}))
        [('(every other branch)', None, 14)]
    """
    of_now = {} if now is None else {_OTHERS: now.default_retention_days, **now.branches}
    then = {_OTHERS: asked.default_retention_days, **asked.branches}
    names = sorted(of_now.keys() | then.keys(), key=lambda name: (name != _OTHERS, name))
    found = [(name, of_now.get(name), then.get(name)) for name in names]
    return [row for row in found if row[1] != row[2]]


def in_words(found: WhatIf) -> str:
    """Say what goes by the rules of now and by those asked about, and the difference."""
    answers = {one.name: one for one in found.answers}
    now, then = answers["the rules of now"], answers["the rules asked about"]
    objects, size_bytes = then.objects - now.objects, then.size_bytes - now.size_bytes
    more = "more" if objects >= 0 else "fewer"
    cost = "" if found.price is None else f", {money_text(abs(size_bytes), found.price)}"
    return (
        f"By the listing of run {found.run}, {counted(now.objects, 'object')} "
        f"({bytes_text(now.size_bytes)}) may go today, and {then.objects:,} "
        f"({bytes_text(then.size_bytes)}) then: {abs(objects):,} {more} "
        f"({bytes_text(abs(size_bytes))}{cost}). Each is an upper bound. Nothing goes before the "
        "next sweep."
    )


def show(
    settings: Settings, repository_id: str, now: RetentionRules | None, asked: RetentionRules
) -> None:
    """Show what would change; where nobody can know what it frees, say why."""
    from spark_core.terminal import console

    shown = console.console()
    rows = [
        (name, *(_NONE if days is None else f"{days:,}" for days in both))
        for name, *both in differences(now, asked)
    ]
    columns = ("branch", "days now", "days then")
    shown.print(console.table(f"Would change in {repository_id}", columns, rows))
    shown.print(_freed(settings, repository_id, asked), markup=False, soft_wrap=True)


def _freed(settings: Settings, repository_id: str, asked: RetentionRules) -> str:
    from spark_core import explain
    from spark_core.stored_runs import open_stored

    try:
        return in_words(explain.what_if(open_stored(settings, repository_id), (), asked))
    except LakegcError as unknown:
        return f"What they would let go is not known: {unknown.message}"
