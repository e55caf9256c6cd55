"""`lakegc confirm` on a stored mark: what it says, and what it refuses."""

from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner

from lakegc_dagster.asset_checks import as_dagster
from lakegc_dagster.names import OWN
from lakegc_dagster.sandbox import Sandbox, repositories
from spark_core import checks as guards
from spark_core.checks import confirming, sweepable, verdict
from spark_core.cli.main import main
from tests.support.command_line import settings_on
from tests.support.passing_mark import passing_mark
from tests.support.sandbox_runs import open_sandbox_run

SHARE = "expired_share_is_plausible"
SETTINGS = """\
[server]
endpoint = "{endpoint}"
[storage]
local_path = "{blockstore}"
[repositories.repo]
"""


@pytest.fixture(scope="module")
def marked(tmp_path_factory):
    """A mark that takes most of its repository, stored without Spark.

    Its key, and the command line on it.
    """
    folder = tmp_path_factory.mktemp("confirm")
    with Sandbox(folder / "sandbox") as sandbox:
        with sandbox.core.lock:
            repositories.create(sandbox.core, "repo", "local://repo")
        run = open_sandbox_run(sandbox, "repo", None, datetime.now(UTC) - timedelta(minutes=5))
        passing_mark(run, expired_addresses={"expired_objects": 9_000})
        _, results = verdict.conclude(run)
        env = settings_on(sandbox, folder, SETTINGS)

        def lakegc(*words):
            return CliRunner().invoke(main, words, env=env)

        yield run, results, lakegc


def test_a_check_that_nobody_may_confirm_is_refused(marked):
    run, _, lakegc = marked
    answer = lakegc("confirm", "repo", "clocks_agree", "--run", str(run.key))
    assert answer.exit_code == 3
    assert "clocks_agree is not a check that can be confirmed" in answer.stderr


def test_a_finding_is_confirmed_by_name_and_the_way_on_is_shown(marked):
    run, _, lakegc = marked
    answer = lakegc("confirm", "repo", SHARE, "--run", str(run.key))
    assert answer.exit_code == 0, answer.output
    assert "confirmed by " in answer.stdout
    assert "9000 of 10000 objects (90.0%)" in answer.stdout
    assert f"next     lakegc sweep repo --run {run.key} --config " in answer.stdout
    found, _ = sweepable.require_sweepable(run)
    assert confirming.confirmed_checks(run, found) == {SHARE}


def test_what_still_refuses_is_named_after_a_confirmation(tmp_path):
    with Sandbox(tmp_path / "sandbox") as sandbox:
        with sandbox.core.lock:
            repositories.create(sandbox.core, "repo", "local://repo")
        env = settings_on(sandbox, tmp_path, SETTINGS)

        def mark(ago, **facts):
            run = open_sandbox_run(sandbox, "repo", None, datetime.now(UTC) - timedelta(hours=ago))
            passing_mark(run, **facts)
            verdict.conclude(run)
            return run

        def confirmed(run, check):
            words = ["confirm", "repo", check, "--run", str(run.key)]
            answer = CliRunner().invoke(main, words, env=env)
            assert answer.exit_code == 0, answer.output
            *lines, last = answer.stdout.splitlines()
            return [line.partition(": ")[0] for line in lines[1:]], last

        mark(3)
        few = {
            "namespace_slices": {"objects": 1_000},
            "expired_addresses": {"expired_objects": 900},
        }
        sudden = mark(2, **few)
        left, following = confirmed(sudden, SHARE)
        assert left == ["still refused by nothing_changed_suddenly"]
        wanted = (
            f"next     lakegc confirm repo nothing_changed_suddenly --run {sudden.key} --config "
        )
        assert following.startswith(wanted)
        left, following = confirmed(sudden, "nothing_changed_suddenly")
        assert left == []
        assert following.startswith(f"next     lakegc sweep repo --run {sudden.key} --config ")

        off = {"clock_skew_seconds": {"server": 3_600.0, "store": None}}
        late = mark(1, namespace_slices=off, expired_addresses={"expired_objects": 9_000})
        left, following = confirmed(late, SHARE)
        assert "still refused by clocks_agree" in left
        assert following.startswith(f"next     lakegc report repo --run {late.key} --config ")


def test_a_misspelt_check_gets_the_one_next_to_it(marked):
    run, _, lakegc = marked
    for written, meant in (
        ("expired_share_is_plausable", SHARE),
        ("policy_confirmed", "policy_is_confirmed"),
        ("branchs", "branches"),
    ):
        answer = lakegc("confirm", "repo", written, "--run", str(run.key))
        assert answer.exit_code == 3
        assert f"there is no check {written}. Did you mean {meant}?" in answer.stderr


def test_a_run_without_a_mark_is_refused(marked):
    _, _, lakegc = marked
    answer = lakegc("confirm", "repo", SHARE, "--run", "2026-01-01T00-00-00Z")
    assert answer.exit_code == 1
    assert "there is no run 2026-01-01T00-00-00Z of repo; its runs are " in answer.stderr


def test_a_run_is_always_named(marked):
    assert marked[2]("confirm", "repo", SHARE).exit_code == 2


def test_dagster_shows_the_figures_of_each_check_with_its_limit_and_what_lifts_it(marked):
    _, results, _ = marked
    assert len(results) == len(guards.CHECKS)
    for result in results:
        shown = as_dagster(result, OWN).metadata
        assert shown["limit"].value == result.limit
        assert shown["lifted_by"].value == result.lifted_by
        assert len(shown) > 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("removal",), "`removal` needs --digest"),
        (("removal", "--digest", "0" * 12, "--run", "2026-01-01T00-00-00Z"), "and no --run"),
        (("branches",), "--run says which mark"),
        ((SHARE, "--digest", "0" * 12), "belong to `removal`"),
        (("branches", "--resets"), "belong to `removal`"),
        ((SHARE, "--branch", "main"), "belongs to `branches`"),
    ],
)
def test_each_thing_is_confirmed_by_its_own_words(marked, words, said):
    answer = marked[2]("confirm", "repo", *words)
    assert (answer.exit_code, said in answer.stderr) == (2, True), answer.stderr
