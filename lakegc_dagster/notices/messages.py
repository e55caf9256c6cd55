"""Tell people: a message about a run or a repository, sent to Slack, a webhook and by e-mail.

A message has the refusal's own sentence and the way on. URLs and passwords come from environment
variables that the settings name; no message and no error shows them.
"""

from __future__ import annotations

import json
import smtplib
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from email.message import EmailMessage
from typing import Any

from spark_core.checks import CONFIRMABLE
from spark_core.errors import LakegcError, RefusedError, SettingsError, TransientError
from spark_core.plain_text import bytes_text, visible
from spark_core.report.status import RepositoryStatus
from spark_core.settings import Settings
from spark_core.settings.metrics_and_notify import Event

_TITLES: Mapping[Event, str] = {
    "failed": "failed",
    "refused": "was refused",
    "overdue": "is overdue",
    "waiting": "waits for confirmation",
}


@dataclass(frozen=True)
class Message:
    """One message.

    Attributes:
        event: What it is about.
        repository: Repository id; empty for a test.
        run: Run key; empty if it is about no run.
        text: What happened, in sentences.
        next_step: What to do about it; empty if the text says that too.
    """

    event: Event
    repository: str
    run: str
    text: str
    next_step: str = ""

    @property
    def title(self) -> str:
        """One line for a subject."""
        if not self.repository:
            return "lakegc: a test"
        of = f", run {self.run}" if self.run else ""
        return f"lakegc: {self.repository} {_TITLES[self.event]}{of}"

    @property
    def words(self) -> str:
        """Everything, in lines."""
        more = f"\nNext: {self.next_step}" if self.next_step else ""
        return f"{visible(self.title)}\n{visible(self.text, lines=True)}{more}"


def of_error(repository_id: str, run: str, error: LakegcError) -> Message:
    """Make the message about a run that an error ended."""
    event: Event = "refused" if isinstance(error, RefusedError) else "failed"
    return Message(event, repository_id, run, str(error))


def of_checks(repository_id: str, run: str, failing: Mapping[str, str]) -> Message:
    """Make the message about a mark that its checks refuse.

    Args:
        repository_id: Repository name.
        run: Run key.
        failing: Name of each failed check -> its sentence.
    """
    text = " ".join(f"{name}: {why.rstrip('.')}." for name, why in failing.items())
    way_on = (
        f"lakegc confirm {repository_id} {next(iter(failing))} --run {run}"
        if set(failing) <= CONFIRMABLE
        else f"lakegc report {repository_id} --run {run}"
    )
    return Message("refused", repository_id, run, f"{text} No sweep began.", way_on)


def of_status(status: RepositoryStatus) -> Iterator[Message]:
    """Make the messages about how a repository stands: overdue, and waiting for confirmation."""
    name = status.repository
    if status.overdue:
        text = f"{status.overdue[0].upper()}{status.overdue[1:]}."
        yield Message("overdue", name, "", text, f"lakegc runs {name}")
    for kind in status.kinds:
        if kind.waits_for and kind.refused:
            objects, size = kind.waiting
            why = " ".join(f"{check}: {words}" for check, words in kind.refused)
            run = kind.waiting_run or ""
            text = f"{objects:,} objects, {bytes_text(size)}, wait for {kind.waits_for}. {why}"
            yield Message("waiting", name, run, text, kind.next_step)


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
    if message.event not in settings.notify.events:
        return []
    return send(settings, message)


def send(settings: Settings, message: Message) -> list[str]:
    """Send a message to everybody whom the settings name, whatever events they ask for.

    Raises:
        LakegcError: As for `tell`.
    """
    notify = settings.notify
    ways: dict[str, Callable[[], None]] = {}
    if notify.slack_webhook_env is not None:
        ways["Slack"] = lambda: _post(
            settings, "slack_webhook_env", {"text": _for_slack(message.words)}
        )
    if notify.webhook_env is not None:
        ways["the webhook"] = lambda: _post(
            settings, "webhook_env", {**asdict(message), "title": message.title}
        )
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


def _post(settings: Settings, setting: str, body: Mapping[str, Any]) -> None:
    import urllib3

    named = f"[notify] {setting}"
    url = settings.secret(named) or ""
    if not url.startswith(("http://", "https://")):
        raise SettingsError(f"the variable that {named} names holds no URL", "Set it to one.")
    pool = urllib3.PoolManager(timeout=settings.notify.timeout_seconds, retries=2)
    try:
        answer = pool.request(
            "POST",
            url,
            body=json.dumps(body).encode(),
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
    try:
        server = (
            smtplib.SMTP_SSL(
                notify.smtp_host, notify.smtp_port, timeout=notify.timeout_seconds, context=context
            )
            if notify.smtp_tls == "tls"
            else smtplib.SMTP(notify.smtp_host, notify.smtp_port, timeout=notify.timeout_seconds)
        )
        with server:
            if notify.smtp_tls == "starttls":
                server.starttls(context=context)
            if notify.smtp_user is not None and password is not None:
                server.login(notify.smtp_user, password)
            server.send_message(mail)
    except (OSError, smtplib.SMTPException) as problem:
        raise TransientError(
            f"the mail server {notify.smtp_host}:{notify.smtp_port} did not take the message "
            f"({type(problem).__name__})"
        ) from None
