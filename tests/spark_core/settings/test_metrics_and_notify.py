"""Where people are told and metrics go, as one URL each says it."""

import pytest
from pydantic import ValidationError

from spark_core.settings.metrics_and_notify import (
    MailServer,
    MetricsSettings,
    NotifySettings,
    PushGateway,
)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("smtp://mail.example.com", MailServer("mail.example.com", 587, "smtp", None)),
        ("smtp://mail:25/", MailServer("mail", 25, "smtp", None)),
        ("smtps://mail", MailServer("mail", 465, "smtps", None)),
        ("smtp+plain://[::1]", MailServer("::1", 25, "smtp+plain", None)),
    ],
)
def test_a_url_names_the_mail_server_its_port_and_its_tls(url, expected):
    assert NotifySettings(smtp=url).mail_server == expected


@pytest.mark.parametrize("user", ["me%40example.com", "me@example.com"])
def test_a_user_of_a_mail_server_may_be_an_address(user):
    made = NotifySettings(smtp=f"smtps://{user}@mail:8465", smtp_password_env="P")
    assert made.mail_server == MailServer("mail", 8465, "smtps", "me@example.com")


def test_without_a_url_it_is_this_machine_with_starttls():
    server = NotifySettings().mail_server
    assert (server.host, server.port, server.switches_to_tls) == ("localhost", 587, True)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://host", "https://host/metrics/job/lakegc"),
        ("https://host/behind/", "https://host/behind/metrics/job/lakegc"),
        ("http://host:9091/metrics/job/mine", "http://host:9091/metrics/job/mine"),
        ("https://host/metrics/job@base64/bWluZQ", "https://host/metrics/job@base64/bWluZQ"),
        ("https://host/metrics/job/mine/at/night", "https://host/metrics/job/mine/at/night"),
    ],
)
def test_the_url_of_a_gateway_names_the_job_or_it_is_lakegc(url, expected):
    assert MetricsSettings(push_gateway=url).gateway == PushGateway(expected, None)


@pytest.mark.parametrize(
    ("table", "wanted"),
    [
        ({"push_gateway": "https://me:hush@host"}, "variable's name into push_password_env"),
        ({"push_gateway": "host:9091"}, "a URL like https://USER@HOST"),
        ({"push_gateway": "https://host/metrics/job/"}, "like https://USER@HOST/metrics/job/NAME"),
        ({"push_gateway": "https://me%3Ahush@host", "push_password_env": "P"}, "like https://USER"),
        ({"push_gateway": ""}, "a URL like https://USER@HOST"),
        ({"push_gateway": "https://me@host"}, "push_password_env together, or neither"),
        (
            {"push_gateway": "https://host", "push_password_env": "P"},
            "push_password_env together, or neither",
        ),
        ({"push_password_env": "P"}, "push_password_env together, or neither"),
    ],
)
def test_a_gateway_that_is_half_said_is_refused(table, wanted):
    with pytest.raises(ValidationError, match=wanted):
        MetricsSettings(**table)
