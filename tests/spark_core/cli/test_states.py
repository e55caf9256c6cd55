"""What a person reads when a command ends by an error.

What the command had done, in one sentence, and that it is true.
"""

import json
import re
import shutil
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

import spark_core.run.opening
from lakegc_dagster.sandbox import Sandbox
from spark_core.cli.main import main
from spark_core.lakegc_keys import LEASE
from spark_core.phases import NOTHING_BY_THIS_SWEEP, NOTHING_DELETED, NOTHING_STARTED
from tests.support.command_line import settings_on
from tests.support.refusing_store import BrokenOutcomes, DamagedOutcomes, NoOutcomes
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
mode = "sweep"
[repositories.repo]
[repositories.absent]
"""
# What says what became of the objects.
STATES = re.compile(
    r"nothing (?:more )?(?:of \S+ )?was|deletions had begun|stands\b", re.IGNORECASE
)


class Place:
    """A sandbox with a repository that has garbage, and the command line on it."""

    def __init__(self, sandbox, folder):
        self.story = upstream_scenario(sandbox, "repo", now=datetime.now(UTC))
        self.root = sandbox.blockstore / "repo"
        self.env = settings_on(sandbox, folder, SETTINGS)

    def lakegc(self, *words, **env):
        return CliRunner().invoke(main, words, env={**self.env, **env})

    def mark(self):
        answer = self.lakegc("mark", "repo")
        assert answer.exit_code == 0, answer.output
        return re.search(r"run (\d{4}-\S+Z)", answer.stdout)[1]

    def left(self):
        return {
            str(path.relative_to(self.root))
            for path in (self.root / "data").rglob("*")
            if path.is_file()
        }

    @property
    def everything(self):
        return {file.address for file in self.story.files}


@pytest.fixture
def place(spark, tmp_path):
    with Sandbox(tmp_path / "sandbox") as sandbox:
        yield Place(sandbox, tmp_path)


def said(answer, code=1):
    """The one line of an error, which speaks of the state of the world once."""
    assert answer.exit_code == code, answer.output
    (line,) = [line for line in answer.stderr.splitlines() if line.startswith("lakegc: ")]
    return line


def states(line):
    return [found.lower() for found in STATES.findall(line)]


@pytest.mark.deep
def test_a_403_on_the_journals_outcome_does_not_say_that_nothing_was_deleted(place, monkeypatch):
    key = place.mark()
    monkeypatch.setattr(spark_core.run.opening, "open_store", NoOutcomes)
    line = said(place.lakegc("sweep", "repo", "--run", key))
    assert place.left() < place.everything
    assert (
        "the store refuses (HTTP 403 AccessDenied). Allow s3:PutObject. Deletions had begun" in line
    )
    assert f"_lakefs/retention/gc/journal/run_id={key}/" in line
    assert line.lower().count("deletions had begun") == 1
    assert "nothing was deleted" not in line.lower()

    monkeypatch.undo()
    # As after the ten minutes in which executors may still send what they were given.
    shutil.rmtree(place.root / "_lakefs/retention/gc/lease")
    again = place.lakegc("sweep", "repo", "--run", key)
    assert again.exit_code == 0, again.output
    assert place.left() == {file.address for file in place.story.kept}


@pytest.mark.deep
def test_a_damaged_journal_is_lakegcs_own_and_what_was_deleted_stands(place, monkeypatch):
    key = place.mark()
    monkeypatch.setattr(spark_core.run.opening, "open_store", DamagedOutcomes)
    line = said(place.lakegc("sweep", "repo", "--run", key), code=3)
    assert place.left() < place.everything
    assert "its name says" in line
    assert "This is a file of lakegc's own, not of the server: the journal of a sweep." in line
    assert "server's copy" not in line
    assert re.search(r"known to have deleted [1-9]\d* objects", line)
    assert "nothing was deleted" not in line.lower()


@pytest.mark.slow
def test_a_failure_that_is_none_of_lakegcs_ends_a_sweep_with_what_it_had_done(place, monkeypatch):
    key = place.mark()
    monkeypatch.setattr(spark_core.run.opening, "open_store", BrokenOutcomes)
    answer = place.lakegc("sweep", "repo", "--run", key)
    assert answer.exit_code == 1
    assert place.left() < place.everything
    shown = " ".join(answer.stderr.partition("lakegc: failed: ")[2].split()).lower()
    assert shown.count("deletions had begun") == 1
    assert "nothing was deleted" not in shown


@pytest.mark.deep
def test_a_damaged_lease_is_lakegcs_own_and_this_sweep_deleted_nothing(place):
    key = place.mark()
    folder = place.root / LEASE / f"{1:010d}"
    folder.mkdir(parents=True)
    (folder / f"{0:010d}").write_text("{}")
    line = said(place.lakegc("sweep", "repo", "--run", key), code=3)
    assert place.left() == place.everything
    assert f"{LEASE}{1:010d}/{0:010d}: not a record of a lease" in line
    assert (
        f"Once you are sure that nobody does, delete the objects under {LEASE}, all of them" in line
    )
    assert "server's copy" not in line
    assert line.endswith(NOTHING_BY_THIS_SWEEP)
    assert len(states(line)) == 1


def test_a_damaged_hold_is_lakegcs_own_and_the_mark_deleted_nothing(place):
    holds = place.root / "_lakefs/retention/gc/holds"
    holds.mkdir(parents=True)
    (holds / "audit.json").write_text("{}")
    line = said(place.lakegc("mark", "repo"), code=3)
    assert "holds/audit.json: not a hold" in line
    assert "delete it and make the hold again (`lakegc hold add`)" in line
    assert "server's copy" not in line
    assert line.endswith(NOTHING_DELETED)
    assert len(states(line)) == 1


@pytest.mark.slow
def test_a_refused_mark_says_once_that_nothing_was_deleted_and_so_does_its_report(place):
    limits = {
        "LAKEGC__DEFAULTS__MAX_EXPIRED_SHARE": "0.01",
        "LAKEGC__DEFAULTS__SHARE_FROM_OBJECTS": "0",
    }
    answer = place.lakegc("run", "repo", **limits)
    line = said(answer, code=3)
    assert "expired_share_is_plausible" in line
    assert line.endswith(NOTHING_DELETED)
    assert len(states(line)) == 1
    assert place.left() == place.everything

    shown = place.lakegc("report", "repo")
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.count(NOTHING_DELETED) == 1
    page = next(place.root.rglob("_report.html")).read_text()
    assert page.count(NOTHING_DELETED) == 1
    checks = json.loads(next(place.root.rglob("_report.json")).read_text())["checks"]
    assert not [check for check in checks if states(check["summary"])]


def test_a_repository_that_the_server_does_not_have_ends_a_mark_with_one_state(place):
    line = said(place.lakegc("mark", "absent"))
    assert line.endswith(NOTHING_DELETED)
    assert len(states(line)) == 1


def test_a_command_that_reads_says_that_nothing_was_deleted(place):
    line = said(place.lakegc("report", "repo"))
    assert "repo was never marked" in line
    assert line.endswith(NOTHING_DELETED)
    assert len(states(line)) == 1


@pytest.mark.parametrize(
    "words",
    [
        ("mark", "unknown"),
        ("report", "unknown"),
        ("hold", "add", "repo", "Not A Name", "--prefix", "data/"),
    ],
)
def test_wrong_settings_and_names_start_nothing(place, words):
    line = said(place.lakegc(*words), code=2)
    assert line.endswith(NOTHING_STARTED)
    assert len(states(line)) == 1
