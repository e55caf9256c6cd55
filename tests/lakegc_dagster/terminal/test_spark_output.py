"""Spark's own lines: in a file, on the terminal only when they are asked for, named on an error."""

import os
import time

import pytest

from spark_core.cli import common
from spark_core.errors import LakegcError, SettingsError
from spark_core.terminal import console
from spark_core.terminal.spark_output import SparkOutput


@pytest.mark.parametrize("is_shown", [False, True])
def test_lines_of_spark_go_to_a_file_and_if_asked_also_to_the_terminal(tmp_path, capfd, is_shown):
    log = tmp_path / "home" / "spark.log"
    words = SparkOutput(is_shown=is_shown).opened(log)
    os.write(words, b"WARN NativeCodeLoader\n")
    os.close(words)
    end = time.monotonic() + 10
    while not log.exists() or not log.read_bytes():
        assert time.monotonic() < end
        time.sleep(0.01)
    time.sleep(0.05 * is_shown)
    assert log.read_text() == "WARN NativeCodeLoader\n"
    assert ("NativeCodeLoader" in capfd.readouterr().err) == is_shown


@pytest.mark.parametrize(
    ("error", "is_named"),
    [
        (LakegcError("Spark lost a task"), True),
        (SettingsError("no such setting"), False),
    ],
)
def test_an_error_names_the_file_unless_spark_has_no_part_in_it(
    tmp_path, capsys, monkeypatch, error, is_named
):
    def body():
        raise error

    log = tmp_path / "spark.log"
    monkeypatch.setattr(console, "OUTPUT", SparkOutput(log=log))
    common.guarded(body, debug=False)
    assert "Spark's own lines are in" not in capsys.readouterr().err, "there is no such file"
    log.touch()
    common.guarded(body, debug=False)
    assert ("Spark's own lines are in" in capsys.readouterr().err) == is_named
