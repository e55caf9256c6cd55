"""What the commands print: plain lines, for a terminal and for a log."""

from __future__ import annotations

import sys

from spark_core import lakegc_keys
from spark_core import report as reports
from spark_core.doctor import Finding
from spark_core.plain_text import visible
from spark_core.records import tables
from spark_core.report.text_blocks import Rows, blocks
from spark_core.run import Run
from spark_core.run.local_path import local_path
from spark_core.text_table import text_table

_SIGNS = {True: "ok", False: "FAILED", None: "not checked"}


def write(text: str) -> None:
    """Print lines at once: whoever follows a log sees each step when it ends."""
    sys.stdout.write(visible(text, lines=True) + "\n")
    sys.stdout.flush()


def show_report(run: Run) -> None:
    """Print the report of a run, and where its page and its Parquet lie."""
    found = reports.load(run)
    for block in blocks(found):
        if isinstance(block, Rows):
            write(f"\n{text_table(block.title, block.columns, block.rows)}")
        else:
            write(f"\n{block.lead}{block.text}")
    folder = tables.DELETION_REPORT if found.swept else tables.EXPIRED_ADDRESSES
    page = lakegc_keys.report_keys(run.key, swept=found.swept)["html"]
    write(f"\nreport   {local_path(run, page)}")
    write(f"Parquet  {local_path(run, tables.folder(folder, run.key))}")
    if not found.swept and found.passed and found.expired.objects and run.options.may_sweep:
        write(f"next     sweep {run.repository.id} --run {run.key}")


def show_end(run: Run, doing: str) -> None:
    """Say in a line of standard error what was done, where nobody read the output to its end."""
    found = reports.load(run)
    words = "; ".join(f"{one.name}: {one}" for one in found.outcomes or [found.expired])
    sys.stderr.write(f"{doing} {run.repository.id}, run {run.key}, ended: {words}\n")


def show_finding(finding: Finding) -> None:
    """Print what the doctor found of one thing, and the next step where one is needed."""
    write(f"  {_SIGNS[finding.passed]:<12} {finding.about}: {finding.name}: {finding.found}")
    if finding.next_step:
        write(f"{'':<15}{finding.next_step}")
