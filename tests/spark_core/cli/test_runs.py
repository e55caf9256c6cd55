"""Whole runs from the command line on a sandbox.

What is shown, what is deleted, and how it ends.
"""

import io
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from lakegc_dagster.sandbox import Sandbox, repositories
from spark_core.cli import runs
from spark_core.cli.main import main
from spark_core.lakefs import LakeFSServer
from spark_core.model import RunKey
from spark_core.report import Report
from spark_core.report.status import RepositoryStatus
from spark_core.settings import load_settings
from tests.support.command_line import settings_on
from tests.support.upstream import upstream_scenario

pytestmark = pytest.mark.spark

SETTINGS = """\
throwaway_repositories = ["repo"]
[server]
endpoint = "{endpoint}"
[storage]
local_path = "{blockstore}"
[defaults]
repository_cache_seconds = 0
[repositories.frozen]
[repositories.repo]
[repositories.absent]
"""
SWEEP = {"LAKEGC__REPOSITORIES__REPO__MODE": "sweep"}


class Place:
    """A sandbox with two repositories, and the command line on it."""

    def __init__(self, sandbox, folder):
        self.sandbox = sandbox
        self.story = upstream_scenario(sandbox, "repo", now=datetime.now(UTC))
        with sandbox.core.lock:
            repositories.create(sandbox.core, "frozen", "local://frozen", read_only=True)
            # Read-only ones are made over what is there.
            (sandbox.blockstore / "frozen").mkdir()
        self.env = settings_on(sandbox, folder, SETTINGS)

    def lakegc(self, *words, **env):
        return CliRunner().invoke(main, words, env={**self.env, **env})

    def objects(self):
        root = self.sandbox.blockstore / "repo"
        return {
            str(path.relative_to(root)) for path in (root / "data").rglob("*") if path.is_file()
        }


@pytest.fixture(scope="module")
def place(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("place")
    with Sandbox(folder / "sandbox") as sandbox:
        yield Place(sandbox, folder)


@pytest.fixture(scope="module")
def marked(place):
    """The answer of a run over a repository that refuses and one that is only marked."""
    return place.lakegc("run", "frozen", "repo", "--verbose")


@pytest.fixture(scope="module")
def key(marked):
    return re.search(r"run (\d{4}-\S+Z)", marked.stdout)[1]


@pytest.mark.slow
def test_one_refusal_fails_the_command_and_keeps_nobody_from_their_turn(marked, key):
    assert marked.exit_code == 3
    assert "lakegc: refused: repository frozen is read-only" in marked.stderr
    assert "Traceback" not in marked.output
    assert re.findall(r"^mark (\w+), run (\S+)$", marked.stdout, re.MULTILINE) == [
        ("frozen", key),
        ("repo", key),
    ]


def test_every_step_is_a_line_with_rows_bytes_and_seconds(marked):
    for step in ("namespace_slices", "uncommitted_addresses", "expired_addresses"):
        assert re.search(
            rf"^  {step} +\d+ rows +[\d.]+ (bytes|kB) +[\d.]+ s$", marked.stdout, re.MULTILINE
        )


def test_in_mode_mark_nothing_is_deleted_and_what_could_go_is_shown(place, marked, key):
    assert place.objects() == {file.address for file in place.story.files}
    assert f"repo, run {key}: {len(place.story.deleted)} objects" in marked.stdout
    assert "next     lakegc sweep" not in marked.stdout


def test_a_folder_of_addresses_is_summed_up_by_what_keeps_its_objects(place, marked):
    answer = place.lakegc("explain", "repo", "data/", "--json")
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.stdout)
    counted = {group["reason"]: group["objects"] for group in found["groups"]}
    assert counted["expired"] == len(place.story.deleted)
    assert found["objects"] == sum(counted.values()) == len(place.story.files)
    file = next(file for file in place.story.files if file.address not in place.story.deleted)
    folder = f"{file.address.rpartition('/')[0]}/"
    below = [file for file in place.story.files if file.address.startswith(folder)]
    told = place.lakegc("explain", "repo", folder).stdout
    assert f"{folder}: {len(below)} object" in told


