"""Send a message to people: to Slack, a webhook, a topic of SNS and by e-mail.

URLs and passwords come from environment variables that the settings name; no message and no error
shows them. No library sends for all four but Apprise, which has their secrets inside URLs.
"""

from __future__ import annotations

import json
import smtplib
import ssl
from collections.abc import Callable
from dataclasses import replace
from email.message import EmailMessage

from spark_core import extras
from spark_core.errors import LakegcError, SettingsError, TransientError
from spark_core.notices.messages import Message
from spark_core.plain_text import visible
from spark_core.settings import Settings
from spark_core.settings.metrics_and_notify import fill_template

# What SNS takes as a subject.
_SUBJECT = 100
# How long one request may take.
_REQUEST_SECONDS = 10


def tell(settings: Settings, message: Message) -> list[str]:
    """Send a message to everybody whom the settings name, if they want to know of its event.

    Args:
        settings: The settings.
        message: What to send.

    Returns:
        Where it went, in words; empty if nobody is to be told.

    Raises:
        LakegcError: If it could not be sent somewhere; everywhere else it was.
    """
    notify = settings.notify
    # What comes beside a digest is of a run that no digest is made of.
    is_wanted = notify.digest or message.event in notify.events
    return send(settings, message) if is_wanted else []


def send(settings: Settings, message: Message) -> list[str]:
    """Send a message to everybody whom the settings name, whatever events they ask for.

    Raises:
        LakegcError: As for `tell`.
    """
    notify = settings.notify
    message = replace(message, link=message.link or _link(settings, message))
    ways: dict[str, Callable[[], None]] = {}
    if notify.slack_webhook_env is not None:
        ways["Slack"] = lambda: _post(
            settings, "slack_webhook_env", json.dumps({"text": _for_slack(message.words)})
        )
    if notify.webhook_env is not None:
        ways["the webhook"] = lambda: _post(settings, "webhook_env", _filled(settings, message))
    if notify.sns_topic is not None:
        ways["SNS"] = lambda: _publish(settings, message)
    if notify.mail_to:
        ways[", ".join(notify.mail_to)] = lambda: _mail(settings, message)
    went, problems = [], []
    for where, way in ways.items():
        try:
            way()
        except LakegcError as problem:
            problems.append(f"{where}: {problem.message}")
        else:
            went.append(where)
    if problems:
        raise LakegcError(
            f"not everybody could be told: {'; '.join(problems)}",
            "Look at [notify]; `lakegc notify --test` tries it.",
        )
    return went


def _link(settings: Settings, message: Message) -> str:
    """Return the page of the run, else that of all, else the repository on the server."""
    page = _page_of_run(settings, message)
    if page is not None:
        return page
    if settings.notify.page_url is not None:
        return settings.notify.page_url
    if not message.repository:
        return ""
    return f"{settings.server.url}/repositories/{message.repository}/objects"


def _page_of_run(settings: Settings, message: Message) -> str | None:
    """Return a link to the page of the mark that a message is about; None if there is none."""
    report = settings.report
    if message.event not in ("refused", "waiting") or not message.run:
        return None
    if report.base_url is None and not report.signed_link_hours:
        return None
    from spark_core import lakegc_keys
    from spark_core.model import RunKey
    from spark_core.run.local_path import link_to
    from spark_core.stored_runs import open_stored

    try:
        run = open_stored(settings, message.repository, RunKey.parse(message.run))
        page = lakegc_keys.report_keys(run.key, swept=False)["html"]
        return link_to(run, page) if run.store.exists(page) else None
    except LakegcError:
        # The message matters more than its link.
        return None


def _filled(settings: Settings, message: Message) -> str:
    """Return the body for the webhook: the template with the message's values, or just those."""
    template = settings.notify.webhook_template
    if template is None:
        return json.dumps(message.values)
    secret = settings.secret("[notify] webhook_secret_env") or ""
    return fill_template(template, {**message.values, "secret": secret})


def _publish(settings: Settings, message: Message) -> None:
    """Publish to a topic of Amazon SNS, with the credentials of AWS's own chain."""
    topic = settings.notify.sns_topic or ""
    extras.require("s3", "Messages of [notify] sns_topic")
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        client = boto3.client("sns", region_name=topic.split(":")[3])
        client.publish(
            TopicArn=topic, Subject=visible(message.title)[:_SUBJECT], Message=message.words
        )
    except (BotoCoreError, ClientError) as problem:
        raise TransientError(f"SNS does not take the message ({problem})") from None


def _post(settings: Settings, setting: str, body: str) -> None:
    import urllib3

    named = f"[notify] {setting}"
    url = settings.secret(named) or ""
    if not url.startswith(("http://", "https://")):
        raise SettingsError(f"the variable that {named} names holds no URL", "Set it to one.")
    pool = urllib3.PoolManager(timeout=_REQUEST_SECONDS, retries=2)
    try:
        answer = pool.request(
            "POST",
            url,
            body=body.encode(),
            headers={"Content-Type": "application/json"},
            redirect=False,
        )
    except (urllib3.exceptions.HTTPError, ValueError) as problem:
        # Its own words may quote the URL, which is a secret.
        raise TransientError(
            f"the URL of {named} does not answer ({type(problem).__name__})"
        ) from None
    if answer.status >= 300:
        raise LakegcError(f"the URL of {named} answers HTTP {answer.status}")


def _for_slack(text: str) -> str:
    """Escape what Slack would take for a link or a mention.

    References:
        Slack, "Formatting text for app surfaces", escaping text.
    """
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _mail(settings: Settings, message: Message) -> None:
    notify = settings.notify
    mail = EmailMessage()
    # A header takes no line ends.
    mail["Subject"] = visible(message.title)
    mail["From"] = notify.mail_from
    mail["To"] = ", ".join(notify.mail_to)
    mail.set_content(f"{message.words}\n")
    context = ssl.create_default_context()
    password = settings.secret("[notify] smtp_password_env")
    to = notify.mail_server
    try:
        server = (
            smtplib.SMTP_SSL(to.host, to.port, timeout=_REQUEST_SECONDS, context=context)
            if to.begins_with_tls
            else smtplib.SMTP(to.host, to.port, timeout=_REQUEST_SECONDS)
        )
        with server:
            if to.switches_to_tls:
                server.starttls(context=context)
            if to.user is not None and password is not None:
                server.login(to.user, password)
            server.send_message(mail)
    except (OSError, smtplib.SMTPException, UnicodeError) as problem:
        raise TransientError(
            f"the mail server {to.host}:{to.port} did not take the message "
            f"({type(problem).__name__})"
        ) from None
