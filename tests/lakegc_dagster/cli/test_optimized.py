"""`lakegc mark` twice: the second run reads what changed, and every command says so."""

import json
import re
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

from lakegc_dagster.cli.main import main
from lakegc_dagster.sandbox import Sandbox
from lakegc_dagster.sandbox.history import documents_history
from tests.lakegc_dagster.conftest import instance_in_memory
from tests.support.command_line import settings_on

pytestmark = pytest.mark.spark

SETTINGS = """\
[server]
endpoint = "{endpoint}"
[storage]
local_path = "{blockstore}"
[defaults]
repository_cache_seconds = 0
optimized = true
[repositories.repo]
"""
KEY = re.compile(r"run (\d{4}-\S+Z)")


class Place:
    """A repository with a full mark and an optimized one; the command line on it."""

    def __init__(self, sandbox, folder):
        self.story = documents_history(sandbox, "repo", now=datetime.now(UTC))
        self.env = settings_on(sandbox, folder, SETTINGS)
        self.first = self.lakegc("mark", "repo")
        self.full = KEY.search(self.first.stdout)[1]
        self.second = self.lakegc("mark", "repo")
        self.optimized = KEY.search(self.second.stdout)[1]

    def lakegc(self, *words):
        answer = CliRunner().invoke(main, words, env=self.env)
        assert answer.exit_code == 0, answer.output
        return answer


@pytest.fixture(scope="module")
def place(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("place")
    with Sandbox(folder / "sandbox") as sandbox, pytest.MonkeyPatch.context() as patch:
        patch.setattr("lakegc_dagster.launch.run_job.open_instance", instance_in_memory)
        yield Place(sandbox, folder)


def test_each_mark_says_in_one_line_who_worked(place):
    for marked in (place.first, place.second):
        assert re.findall(r"^worked .*$", marked.stdout, re.MULTILINE) == ["worked   this process"]


def test_each_mark_says_what_it_read_and_both_find_the_same(place):
    assert "full: no mark of this repository has passed yet; reading began" in place.first.stdout
    told = re.search(
        rf"optimized, from run {place.full}: (\d+) slices and (\d+) ranges were not read",
        place.second.stdout,
    )
    assert int(told[1]) > 0
    assert int(told[2]) > 0
    assert ", newest slice " in place.second.stdout
    found = [
        json.loads(place.lakegc("report", "repo", "--run", key, "--json").stdout)
        for key in (place.full, place.optimized)
    ]
    assert [report["kind"]["name"] for report in found] == ["full", "optimized"]
    assert found[0]["expired"] == found[1]["expired"]
    assert found[0]["listed"] == found[1]["listed"], "the totals are those of the namespace"
    assert found[1]["kind"]["base"] == place.full


def test_runs_and_status_show_the_kind(place):
    shown = place.lakegc("runs", "repo").stdout
    assert re.search(rf"{place.full} +marked +full ", shown)
    assert re.search(rf"{place.optimized} +marked +optimized ", shown)
    assert ", optimized" in place.lakegc("status", "repo").stdout
    (status,) = json.loads(place.lakegc("status", "repo", "--json").stdout).values()
    assert (status["last_mark_kind"], status["last_mark_why_full"]) == ("optimized", "")


def test_the_metrics_add_up_to_the_namespace(place):
    runs = json.loads(place.lakegc("runs", "repo", "--json").stdout)["repo"]["runs"]
    total = {run["run"]: sum(objects for objects, _ in run["fates"].values()) for run in runs}
    assert total[place.full] == total[place.optimized] == runs[0]["listed_objects"]
    shown = place.lakegc("metrics", "--show").stdout
    assert 'fate="not_read"' in shown


def test_what_if_asks_the_full_run_and_refuses_the_other_by_name(place):
    found = json.loads(place.lakegc("what-if", "repo", "--days", "7", "--json").stdout)
    assert found["run"] == place.full
    answer = CliRunner().invoke(main, ["what-if", "repo", "--run", place.optimized], env=place.env)
    assert answer.exit_code == 1
    assert f"run {place.optimized} of repo is an optimized one" in answer.stderr
    assert f"`lakegc what-if repo --run {place.full}`" in answer.stderr


def test_a_full_run_and_a_base_can_be_asked_for(place):
    full = place.lakegc("mark", "repo", "--full").stdout
    assert "full: a full run was asked for" in full
    newest = KEY.search(full)[1]
    again = place.lakegc("mark", "repo", "--base", newest).stdout
    assert f"optimized, from run {newest}: " in again
    other = place.lakegc("mark", "repo", "--base", place.full).stdout
    assert f"and run {place.full} was asked for" in other
