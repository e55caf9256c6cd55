"""The whole demo, as `make demo` runs it.

It proves itself, and does not when something is wrong.
"""

import io
import re
import shlex
import signal
from contextlib import redirect_stdout
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from lakegc_dagster import engine
from lakegc_dagster.demo import sandbox as demo_sandbox
from lakegc_dagster.demo import tour
from lakegc_dagster.launch.home import open_instance
from lakegc_dagster.sandbox import Sandbox
from lakegc_dagster.sandbox.history import documents_history
from spark_core.cli.main import main
from spark_core.errors import LakegcError, SettingsError, UnsafePlanError, VerdictError
from spark_core.explain import Explanation
from spark_core.model import RunKey
from spark_core.records import tables
from spark_core.report import Group, Report
from spark_core.settings import load_settings
from spark_core.stored_runs import open_stored
from spark_core.terminal.console import _PlainConsole
from tests.support.shown_output import blocks, require_shown, words

TUTORIAL = Path(__file__).parents[3] / "docs" / "tutorial.md"
# Of the tutorial's lines.
WIDTH = 100

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def _told(directory, width=140):
    stream = io.StringIO()
    code = tour.run_demo(directory, shown=_console(stream, width))
    return code, stream.getvalue()


EMPTY = Report(
    repository="repo",
    run="2026-11-20T02-00-00Z",
    place="local://repo/",
    cutoff=datetime(2026, 11, 19, 2, tzinfo=UTC),
    mark="",
    listed=Group("listed", 0, 0),
    expired=Group("may go", 0, 0),
    by_reason=(),
    by_age=(),
    by_slice=(),
    kept=(),
    commits={},
    largest=(),
    passed=True,
    refused={},
)


def _console(stream, width=140):
    return _PlainConsole(file=stream, width=width, highlight=False)


