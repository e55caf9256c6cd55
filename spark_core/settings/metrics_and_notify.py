"""The tables of `lakegc.toml` about who is told: `[metrics]`, `[notify]` and `[report]`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from string import Template
from typing import Literal

from pydantic import Field, field_validator, model_validator

from spark_core.json_and_toml import read_json
from spark_core.settings.sections import Section, plain_url
from spark_core.settings.url_with_user import split_url

Event = Literal["failed", "refused", "overdue", "waiting"]
# What people may want to be told of.
Notice = Literal[Event, "digest"]
# What a webhook's template may name.
TEMPLATE_NAMES = (
    "event", "repository", "run", "title", "text", "next_step", "link", "words", "secret",
)  # fmt: skip


# How each scheme of a mail server is spoken to, and its usual port.
_STARTTLS, _TLS, _PLAIN = "smtp", "smtps", "smtp+plain"
_MAIL_PORTS = {_STARTTLS: 587, _TLS: 465, _PLAIN: 25}

_WEB = ("https", "http")
# The form in which a push gateway takes the name of a job, before any labels.
_JOB = re.compile(r"/metrics/job(@base64)?/[^/]")


@dataclass(frozen=True)
class PushGateway:
    """Where metrics are pushed to.

    Attributes:
        url: The URL for a push, with the job and without a user.
        user: Who logs in; None for nobody.
    """

    url: str
    user: str | None


@dataclass(frozen=True)
class MailServer:
    """Where e-mails go.

    Attributes:
        host: Host.
        port: Port.
        scheme: `smtp`, `smtps` or `smtp+plain`.
        user: Who logs in; None for nobody.
    """

    host: str
    port: int
    scheme: str
    user: str | None

    @property
    def switches_to_tls(self) -> bool:
        """Whether a connection begins without TLS and has to switch to it."""
        return self.scheme == _STARTTLS

    @property
    def begins_with_tls(self) -> bool:
        """Whether it is TLS from the first byte."""
        return self.scheme == _TLS

    @property
    def has_tls(self) -> bool:
        """Whether a password is safe on the way."""
        return self.switches_to_tls or self.begins_with_tls


def fill_template(template: str, values: Mapping[str, str]) -> str:
    """Put values into a template of JSON, each as a text of JSON with its quotes.

    Raises:
        KeyError: If it names another value.
        ValueError: If a `$` stands alone.

    Examples:
        >>> fill_template('{"text": $text}', {"text": "two words"})
        '{"text": "two words"}'
    """
    return Template(template).substitute(
        {name: json.dumps(value) for name, value in values.items()}
    )


class ReportSettings(Section):
    """The `[report]` table: where people open the pages of runs.

    Attributes:
        base_url: What answers `BASE_URL/REPOSITORY/KEY` with that key of the repository's storage
            namespace, such as `https://lakegc.example.com/reports` where `lakegc ui` is behind a
            proxy. Left out, `lakegc ui` names itself to the runs that it starts.
        signed_link_hours: Without `base_url`: for how long the store signs a link to a page, which
            whoever has it can open. S3 does, but not directory buckets; GCS with the key file of a
            service account; Azure with an account key or an identity. Credentials that end sooner
            end the link, too.
    """

    base_url: str | None = None
    signed_link_hours: float = Field(default=0, ge=0, le=168)

    _plain = field_validator("base_url")(plain_url)


class MetricsSettings(Section):
    """The `[metrics]` table: where runs leave their metrics.

    Attributes:
        file: File for node exporter's folder; its name must end in `.prom`. Written at the end of
            each command that runs, and by `lakegc metrics`.
        push_gateway: URL of a Prometheus push gateway that gets them at the same times:
            `https://USER@HOST/metrics/job/NAME`. Without `/metrics/job/NAME` the job is `lakegc`;
            without `USER@` nobody logs in.
        push_password_env: Name of the environment variable with the user's password.
    """

    file: str | None = Field(default=None, pattern=r"\.prom$")
    push_gateway: str | None = None
    push_password_env: str | None = None

    @property
    def gateway(self) -> PushGateway | None:
        """The push gateway, if there is one."""
        if self.push_gateway is None:
            return None
        parts = split_url(self.push_gateway, schemes=_WEB, named_in="push_password_env")
        address = parts.address.rstrip("/")
        return PushGateway(
            address if _JOB.search(parts.path) else f"{address}/metrics/job/lakegc", parts.user
        )

    @model_validator(mode="after")
    def _gateway_has_a_whole_log_in(self) -> MetricsSettings:
        user = None if self.gateway is None else self.gateway.user
        if (user is None) != (self.push_password_env is None):
            raise ValueError("a user in push_gateway and push_password_env together, or neither")
        return self

    @field_validator("push_gateway")
    @classmethod
    def _is_a_gateway(cls, push_gateway: str | None) -> str | None:
        if push_gateway is not None:
            parts = split_url(push_gateway, schemes=_WEB, named_in="push_password_env")
            is_job_missing = "/metrics/job" in parts.path and not _JOB.search(parts.path)
            # HTTP would take what stands behind a colon for the password.
            if is_job_missing or ":" in (parts.user or ""):
                raise ValueError("a URL like https://USER@HOST/metrics/job/NAME")
        return push_gateway


class NotifySettings(Section):
    """The `[notify]` table: who is told of what.

    Attributes:
        events: What people are told of: `failed` a run that an error ended, `refused` a run that a
            check or a doubt ended, `overdue` a repository whose last good mark is too long ago,
            `waiting` objects that wait for a confirmation. Or `digest` alone: once a night of
            everything, what it reclaimed and what waits. A command over several repositories does
            so at its end, and Dagster's sensor at 8:00 in the time zone of `[schedule]`.
        slack_webhook_env: Name of the environment variable with the URL of a Slack webhook.
        webhook_env: Name of the environment variable with a URL that gets each message as JSON by
            POST.
        webhook_template: That JSON, where it must have a form of its own: `$title`, `$text`,
            `$words` and other values of the message stand where a value stands.
        webhook_secret_env: Name of the environment variable with the value of `$secret` there.
        sns_topic: ARN of a topic of Amazon SNS that gets each message.
        mail_to: Addresses that get each message by e-mail.
        mail_from: Address that it comes from.
        smtp: Mail server: `smtp://USER@HOST:PORT` switches to TLS (`STARTTLS`), `smtps://` is TLS
            from the first byte, `smtp+plain://` has none, for a server on this machine. Without
            `USER@` nobody logs in; the usual ports are 587, 465 and 25.
        smtp_password_env: Name of the environment variable with the user's password.
        page_url: Where people find the page of `lakegc status --html FILE`; messages lead there,
            else to the repository on the server.
    """

    events: list[Notice] = Field(
        default_factory=lambda: list[Notice](["failed", "refused", "overdue", "waiting"])
    )
    slack_webhook_env: str | None = None
    webhook_env: str | None = None
    webhook_template: str | None = None
    webhook_secret_env: str | None = None
    sns_topic: str | None = Field(default=None, pattern=r"^arn:[^:]+:sns:[^:]+:\d+:[^:]+$")
    mail_to: list[str] = Field(default_factory=list)
    mail_from: str | None = None
    smtp: str = "smtp://localhost"
    smtp_password_env: str | None = None
    page_url: str | None = None

    @property
    def is_on(self) -> bool:
        """Whether anybody is told."""
        return bool(self.slack_webhook_env or self.webhook_env or self.sns_topic or self.mail_to)

    @property
    def mail_server(self) -> MailServer:
        """The server that takes the e-mails."""
        parts = split_url(self.smtp, schemes=tuple(_MAIL_PORTS), named_in="smtp_password_env")
        port = _MAIL_PORTS[parts.scheme] if parts.port is None else parts.port
        return MailServer(parts.host, port, parts.scheme, parts.user)

    _page = field_validator("page_url")(plain_url)

    @field_validator("smtp")
    @classmethod
    def _is_a_mail_server(cls, smtp: str) -> str:
        parts = split_url(smtp, schemes=tuple(_MAIL_PORTS), named_in="smtp_password_env")
        if parts.path.strip("/") or parts.port == 0:
            raise ValueError("a URL like smtp://USER@HOST:PORT")
        return smtp

    @property
    def digest(self) -> bool:
        """Whether people are told once a night of everything."""
        return "digest" in self.events

    @field_validator("events")
    @classmethod
    def _digest_is_alone(cls, events: list[Notice]) -> list[Notice]:
        if "digest" in events and len(events) > 1:
            raise ValueError('"digest" alone, which tells of everything, or any of the others')
        return events

    @field_validator("webhook_template")
    @classmethod
    def _is_json(cls, template: str | None) -> str | None:
        if template is not None:
            try:
                read_json(
                    fill_template(template, dict.fromkeys(TEMPLATE_NAMES, "")), each_once=True
                )
            except (ValueError, KeyError) as problem:
                raise ValueError(
                    f"JSON in which {', '.join(f'${name}' for name in TEMPLATE_NAMES)} stand for "
                    f"values, each name once ({problem})"
                ) from None
        return template

    @model_validator(mode="after")
    def _mail_has_a_sender(self) -> NotifySettings:
        if self.mail_to and self.mail_from is None:
            raise ValueError("mail_from beside mail_to")
        server = self.mail_server
        if (server.user is None) != (self.smtp_password_env is None):
            raise ValueError("a user in smtp and smtp_password_env together, or neither")
        if server.user is not None and not server.has_tls:
            raise ValueError("smtp:// or smtps:// for a mail server that gets a password")
        return self
