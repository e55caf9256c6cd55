"""Spark's own lines: in a file, on the terminal only when they are asked for, named on an error."""

from contextlib import ExitStack

import pytest

from spark_core.cli import common
from spark_core.errors import LakegcError, SettingsError
from spark_core.spark import java
from spark_core.spark.output import SparkOutput
from spark_core.terminal import console


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """The output of a command that has a home and has not started Java."""
    here = SparkOutput()
    here.keep_in(tmp_path / "home")
    monkeypatch.setattr(java, "OUTPUT", here)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    return here


def test_two_commands_that_write_to_the_file_at_once_leave_each_others_later_lines(kept):
    with java._streams() as nightly:
        nightly["stderr"].write(b"of yesterday\n" * 10)
        nightly["stderr"].flush()
        with java._streams() as looking:
            looking["stdout"].write(b"WARN looking\n")
            looking["stdout"].flush()
            nightly["stderr"].write(b"WARN nightly\n")
    assert kept.log.read_text() == "WARN looking\nWARN nightly\n"


@pytest.mark.parametrize("way", ["--verbose", "spark-submit", "no command"])
def test_lines_go_where_those_of_this_process_go(kept, monkeypatch, way):
    if way == "--verbose":
        kept.is_shown = True
    elif way == "spark-submit":
        monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    else:
        kept.kept_in = None
    with java._streams() as streams:
        assert streams == {}
    assert kept.log is None, "an error would name a file without these lines"


def test_a_command_keeps_them_in_dagsters_home(tmp_path, monkeypatch):
    here = SparkOutput()
    monkeypatch.setattr(common, "OUTPUT", here)
    config = tmp_path / "lakegc.toml"
    config.write_text(
        f'[server]\nendpoint = "http://127.0.0.1:9"\n[dagster]\nhome = "{tmp_path / "home"}"\n'
    )
    with ExitStack() as stack:
        common.read_settings(config, stack)
    assert here.kept_in == tmp_path / "home" / "spark.log"


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
