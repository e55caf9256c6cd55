"""What the system and YAML raise is a sentence, and never a traceback."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from spark_core import whole_file
from spark_core.cli.common import guarded
from spark_core.cli.main import main

RUN = "2026-11-20T02-00-00Z"
FULL, READ_ONLY = errno.ENOSPC, errno.EROFS


def refusing(code):
    def refuse(*_args, **_how):
        raise OSError(code, os.strerror(code), "the place")

    return refuse


def said(capsys):
    """The one line of an error that a command left on standard error."""
    shown = capsys.readouterr().err
    assert "Traceback" not in shown
    # Another one names Spark's log, where something ran on Spark in this process before.
    (line,) = [line for line in shown.splitlines() if line.startswith("lakegc: ")]
    return line


@pytest.mark.parametrize("code", [errno.ENOENT, FULL, READ_ONLY, errno.EACCES, errno.EIO])
def test_an_error_of_the_system_is_a_sentence_with_a_next_step(capsys, code):
    assert guarded(refusing(code), debug=False) == 1
    line = said(capsys)
    assert line.startswith(f"lakegc: failed: the place cannot be used ({os.strerror(code)}). ")
    assert line.endswith("Nothing was deleted.")


def test_debug_shows_where_it_was_raised(capsys):
    assert guarded(refusing(FULL), debug=True) == 1
    shown = capsys.readouterr().err
    assert "Traceback" in shown
    assert "in refuse" in shown


def test_a_mistake_in_lakegc_keeps_its_traceback():
    with pytest.raises(ZeroDivisionError):
        guarded(lambda: 1 // 0, debug=False)


def test_a_certificate_for_a_missing_folder_is_refused_before_anything_is_read(tmp_path):
    out = tmp_path / "no" / "certificate.json"
    answer = CliRunner().invoke(main, ["certificate", "repo", RUN, "--out", str(out)])
    assert answer.exit_code == 2
    assert f"{out} cannot be written (No such file or directory). Name a file" in answer.stderr


@pytest.mark.parametrize("code", [FULL, READ_ONLY])
def test_a_file_that_cannot_be_written_leaves_no_half_of_itself(tmp_path, monkeypatch, code):
    file = tmp_path / "certificate.json"
    file.write_text("the last one")
    monkeypatch.setattr(whole_file.os, "fchmod", refusing(code))
    with pytest.raises(OSError, match=str(file)):
        whole_file.write_file(file, b"{}")
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [
        ("certificate.json", "the last one")
    ]


def test_what_is_no_file_is_written_to_and_not_replaced():
    whole_file.write_file(Path(os.devnull), b"{}")
    assert Path(os.devnull).is_char_device()


def test_other_yaml_is_told_as_well(capsys):
    assert guarded(lambda: yaml.safe_load("a: [b") and 0, debug=False) == 2
    assert "a file is not YAML (while parsing a flow sequence" in said(capsys)


def test_a_demo_on_a_full_disk_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "write_text", refusing(FULL))
    answer = CliRunner().invoke(main, ["demo", "--directory", str(tmp_path / "sandbox")])
    assert answer.exit_code == 1
    assert "cannot be used (No space left on device). Make room there" in answer.stderr


SHOW = """
import sys
from spark_core.cli.common import guarded
from spark_core.terminal.console import console
from spark_core.output import exit_code_of
work = lambda: guarded(lambda: console().print(sys.argv[1] * 5000) or 0, debug=False)
sys.exit(exit_code_of(work))
"""


def shown(text, out, **env):
    return subprocess.run(
        [sys.executable, "-c", SHOW, text],
        env={**os.environ, **env},
        check=False,
        stdout=out,
        stderr=subprocess.PIPE,
        timeout=60,
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("text", ["a", "much "], ids=["at the end", "before the end"])
def test_an_output_that_is_full_is_a_sentence(text):
    with Path("/dev/full").open("wb") as full:
        answer = shown(text, full)
    assert answer.returncode == 1
    (line,) = answer.stderr.decode().splitlines()
    assert "what the command shows cannot be written (No space left on device)" in line


def test_an_output_without_utf_8_shows_every_letter():
    answer = shown("✓–é", subprocess.PIPE, PYTHONIOENCODING="ascii")  # noqa: RUF001 - a sign
    assert answer.returncode == 0
    assert b"+-\\xe9" in answer.stdout
