"""`lakegc mark` twice: the second run has an index, and every command says so."""

import json
import re
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

from lakegc_dagster.sandbox import Sandbox
from lakegc_dagster.sandbox.history import documents_history
from spark_core.cli.main import main
from tests.support.command_line import settings_on

pytestmark = [pytest.mark.spark, pytest.mark.slow]

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
    """A repository with a clean mark and an optimized one; the command line on it."""

    def __init__(self, sandbox, folder):
        self.story = documents_history(sandbox, "repo", now=datetime.now(UTC))
        self.env = settings_on(sandbox, folder, SETTINGS)
        self.first = self.lakegc("mark", "repo")
        self.clean = KEY.search(self.first.stdout)[1]
        self.second = self.lakegc("mark", "repo")
        self.optimized = KEY.search(self.second.stdout)[1]

    def lakegc(self, *words):
        answer = CliRunner().invoke(main, words, env=self.env)
        assert answer.exit_code == 0, answer.output
        return answer


@pytest.fixture(scope="module")
def place(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("place")
    with Sandbox(folder / "sandbox") as sandbox:
        yield Place(sandbox, folder)


def test_each_mark_says_in_one_line_who_worked(place):
    for marked in (place.first, place.second):
        assert re.findall(r"^worked .*$", marked.stdout, re.MULTILINE) == ["worked   this process"]


def test_each_mark_says_what_it_read_and_both_find_the_same(place):
    assert "clean: no mark of this repository has passed yet; reading began" in place.first.stdout
    told = re.search(
        rf"optimized, with the index of run {place.clean}: (\d+) slices \((\d+) objects\) and "
        r"(\d+) ranges were taken from it",
        place.second.stdout,
    )
    assert all(int(number) > 0 for number in told.groups())
    assert ", newest slice " in place.second.stdout
    found = [
        json.loads(place.lakegc("report", "repo", "--run", key, "--json").stdout)
        for key in (place.clean, place.optimized)
    ]
    assert [report["kind"]["name"] for report in found] == ["clean", "optimized"]
    for name in ("expired", "listed", "kept", "fates", "by_reason", "by_prefix", "by_branch"):
        assert found[0][name] == found[1][name]
    assert found[1]["kind"]["index"] == place.clean


def test_runs_and_status_show_the_kind(place):
    shown = place.lakegc("runs", "repo").stdout
    assert re.search(rf"{place.clean} +marked +clean ", shown)
    assert re.search(rf"{place.optimized} +marked +optimized ", shown)
    assert ", optimized" in place.lakegc("status", "repo").stdout
    (status,) = json.loads(place.lakegc("status", "repo", "--json").stdout).values()
    assert (status["last_mark_kind"], status["last_mark_why_full"]) == ("optimized", "")


def test_the_figures_of_both_kinds_add_up_to_the_namespace(place):
    runs = json.loads(place.lakegc("runs", "repo", "--json").stdout)["repo"]["runs"]
    total = {run["run"]: sum(fate["objects"] for fate in run["fates"].values()) for run in runs}
    assert total[place.clean] == total[place.optimized] == runs[0]["listed_objects"]


def test_what_if_answers_by_the_newest_mark_of_either_kind(place):
    found = [
        json.loads(place.lakegc("what-if", "repo", "--days", "7", *words, "--json").stdout)
        for words in ((), ("--run", place.clean))
    ]
    assert [one["run"] for one in found] == [place.optimized, place.clean]
    assert found[0]["answers"] == found[1]["answers"]


def test_a_clean_run_can_be_asked_for(place):
    clean = place.lakegc("mark", "repo", "--full").stdout
    assert "clean: a clean run was asked for" in clean
    newest = KEY.search(clean)[1]
    again = place.lakegc("mark", "repo").stdout
    assert f"optimized, with the index of run {newest}: " in again
