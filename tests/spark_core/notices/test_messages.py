"""What people are told, over which ways, and that no secret is in it."""

import email
import json
import re
import smtplib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from lakegc_dagster.submit.job import run as submitted
from spark_core.cli.main import main
from spark_core.errors import LakegcError, SettingsError, UnsafePlanError
from spark_core.model import RunKey
from spark_core.notices.messages import Message, of_checks, of_error
from spark_core.notices.sending import send, tell
from spark_core.report.status import RepositoryStatus
from spark_core.settings import Settings, load_settings
from spark_core.stored_runs.overview import Past
from tests.support.listeners import http_listener, smtp_listener

PAGE = Path(__file__).parents[3] / "docs" / "operating.md"
NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)
REFUSED = Message(
    "refused", "repo", "2026-11-20T02-00-00Z", "Too much <b> & more.", "lakegc report"
)
SHARE = "expired_share_is_plausible"
WAITING = RepositoryStatus(
    "repo",
    waiting=(2, 20),
    waiting_run="2026-11-20T01-00-00Z",
    waits_for=f"confirmation of {SHARE}",
    next_step=f"lakegc confirm repo {SHARE} --run 2026-11-20T01-00-00Z",
    refused=((SHARE, "61% would go."),),
)
OVERDUE = RepositoryStatus("repo", overdue="no mark of it ever passed")


@pytest.fixture
def web():
    with http_listener() as server:
        yield server


@pytest.fixture
def mail():
    with smtp_listener() as server:
        yield server


def settings(env=None, repositories=None, **notify_table):
    made = Settings.model_validate(
        {
            "server": {"endpoint": "http://127.0.0.1:9"},
            "notify": notify_table,
            "repositories": repositories or {"repo": {}},
        }
    )
    made._env = env or {}
    return made


def by_mail(port, **more):
    return {
        "mail_to": ["a@example.com", "b@example.com"],
        "mail_from": "lakegc@example.com",
        "smtp": f"smtp+plain://127.0.0.1:{port}",
        **more,
    }


def test_the_webhook_gets_the_message_as_json(web):
    made = settings({"HOOK": f"{web.url}/in?token=s3cret"}, webhook_env="HOOK")
    assert tell(made, REFUSED) == ["the webhook"]
    ((path, body),) = web.got
    assert path == "/in?token=s3cret"
    assert body == {
        "event": "refused",
        "repository": "repo",
        "run": "2026-11-20T02-00-00Z",
        "text": "Too much <b> & more.",
        "next_step": "lakegc report",
        "title": "lakegc: repo was refused, run 2026-11-20T02-00-00Z",
        "link": "http://127.0.0.1:9/repositories/repo/objects",
        "words": "lakegc: repo was refused, run 2026-11-20T02-00-00Z\nToo much <b> & more.\n"
        "Next: lakegc report\nSee: http://127.0.0.1:9/repositories/repo/objects",
    }


def test_slack_gets_one_text_in_which_nothing_is_a_link(web):
    assert tell(settings({"SLACK": web.url}, slack_webhook_env="SLACK"), REFUSED) == ["Slack"]
    ((_, body),) = web.got
    assert body == {
        "text": "lakegc: repo was refused, run 2026-11-20T02-00-00Z\n"
        "Too much &lt;b&gt; &amp; more.\nNext: lakegc report\n"
        "See: http://127.0.0.1:9/repositories/repo/objects"
    }


def test_the_mail_has_a_subject_and_the_whole_message(mail):
    assert tell(settings(**by_mail(mail.port)), REFUSED) == ["a@example.com, b@example.com"]
    (got,) = mail.got
    found = email.message_from_string(got)
    assert found["Subject"] == "lakegc: repo was refused, run 2026-11-20T02-00-00Z"
    assert (found["From"], found["To"]) == ("lakegc@example.com", "a@example.com, b@example.com")
    assert "Too much <b> & more.\nNext: lakegc report" in found.get_payload()


@pytest.mark.parametrize("scheme", ["smtp", "smtps"])
def test_a_mail_server_without_the_tls_that_its_url_says_gets_nothing(mail, scheme):
    made = settings(**by_mail(mail.port, smtp=f"{scheme}://127.0.0.1:{mail.port}"))
    with pytest.raises(LakegcError, match=f"127.0.0.1:{mail.port} did not take the message"):
        tell(made, REFUSED)
    assert not mail.got


def test_a_password_that_the_mail_server_cannot_be_told_keeps_no_other_way_from_its_message(
    web, mail, monkeypatch
):
    monkeypatch.setattr(smtplib.SMTP, "starttls", lambda *_, **__: None)
    more = {"smtp": f"smtp://me@127.0.0.1:{mail.port}", "smtp_password_env": "PASSWORD"}
    made = settings(
        {"HOOK": web.url, "PASSWORD": "s3cret\u00fc"}, webhook_env="HOOK", **by_mail(1, **more)
    )
    with pytest.raises(LakegcError, match=r"the message \(UnicodeEncodeError\)") as raised:
        tell(made, REFUSED)
    assert "s3cret" not in str(raised.value)
    assert (len(web.got), mail.got) == (1, [])


