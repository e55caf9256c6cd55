"""Which Java Spark is let to start."""

import pytest

from spark_core.errors import SettingsError
from spark_core.session import check_java


def _java(monkeypatch, home, *lines):
    """A Java that answers these lines when it is asked for its version."""
    java = home / "bin" / "java"
    java.parent.mkdir()
    said = "".join(f"echo '{line}' >&2\n" for line in lines)
    java.write_text(f"#!/bin/sh\n{said}")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))


def test_a_java_that_first_tells_which_options_it_picked_up_is_read_by_its_version(monkeypatch, tmp_path):
    version = 'openjdk version "21.0.4" 2024-07-16'
    _java(monkeypatch, tmp_path, "Picked up JAVA_TOOL_OPTIONS: -XX:MaxRAMPercentage=75", version, "OpenJDK Runtime")
    assert check_java() == version


@pytest.mark.parametrize("line", ['java version "1.8.0_402"', 'openjdk version "11.0.23"', "no version at all", ""])
def test_a_java_that_is_too_old_or_does_not_say_is_refused_as_it_answers(line, monkeypatch, tmp_path):
    _java(monkeypatch, tmp_path, line)
    with pytest.raises(SettingsError, match="Spark needs Java 17 or newer") as refused:
        check_java()
    assert repr(line) in str(refused.value)
