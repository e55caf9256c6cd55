"""One message a night: what it says, and that a command sends no other."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner

from lakegc_dagster.sandbox import Sandbox
from spark_core.cli.main import main
from spark_core.notices.digest import digest_of
from spark_core.notices.messages import Message
from spark_core.notices.sending import tell
from tests.spark_core.notices.test_messages import settings
from tests.spark_core.report.test_fleet_page import FLEET, IN_ORDER
from tests.support.command_line import settings_on
from tests.support.fleet import GB, NOW, fleet_row, past_run
from tests.support.listeners import http_listener
from tests.support.upstream import upstream_scenario

NIGHT = NOW - timedelta(hours=12)


def test_a_night_in_order_is_one_sentence():
    message = digest_of([IN_ORDER], NIGHT)
    assert message.title == "lakegc: a night in order"
    assert message.text == (
        "Reclaimed since 2026-11-19 20:00 UTC: 2,000 objects, 2.0 GB, which saves 0.05 a month. "
        "1 of 1 repository is in order."
    )


def test_what_lies_in_quarantine_saves_nothing_yet():
    aside = fleet_row("lake", [past_run(0, in_quarantine=(500, GB / 2))])
    assert "1,000 objects, 1.0 GB, which saves 0.01 a month." in digest_of([aside], NIGHT).text


def test_each_that_needs_a_person_is_named_with_the_way_on():
    message = digest_of(FLEET, NIGHT)
    assert message.title == "lakegc: 3 of 4 repositories need a person"
    assert re.search(
        r"^models: expired_share_is_plausible: 60.0% of the", message.text, re.MULTILINE
    )
    assert "  Next: lakegc confirm models expired_share_is_plausible --run " in message.text
    assert re.search(r"^raw: the last good mark ended 9.2 days ago", message.text, re.MULTILINE)
    assert re.search(r"^archive: the store refuses", message.text, re.MULTILINE)
    assert "lake:" not in message.text


def test_what_ended_a_run_is_said_in_its_own_words_and_once():
    message = digest_of(FLEET, NIGHT, failed={"models": "refused, says the check."})
    assert "models: refused, says the check." in message.text
    assert "60.0% of the" not in message.text
    assert "  Next: lakegc confirm models" in message.text


def test_a_run_that_did_not_end_is_said():
    begun = past_run(0, state="sweep unfinished", swept_at=None, outcomes={})
    message = digest_of([fleet_row("lake", [begun])], NIGHT)
    assert f"lake: its newest run, {begun.run}, is sweep unfinished." in message.text


def test_of_many_the_first_are_named():
    many = [fleet_row(f"r{n:02}", [past_run(9)]) for n in range(30)]
    text = digest_of(many, NIGHT).text
    assert text.endswith("and 10 more; `lakegc status` shows them all.")


def test_beside_a_digest_a_run_of_its_own_that_failed_is_told_at_once():
    with http_listener() as web:
        made = settings({"HOOK": web.url}, webhook_env="HOOK", events=["digest"])
        assert tell(made, Message("failed", "repo", "", "words")) == ["the webhook"]
        narrow = settings({"HOOK": web.url}, webhook_env="HOOK", events=["failed"])
        assert tell(narrow, Message("digest", "", "", "words", subject="a night")) == []
        assert [body["event"] for _, body in web.got] == ["failed"]


SETTINGS = """\
[server]
endpoint = "{endpoint}"
[storage]
local_path = "{blockstore}"
[notify]
events = ["digest"]
webhook_env = "HOOK"
[defaults]
repository_cache_seconds = 0
[repositories.repo]
mode = "sweep"
[repositories.absent]
"""


@pytest.mark.slow
@pytest.mark.spark
def test_a_command_over_several_repositories_sends_one_message(spark, tmp_path, monkeypatch):
    with Sandbox(tmp_path / "sandbox") as sandbox, http_listener() as web:
        upstream_scenario(sandbox, "repo", now=datetime.now(UTC))
        env = {**settings_on(sandbox, tmp_path, SETTINGS), "HOOK": web.url}
        answer = CliRunner().invoke(main, ["run"], env=env)
        assert answer.exit_code == 1, answer.output
        ((_, body),) = web.got
        assert (body["event"], body["title"]) == (
            "digest",
            "lakegc: 1 of 2 repositories needs a person",
        )
        assert re.search(r"^Reclaimed since .*: [1-9]\d* objects", body["text"])
        assert re.search(r"^absent: .*absent", body["text"], re.MULTILINE)