def test_a_way_that_fails_keeps_no_other_from_its_message_and_shows_no_secret(web, mail):
    web.status = 500
    made = settings({"HOOK": f"{web.url}/s3cret"}, webhook_env="HOOK", **by_mail(mail.port))
    with pytest.raises(LakegcError) as raised:
        tell(made, REFUSED)
    assert "the webhook: the URL of [notify] webhook_env answers HTTP 500" in str(raised.value)
    assert "s3cret" not in str(raised.value)
    assert len(mail.got) == 1


@pytest.mark.parametrize(
    ("env", "text"),
    [
        ({}, "names HOOK, and that environment variable is not set"),
        ({"HOOK": "s3cret"}, "holds no URL"),
        ({"HOOK": "http://127.0.0.1:9/s3cret"}, "does not answer"),
        ({"HOOK": "http://[s3cret"}, "does not answer"),
    ],
)
def test_a_webhook_that_cannot_be_told_is_named_by_its_setting(env, text):
    with pytest.raises(LakegcError) as raised:
        send(settings(env, webhook_env="HOOK"), REFUSED)
    assert text in str(raised.value)
    assert "s3cret" not in str(raised.value)
    assert "[notify] webhook_env" in str(raised.value)
    assert "s3cret" not in str(raised.value)


def test_a_mail_server_that_is_not_there_is_named():
    with pytest.raises(LakegcError, match=r"the mail server 127\.0\.0\.1:9 did not take"):
        send(settings(**by_mail(9)), REFUSED)


def test_a_template_gives_the_webhook_the_form_that_it_wants(web):
    template = '{"routing_key": $secret, "payload": {"summary": $title, "custom": [$text]}}'
    made = settings(
        {"HOOK": web.url, "KEY": "s3cret"},
        webhook_env="HOOK",
        webhook_template=template,
        webhook_secret_env="KEY",
    )
    hostile = Message("failed", "repo", "", 'a "quote", a \\ and\na line')
    tell(made, hostile)
    ((_, body),) = web.got
    assert body == {
        "routing_key": "s3cret",
        "payload": {"summary": "lakegc: repo failed", "custom": [hostile.text]},
    }


