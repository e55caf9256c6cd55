"""Where people are told and metrics go, as one URL each says it."""

import pytest

from spark_core.settings.metrics_and_notify import MailServer, NotifySettings


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
