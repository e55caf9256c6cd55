"""The whole demo, as `make demo` runs it.

It proves itself, and does not when something is wrong.
"""

import io
import re
import shlex
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from lakegc_dagster.demo import tour
from lakegc_dagster.sandbox import Sandbox
from lakegc_dagster.sandbox.history import documents_history
from spark_core.cli.main import main
from spark_core.errors import SettingsError, UnsafePlanError
from spark_core.explain import Explanation
from spark_core.report import Group, Report
from spark_core.settings import load_settings
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
    code, text = _told(directory, WIDTH)
    return directory, code, text


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


def test_the_runs_are_in_the_home_that_the_ui_opens(finished):
    import dagster as dg

    from lakegc_dagster.launch.home import open_instance

    directory, _, _ = finished
    with open_instance(directory / "dagster_home") as instance:
        runs = instance.get_runs()
        assert [(run.job_name, run.status) for run in runs] == [
            ("sweep", dg.DagsterRunStatus.SUCCESS),
            ("mark", dg.DagsterRunStatus.SUCCESS),
        ]


def test_without_a_wide_terminal_the_tables_leave_the_addresses_out():
    stream = io.StringIO()
    narrow = _console(stream, width=80)
    narrow.print(tour._explained_table(narrow, "Kept", [], every=False))
    assert "address" not in stream.getvalue()


@pytest.mark.deep
def test_a_lost_object_breaks_the_proof_and_the_exit_code(spark, tmp_path, monkeypatch):
    directory = tmp_path / ".sandbox"
    launch = tour.launch

    def launch_and_lose(settings, job, *arguments, **options):
        result = launch(settings, job, *arguments, **options)
        if job == "sweep":
            lost = min(_objects(directory))
            (directory / "blockstore" / "lakegc-demo" / lost).unlink()
        return result

    monkeypatch.setattr(tour, "launch", launch_and_lose)
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
