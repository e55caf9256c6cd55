"""`lakegc runs` and `lakegc status` on a sandbox, and the end of a run over many repositories."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from lakegc_dagster.sandbox import Sandbox
from spark_core import mark_and_sweep
from spark_core.cli import night_document
from spark_core.cli.main import main
from spark_core.clocks import SystemClock
from tests.support.command_line import settings_on
from tests.support.upstream import upstream_scenario

pytestmark = pytest.mark.spark

SETTINGS = """\
[server]
endpoint = "{endpoint}"
[storage]
local_path = "{blockstore}"
[dagster]
home = "home"
[defaults]
repository_cache_seconds = 0
price_per_gb_month = "1000 EUR"
[repositories."team-*"]
mode = "sweep"
share_from_objects = 1
max_expired_share = 0.0
[repositories.team-b]
mode = "sweep"
"""


class Place:
    """A sandbox with two repositories: of one the mark is refused, the other is swept."""

    def __init__(self, sandbox, folder):
        for name in ("team-a", "team-b"):
            upstream_scenario(sandbox, name, now=datetime.now(UTC))
        self.env = {**settings_on(sandbox, folder, SETTINGS), "COLUMNS": "220"}
        self.config = Path(self.env["LAKEGC_CONFIG"])
        self.ran = self.lakegc("run")
        self.key = re.search(r"run (\d{4}-\S+Z)", self.ran.stdout)[1]

    def lakegc(self, *words, **env):
        return CliRunner().invoke(main, words, env={**self.env, **env})


@pytest.fixture(scope="module")
def place(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("place")
    with Sandbox(folder / "sandbox") as sandbox:
        yield Place(sandbox, folder)


@pytest.mark.slow
def test_a_run_over_what_patterns_match_is_a_line_each_and_one_table(place):
    assert place.ran.exit_code == 3, place.ran.output
    first, *lines = place.ran.stdout.strip().splitlines()
    assert first == f"run {place.key} of 2 repositories"
    said = [line.partition(":")[0] for line in lines]
    assert {"swept    team-b", "refused  team-a"} < set(said)
    table = lines[-8:]
    assert re.match(r"All 2 repositories, in \d+ seconds", table[0])
    assert re.match(r"team-b +swept, were deleted +[1-9] +[\d.]+ kB +less", table[2])
    assert re.match(
        r"team-a +refused: expired_share_is_plausible +[1-9] +[\d.]+ kB +less", table[3]
    )


def test_the_table_has_a_total_for_each_thing_that_can_be_added(place):
    total, other, _, worked = place.ran.stdout.strip().splitlines()[-4:]
    assert re.match(r"all together +1 swept, were deleted +[1-9]", total)
    assert re.match(r"all together +1 refused, would go +[1-9]", other)
    assert worked == "worked   this process"


def test_a_refused_mark_says_why_and_one_way_on(place):
    assert place.ran.stderr.count("expired_share_is_plausible: ") == 1
    assert "What would go, by reason" not in place.ran.stdout
    way_on = f"lakegc confirm team-a expired_share_is_plausible --run {place.key} --config"
    assert re.findall(r"^next +(.*) \S+$", place.ran.stdout, re.MULTILINE) == [way_on]


def test_runs_shows_the_state_of_each_run(place):
    answer = place.lakegc("runs")
    assert answer.exit_code == 0, answer.output
    assert re.search(rf"{place.key} +swept ", answer.stdout)
    assert re.search(
        rf"{place.key} +refused .* refused by expired_share_is_plausible", answer.stdout
    )


def test_runs_as_json_has_each_repository_with_its_runs(place):
    found = json.loads(place.lakegc("runs", "--json", "--last", "1").stdout)
    assert {name: [run["state"] for run in of["runs"]] for name, of in found.items()} == {
        "team-a": ["refused"],
        "team-b": ["swept"],
    }
    (run,) = found["team-b"]["runs"]
    assert run["outcomes"]["deleted"]["objects"] == run["expired_objects"] > 0
    assert run["seconds"] > 0


def test_status_is_one_line_for_each_repository_and_says_how_to_go_on(place):
    answer = place.lakegc("status")
    assert answer.exit_code == 1  # no mark of team-a ever passed
    rows = dict(re.findall(r"^(team-\w) +(.*)$", answer.stdout, re.MULTILINE))
    assert re.search(r"never +never +nothing +nothing +\d+, .* yes", rows["team-a"])
    assert re.search(r" –  +no$", rows["team-b"].strip())  # noqa: RUF001 - a dash, as in any table
    assert "team-a: no mark of it ever passed." in answer.stdout
    assert f"Next: lakegc confirm team-a expired_share_is_plausible --run {place.key}" in (
        answer.stdout
    )
    assert re.search(
        r"team-b: what was reclaimed saves (.+?) EUR a month: of that \1 EUR a month by the "
        r"last 30 days, 0.00 EUR a month by the 30 before",
        answer.stdout,
    )
    totals = (
        r"^all 2 repositories: reclaimed in 30 days [1-9].*; waiting [1-9]",
        r"^money \(2 of 2 have a price in EUR\): all objects .* EUR a month; saved by the last 30 ",
    )
    for total in totals:
        assert re.search(total, answer.stdout, re.MULTILINE)


def test_status_of_one_repository_in_order_ends_well(place):
    answer = place.lakegc("status", "team-b", "--json")
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.stdout)["team-b"]
    assert found["last_mark"] == found["last_sweep"] == place.key
    assert found["reclaimed"]["objects"] > 0


def test_status_is_a_page_as_well(place, tmp_path):
    page = tmp_path / "fleet.html"
    answer = place.lakegc("status", "--html", str(page))
    assert answer.exit_code == 1
    assert f"page     {page}" in answer.stdout
    assert "1 of 2 repositories needs a person" in page.read_text()
    assert "team-b" in page.read_text()
    absent = place.lakegc("status", "--html", str(tmp_path / "nowhere" / "fleet.html"))
    assert absent.exit_code == 2
    assert "fleet.html cannot be written (No such file or directory)" in absent.stderr


def test_a_repository_that_cannot_be_read_keeps_no_other_from_its_line(place):
    env = {"LAKEGC__REPOSITORIES__ABSENT": "{}"}
    answer = place.lakegc("status", **env)
    assert answer.exit_code == 1
    assert re.search(r"^absent .* not known", answer.stdout, re.MULTILINE)
    assert re.search(r"^team-b .* no *$", answer.stdout, re.MULTILINE)
    told = place.lakegc("runs", "absent", "--json", **env)
    assert told.exit_code == 1
    assert "problem" in json.loads(told.stdout)["absent"]


@pytest.mark.parametrize(
    "words",
    [
        ("report", "team-b", "--run", "2020-01-01T00-00-00Z"),
        ("restore", "team-b", "2020-01-01T00-00-00Z", "--dry-run"),
        ("confirm", "team-b", "expired_share_is_plausible", "--run", "2020-01-01T00-00-00Z"),
        ("sweep", "team-b", "--run", "2020-01-01T00-00-00Z"),
    ],
)
def test_an_unknown_run_names_the_runs_there_are(place, words):
    answer = place.lakegc(*words)
    assert answer.exit_code == 1
    assert "there is no run 2020-01-01T00-00-00Z of team-b; its runs are " in answer.stderr
    assert place.key in answer.stderr


def test_report_says_what_may_go_costs(place):
    answer = place.lakegc("report", "team-b")
    assert re.search(
        r"^money    what may go costs .* EUR a month; all objects together cost .* EUR a month "
        r"\(price_per_gb_month = 1000 EUR\)",
        answer.stdout,
        re.MULTILINE,
    )


def test_a_pattern_that_matches_nothing_is_refused(place, tmp_path):
    config = tmp_path / "lakegc.toml"
    head = place.config.read_text().partition('[repositories."team-*"]')[0]
    config.write_text(f'{head}[repositories."nobody-*"]\n')
    answer = place.lakegc("run", LAKEGC_CONFIG=str(config))
    assert answer.exit_code == 2
    assert "no repository of the server matches nobody-*" in answer.stderr


def test_a_pattern_on_the_command_line_stands_for_what_the_settings_collect(place):
    answer = place.lakegc("status", "team-?", "--json")
    assert answer.exit_code in {0, 1}, answer.output
    assert "team-b" in json.loads(answer.stdout)


@pytest.mark.parametrize("command", ["run", "mark", "status", "runs", "doctor"])
def test_one_that_matches_nothing_of_them_starts_nothing(place, command):
    answer = place.lakegc(command, "taem-*")
    assert answer.exit_code == 2
    assert "the pattern taem-* matches no repository that" in answer.stderr
    assert not answer.stdout


# Those below add runs.


@pytest.mark.slow
def test_json_is_one_document_that_keeps_to_its_schema(place):
    answer = place.lakegc("mark", "--json")
    assert answer.exit_code == 3, answer.output
    document = json.loads(answer.stdout)
    schema = json.loads(night_document.FILE.read_text())
    assert list(Draft202012Validator(schema).iter_errors(document)) == []
    assert document["exit_code"] == 3
    found = {each["repository"]: each for each in document["repositories"]}
    assert (found["team-b"]["outcome"], found["team-b"]["problem"]) == ("marked", None)
    assert found["team-a"]["refused_by"] == ["expired_share_is_plausible"]
    assert found["team-a"]["problem"]["kind"] == "VerdictError"
    assert found["team-a"]["next_step"].startswith("lakegc confirm team-a ")
    assert "All 2 repositories" in answer.stderr
    one = json.loads(place.lakegc("mark", "team-b", "--json").stdout)
    assert list(Draft202012Validator(schema).iter_errors(one)) == []


def test_the_documented_schema_of_a_run_is_that_of_the_code():
    """After a change: `python -m spark_core.cli.night_document`."""
    assert night_document.FILE.read_text() == night_document.schema_text()


@pytest.mark.slow
def test_verbose_shows_every_step_and_report_one_after_the_other(place):
    answer = place.lakegc("mark", "team-*", "--verbose")
    assert answer.exit_code == 3, answer.output
    words = (r"mark team-b, run ", r"  namespace_slices ", r"report   /", r"mark team-a, run ",
             r"What would go, by reason", r"All 2 repositories")  # fmt: skip
    at = [re.search(rf"^{each}", answer.stdout, re.MULTILINE).start() for each in words]
    assert at == sorted(at)


@pytest.fixture
def broken(monkeypatch):
    """A mistake in lakegc ends the run of one repository."""
    whole = mark_and_sweep.collect

    def collect(run, *asked):
        if run.repository.id == "team-a":
            raise ZeroDivisionError("a bug")
        return whole(run, *asked)

    monkeypatch.setattr(mark_and_sweep, "collect", collect)


@pytest.mark.usefixtures("broken")
def test_what_ends_one_repository_ends_no_other(place):
    answer = place.lakegc("mark", "team-a", "team-b")
    assert answer.exit_code == 1, answer.output
    assert re.search(r"^marked   team-b: ", answer.stdout, re.MULTILINE)
    assert re.search(r"^team-a +failed: LakegcError +", answer.stdout, re.MULTILINE)
    assert "the run failed: ZeroDivisionError: a bug. " in answer.stderr
    assert "spark.log" not in answer.stderr
    assert "Nothing of team-a was deleted." in answer.stderr
    # Nothing else has it: whoever mends the mistake needs it.
    assert answer.stderr.count("Traceback (most recent call last)") == 1


@pytest.mark.usefixtures("broken")
def test_a_mistake_in_lakegc_is_in_the_document_of_its_only_repository(place):
    answer = place.lakegc("mark", "team-a", "--json")
    assert answer.exit_code == 1, answer.output
    assert answer.stderr.count("Traceback (most recent call last)") == 1
    assert answer.stderr.count("Nothing was deleted.") == 2
    (found,) = json.loads(answer.stdout)["repositories"]
    assert (found["outcome"], found["problem"]["kind"]) == ("failed", "LakegcError")
    words = "the run failed: ZeroDivisionError: a bug. Nothing was deleted."
    assert found["problem"]["message"] == words


@pytest.mark.parametrize("command", ["mark", "run"])
def test_a_run_that_cannot_be_opened_is_in_the_document(place, command):
    wrong = {"LAKEGC_ACCESS_KEY_ID": "AKIAWRONG", "LAKEGC_SECRET_ACCESS_KEY": "hush-hush"}
    answer = place.lakegc(command, "team-b", "--json", **wrong)
    assert answer.exit_code == 1, answer.output
    document = json.loads(answer.stdout)
    (found,) = document["repositories"]
    assert (document["exit_code"], found["problem"]["kind"]) == (1, "PermissionDeniedError")
    (line,) = [line for line in answer.stderr.splitlines() if line.startswith("lakegc: ")]
    assert line == f"lakegc: failed: {found['problem']['message']}"
    assert line.endswith("Nothing was deleted.")
    assert re.search(r"^  namespace_slices +failed ", answer.stderr, re.MULTILINE)
    assert "hush" not in answer.output


def test_a_server_that_never_answered_is_named_at_once(place, monkeypatch):
    monkeypatch.setattr(SystemClock, "sleep", lambda *_: pytest.fail("it waits"))
    answer = place.lakegc("mark", "team-b", LAKEGC__SERVER__ENDPOINT="http://127.0.0.1:9")
    assert answer.exit_code == 1, answer.output
    assert "127.0.0.1:9" in answer.stderr
    assert re.search(r"^  namespace_slices +failed +0\.\d s$", answer.stdout, re.MULTILINE)
