"""What a home of Dagster that cannot be used raises is a sentence, and never a traceback."""

import os
from pathlib import Path

import pytest

from lakegc_dagster.launch.foreign_errors import in_dagsters_home
from lakegc_dagster.launch.home import open_instance, prepare_home
from spark_core.cli.common import guarded
from spark_core.errors import LakegcError, SettingsError
from tests.spark_core.cli.test_foreign_errors import FULL, READ_ONLY, said


@pytest.mark.parametrize("code", [FULL, READ_ONLY])
def test_a_home_of_dagster_that_cannot_be_made_is_named(capsys, tmp_path, monkeypatch, code):
    home = tmp_path / "home"

    def refuse(path, **_how):
        raise OSError(code, os.strerror(code), str(path))

    monkeypatch.setattr(Path, "mkdir", refuse)
    assert guarded(lambda: prepare_home(home) and 0, debug=False) == 1
    assert f"{home} cannot be used ({os.strerror(code)})" in said(capsys)


BROKEN = {
    "no YAML": "a: [b",
    "a list": "- a",
    "an unknown name": "foo: a",
    "an unknown module": "run_storage:\n  module: no.such\n  class: Y\n",
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_settings_of_dagster_that_cannot_be_used_are_named(tmp_path, text):
    (tmp_path / "dagster.yaml").write_text(text)
    with (
        pytest.raises(SettingsError, match=r"dagster\.yaml cannot be used \(.+\)\. Correct it"),
        open_instance(tmp_path),
    ):
        pass


def test_so_are_those_that_are_no_text(tmp_path):
    (tmp_path / "dagster.yaml").write_bytes(b"a: \xff")
    with (
        pytest.raises(SettingsError, match=r"dagster\.yaml cannot be used \('utf-8' codec"),
        open_instance(tmp_path),
    ):
        pass


def test_a_damaged_database_is_named_with_its_home(tmp_path):
    with open_instance(tmp_path) as instance:
        instance.get_runs()
    (tmp_path / "history" / "runs.db").write_bytes(b"no database at all" * 100)
    with (
        pytest.raises(LakegcError, match=r"Dagster's database in .* \(file is not a database\)"),
        open_instance(tmp_path) as instance,
    ):
        instance.get_runs()


def test_an_error_of_a_run_in_the_home_stays_what_it_is(tmp_path):
    with pytest.raises(KeyError), in_dagsters_home(tmp_path):
        raise KeyError


def test_a_full_disk_of_dagsters_home_is_told_with_the_home(tmp_path):
    with pytest.raises(OSError, match=str(tmp_path)), in_dagsters_home(tmp_path):
        raise OSError(FULL, os.strerror(FULL))
