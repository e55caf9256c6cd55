"""What the command line shows of the steps of a run."""

import io
import re

import pytest
from rich.console import Console

from spark_core.errors import LeaseHeldError, SameWorkError
from spark_core.events import Event
from spark_core.terminal.console import Steps, console, table


def shown_of(*events):
    stream = io.StringIO()
    with Steps(console(stream)) as steps:
        for event in events:
            steps(event)
    return stream.getvalue()


def test_a_sweep_that_waits_for_a_lease_says_once_until_when_and_then_how_it_ended():
    held = SameWorkError("the lease is good until 02:05", "If it is dead: run again at 02:10.")
    began = Event("started", "deletion_report")
    again = [began, Event("waits", "deletion_report", held.message)]
    stored = Event("stored", "deletion_report", rows=3, size_bytes=900, seconds=1.0)
    waits, ended = shown_of(*again, *again, began, stored).splitlines()
    assert waits.strip() == (
        "deletion_report waits, and goes on by itself: the lease is good until 02:05. "
        "If it is dead: run again at 02:10."
    )
    assert "3 rows" in ended


def test_what_nobody_waits_for_is_shown_as_failed():
    held = LeaseHeldError("another run has it")
    (line,) = shown_of(Event("failed", "deletion_report", str(held))).splitlines()
    assert "failed" in line
    assert "waits" not in line


def test_a_server_that_is_away_has_one_line_and_the_end_counts_the_tries():
    stream, words = io.StringIO(), "no server answers"
    with Steps(console(stream)) as steps:
        steps(Event("started", "retained_commits"))
        for tries in (1, 2):
            steps.away(2, words)
            steps(Event("retries", "retained_commits", words, tries=tries))
        steps(Event("failed", "retained_commits", words, tries=3))
    again, ended = stream.getvalue().splitlines()
    assert again.split(maxsplit=1) == ["retained_commits", "tried again: no server answers"]
    assert ended.strip().startswith("retained_commits       failed after 3 tries")


def test_on_a_terminal_the_line_of_the_step_counts_the_tries():
    shown = Console(file=io.StringIO(), force_terminal=True, width=100)
    with Steps(shown) as steps:
        steps(Event("started", "retained_commits"))
        steps(Event("retries", "retained_commits", "no server answers", tries=4))
        (task,) = steps._progress.tasks
        assert task.fields["found"] == "try 4: no server answers"
        steps(Event("started", "retained_commits"))
        assert len(steps._progress.tasks) == 1


@pytest.mark.parametrize("width", [40, 60])
def test_where_a_table_is_too_wide_for_its_keys_each_row_is_a_block(width):
    columns = ("run", "state", "listed", "may go", "bytes", "deleted", "what to know")
    row = ("2026-11-20T02-00-00Z", "swept", "219", "129", "440.6 kB", "129", "3 kept [x]")
    out = io.StringIO()
    Console(file=out, width=width).print(table("Runs of repo", columns, [row]))
    assert [line.rstrip() for line in out.getvalue().splitlines()] == [
        "Runs of repo",
        "2026-11-20T02-00-00Z",
        "  state         swept",
        "  listed        219",
        "  may go        129",
        "  bytes         440.6 kB",
        "  deleted       129",
        "  what to know  3 kept [x]",
    ]
    wide = io.StringIO()
    Console(file=wide, width=100).print(table("Runs of repo", columns, [row]))
    assert re.search(r"^2026-11-20T02-00-00Z +swept +219 +129 ", wide.getvalue(), re.MULTILINE)


def test_several_long_texts_are_blocks_where_their_columns_would_be_too_narrow():
    rows = [("✓", "store: conditional put", "it fails if there is one", ""),
            ("✗", "store: clock", "it gives no time", "Ask its owner for one.")]  # fmt: skip
    shown = table("repo", ("", "checked", "found", "next step"), rows)
    narrow, wide = (_printed(shown, width) for width in (60, 80))
    assert "✓ store: conditional put\n  found      it fails if there is one" in narrow
    assert "✗ store: clock\n  found      it gives no time" in narrow
    assert "  next step  Ask its owner for one." in narrow
    assert narrow.count("next step") == 1, "an empty cell is no line"
    assert "checked" in wide.splitlines()[1]


def _printed(shown, width):
    stream = io.StringIO()
    Console(file=stream, width=width).print(shown)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())
