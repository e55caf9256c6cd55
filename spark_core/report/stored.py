"""The stored reports of a run: beside its Parquet, under names that Parquet readers skip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from spark_core import lakegc_keys
from spark_core.errors import LakegcError, NotFoundError
from spark_core.model import RunKey
from spark_core.records import tables
from spark_core.records.figures import ListedFigures
from spark_core.records.tables import DELETION_REPORT, EXPIRED_ADDRESSES, TableSpec
from spark_core.report.checks import with_verdict
from spark_core.report.page import page
from spark_core.report.report import Report
from spark_core.report.trend import runs_to_keep, trend
from spark_core.report.what_if import load_curve
from spark_core.run import Run
from spark_core.spark.failures import spark_failures


def save(run: Run, report: Report, *, just_marked: bool = False) -> dict[str, str]:
    """Write a report as JSON and as a page.

    The page also shows what earlier runs came to, and what other rules would free where somebody
    asked.

    Args:
        run: The run.
        report: Its report.
        just_marked: As for `load`.

    Returns:
        The keys, as `lakegc_keys.report_keys` gives them.
    """
    key = RunKey.parse(report.run)
    where = lakegc_keys.report_keys(key, swept=report.swept)
    # Nobody asks what other rules would free of a run that has no mark yet.
    what_if = None if just_marked else load_curve(run.store, key)
    past = (
        trend(run.store, report, marked=run.marked, swept=_swept_before(run))
        if just_marked
        else trend(run.store, report)
    )
    shown = page(
        report,
        past=past,
        what_if=what_if,
        asked_before_sweep=what_if is not None
        and report.swept
        and what_if.asked_at < run.load(DELETION_REPORT).manifest.reading_ended,
        server=run.server.url,
        price=run.options.price,
    )
    run.store.put(where["html"], shown.encode())
    run.store.put(where["json"], replace(report, past=runs_to_keep(past)).to_json())
    return where


def _swept_before(run: Run) -> Mapping[RunKey, bool] | None:
    """Say whether the run that saved the index was swept, as this process read when it began."""
    index = ListedFigures.of(run.load(tables.NAMESPACE_SLICES).manifest).index
    if index is None or not run.is_of_this_process:
        return None
    key = RunKey.parse(index.run)
    where = tables.manifest_key(DELETION_REPORT, key)
    return {key: run.documents[where] is not None} if where in run.documents else None


def make(
    run: Run, *, just_swept: bool = False, just_marked: bool = False
) -> tuple[Mapping[str, str], Report | None]:
    """Make the report of a run at the end of its mark or its sweep; no error here fails the run.

    Args:
        run: The run.
        just_swept: The sweep ended a moment ago, as for `undo_words`.
        just_marked: As for `load`.

    Returns:
        Where the page lies (`page`), or why there is none (`no_page`); `load` makes it later. And
        the report, if there is one.
    """
    try:
        found = load(run, just_swept=just_swept, just_marked=just_marked)
    except LakegcError as problem:
        return {"no_page": str(problem)}, None
    except spark_failures() as failure:
        return {"no_page": f"Spark failed: {type(failure).__name__}"}, None
    return _where(run, found), found


def as_stored(run: Run, *, swept: bool) -> tuple[Report | None, Mapping[str, str]]:
    """Return the report of a mark or of its sweep as it lies there, and its page; writes nothing.

    Of a refused mark it says what was confirmed since.

    Args:
        run: The run.
        swept: That of the sweep, else that of the mark.

    Returns:
        The report, and `page` as `make` gives it; nothing where there is none.
    """
    found = _read(run, swept=swept)
    return (None, {}) if found is None else (with_verdict(run, found), _where(run, found))


def page_of(run: Run) -> Mapping[str, str]:
    """Return where the page of a run lies, as `make` does; a missing page is made.

    Raises:
        ChainError: If the run has no mark.
    """
    return _where(run, load(run))


def _where(run: Run, found: Report) -> Mapping[str, str]:
    key = lakegc_keys.report_keys(run.key, swept=found.swept)["html"]
    return {"page": f"{run.store.root}{key}"}


def load(run: Run, *, just_swept: bool = False, just_marked: bool = False) -> Report:
    """Return a run's report; a missing or outdated one is made and written.

    The report is of the sweep once there was one, else of the mark.

    Args:
        run: The run. Spark is started only when something has to be made.
        just_swept: The sweep ended a moment ago, as for `undo_words`.
        just_marked: This process stored the verdict a moment ago: there is no report yet, and no
            sweep.

    Raises:
        ChainError: If the run has no mark.

    Examples:
        >>> found = load(run)
        >>> found.expired.objects, found.expired.size_bytes, found.passed
        (1, 3, True)
    """
    from spark_core import report

    if just_marked:
        made = report.of_mark(run)
        save(run, made, just_marked=True)
        return made
    swept = run.store.exists(tables.manifest_key(DELETION_REPORT, run.key))
    stored = _read(run, swept=swept)
    if stored is not None and (
        not swept or stored.sweep == run.load(DELETION_REPORT).manifest.sha256
    ):
        confirmed_since = with_verdict(run, stored)
        if confirmed_since is not stored:
            save(run, confirmed_since)
        return confirmed_since
    of_this_mark = stored if not swept else _read(run, swept=False)
    made = with_verdict(run, of_this_mark) if of_this_mark is not None else report.of_mark(run)
    if swept:
        made = report.of_sweep(run, made, just_swept=just_swept)
    save(run, made)
    return made


def _table(*, swept: bool) -> TableSpec:
    return DELETION_REPORT if swept else EXPIRED_ADDRESSES


def _read(run: Run, *, swept: bool) -> Report | None:
    """Return a stored report if it describes the mark as it is now, verdict included."""
    key = lakegc_keys.report_keys(run.key, swept=swept)["json"]
    try:
        report = Report.from_json(run.store.read(key), name=key)
    except NotFoundError:
        return None
    if report.mark != run.load(EXPIRED_ADDRESSES).manifest.sha256 or report.passed is None:
        return None
    return report
