"""The command line: help, exit codes, and errors in one piece."""

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from spark_core.cli.common import INTERRUPTED_WORDS
from spark_core.cli.doctor import _collapsed
from spark_core.cli.groups import TASKS
from spark_core.cli.main import main
from spark_core.cli.restore import _causes
from spark_core.doctor import Finding
from spark_core.errors import (
    DeletionFailedError,
    LakegcError,
    SettingsError,
    TransientError,
    VerdictError,
    exit_code,
)
from spark_core.storage.undelete import UndeleteOutcome
from spark_core.undo.restore import Restored


def _commands(group, above=()):
    for name, command in group.commands.items():
        yield (*above, name)
        if isinstance(command, click.Group):
            yield from _commands(command, (*above, name))


COMMANDS = list(_commands(main))


@pytest.fixture
def lakegc(tmp_path, monkeypatch):
    """Run a command in an empty folder, with no settings but those it is given."""
    monkeypatch.chdir(tmp_path)
    for name in (
        "LAKEGC_CONFIG",
        "LAKEGC_ACCESS_KEY_ID",
        "LAKEGC_SECRET_ACCESS_KEY",
        "DAGSTER_HOME",
    ):
        monkeypatch.delenv(name, raising=False)

    def run(*words, config=None):
        if config is not None:
            (tmp_path / "lakegc.toml").write_text(config)
        return CliRunner().invoke(main, words)

    return run


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_explains_itself_with_examples(lakegc, command):
    answer = lakegc(*command, "--help")
    assert answer.exit_code == 0
    assert "Example" in answer.output
    assert f"lakegc {' '.join(command)}" in answer.output


@pytest.mark.parametrize("group", [(), ("rules",), ("hold",), ("retention",)])
def test_help_of_a_group_cuts_no_sentence(lakegc, group):
    answer = lakegc(*group, "--help")
    assert "..." not in answer.output.partition("Options:")[2]


def test_every_command_has_its_task():
    named = [name for names in TASKS.values() for name in names]
    assert sorted(named) == sorted(main.commands)


def test_all_commands_of_the_design_are_there():
    assert {
        ("demo",),
        ("run",),
        ("mark",),
        ("sweep",),
        ("report",),
        ("rules", "get"),
        ("rules", "set"),
        ("rules", "delete"),
        ("ui",),
    } <= set(COMMANDS)


def test_help_imports_nothing_heavy():
    script = (
        "import sys, time; began = time.perf_counter()\n"
        "from spark_core.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'pyspark', 'dagster', 'pyarrow', 'lakefs_sdk', 'numba', 'matplotlib', "
        "'pydantic'} & set(sys.modules)\n"
        "print(f'heavy={sorted(heavy)} seconds={time.perf_counter() - began}')"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    last = answer.stdout.splitlines()[-1]
    assert last.startswith("heavy=[] ")
    assert float(last.rpartition("=")[2]) < 2


def test_without_settings_it_says_how_to_begin(lakegc):
    answer = lakegc("mark", "some-repo")
    assert answer.exit_code == 2
    assert answer.stderr.startswith("lakegc: settings: no settings: there is no lakegc.toml in ")
    assert "`lakegc init` writes one" in answer.stderr
    assert "lakegc demo" in answer.stderr


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ("", "no server is named"),
        (
            '[server]\nendpoint = "http://127.0.0.1:1"\ncolour = 1\n',
            "line 3: [server] colour is not a setting",
        ),
        (
            '[server]\nendpoint = "http://127.0.0.1:1"\n[defaults]\nmin_age_hours = "old"\n',
            "line 4",
        ),
        ('[server]\nendpoint = "http://127.0.0.1:1"\n', "no repository is named"),
        ('[server]\nendpoint = "http://127.0.0.1:1"\nsecret_access_key = "x"\n', "is a secret"),
        (
            (
                '[server]\nendpoint = "http://127.0.0.1:1"\n[repositories.repo-a]\n'
                "allow_unsafe_min_age = true\n"
            ),
            "throwaway_repositories",
        ),
    ],
)
def test_wrong_settings_end_with_2_and_one_line(lakegc, config, text):
    answer = lakegc("mark", config=config)
    assert answer.exit_code == 2
    assert text in answer.stderr
    assert len(answer.stderr.splitlines()) == 1
    assert "Traceback" not in answer.output


def test_a_repository_that_the_settings_do_not_know_is_named_before_anything_starts(lakegc):
    config = '[server]\nendpoint = "http://127.0.0.1:1"\n[repositories.repo-a]\n'
    answer = lakegc("run", "repo-a", "repo-b", config=config)
    assert answer.exit_code == 2
    assert "repository 'repo-b' is not in " in answer.stderr
    assert answer.stdout == ""


def test_a_mistyped_repository_is_told_and_a_uri_names_one(lakegc):
    config = '[server]\nendpoint = "http://127.0.0.1:1"\n[repositories.repo-a]\n'
    answer = lakegc("mark", "lakefs://rep-a/", config=config)
    assert answer.exit_code == 2
    assert "Did you mean repo-a? Else add the line `[repositories.rep-a]`" in answer.stderr
    assert "is no repository, like my-repo" in lakegc("mark", "lakefs://repo-a/main").stderr


