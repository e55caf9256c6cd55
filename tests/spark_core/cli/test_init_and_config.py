"""`lakegc init` writes a settings file once, and `lakegc config show` says where each word is."""

import json
import tomllib

import pytest
from click.testing import CliRunner

from lakegc_dagster.sandbox import Sandbox, repositories
from spark_core.cli import init as init_module
from spark_core.cli.main import main

LAKECTL = """\
credentials:
  access_key_id: AKIAEXAMPLE
  secret_access_key: not-shown
server:
  endpoint_url: {endpoint}/api/v1
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("LAKEGC_CONFIG", "LAKEGC_ACCESS_KEY_ID", "LAKEGC_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def lakegc(*words, **how):
    return CliRunner().invoke(main, words, **how)


def test_init_takes_server_and_log_in_from_the_file_of_lakectl(home):
    (home / ".lakectl.yaml").write_text(LAKECTL.format(endpoint="https://lakefs.example.com"))
    answer = lakegc("init", "--repository", "my-repo", "--repository", "team-*")
    assert answer.exit_code == 0, answer.output
    assert "lakegc doctor" in answer.stdout
    assert tomllib.loads((home / "lakegc.toml").read_text()) == {
        "server": {
            "endpoint": "https://lakefs.example.com",
            "credentials_file": "~/.lakectl.yaml",
        },
        "defaults": {"mode": "mark"},
        "repositories": {"my-repo": {}, "team-*": {}},
    }


def test_init_never_writes_over_a_file(home):
    (home / "lakegc.toml").write_text("mine")
    answer = lakegc("init", "--endpoint", "https://lakefs.example.com")
    assert answer.exit_code == 2
    assert "lakegc.toml is there already" in answer.stderr
    assert (home / "lakegc.toml").read_text() == "mine"


def test_init_without_a_terminal_asks_nothing(home):
    answer = lakegc("init")
    assert answer.exit_code == 2
    assert "no server is named" in answer.stderr
    assert not (home / "lakegc.toml").exists()


def test_init_leaves_no_file_that_could_not_be_read_again(home):
    answer = lakegc("init", "--endpoint", "https://user:word@lakefs.example.com")
    assert answer.exit_code == 2
    assert "word" not in answer.output.replace("password", "")
    assert not (home / "lakegc.toml").exists()


def test_init_shows_the_repositories_of_the_server_and_asks_which_are_collected(home, monkeypatch):
    monkeypatch.setattr(init_module, "can_ask", lambda: True)
    with Sandbox(home / "sandbox") as sandbox:
        with sandbox.core.lock:
            repositories.create(sandbox.core, "repo", "local://repo")
        keys = {
            "LAKEGC_ACCESS_KEY_ID": sandbox.access_key_id,
            "LAKEGC_SECRET_ACCESS_KEY": sandbox.secret_access_key,
        }
        answer = lakegc("init", input=f"{sandbox.endpoint}\nrepo\n", env=keys)
    assert answer.exit_code == 0, answer.output
    assert f"repositories of {sandbox.endpoint}: repo\n" in answer.stdout
    assert list(tomllib.loads((home / "lakegc.toml").read_text())["repositories"]) == ["repo"]


def test_config_says_the_line_or_variable_of_each_setting_and_shows_no_secret(home):
    (home / "lakegc.toml").write_text(
        '[server]\nendpoint = "https://lakefs.example.com"\n'
        'token_command = ["vault", "not-shown"]\n'
        "[repositories.my-repo]\nmin_age_hours = 48\n[repositories.other]\n"
    )
    env = {
        "LAKEGC__DEFAULTS__MODE": "sweep",
        "LAKEGC__SPARK__MASTER": "sc://host:15002/;token=not-shown",
        "LAKEGC_SECRET_ACCESS_KEY": "not-shown",
    }
    shown = lakegc("config", "show", env=env)
    assert shown.exit_code == 0, shown.output
    for line in (
        'endpoint = "https://lakefs.example.com"   # lakegc.toml, line 2',
        'token_command = ["vault", "(hidden)"]   # lakegc.toml, line 3',
        'mode = "sweep"   # LAKEGC__DEFAULTS__MODE',
        'master = "sc://host:15002/;(hidden)"   # LAKEGC__SPARK__MASTER',
        "min_age_hours = 48.0   # lakegc.toml, line 5",
        "other = as [defaults]   # lakegc.toml, line 6",
        "LAKEGC_SECRET_ACCESS_KEY: set (hidden)   # the key pair",
    ):
        assert line in shown.stdout.splitlines()
    assert "read_threads" not in shown.stdout
    assert "read_threads = 8   # default" in lakegc("config", "show", "--all", env=env).stdout
    as_json = lakegc("config", "show", "--json", env=env).stdout
    assert {
        "table": "defaults",
        "name": "mode",
        "value": '"sweep"',
        "place": "LAKEGC__DEFAULTS__MODE",
    } in json.loads(as_json)
    assert "not-shown" not in shown.stdout + as_json