def test_a_folder_of_paths_has_what_the_ref_shows_what_commits_keep_and_what_may_go(place, marked):
    found = json.loads(place.lakegc("explain", "lakefs://repo/main/", "--json").stdout)
    counted = {group["reason"]: group["objects"] for group in found["groups"]}
    server = LakeFSServer(
        load_settings(Path(place.env["LAKEGC_CONFIG"]), place.env).server_options()
    )
    shown = server.list_entries("repo", "main", after="").entries
    assert counted["at_ref"] == len({address for _, address in shown})
    assert counted["commits"] > 0
    # Those that no commit had have no path.
    assert 0 < counted["expired"] < len(place.story.deleted)
    one = place.lakegc("explain", "lakefs://repo/main/file_1/")
    assert one.exit_code == 1
    assert "nothing that run" in one.stderr


def test_what_is_not_there_is_not_explained_as_if_it_were(place, key):
    server = LakeFSServer(
        load_settings(Path(place.env["LAKEGC_CONFIG"]), place.env).server_options()
    )
    now = dict(server.list_entries("repo", "main", after="").entries)
    shown, physical = next(iter(now.items()))
    elsewhere = place.lakegc("explain", f"lakefs://repo/mian/{shown}")
    assert elsewhere.exit_code == 0, elsewhere.output
    said, kept, *_ = elsewhere.stdout.splitlines()
    assert said.startswith(
        "repo has no branch, tag or commit mian. Did you mean main? What follows"
    )
    assert "it is shown now by main" in said
    assert kept.startswith("kept: ")
    found = json.loads(place.lakegc("explain", f"lakefs://repo/mian/{shown}", "--json").stdout)
    assert found["caution"] == said
    assert physical.endswith(found["address"])
    nothing = place.lakegc("explain", "lakefs://repo/mian/never_there")
    assert (nothing.exit_code, nothing.stdout) == (1, "")
    assert "repo has no branch, tag or commit mian, no branch has such a path" in nothing.stderr
    assert "Did you mean main?" in nothing.stderr
    plain = place.lakegc("explain", "repo", shown)
    assert plain.exit_code == 1
    assert f"a path is named as lakefs://repo/main/{shown}" in plain.stdout


def test_the_report_of_the_newest_run_is_shown_again(place, key):
    answer = place.lakegc("report", "repo")
    assert answer.exit_code == 0, answer.output
    assert f"repo, run {key}: " in answer.stdout
    assert "only in commits past their retention" in answer.stdout
    page = re.search(r"^report +(\S+)$", answer.stdout, re.MULTILINE)[1]
    assert page.startswith(str(place.sandbox.blockstore))
    assert page.endswith("/_report.html")


def test_the_report_as_json_is_the_stored_one(place, key):
    answer = place.lakegc("report", "repo", "--json")
    assert answer.exit_code == 0, answer.output
    assert Report.from_json(answer.stdout.encode(), name="stdout").run == str(key)


@pytest.mark.slow
def test_the_bars_of_a_report_are_drawn_into_a_picture(place, tmp_path):
    picture = tmp_path / "november.png"
    answer = place.lakegc("report", "repo", "--chart", str(picture))
    assert answer.stdout.endswith(f"chart    {picture}\n")
    assert picture.read_bytes().startswith(b"\x89PNG")
    answer = place.lakegc("report", "repo", "--chart", str(tmp_path / "none" / "x.png"))
    assert answer.exit_code == 2
    assert "cannot be written" in answer.stderr


def test_the_report_leads_on_to_the_sweep_where_the_mode_allows_it(place, key):
    assert (
        f"next     lakegc sweep repo --run {key} --config "
        in place.lakegc("report", "repo", **SWEEP).stdout
    )


def test_a_sweep_that_the_mode_forbids_is_refused(place, key):
    answer = place.lakegc("sweep", "repo", "--run", key)
    assert answer.exit_code == 3
    assert "deleting is switched off for repo" in answer.stderr
    assert place.objects() == {file.address for file in place.story.files}


