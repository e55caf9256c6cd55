"""`lakegc hold` on a sandbox: what is held is found first, listed, and removed by name."""

import getpass
import re
from dataclasses import replace

import pytest
from click.testing import CliRunner

from lakegc_dagster.sandbox import Sandbox, repositories
from spark_core import holds
from spark_core.cli.main import main
from spark_core.lock import lease
from spark_core.model import RunKey
from spark_core.settings import load_settings
from spark_core.stored_runs import open_stored
from tests.support.command_line import WITH_REPO, settings_in_environment

KEY = "2026-01-01T00-00-00Z"


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory):
    with Sandbox(tmp_path_factory.mktemp("sandbox")) as running:
        with running.core.lock:
            repositories.create(running.core, "repo", "local://repo")
        (running.blockstore / "repo" / "data" / "gp").mkdir(parents=True)
        (running.blockstore / "repo" / "data" / "gp" / "x").write_bytes(b"1")
        yield running


@pytest.fixture
def config(sandbox, tmp_path, monkeypatch):
    return settings_in_environment(sandbox, tmp_path, monkeypatch, WITH_REPO)


@pytest.fixture
def run(config):
    return open_stored(load_settings(config), "repo", RunKey.parse(KEY))


@pytest.fixture
def hold(config, run):
    def say(*words):
        return CliRunner().invoke(main, ["hold", *words, "--config", str(config)])

    yield say
    for left in holds.load(run.store).holds:
        holds.remove(run, left.name)


def test_a_hold_is_made_listed_and_removed(hold):
    made = hold("add", "repo", "audit", "--branch", "main", "--why", "for the auditors")
    assert made.exit_code == 0, made.output
    assert made.stdout == "hold audit: branch main was added to repo\n"
    listed = hold("list", "repo").stdout
    assert re.search(r"audit\s+branch\s+main", listed)
    assert getpass.getuser() in listed.replace("\n", "")
    gone = hold("remove", "repo", "audit")
    assert gone.exit_code == 0
    assert "hold audit: branch main was removed from repo" in gone.stdout
    assert hold("list", "repo").stdout == "repo has no holds: only its rules say what is kept.\n"


FORGED = "everything was kept"


def test_whoever_names_a_thing_forges_no_line_of_output(hold):
    path, why = f"a\n{FORGED}", f"for the auditors\r\n{FORGED}\x1b[2J"
    made = hold("add", "repo", "audit", "--path", path, "--why", why)
    assert made.stdout == f"hold audit: path a\\n{FORGED} was added to repo\n"
    listed = hold("list", "repo").stdout
    gone = hold("remove", "repo", "audit").stdout
    for shown in (listed, gone):
        assert not [line for line in shown.splitlines() if line.strip().startswith(FORGED)]
    assert f"a\\n{FORGED}" in gone


def test_the_commit_of_a_branch_can_be_held_by_its_id(hold, run):
    (main_branch,) = run.server.branches("repo")
    assert hold("add", "repo", "first", "--commit", main_branch.commit_id[:10]).exit_code == 0
    assert holds.load(run.store).starting_commits == [main_branch.commit_id]


def test_a_whole_address_is_held_by_its_part_below_the_namespace(hold, run, sandbox):
    for name, words in {
        "one": ("--address", "local://repo/data/gp/x"),
        "two": ("--address", f"local://{sandbox.blockstore}/repo/data/gp/x"),
        "three": ("--prefix", "data/gp/"),
    }.items():
        answer = hold("add", "repo", name, *words)
        assert answer.exit_code == 0, answer.output
    assert [held.value for held in holds.load(run.store).holds] == [
        "data/gp/x",
        "data/gp/",
        "data/gp/x",
    ]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--branch", "mian"), "repo has no branch mian\\. Did you mean main\\?"),
        (("--tag", "v1"), "repo has no tag v1"),
        (("--commit", "0" * 64), "not found|no commit"),
        (("--address", "data/gp/y"), "there is no object 'data/gp/y'"),
        (("--address", "s3://elsewhere/data/gp/x"), "lies outside"),
    ],
)
def test_what_is_not_there_cannot_be_held(hold, run, words, problem):
    answer = hold("add", "repo", "audit", *words)
    assert answer.exit_code == (3 if "outside" in problem else 1)
    assert re.search(problem, " ".join(answer.stderr.split())), answer.stderr
    assert "Traceback" not in answer.output
    assert holds.load(run.store) == holds.NONE


@pytest.mark.parametrize("words", [(), ("--branch", "main", "--tag", "v1")])
def test_a_hold_is_on_one_thing(hold, words):
    answer = hold("add", "repo", "audit", *words)
    assert answer.exit_code == 2
    assert "name one thing" in answer.stderr


def test_a_name_that_is_taken_is_a_wrong_input(hold):
    assert hold("add", "repo", "audit", "--branch", "main").exit_code == 0
    again = hold("add", "repo", "audit", "--branch", "main")
    assert again.exit_code == 2
    assert "there is a hold audit of repo already" in " ".join(again.stderr.split())


def test_a_hold_that_is_made_while_a_sweep_may_run_says_when_it_counts(hold, run):
    with lease.acquire(replace(run)):
        answer = hold("add", "repo", "audit", "--branch", "main")
    assert f"The sweep of run {KEY} of repo" in answer.stdout
    assert "sees the hold within 10 minutes" in " ".join(answer.stdout.split())