def _objects(directory):
    return {
        str(path.relative_to(directory / "blockstore" / "lakegc-demo"))
        for path in (directory / "blockstore" / "lakegc-demo" / "data").rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module")
def finished(spark, tmp_path_factory):
    directory = tmp_path_factory.mktemp("demo") / ".sandbox"
    printed = directory.with_name("printed")
    with printed.open("w") as out, redirect_stdout(out):
        code = tour.run_demo(directory, shown=_console(out, WIDTH))
    return directory, code, printed.read_text()


def test_the_demo_ends_with_a_proof_that_holds(finished):
    _, code, text = finished
    assert code == 0, text
    first = text.splitlines()[0]
    assert re.fullmatch(r"\d+ of \d+ objects go, \d+ stay, and here is the proof", first)
    assert re.search(
        r"The proof holds: \d+ of \d+ objects were to go, \d+ to stay\. \d+ seconds in all\.",
        text,
    )
    assert "not so:" not in text
    assert r"\n" not in text, "a line of several is printed as one"


def test_the_demo_advises_no_make_to_those_who_have_no_makefile(finished):
    _, _, text = finished
    assert "ui --sandbox --config" in text
    assert "make ui" not in text


def test_it_shows_each_step_with_rows_bytes_and_seconds(finished):
    _, _, text = finished
    table = text[text.index("\nSteps") :]
    for name in (
        "namespace_slices",
        "uncommitted_addresses",
        "retained_commits",
        "committed_addresses",
        "expired_addresses",
        "deletion_report",
    ):
        assert re.search(rf"{name} .* [\d,]+ +[\d.]+ (bytes|kB) +[\d.]+\n", table), name


def test_it_runs_on_spark_however_little_there_is_and_says_so_of_the_mark_and_of_the_sweep(
    finished,
):
    directory, _, text = finished
    assert load_settings(directory / "lakegc.toml", env={}).are_executors_chosen
    said = re.findall(r"worked +Spark: (\d+) tasks on local\[2\]", text)
    assert len(said) == 2
    assert min(map(int, said)) > 1


def test_it_shows_what_goes_and_what_stays_and_why_before_it_deletes(finished):
    _, _, text = finished
    before, after = text[: text.index("3 Sweep")], text[text.index("3 Sweep") :]
    going, staying = before.split("Kept, and why")
    words = " ".join(going.split())
    assert "replaced or removed on dev 8 days before the mark, and dev keeps 7 days" in words
    assert "which no branch leads to; such commits are kept 14 days" in words
    assert "in no commit, and not staged: lakeFS keeps no record of" in words
    assert "in a retained commit (tag v1.0)" in staying
    assert "identical content uploaded again" in staying
    planned, told, as_told = re.search(
        r"(\d+) objects \(.*\) may go, \d+ stay; (\d+) of (\d+) are as the history foretold", before
    ).groups()
    assert told == as_told
    assert f"{planned} of {planned} objects deleted" in after


def test_it_says_where_everything_lies_and_all_of_it_is_there(finished):
    directory, _, text = finished
    deleted = int(re.search(r"(\d+) of \d+ objects deleted", text)[1])
    parquet = re.search(r"Parquet +(\S+)\*/run_id=(\S+)/", text)
    assert (
        pq.ParquetDataset(f"{parquet[1]}addresses/run_id={parquet[2]}/").read().num_rows == deleted
    )
    page = re.search(r"report +(\S+_report\.html)", text)[1]
    assert f"{deleted} objects deleted" in (directory / page).read_text()
    config = directory / "lakegc.toml"
    assert str(config) in text
    assert load_settings(config, env={}).repository_ids == ("lakegc-demo",)


def test_the_ui_has_what_was_made_with_its_figures_and_its_checks(finished):
    directory, _, text = finished
    key = re.search(r"run_id=(\S+)/", text)[1]
    with open_instance(directory / "dagster_home") as instance:
        runs = instance.get_runs()
        assert [(run.job_name, run.status) for run in runs] == [
            ("sweep", dg.DagsterRunStatus.SUCCESS),
            ("mark", dg.DagsterRunStatus.SUCCESS),
        ]
        for name in (*tables.BY_NAME, "verdict"):
            made = instance.get_latest_materialization_event(dg.AssetKey(name))
            assert made.dagster_event.partition == f"lakegc-demo|{key}"
        rows = made.asset_materialization.metadata["expired_objects"].value
        assert f"{rows} of {rows} objects deleted" in text
        checked = [
            record.dagster_event.event_specific_data.passed
            for run in runs
            for record in instance.all_logs(
                run.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION
            )
        ]
        assert f"{len(checked)} of {sum(checked)} checks passed" in text


def test_what_is_shown_does_not_go_to_the_files_in_which_dagster_keeps_what_runs_print(finished):
    directory, _, text = finished
    kept = [path.read_text() for path in (directory / "dagster_home").rglob("*.out")]
    assert len(kept) == 2
    assert "expired_addresses" in text
    assert not any(kept)


@pytest.fixture
def uncollected(tmp_path, monkeypatch):
    """The settings and a run of the demo's repository, before the mark; a check refuses so much."""
    monkeypatch.setenv("LAKEGC__SPARK__ALWAYS", "false")
    key = RunKey.at(datetime.now(UTC))
    with demo_sandbox.fresh(
        tmp_path / "demo", more="max_expired_share = 0.1\nshare_from_objects = 100\n"
    ) as sandbox:
        documents_history(sandbox, demo_sandbox.REPOSITORY_ID, now=key.instant)
        settings = load_settings(demo_sandbox.settings_file(tmp_path / "demo"))
        yield settings, open_stored(settings, demo_sandbox.REPOSITORY_ID, key)


def _status(settings):
    with open_instance(settings.dagster_home) as instance:
        return [run.status for run in instance.get_runs()]


def test_a_refused_sweep_ends_with_the_sentence_of_the_engine(uncollected):
    settings, run = uncollected
    with pytest.raises(
        VerdictError, match=r"has no verdict .* Nothing was deleted by this attempt"
    ):
        tour._run(_console(io.StringIO()), settings, "sweep", run)
    assert _status(settings) == [dg.DagsterRunStatus.CANCELED]


def test_a_mark_that_a_check_refuses_ends_with_the_sentence_of_the_check(uncollected):
    settings, run = uncollected
    stream = io.StringIO()
    with pytest.raises(VerdictError, match="raise max_expired_share and mark under a new"):
        tour._run(_console(stream), settings, "mark", run)
    assert re.search(r"expired_addresses +129 rows", stream.getvalue())
    assert _status(settings) == [dg.DagsterRunStatus.FAILURE]


def test_an_interrupt_ends_the_demo_as_any_other_command(uncollected, monkeypatch):
    settings, run = uncollected
    monkeypatch.setattr(
        engine.closed_runs, "make_or_stored", lambda *_: signal.raise_signal(signal.SIGINT)
    )
    with pytest.raises(KeyboardInterrupt):
        tour._run(_console(io.StringIO()), settings, "mark", run)
    assert _status(settings) == [dg.DagsterRunStatus.FAILURE]


@pytest.mark.parametrize(
    ("error", "shown", "words"),
    [
        (ZeroDivisionError("by nothing"), ZeroDivisionError, "^by nothing"),
        (dg.DagsterInvariantViolationError("odd"), LakegcError, r"^Dagster ended the mark: odd\. "),
    ],
)
def test_an_error_that_is_none_of_the_engines_is_not_said_of_the_home(
    uncollected, monkeypatch, error, shown, words
):
    settings, run = uncollected

    def broken(*_arguments):
        raise error

    monkeypatch.setattr(engine.closed_runs, "make_or_stored", broken)
    with pytest.raises(shown, match=words):
        tour._run(_console(io.StringIO()), settings, "mark", run)


def test_without_a_wide_terminal_the_tables_leave_the_addresses_out():
    stream = io.StringIO()
    narrow = _console(stream, width=80)
    narrow.print(tour._explained_table(narrow, "Kept", [], every=False))
    assert "address" not in stream.getvalue()


@pytest.mark.deep
def test_a_lost_object_breaks_the_proof_and_the_exit_code(spark, tmp_path, monkeypatch):
    directory = tmp_path / ".sandbox"
    run = tour._run

    def run_and_lose(shown, settings, job, *arguments):
        checks = run(shown, settings, job, *arguments)
        if job == "sweep":
            lost = min(_objects(directory))
            (directory / "blockstore" / "lakegc-demo" / lost).unlink()
        return checks

    monkeypatch.setattr(tour, "_run", run_and_lose)
    code, text = _told(directory)
    assert code == 1
    assert "The proof does not hold" in text
    assert re.search(r"not so: .*it was to be kept", text)


def _as_marked(files, plan):
    """What a mark of some plan explains of each file."""
    return [
        Explanation(
            "repo",
            file.address,
            "2026-11-20T02-00-00Z",
            "may go" if file.address in plan else "kept",
            "",
            (),
            size_bytes=1,
            path=file.path,
        )
        for file in files
    ]


def test_a_mark_that_names_a_kept_object_is_refused_before_the_sweep(tmp_path):
    with Sandbox(tmp_path) as sandbox:
        story = documents_history(sandbox, "repo", now=datetime.now(UTC))
    kept = story.kept[0]
    plan = {file.address for file in story.deleted} | {kept.address}
    explained = _as_marked(story.files, plan)
    with pytest.raises(UnsafePlanError, match=r"names 1 objects that are to be kept: keep/readme "):
        tour._show_plan(_console(io.StringIO()), story, EMPTY, explained, every=False)


def test_what_the_mark_missed_is_shown_and_is_no_refusal(tmp_path):
    with Sandbox(tmp_path) as sandbox:
        story = documents_history(sandbox, "repo", now=datetime.now(UTC))
    missed, *others = story.deleted
    stream = io.StringIO()
    explained = _as_marked(story.files, {file.address for file in others})
    tour._show_plan(_console(stream), story, EMPTY, explained, every=True)
    assert f"kept, although it ought to go: {missed.path}" in stream.getvalue()
    for file in others:
        assert file.address.rpartition("/")[2] in stream.getvalue()


def test_without_java_nothing_is_made(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(SettingsError, match=r"needs Java 1\d or newer"):
        _told(tmp_path / ".sandbox")
    assert not (tmp_path / ".sandbox").exists()


@pytest.mark.deep
def test_the_story_of_policies_ends_with_a_proof_that_holds(spark, tmp_path):
    stream = io.StringIO()
    code = tour.run_demo(tmp_path / ".sandbox", story="policies", shown=_console(stream))
    text = stream.getvalue()
    assert code == 0, text
    assert "by the policy nothing goes yet, because version 1 of the policy is not confirmed" in (
        " ".join(text.split())
    )
    for sentence in (
        "policy rule 1: all, 15 days, on main/logs/",
        "policy rule 2: all, 3 days, on users/",
        "policy rule 3: uncommitted, 3 days, on main/tmp/",
        "4: reports/drafts/",
        "trial-bob: deleted, can be made again until",
        "25 deleted objects answer 410 Gone",
        "The proof holds: 26 of 51 objects were to go, 25 to stay.",
    ):
        assert sentence in text
    assert r"\n" not in text


def test_the_tutorial_shows_what_the_demo_prints(finished):
    _, _, text = finished
    printed, at = words(text), 0
    shown = [block for kind, block in blocks(TUTORIAL) if kind == "text"]
    assert len(shown) > 5
    for block in shown:
        at = require_shown(block, printed, at)


def test_the_tutorial_shows_what_its_commands_print_one_after_the_other(finished):
    """The last test of this sandbox: the commands change it."""
    directory, _, _ = finished
    env = {"LAKEGC_CONFIG": str(directory / "lakegc.toml"), "COLUMNS": str(WIDTH)}
    commands = [block for kind, block in blocks(TUTORIAL) if kind == "console"]
    assert len(commands) > 5
    key = ""
    for block in commands:
        line, _, shown = block.partition("\n")
        _, *arguments = shlex.split(line.removeprefix("$ "))
        if "--run" in arguments:
            arguments[arguments.index("--run") + 1] = key
        answer = CliRunner().invoke(main, arguments, env=env)
        assert answer.exit_code == 0, answer.output
        if arguments[0] == "mark":
            key = re.search(r", run (\S+)$", answer.stdout, re.MULTILINE)[1]
        require_shown(shown, words(answer.stdout))