def test_a_sweep_without_a_mark_is_refused(place):
    before = place.objects()
    answer = place.lakegc("sweep", "repo", "--run", "2026-01-01T00-00-00Z", **SWEEP)
    assert answer.exit_code == 1
    assert "there is no run 2026-01-01T00-00-00Z of repo; its runs are " in answer.stderr
    assert place.objects() == before


def test_a_sweep_deletes_what_its_mark_names_and_a_second_one_says_that_it_did(place, key):
    answer = place.lakegc("sweep", "repo", "--run", key, **SWEEP)
    assert answer.exit_code == 0, answer.output
    assert place.objects() == {file.address for file in place.story.kept}
    assert re.search(rf"deleted +{len(place.story.deleted)} ", answer.stdout)
    again = place.lakegc("sweep", "repo", "--run", key, **SWEEP)
    assert (again.exit_code, again.stderr) == (0, "")
    assert f"run {key} of repo was swept at " in again.stdout
    assert "nothing is left of its mark. Nothing was deleted." in again.stdout
    assert re.search(rf"deleted +{len(place.story.deleted)} ", again.stdout)
    in_json = place.lakegc("sweep", "repo", "--run", key, "--json", **SWEEP)
    found = json.loads(in_json.stdout)
    assert found["exit_code"] == 0
    assert found["repositories"][0]["outcome"] == "swept"
    assert found["repositories"][0]["objects"] == len(place.story.deleted)


@pytest.mark.slow
def test_a_repository_that_the_server_does_not_have_is_named(place):
    answer = place.lakegc("mark", "absent")
    assert answer.exit_code == 1
    assert "absent" in answer.stderr
    assert len(answer.stderr.splitlines()) == 1


def test_a_run_key_in_the_future_is_refused(place):
    later = RunKey.at(datetime.now(UTC) + timedelta(hours=1))
    answer = place.lakegc("mark", "repo", "--run", str(later))
    assert answer.exit_code == 3
    assert f"run key {later} lies in the future" in answer.stderr


def test_the_page_of_a_report_is_written_and_opened(place, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) or True)
    file = tmp_path / "page.html"
    answer = place.lakegc("report", "repo", "--html", str(file))
    assert answer.exit_code == 0, answer.output
    assert f"page     {file}" in answer.stdout
    assert "<html" in file.read_text()
    assert "opened   file://" in place.lakegc("report", "repo", "--open").stdout
    assert opened[0].endswith("/_report.html")
    monkeypatch.setattr("webbrowser.open", lambda _url: False)
    refused = place.lakegc("report", "repo", "--open")
    assert refused.exit_code == 1
    assert "there is no browser here" in refused.stderr


def test_a_repository_that_was_never_marked_has_no_report(place):
    answer = place.lakegc("report", "frozen")
    assert answer.exit_code == 1
    assert "frozen was never marked" in answer.stderr
    assert "lakegc mark frozen" in answer.stderr


def test_wrong_keys_end_a_run_without_showing_them(place):
    answer = place.lakegc("mark", "repo", LAKEGC_SECRET_ACCESS_KEY="not-the-secret-of-anybody")
    assert answer.exit_code == 1
    assert "401" in answer.stderr
    assert "not-the-secret-of-anybody" not in answer.output


@pytest.mark.parametrize(
    ("count", "named"),
    [(2, "team-01, team-02: the"), (30, "30 repositories (team-01, team-02, team-03, ...): the")],
)
def test_what_is_true_of_many_repositories_is_said_once(count, named):
    why = "none has passed yet"
    found = [
        RepositoryStatus(f"team-{at:02}", last_mark_why_full=why) for at in range(1, count + 1)
    ]
    stream = io.StringIO()
    runs._show_status(Console(file=stream, width=200), found)
    said = stream.getvalue()
    assert said.count(f"the last good mark was a clean one: {why}.") == 1
    assert named in said


def test_status_says_what_sweeps_left_in_quarantine_that_did_not_end():
    status = RepositoryStatus("repo", left_by_dead="2 objects were moved by sweeps that died")
    assert "2 objects were moved by sweeps that died." in runs._more(status, are_few=False)
