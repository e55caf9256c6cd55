"""`lakegc restore` on a sandbox: what it says, what comes back, and how it ends.

No Spark: the run is written by hand.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

from lakegc_dagster.sandbox import Sandbox, repositories
from spark_core.cli.main import main
from spark_core.model import RunKey
from spark_core.records import tables
from spark_core.records.writing import Draft
from spark_core.settings import load_settings
from spark_core.stored_runs import open_stored
from spark_core.sweep import quarantine
from tests.support.command_line import settings_on
from tests.support.figures import given

SETTINGS = """\
[server]
endpoint = "{endpoint}"
[storage]
local_path = "{blockstore}"
[repositories.repo]
quarantine = true
"""
CONTENT = {f"data/s/{name}": name.encode() * 4 for name in "ab"}


class Place:
    """A repository of which a run, that nobody marked, has swept two objects into quarantine."""

    def __init__(self, sandbox, folder, monkeypatch):
        with sandbox.core.lock:
            repositories.create(sandbox.core, "repo", "local://repo")
        self.env = settings_on(sandbox, folder, SETTINGS)
        for name, value in self.env.items():
            monkeypatch.setenv(name, value)
        self.key = RunKey.at(datetime.now(UTC) - timedelta(days=2))
        run = open_stored(load_settings(Path(self.env["LAKEGC_CONFIG"])), "repo", self.key)
        self.run, self.store = run, run.store
        for address, content in CONTENT.items():
            run.store.put(address, content)
        quarantine.move(run.store, self.key, list(CONTENT))
        expired = self._keep(run, tables.EXPIRED_ADDRESSES, [], [])
        rows = [
            {
                "address": address,
                "size_bytes": 4,
                "outcome": "deleted",
                "error": None,
                "reason": "in no commit, and not staged",
                "attempts": 1,
                "deleted_at": None,
            }
            for address in CONTENT
        ]
        self._keep(run, tables.DELETION_REPORT, rows, [expired])
        told = {
            "other_paths": 0,
            "commit_id": "c" * 64,
            "committed_at": self.key.instant,
            "branch": "main",
            "replaced_at": self.key.instant,
            "retention_days": 1,
            "explanation": "",
        }
        explained = [
            {"address": f"data/s/{name}", "path": f"tables/{path}", **told}
            for name, path in (("a", "one"), ("b", "two"))
        ]
        self._keep(run, tables.EXPLANATIONS, explained, [])

    @staticmethod
    def _keep(run, spec, rows, parents):
        content, figures = pa.Table.from_pylist(rows, schema=spec.schema), given(spec, len(rows))
        return run.keep(Draft(spec, content, run.now(), parents, figures=figures)).manifest

    def lakegc(self, *words):
        return CliRunner().invoke(main, words, env=self.env)

    def restore(self, *words):
        return self.lakegc("restore", "repo", str(self.key), *words)


@pytest.fixture
def place(tmp_path, monkeypatch):
    with Sandbox(tmp_path / "sandbox") as sandbox:
        yield Place(sandbox, tmp_path, monkeypatch)


def test_a_run_is_undone_and_each_figure_told(place):
    tried = place.restore("--dry-run")
    assert (tried.exit_code, place.store.exists("data/s/a")) == (0, False), tried.output
    assert "can be restored" in tried.stdout
    assert "lakegc hold" not in tried.stdout
    done = place.restore()
    assert done.exit_code == 0, done.output
    assert {address: place.store.read(address) for address in CONTENT} == CONTENT
    assert re.search(r"^restored +2 +8 bytes$", done.stdout, re.MULTILINE)
    assert "_lakefs/retention/gc/restores/run_id=" in done.stdout
    # What nothing references is garbage as before, and says so.
    assert "A later mark finds a restored object again" in done.stdout
    assert "lakegc hold add repo NAME --address ADDRESS" in done.stdout
    commit = "c" * 64
    assert (
        f"2 objects: lakectl branch create lakefs://repo/restored-{commit[:12]} "
        f"--source lakefs://repo/{commit}"
    ) in " ".join(done.stdout.split())
    assert "lakectl branch create" not in tried.stdout
    assert "lakectl fs upload" not in done.stdout
    again = place.restore()
    assert (again.exit_code, "already there" in again.stdout) == (0, True)


def test_what_the_run_knows_no_commit_of_is_uploaded_again(place):
    place._keep(place.run, tables.EXPLANATIONS, [], [])
    done = place.restore("--address", "data/s/a", "--json")
    assert json.loads(done.stdout)["result"]["link_again"] == []
    assert "1 object of which the run knows no commit" in done.stderr
    assert "lakectl fs upload lakefs://repo/BRANCH/PATH --source FILE" in done.stderr


def test_json_says_what_links_one_object_again(place):
    asked = f"local://repo/{min(CONTENT)}"
    told = json.loads(place.restore("--address", asked, "--json").stdout)["result"]
    (link,) = told["link_again"]
    assert (link["commit"], link["objects"]) == ("c" * 64, 1)
    assert link["command"].startswith("lakectl branch create lakefs://repo/")


def test_what_is_not_back_is_named_with_its_cause_and_fails_the_command(place):
    done = place.restore("--address", "data/s/a", "--address", "data/s/none")
    assert done.exit_code == 1
    assert "cannot be restored: data/s/none: run" in done.stdout
    assert "deleted no object of that address" in done.stdout
    assert place.store.exists("data/s/a")
    assert not place.store.exists("data/s/b")
    assert "lakegc hold add repo NAME --address data/s/a" in done.stdout


def test_a_restore_that_restored_nothing_does_not_say_that_it_did(place):
    none = place.restore("--address", "data/s/none")
    assert none.exit_code == 1
    assert none.stdout.startswith(f"Nothing was restored: repo, run {place.key}\n")
    assert place.restore().stdout.startswith(f"Restored: repo, run {place.key}\n")
    # What is there already was restored before.
    assert place.restore().stdout.startswith(f"Nothing was restored: repo, run {place.key}\n")


def test_what_a_path_named_when_it_was_let_go_comes_back_and_nothing_else(place):
    done = place.restore("--address", "lakefs://repo/main/tables/one")
    assert done.exit_code == 0, done.output
    assert place.store.exists("data/s/a")
    assert not place.store.exists("data/s/b")
    assert "lakegc hold add repo NAME --address data/s/a" in done.stdout
    below = place.restore("--address", "lakefs://repo/main/tables/")
    assert (below.exit_code, place.store.exists("data/s/b")) == (0, True)
    assert "no path on record" not in below.stdout
    wrong = place.restore("--address", "lakefs://repo/main/tables")
    assert wrong.exit_code == 1
    assert "let go neither the object that main has there nor one" in " ".join(wrong.stderr.split())


def test_a_folder_tells_what_else_may_have_lain_below_it(place):
    expired = [
        {
            "address": f"data/s/{name}",
            "size_bytes": 4,
            "last_modified": place.key.instant,
            "slice": "s",
            "reason": "",
        }
        for name in "abc"
    ]
    place._keep(place.run, tables.EXPIRED_ADDRESSES, expired, [])
    done = place.restore("--address", "lakefs://repo/main/tables/", "--dry-run")
    assert done.exit_code == 0, done.output
    assert f"1 object that run {place.key} let go has no path on record;" in done.stdout


def test_a_run_that_deleted_nothing_is_refused_by_name(place):
    done = place.lakegc("restore", "repo", "2026-01-01T00-00-00Z")
    assert done.exit_code == 1
    assert "run 2026-01-01T00-00-00Z" in done.stderr
    assert "Traceback" not in done.output
    wrong = place.lakegc("restore", "repo", "yesterday")
    assert (wrong.exit_code, "is not an instant like" in wrong.stderr) == (2, True)