@pytest.mark.parametrize("words", [["repo-a"], ["lakefs://repo-a"], ["a", "b", "c"]])
def test_what_to_explain_is_a_path_or_a_repository_and_an_address(lakegc, words):
    answer = lakegc("explain", *words)
    assert answer.exit_code == 2
    assert "a path alone, as lakefs://REPOSITORY/REF/PATH" in " ".join(answer.stderr.split())


def test_a_settings_file_that_does_not_exist_is_named(lakegc):
    answer = lakegc("mark", "--config", "nowhere.toml")
    assert answer.exit_code == 2
    assert "nowhere.toml does not exist" in answer.stderr


def test_debug_shows_where_an_error_came_from(lakegc):
    answer = lakegc("mark", "--debug")
    assert answer.exit_code == 2
    assert "Traceback (most recent call last)" in answer.stderr
    assert "lakegc: settings: no settings" in answer.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("mark", "repo-a", "--run", "yesterday"),
        ("sweep", "repo-a", "--run", "2026-13-01T00-00-00Z"),
        ("sweep", "repo-a", "--run", "2026-11-20T02-00-00Z", "--take-over", "the-last"),
        ("run", "repo-a", "--take-over", "tonight"),
    ],
)
def test_a_run_key_that_is_no_instant_is_refused(lakegc, words):
    answer = lakegc(*words)
    assert answer.exit_code == 2
    assert "is not an instant like 2026-11-20T02-00-00Z" in answer.stderr


def test_a_sweep_needs_to_be_told_which_mark(lakegc):
    answer = lakegc("sweep", "repo-a")
    assert answer.exit_code == 2
    assert "no mark to sweep was named" in answer.stderr


def test_a_mark_of_the_reference_job_is_of_one_repository(lakegc):
    answer = lakegc("mark", "--reference-mark", "ft6s0e1ksdufuaulm34g")
    assert answer.exit_code == 2
    assert "--reference-mark is the mark of one repository" in answer.stderr


def test_without_java_nothing_is_asked(lakegc, monkeypatch):
    config = '[server]\nendpoint = "http://127.0.0.1:1"\n[repositories.repo-a]\n'
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    answer = lakegc("mark", "repo-a", config=config)
    assert answer.exit_code == 2
    assert "Java: JAVA_HOME is '/nowhere', and there is no bin/java in it." in answer.stderr
    assert "needs Java" in answer.stderr


def test_without_any_java_on_the_path_it_says_how_to_get_one(lakegc, monkeypatch, tmp_path):
    config = '[server]\nendpoint = "http://127.0.0.1:1"\n[repositories.repo-a]\n'
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    answer = lakegc("mark", "repo-a", config=config)
    assert answer.exit_code == 2
    assert "no `java` is on the PATH" in answer.stderr
    assert "openjdk-17-jre-headless" in answer.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SettingsError(""), 2),
        (VerdictError(""), 3),
        (DeletionFailedError(""), 1),
        (LakegcError(""), 1),
        (TransientError(""), 1),
    ],
)
def test_exit_codes_tell_settings_from_refusals(error, code):
    assert exit_code(error) == code


def test_ctrl_c_ends_with_130_and_a_sentence(lakegc, monkeypatch):
    from spark_core import settings

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(settings, "load_settings", interrupted)
    answer = lakegc("mark")
    assert answer.exit_code == 130
    assert "ended by Ctrl-C: no sweep had begun; the same command marks anew" in answer.stderr
    assert "ended by Ctrl-C: it only reads" in lakegc("status").stderr
    assert "`lakegc rules get` shows" in lakegc("rules", "set", "repo", "--default", "1").stderr
    assert "Traceback" not in answer.output


def test_what_ctrl_c_says_is_said_of_commands_that_there_are():
    assert set(INTERRUPTED_WORDS) <= {" ".join(command) for command in COMMANDS}


def test_what_the_doctor_could_not_look_at_for_one_reason_is_one_row():
    def probe(name, found, *, passed=None):
        return Finding("store", name, passed=passed, found=found, next_step="")

    probes = [
        probe("list", "ok", passed=True),
        probe("put", "no keys"),
        probe("read", "no keys"),
        probe("clock", "slow", passed=False),
        probe("delete", "no keys"),
        probe("lease", "another reason"),
    ]
    rows = [(each.name, each.passed) for each in _collapsed(probes)]
    assert rows == [
        ("list", True),
        ("put and 2 more", None),
        ("clock", False),
        ("lease", None),
    ]


def test_a_dry_restore_groups_what_cannot_come_back_by_cause():
    done = Restored(
        left=[
            UndeleteOutcome("data/a", "not_restorable", "data/a is gone for good"),
            UndeleteOutcome("data/b", "failed", "busy"),
            UndeleteOutcome("data/c", "not_restorable", "data/c is gone for good"),
        ]
    )
    assert _causes(done) == [("ADDRESS is gone for good", "2", "data/a"), ("busy", "1", "data/b")]