TEMPLATES = re.findall(r"webhook_template = \'\'\'\n(.*?)\'\'\'", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("template", TEMPLATES)
def test_each_template_of_the_documentation_is_json(web, template):
    made = settings(
        {"HOOK": web.url, "KEY": "k"},
        webhook_env="HOOK",
        webhook_template=template,
        webhook_secret_env="KEY",
    )
    tell(made, REFUSED)
    assert "repo was refused" in json.dumps(web.got[0][1])
    assert len(TEMPLATES) == 2


def test_a_topic_of_sns_gets_subject_and_words(monkeypatch):
    sent = []

    class Topic:
        def publish(self, **words):
            sent.append(words)

    monkeypatch.setattr(
        "boto3.client", lambda name, region_name: sent.append((name, region_name)) or Topic()
    )
    arn = "arn:aws:sns:eu-central-1:123456789012:lakegc"
    assert tell(settings(sns_topic=arn), REFUSED) == ["SNS"]
    assert sent[0] == ("sns", "eu-central-1")
    assert sent[1]["TopicArn"] == arn
    assert sent[1]["Subject"] == REFUSED.title
    assert "Next: lakegc report" in sent[1]["Message"]


def test_messages_lead_to_the_page_of_the_settings(web):
    made = settings({"HOOK": web.url}, webhook_env="HOOK", page_url="https://gc.example.com/")
    tell(made, REFUSED)
    assert web.got[0][1]["link"] == "https://gc.example.com/"


def test_an_event_that_nobody_asked_for_is_not_told(web):
    made = settings({"HOOK": web.url}, webhook_env="HOOK", events=["failed"])
    assert tell(made, REFUSED) == []
    assert web.got == []


def test_a_refusal_and_a_failure_are_two_events():
    refusal = UnsafePlanError("too much", "Raise it.")
    assert of_error("repo", "k", refusal) == Message("refused", "repo", "k", "too much. Raise it.")
    assert of_error("repo", "k", LakegcError("gone")).event == "failed"


def test_checks_that_a_person_may_confirm_lead_to_the_confirmation():
    one = of_checks("repo", "k", {SHARE: "61% would go."})
    assert one.text == f"{SHARE}: 61% would go. No sweep began."
    assert one.next_step == f"lakegc confirm repo {SHARE} --run k"
    assert of_checks("repo", "k", {SHARE: "", "clocks_agree": "no"}).next_step == (
        "lakegc report repo --run k"
    )


def test_control_characters_of_a_message_reach_nobody():
    words = Message("failed", "repo", "k", "bad\x1b[2J name\nsecond line").words
    assert "\x1b" not in words
    assert "second line" in words.splitlines()[-1]


CONFIG = """\
[server]
endpoint = "http://127.0.0.1:9"
[notify]
{table}
[repositories.repo]
"""


def lakegc(tmp_path, table, *words, **env):
    (tmp_path / "lakegc.toml").write_text(CONFIG.format(table=table))
    given = {"LAKEGC_CONFIG": str(tmp_path / "lakegc.toml"), "LAKEGC_ACCESS_KEY_ID": "a"}
    return CliRunner().invoke(main, words, env={**given, "LAKEGC_SECRET_ACCESS_KEY": "b", **env})


def test_a_test_message_goes_to_everybody_and_asks_no_server(web, tmp_path):
    answer = lakegc(tmp_path, 'webhook_env = "HOOK"', "notify", "--test", HOOK=web.url)
    assert answer.exit_code == 0, answer.output
    assert answer.stdout == "told     the webhook\n"
    assert web.got[0][1]["title"] == "lakegc: a test"
    assert web.got[0][1]["event"] == "test"


def test_without_anybody_to_tell_the_command_says_how(tmp_path):
    answer = lakegc(tmp_path, "", "notify")
    assert answer.exit_code == 2
    assert "[notify] names nobody to tell" in answer.stderr


def test_the_command_tells_what_is_overdue(web, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "spark_core.stored_runs.overview.overview",
        lambda _settings, _repositories: [Past("repo", (), OVERDUE)],
    )
    answer = lakegc(tmp_path, 'webhook_env = "HOOK"', "notify", HOOK=web.url)
    assert answer.exit_code == 0, answer.output
    assert answer.stdout == "lakegc: repo is overdue: told the webhook\n"
    assert web.got[0][1]["event"] == "overdue"


# Nobody answers at the endpoint.
def test_a_run_of_the_command_line_that_could_not_be_opened_is_told(web, tmp_path):
    answer = lakegc(
        tmp_path,
        'webhook_env = "HOOK"',
        "mark",
        "repo",
        HOOK=web.url,
        LAKEGC__SERVER__LONGEST_OUTAGE_SECONDS="0",
    )
    assert answer.exit_code == 1
    ((_, body),) = web.got
    assert (body["event"], body["repository"]) == ("failed", "repo")
    assert body["text"] in answer.stderr


@pytest.mark.slow
@pytest.mark.spark
def test_a_run_of_the_reference_job_s_form_that_fails_is_told(web, monkeypatch, capsys):
    monkeypatch.setenv("HOOK", web.url)
    pairs = {
        "spark.hadoop.lakefs.api.url": "http://127.0.0.1:9/api/v1",
        "spark.hadoop.lakefs.api.access_key": "a",
        "spark.hadoop.lakefs.api.secret_key": "b",
        "spark.lakegc.server.longest_outage_seconds": "0",
        "spark.lakegc.notify.webhook_env": "HOOK",
    }
    assert submitted(["repo"], pairs) == 1
    ((_, body),) = web.got
    assert (body["event"], body["repository"]) == ("failed", "repo")
    assert body["text"] in capsys.readouterr().err
    assert RunKey.parse(body["run"]).instant <= datetime.now(UTC)


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ('webhook = "https://x/secret"', "webhook is not a setting"),
        ('mail_to = ["a@example.com"]', "mail_from beside mail_to"),
        ('smtp = "smtp://me@host"', "a user in smtp and smtp_password_env together"),
        ('smtp_password_env = "P"', "a user in smtp and smtp_password_env together"),
        ('smtp = "smtp://me:s3cret@host"', "the variable's name into smtp_password_env"),
        ('smtp = "smtp://:@host"', "the variable's name into smtp_password_env"),
        ('smtp = "host"', "a URL like smtp://USER@HOST"),
        ('smtp = "smtp://host:none"', "a URL like smtp://USER@HOST"),
        ('smtp = "smtp://host:0"', "a URL like smtp://USER@HOST:PORT"),
        ('smtp = "smtp://host/path"', "a URL like smtp://USER@HOST:PORT"),
        ('smtp = "http://host"', "a URL like smtp://USER@HOST"),
        ('smtp_host = "host"', "smtp_host is not a setting; did you mean smtp?"),
        ('smtp_password = "x"', "is a secret"),
        ('webhook_template = \'{"text": "$text"}\'', "JSON in which $event, $repository"),
        ('webhook_template = \'{"text": $words, "to": $whom}\'', "JSON in which $event, "),
        ('sns_topic = "lakegc"', "sns_topic"),
        ('events = ["everything"]', "'failed', 'refused', 'overdue', 'waiting' or 'digest'"),
        ('events = ["failed", "digest"]', '"digest" alone'),
        ("digest = true", "digest is not a setting"),
        (
            'smtp = "smtp+plain://me@host"\nsmtp_password_env = "P"',
            "smtp:// or smtps:// for a mail server that gets a password",
        ),
    ],
)
def test_wrong_settings_are_refused(tmp_path, table, text):
    (tmp_path / "lakegc.toml").write_text(CONFIG.format(table=table))
    with pytest.raises(SettingsError) as raised:
        load_settings(tmp_path / "lakegc.toml", {})
    assert text in str(raised.value)
    assert "s3cret" not in str(raised.value)
