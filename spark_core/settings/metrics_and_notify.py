"""The tables of `lakegc.toml` about who is told: `[metrics]`, `[notify]` and `[report]`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from string import Template
from typing import Literal

from pydantic import Field, field_validator, model_validator

from spark_core.json_and_toml import read_json
from spark_core.settings.sections import Section, plain_url

Event = Literal["failed", "refused", "overdue", "waiting"]
# What a webhook's template may name.
TEMPLATE_NAMES = (
    "event", "repository", "run", "title", "text", "next_step", "link", "words", "secret",
)  # fmt: skip


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
        push_gateway: URL of a Prometheus push gateway that gets them at the same times.
        push_user: User name for the gateway.
        push_password_env: Name of the environment variable with the user's password.
        job: Name of the job under which the gateway keeps the metrics.
    """

    file: str | None = Field(default=None, pattern=r"\.prom$")
    push_gateway: str | None = None
    push_user: str = "lakegc"
    push_password_env: str | None = None
    job: str = Field(default="lakegc", min_length=1)

    _gateway = field_validator("push_gateway")(plain_url)


class NotifySettings(Section):
    """The `[notify]` table: who is told of what.

    Attributes:
        events: What people are told of: `failed` a run that an error ended, `refused` a run that a
            check or a doubt ended, `overdue` a repository whose last good mark is too long ago,
            `waiting` objects that wait for a confirmation.
        digest: Tell people once a night instead, of everything: what it freed, and what waits. A
            command over several repositories does so at its end, and Dagster's sensor at
            8:00 in the time zone of `[schedule]`.
        slack_webhook_env: Name of the environment variable with the URL of a Slack webhook.
        webhook_env: Name of the environment variable with a URL that gets each message as JSON by
            POST.
        webhook_template: That JSON, where it must have a form of its own: `$title`, `$text`,
            `$words` and other values of the message stand where a value stands.
        webhook_secret_env: Name of the environment variable with the value of `$secret` there.
        sns_topic: ARN of a topic of Amazon SNS that gets each message.
        mail_to: Addresses that get each message by e-mail.
        mail_from: Address that it comes from.
        smtp_host: Mail server.
        smtp_port: Its port.
        smtp_tls: `starttls`, `tls` from the first byte, or `none` for a server on this machine.
        smtp_user: User name there; left out, nobody logs in.
        smtp_password_env: Name of the environment variable with the user's password.
        page_url: Where people find the page of `lakegc status --html FILE`; messages lead there,
            else to the repository on the server.
    """

    events: list[Event] = Field(
        default_factory=lambda: list[Event](["failed", "refused", "overdue", "waiting"])
    )
    digest: bool = False
    slack_webhook_env: str | None = None
    webhook_env: str | None = None
    webhook_template: str | None = None
    webhook_secret_env: str | None = None
    sns_topic: str | None = Field(default=None, pattern=r"^arn:[^:]+:sns:[^:]+:\d+:[^:]+$")
    mail_to: list[str] = Field(default_factory=list)
    mail_from: str | None = None
    smtp_host: str = "localhost"
    smtp_port: int = Field(default=587, ge=1, le=65_535)
    smtp_tls: Literal["starttls", "tls", "none"] = "starttls"
    smtp_user: str | None = None
    smtp_password_env: str | None = None
    page_url: str | None = None

    @property
    def is_on(self) -> bool:
        """Whether anybody is told."""
        return bool(self.slack_webhook_env or self.webhook_env or self.sns_topic or self.mail_to)

    _page = field_validator("page_url")(plain_url)

    @field_validator("webhook_template")
    @classmethod
    def _is_json(cls, template: str | None) -> str | None:
        if template is not None:
            try:
                read_json(fill_template(template, dict.fromkeys(TEMPLATE_NAMES, "")))
            except (ValueError, KeyError):
                raise ValueError(
                    f"JSON in which {', '.join(f'${name}' for name in TEMPLATE_NAMES)} stand for "
                    "values"
                ) from None
        return template

    @model_validator(mode="after")
    def _mail_has_a_sender(self) -> NotifySettings:
        if self.mail_to and self.mail_from is None:
            raise ValueError("mail_from beside mail_to")
        if (self.smtp_user is None) != (self.smtp_password_env is None):
            raise ValueError("smtp_user and smtp_password_env together, or neither")
        if self.smtp_user is not None and self.smtp_tls == "none":
            raise ValueError("smtp_tls for a mail server that gets a password")
        return self
