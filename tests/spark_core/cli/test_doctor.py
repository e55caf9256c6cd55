"""`lakegc doctor` on a sandbox: the table, the JSON and the exit codes."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner

from lakegc_dagster.sandbox import Sandbox, repositories
from spark_core.cli.main import main
from tests.support.command_line import settings_on
from tests.support.s3_inventory import Delivery

SETTINGS = """\
throwaway_repositories = ["repo"]
[server]
endpoint = "{endpoint}"
[storage]
local_path = "{blockstore}"
[repositories.repo]
mode = "sweep"
[repositories.frozen]
[repositories.absent]
"""


class Place:
    """A sandbox with a repository in order and a read-only one, and the command line on it."""

    def __init__(self, sandbox, folder):
        self.sandbox = sandbox
        with sandbox.core.lock:
            repositories.create(sandbox.core, "repo", "local://repo")
            repositories.create(sandbox.core, "frozen", "local://frozen", read_only=True)
            # Read-only ones are made over what is there.
            (sandbox.blockstore / "frozen").mkdir()
        self.env = settings_on(sandbox, folder, SETTINGS)

    def doctor(self, *words, **env):
        answer = CliRunner().invoke(main, ["doctor", *words], env={**self.env, **env})
        assert "Traceback" not in answer.output
        return answer


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("place")
    with Sandbox(folder / "sandbox") as sandbox:
        yield Place(sandbox, folder)


def test_a_repository_in_order_passes_with_exit_code_0(place):
    before = sorted(path for path in place.sandbox.blockstore.rglob("*") if path.is_file())
    answer = place.doctor("repo")
    assert answer.exit_code == 0, answer.output
    assert "✗" not in answer.stdout
    assert "mode sweep" in answer.stdout
    assert "checks, none failed; 1 could not be checked" in answer.stdout
    assert "objects under data/ may be deleted" in " ".join(answer.stdout.split())
    left = {
        path.name
        for path in place.sandbox.blockstore.rglob("*")
        if path.is_file() and path not in before
    }
    assert left <= {"clock"}


def test_every_repository_of_the_settings_is_looked_at_and_each_failure_has_a_next_step(place):
    answer = place.doctor()
    assert answer.exit_code == 1
    text = " ".join(answer.stdout.split())
    assert "repository frozen is read-only" in text
    assert "Make it writable, or leave it out" in text
    assert re.search(r"absent: \d\d checks, 1 failed: fix the first one first", text)
    assert "not looked at: the server does not describe the repository" in text


def test_an_inventory_that_marks_would_read_is_looked_at(place, tmp_path):
    read = {
        "LAKEGC__REPOSITORIES__REPO__INVENTORY": str(tmp_path),
    }
    answer = place.doctor("repo", **read)
    assert answer.exit_code == 1
    text = " ".join(answer.stdout.split())
    assert "✗ inventory: manifest" in text
    assert "inventory: bucket and 5 more not looked at" in text

    def put(key, data):
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_bytes(data)

    Delivery(put).write([], datetime.now(UTC) - timedelta(days=3))
    read["LAKEGC__REPOSITORIES__REPO__INVENTORY"] = str(tmp_path / "inv/local/all")
    answer = place.doctor("repo", **read)
    assert answer.exit_code == 0, answer.output
    text = " ".join(answer.stdout.split())
    assert "garbage since then" in text
    assert "✓ inventory: rows" in text


def test_programs_get_json(place):
    answer = place.doctor("repo", "frozen", "--json")
    assert answer.exit_code == 1
    document = json.loads(answer.stdout)
    assert list(document) == ["repo", "frozen"]
    failing = [
        (probe["about"], probe["name"]) for probe in document["frozen"] if probe["passed"] is False
    ]
    assert failing == [("repository", "state")]
    assert all(probe["passed"] is not False for probe in document["repo"])
    assert set(document["repo"][0]) == {"about", "name", "passed", "found", "next_step", "figures"}


def test_a_repository_that_the_settings_do_not_name_is_a_failure_of_the_settings(place):
    answer = place.doctor("somebody", "repo")
    assert answer.exit_code == 2
    text = " ".join(answer.stdout.split())
    assert "✗ settings: repository repository 'somebody' is not in" in text
    assert "Add the line `[repositories.somebody]`" in text
    assert "repo: " in text, "the others are looked at all the same"


@pytest.mark.parametrize("word", ["repo", "--spark"])
def test_a_namespace_is_looked_at_alone(place, word):
    answer = place.doctor(word, "--namespace", "local://repo")
    assert answer.exit_code == 2
    assert "--namespace takes no repository and no --spark" in answer.stderr


def test_settings_that_cannot_be_read_end_with_exit_code_2(place, tmp_path):
    broken = tmp_path / "lakegc.toml"
    broken.write_text('[server]\nendpoint = "no URL"\n')
    answer = place.doctor("--config", str(broken))
    assert answer.exit_code == 2
    assert "endpoint" in answer.stderr
    broken.write_text('[server]\nendpoint = "http://127.0.0.1:1"\n')
    answer = place.doctor("--config", str(broken))
    assert answer.exit_code == 2
    assert "no repository is named" in answer.stderr


def test_keys_that_are_missing_keep_java_from_nothing(place):
    answer = place.doctor("repo", "--json", LAKEGC_ACCESS_KEY_ID="", LAKEGC_SECRET_ACCESS_KEY="")
    assert answer.exit_code == 1
    probes = json.loads(answer.stdout)["repo"]
    assert [probe["name"] for probe in probes if probe["passed"] is False] == ["keys"]
    assert probes[-1]["name"] == "Java"


def test_wrong_keys_are_told_and_not_shown(place):
    answer = place.doctor("repo", LAKEGC_SECRET_ACCESS_KEY="not-the-secret-of-anybody")
    assert answer.exit_code == 1
    assert "not-the-secret-of-anybody" not in answer.output
    assert "it is the keys" in " ".join(answer.stdout.split())
