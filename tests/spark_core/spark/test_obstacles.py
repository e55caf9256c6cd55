"""What of a machine keeps Spark from starting is named, with what helps."""

import os
import socket
import subprocess
import sys

import pytest

from spark_core.spark.obstacles import obstacle

HOST = "no-such-host.invalid"


@pytest.fixture(autouse=True)
def _machine_with_an_address(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "localhost")


def test_a_machine_where_spark_could_start_has_none(tmp_path):
    assert obstacle({}, {}) == ""
    assert obstacle({"SPARK_LOCAL_DIRS": f"/dev/null/x, {tmp_path}/to/make"}, {}) == ""


@pytest.mark.parametrize(
    ("environment", "properties"),
    [
        ({"SPARK_LOCAL_DIRS": "/dev/null/x"}, {}),
        ({"SPARK_LOCAL_DIRS": "/dev/null/x"}, {"spark.local.dir": "/tmp"}),
        ({}, {"spark.local.dir": "/dev/null/x"}),
    ],
)
def test_a_folder_that_spark_cannot_make_is_named_with_its_variables(environment, properties):
    told = obstacle(environment, properties)
    assert "SPARK_LOCAL_DIRS or spark.local.dir is /dev/null/x, and this user can write" in told


def test_a_user_whom_the_system_does_not_know_is_told_to_get_an_entry(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_111)
    assert "user id 4000111 has no entry in /etc/passwd" in obstacle({}, {})


def test_a_name_of_the_machine_without_address_is_told_unless_spark_need_not_ask(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: HOST)
    assert f"The name of this machine, {HOST}, leads to no address" in obstacle({}, {})
    assert obstacle({"SPARK_LOCAL_HOSTNAME": "localhost"}, {}) == ""
    assert obstacle({"SPARK_LOCAL_IP": "127.0.0.1"}, {}) == ""


START = """
from spark_core.errors import SettingsError
from spark_core.spark.session import spark_config, start_session
try:
    start_session(spark_config(master="local[1]"))
except SettingsError as told:
    print(told)
"""


@pytest.mark.slow
@pytest.mark.spark
def test_spark_that_did_not_start_says_so_with_the_folder():
    done = subprocess.run(
        [sys.executable, "-c", START],
        env={**os.environ, "SPARK_LOCAL_DIRS": "/dev/null/x"},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Spark does not start (")
    assert "SPARK_LOCAL_DIRS or spark.local.dir is /dev/null/x" in done.stdout
