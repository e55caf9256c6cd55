"""`lakegc report --metadata` shows the server's tables by who names them; the answer is made up."""

from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from spark_core import explain, stored_runs
from spark_core.cli import unnamed_tables as command
from spark_core.cli.main import main
from spark_core.explain.unnamed_tables import INDEX, NAMED, OF_A_DUMP, UNNAMED_RANGE, Tables

NONE = {"a day": (0, 0)}
FOUND = explain.TablesReport(
    "repo",
    "_lakefs",
    [
        Tables(NAMED, 3, 3_000, "2026-11-19", "2026-11-20", NONE),
        Tables(UNNAMED_RANGE, 2, 500, "2026-01-19", "2026-11-20", {"a day": (1, 200)}),
        Tables(OF_A_DUMP, 4, 7_000, "2026-10-01", "2026-11-20", {"a day": (2, 5_000)}),
        Tables("others", 0, 0, None, None, NONE),
    ],
    [Tables(INDEX, 1, 4_000, "2026-11-19", "2026-11-19", {"a day": (1, 4_000), "30 days": (0, 0)})],
)


@pytest.fixture(autouse=True)
def _made_up(monkeypatch):
    monkeypatch.setattr(command, "read_settings", lambda *_: None)
    monkeypatch.setattr(stored_runs, "open_run_or_newest_mark", lambda *_: SimpleNamespace())
    monkeypatch.setattr(explain, "unnamed_tables", lambda _: FOUND)


def test_groups_are_shown_with_bytes_and_ages_and_that_nothing_deletes_them():
    told = CliRunner().invoke(main, ["report", "repo", "--metadata"])
    assert told.exit_code == 0, told.output
    lines = [" ".join(line.split()) for line in told.stdout.splitlines()]
    assert lines[1:3] == [
        "named by a commit of now 3 3.0 kB",
        "ranges that nothing names 2 500 bytes; 1 (200 bytes) older than a day",
    ]
    assert lines[-3].startswith("files of collections under _lakefs/retention/gc/")
    assert lines[-2] == "the index of lakegc 1 4.0 kB; 1 (4.0 kB) older than a day"
    assert lines[-1] == (
        "These and the dumps grew by no more than 2.0 kB in a day, 11.0 kB in 30 days, "
        "11.0 kB in a year."
    )
    assert "others" not in told.stdout
    assert "Nothing deletes any of them" in told.stdout


def test_the_answer_is_json_if_asked():
    told = CliRunner().invoke(main, ["report", "repo", "--metadata", "--json"])
    assert told.stdout == FOUND.to_json() + "\n"
