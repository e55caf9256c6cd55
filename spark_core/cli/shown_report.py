"""How the terminal shows what a run stored: its report, its price, and the way on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from spark_core import lakegc_keys
from spark_core.cli.shown_policy import show_named
from spark_core.prices import Price, money_text

if TYPE_CHECKING:
    from rich.console import Console

    from spark_core.mark_and_sweep import Collected
    from spark_core.model import RunKey
    from spark_core.report import Report
    from spark_core.run import Run
    from spark_core.settings import Settings


def show_report(settings: Settings, run: Run, found: Report, *, earlier: bool) -> None:
    """Show the report of a run.

    Args:
        settings: The settings.
        run: The run.
        found: Its report.
        earlier: Whether to name the runs before it.
    """
    from spark_core.records import tables
    from spark_core.run.local_path import local_path
    from spark_core.terminal import console

    shown = console.console()
    page = local_path(run, lakegc_keys.report_keys(run.key, swept=found.swept)["html"])
    console.show_report(shown, found)
    _show_price(shown, found, run.options.price)
    folder = tables.DELETION_REPORT if found.swept else tables.EXPIRED_ADDRESSES
    _show_line(shown, f"\nreport   {page}")
    _show_line(shown, f"Parquet  {local_path(run, tables.folder(folder, run.key))}")
    show_named(run)
    if earlier:
        others = [str(other) for other in tables.runs(run.store) if other != run.key][:10]
        if others:
            _show_line(shown, f"earlier  {'  '.join(others)}")
    if found.passed and run.options.write_reference_mark:
        from spark_core.handover.reference_mark import mark_id

        _show_line(shown, f"mark id  {mark_id(run)}  (for the reference job)")
    if not found.swept and found.passed and found.expired.objects and run.options.may_sweep:
        _show_line(
            shown, f"next     lakegc sweep {run.repository.id} --run {run.key}{_config(settings)}"
        )


def refused_by(done: Collected) -> list[str]:
    """Return the names of the checks that do not let a run go on."""
    return [check.name for check in done.checks if not check.allows]


def way_on(settings: Settings, done: Collected) -> str:
    """Return the command that comes after a mark which its checks refuse; empty if there is none.

    Args:
        settings: The settings.
        done: How the run ended.
    """
    failing, run = refused_by(done), done.run
    if not failing:
        return ""
    return f"{past_checks(run.repository.id, run.key, failing)}{_config(settings)}"


def past_checks(repository_id: str, key: RunKey, failing: Sequence[str]) -> str:
    """Return the command that leads past the checks of a mark that fail."""
    from spark_core import checks

    if not failing:
        return f"lakegc sweep {repository_id} --run {key}"
    if set(failing) <= checks.CONFIRMABLE:
        return f"lakegc confirm {repository_id} {failing[0]} --run {key}"
    return f"lakegc report {repository_id} --run {key}"


def show_refused(settings: Settings, done: Collected) -> None:
    """Show what a refused mark would let go, and the one way on; nothing if there is no mark.

    Args:
        settings: The settings.
        done: How the run ended.
    """
    from spark_core.run.local_path import local_path
    from spark_core.terminal import console

    next_step, found, run = way_on(settings, done), done.report, done.run
    if not next_step or found is None:
        return
    shown = console.console()
    shown.print()
    shown.print(console.groups_table("What would go, by reason", found.by_reason))
    _show_price(shown, found, run.options.price)
    page = local_path(run, lakegc_keys.report_keys(run.key, swept=False)["html"])
    _show_line(shown, f"\nreport   {page}")
    _show_line(shown, f"next     {next_step}\n")


def _show_price(shown: Console, found: Report, price: Price | None) -> None:
    """Say what the objects of a report cost, if the settings give a price."""
    if price is None:
        return
    going = money_text(found.expired.size_bytes, found.price_of_expired(price))
    all_of_it = money_text(found.listed.size_bytes, found.price_of_listed(price))
    words = filter(None, (f"{price.per_gb_month:g}", price.currency))
    by_class = "".join(f", {name} = {each:g}" for name, each in sorted(price.by_class.items()))
    _show_line(
        shown,
        f"\nmoney    what may go costs {going}; all objects together cost {all_of_it} "
        f"(price_per_gb_month = {' '.join(words)}{by_class})",
    )


def _show_line(shown: Console, line: str) -> None:
    shown.print(line, markup=False, soft_wrap=True)


def _config(settings: Settings) -> str:
    return "" if settings.file is None else f" --config {settings.file}"
