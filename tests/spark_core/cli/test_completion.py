"""A shell completes repositories and run keys, and never shows an error."""

import pytest
from click.testing import CliRunner

from lakegc_dagster.sandbox import Sandbox, repositories
from spark_core.cli.main import main
from tests.support.command_line import settings_on

SETTINGS = """\
[server]
endpoint = "{endpoint}"
[storage]
local_path = "{blockstore}"
[repositories.repo]
[repositories."team-*"]
"""
KEYS = ["2026-11-21T02-00-00Z", "2026-11-20T02-00-00Z"]


def complete(env, words, begun=""):
    asked = {"_LAKEGC_COMPLETE": "bash_complete", "COMP_WORDS": f"lakegc {words} {begun}"}
    asked["COMP_CWORD"] = str(len(f"lakegc {words}".split()))
    answer = CliRunner().invoke(main, [], env={**env, **asked}, prog_name="lakegc")
    assert answer.stderr == ""
    return [line.partition(",")[2] for line in answer.stdout.splitlines() if line]


@pytest.fixture(scope="module")
def env(tmp_path_factory):
    folder = tmp_path_factory.mktemp("complete")
    with Sandbox(folder / "sandbox") as sandbox:
        with sandbox.core.lock:
            for name in ("repo", "team-a", "other"):
                repositories.create(sandbox.core, name, f"local://{name}")
        for key in KEYS:
            run = sandbox.blockstore / "repo/_lakefs/retention/gc/addresses" / f"run_id={key}"
            run.mkdir(parents=True)
            (run / "_expired_addresses.json").write_text("{}")
        yield settings_on(sandbox, folder, SETTINGS)


def test_repositories_are_those_that_are_collected(env):
    assert complete(env, "report") == ["repo", "team-a"]
    assert complete(env, "hold add", "te") == ["team-a"]


def test_run_keys_are_those_of_the_repository_newest_first(env):
    assert complete(env, "report repo --run") == KEYS
    assert complete(env, "restore repo", "2026-11-20") == KEYS[1:]


def test_a_server_that_does_not_answer_leaves_what_the_settings_name(env):
    away = {**env, "LAKEGC__SERVER__ENDPOINT": "http://127.0.0.1:9"}
    assert complete(away, "report") == ["repo"]
    assert complete(away, "report repo --run") == []
    assert complete({"LAKEGC_CONFIG": "/nowhere.toml"}, "report") == []
