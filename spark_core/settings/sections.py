"""The tables of `lakegc.toml`: their keys, defaults and limits."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    create_model,
    field_validator,
    model_validator,
)

from spark_core.run.options_and_defaults import OPTIONS, RunOptions

_HOST = re.compile(r"[0-9A-Za-z._-]+")
# The ways to log in that the table may name; one of them at most.
LOGINS = ("credentials_file", "token_env", "token_file", "token_command", "aws_iam")
_KEY_VARIABLE = "LAKEGC_ACCESS_KEY_ID"
_SECRET_VARIABLE = "LAKEGC_SECRET_ACCESS_KEY"  # noqa: S105 - the name of a variable

RepositoryName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{2,62}$")]
# A name, or a pattern with `*` for any letters and `?` for one.
RepositoryPattern = Annotated[
    str,
    StringConstraints(
        pattern=r"^([a-z0-9][a-z0-9-]{2,62}|[a-z0-9*?-]{0,62}[*?][a-z0-9*?-]{0,62})$"
    ),
]


class Section(BaseModel):
    """A table of the file: no unknown keys, no guessing at types, unchanged once read."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def plain_url(url: str | None) -> str | None:
    """Refuse what is no plain URL, and one with a password in it."""
    # pydantic shows a ValueError's text. It shows no input in our messages, because the URL may
    # carry a password.
    if url is None:
        return None
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - reading it is what validates it
    except ValueError:
        raise ValueError("a URL like https://lakefs.example.com") from None
    if parts.username or parts.password:
        raise ValueError("a URL without user name and password: URLs end up in messages and logs")
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise ValueError("a URL like https://lakefs.example.com")
    return url


def _is_address(host: str) -> bool:
    try:
        return bool(ip_address(host))
    except ValueError:
        return False


class ServerSettings(Section):
    """The `[server]` table: where lakeFS is and how patient to be with it.

    Attributes:
        endpoint: URL of the server, with or without `/api/v1`.
        access_key_id_env: Name of the environment variable with the key id.
        secret_access_key_env: Name of the environment variable with its secret.
        credentials_file: `~/.lakectl.yaml`, or another YAML, JSON, TOML or INI file with one
            `access_key_id` and one `secret_access_key`.
        token_env: Name of an environment variable with a bearer token.
        token_file: File with a bearer token, read for each call.
        token_command: Program and arguments that print a bearer token; asked again before it ends
            (if it is a JWT that says so), and when the server refuses it.
        aws_iam: Log in as the AWS identity of this machine, as a rule a role (lakeFS Enterprise and
            Cloud).
        aws_iam_login_minutes: How long such a log-in is to last; it is renewed before it ends.
        aws_iam_headers: What the identity's question is signed with; left out,
            `X-LakeFS-Server-ID` and the server's host.
        ca_certificate: File with certificates to trust instead of the system's.
        client_certificate: File with the certificate for a server that demands one of its clients.
        client_key: File with its key; left out, in the same file.
        connect_timeout_seconds: For one connection.
        read_timeout_seconds: For one answer; a page of prepare_uncommitted works for a minute.
        prepare_deadline_seconds: For a task that the server prepares, altogether.
        longest_outage_seconds: How long a server that answered before may be away, such as for a
            restart.
    """

    endpoint: str
    access_key_id_env: str = _KEY_VARIABLE
    secret_access_key_env: str = _SECRET_VARIABLE
    credentials_file: str | None = None
    token_env: str | None = None
    token_file: str | None = None
    token_command: list[str] = Field(default_factory=list)
    aws_iam: bool = False
    aws_iam_login_minutes: float = Field(default=60, ge=1, le=7 * 1440)
    aws_iam_headers: dict[str, str] = Field(default_factory=dict)
    ca_certificate: str | None = None
    client_certificate: str | None = None
    client_key: str | None = None
    connect_timeout_seconds: float = Field(default=10, gt=0, le=3600)
    read_timeout_seconds: float = Field(default=120, gt=0, le=86_400)
    prepare_deadline_seconds: float = Field(default=1200, gt=0, le=7 * 86_400)
    longest_outage_seconds: float = Field(default=60, ge=0, le=86_400)

    _endpoint = field_validator("endpoint")(plain_url)

    @property
    def url(self) -> str:
        """The server's URL, which is that of its pages, too."""
        return self.endpoint.rstrip("/").removesuffix("/api/v1")

    @model_validator(mode="after")
    def _one_way_to_log_in(self) -> Self:
        named = [way for way in LOGINS if getattr(self, way)]
        if len(named) > 1:
            raise ValueError(f"one way to log in, and there are {' and '.join(named)}")
        return self


class StorageSettings(Section):
    """The `[storage]` table: how this machine reaches the object store.

    Attributes:
        local_path: Where this machine sees the server's local blockstore; required there.
        server_path: Where the server sees it, when that differs.
        s3_endpoint: URL of MinIO, Ceph, a VPC endpoint; left out, `AWS_ENDPOINT_URL_S3` or
            `AWS_ENDPOINT_URL`, else AWS.
        s3_region: Region of the bucket; left out, the bucket is asked. If it is
            wrong, the error names the right one.
        s3_profile: Profile of the AWS configuration files; left out, `AWS_PROFILE`.
        s3_path_style: Whether the bucket stands in the path of the URL; false puts it into the host
            (`BUCKET.HOST`).
        s3_role_arn: Role to assume for the bucket with those credentials.
        s3_sts_endpoint: URL of the token service that knows the role, for stores with one of their
            own; left out, `AWS_ENDPOINT_URL_STS`, else AWS's.
        azure_endpoint: URL of the account when it is reached elsewhere, such as a private endpoint
            or an emulator; left out, its host in the namespace, always over TLS.
        azure_client_id: Which managed identity is meant; with tenant and secret a service
            principal; left out, `AZURE_CLIENT_ID`.
        azure_tenant_id: Tenant of the service principal; left out, `AZURE_TENANT_ID`.
        gcs_endpoint: URL of a private endpoint or an emulator; left out, that of the credentials'
            universe, usually `https://storage.googleapis.com`.
        gcs_service_account_file: Key file of a service account, or of a user login; left out,
            `GOOGLE_APPLICATION_CREDENTIALS`, `gcloud auth application-default login`, or the
            account attached to the machine.
        executor_credentials: What Spark's executors on other machines get of the credentials found
            here: `auto` all but machine identities, `always` those too (as temporary keys), `never`
            nothing.
        allow_http: Whether an endpoint without TLS is accepted.
        connect_timeout_seconds: For one connection.
        read_timeout_seconds: For one request.
        max_retries: How often a request that failed for a passing reason is sent again.
    """

    local_path: str | None = None
    server_path: str | None = None
    s3_endpoint: str | None = None
    s3_region: str | None = None
    s3_profile: str | None = None
    s3_path_style: bool = True
    s3_role_arn: str | None = None
    s3_sts_endpoint: str | None = None
    azure_endpoint: str | None = None
    azure_client_id: str | None = None
    azure_tenant_id: str | None = None
    gcs_endpoint: str | None = None
    gcs_service_account_file: str | None = None
    executor_credentials: Literal["auto", "always", "never"] = "auto"
    allow_http: bool = False
    connect_timeout_seconds: float = Field(default=10, gt=0, le=3600)
    read_timeout_seconds: float = Field(default=120, gt=0, le=86_400)
    max_retries: int = Field(default=8, ge=0, le=100)

    _endpoints = field_validator(
        "s3_endpoint", "s3_sts_endpoint", "azure_endpoint", "gcs_endpoint"
    )(plain_url)


class SparkSettings(Section):
    """The `[spark]` table.

    Attributes:
        master: Spark master; left out, `local[*]`, and under `spark-submit` what that was given.
        remote: Address of a Spark Connect server (`sc://host:15002`) instead of a master; left out,
            what the variable `SPARK_REMOTE` says. An address with a token belongs into the
            environment (`LAKEGC__SPARK__REMOTE`).
        ship_package: Send lakegc's own code to the executors; else they must have this very version
            installed.
        always: Let Spark do all the work, however little there is; else lakegc's own process does
            what is done before Spark would have started. Where `master` names other machines, or
            with `remote`, Spark does it all anyway.
        config: Spark properties; they win over lakegc's own.
    """

    master: str | None = None
    remote: str | None = None
    ship_package: bool = True
    always: bool = False
    config: dict[str, str] = Field(default_factory=dict)

    @field_validator("remote")
    @classmethod
    def _is_an_address(cls, remote: str | None) -> str | None:
        if remote is not None and not remote.startswith("sc://"):
            raise ValueError("the address of a Spark Connect server, like sc://host:15002")
        return remote

    @model_validator(mode="after")
    def _one_of_two(self) -> SparkSettings:
        if self.remote is not None and self.master is not None:
            raise ValueError("either master or remote: a Spark Connect server has its own master")
        return self


class DagsterSettings(Section):
    """The `[dagster]` table.

    Attributes:
        home: Dagster's home; left out, `DAGSTER_HOME`, else `.lakegc/dagster_home` beside the
            settings.
    """

    home: str | None = None


# Its first setting is a word of Python, which a class body cannot name.
class LaunchSettings(
    create_model(  # type: ignore[misc]
        "_Launch", __base__=Section, **{"with": (Literal["here", "python", "spark-submit"], "here")}
    )
):
    """The `[launch]` table: where the runs of Dagster work.

    Attributes:
        with: `here` is Dagster's own process; `python` another process of this machine;
            `spark-submit` the cluster that `arguments` name. Runs of the command line work in their
            own process.
        arguments: Options of `spark-submit`, each word by itself, such as `--master` and `yarn`.
        repositories_at_once: On how many repositories a command works side by side, in one process
            with one Spark session; each takes the memory of a run.
    """

    arguments: list[str] = Field(default_factory=list)
    repositories_at_once: int = Field(default=2, ge=1, le=64)

    @property
    def tool(self) -> str:
        """What starts a run."""
        return str(getattr(self, "with"))


class UiSettings(Section):
    """The `[ui]` table: Dagster's pages, as `lakegc ui` serves them.

    Attributes:
        hosts: Names or addresses, without scheme and port, by which people reach the UI past
            loopback and the address of `--host`: those of an ingress or a proxy. Requests for any
            other host are refused.
    """

    hosts: list[str] = Field(default_factory=list)

    @field_validator("hosts")
    @classmethod
    def _plain(cls, hosts: list[str]) -> list[str]:
        if not all(_HOST.fullmatch(host) or _is_address(host) for host in hosts):
            raise ValueError("names or addresses like lakegc.example.com, without scheme and port")
        return hosts


class ScheduleSettings(Section):
    """The `[schedule]` table: the nightly run.

    Attributes:
        cron: When.
        timezone: Time zone of the hours in `cron`.
        run: Whether the schedule is on without anybody switching it on in the UI.
    """

    cron: str = "0 2 * * *"
    timezone: str = "UTC"
    run: bool = False

    @field_validator("timezone")
    @classmethod
    def _known(cls, timezone: str) -> str:
        try:
            ZoneInfo(timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError("a time zone like Europe/Berlin or UTC") from None
        return timezone


def _run_fields() -> dict[str, Any]:
    """Return a field for each option of a run."""
    found: dict[str, Any] = {}
    for option in OPTIONS:
        kind = Literal[option.words] if option.words else float if option.unit else option.type
        default = option.write(option.default)
        found[option.setting] = (
            kind,
            Field(default=default, ge=option.ge, gt=option.gt, le=option.le),
        )
    return found


# mypy does not look into a class that is made at run time. Code that needs types uses
# `run_options`.
class RepositorySettings(create_model("_Run", __base__=Section, **_run_fields())):  # type: ignore[misc]
    """The `[defaults]` table and each `[repositories.NAME]`: options of a run, see `RunOptions`."""

    @field_validator("price_by_class", check_fields=False)
    @classmethod
    def _no_negative_price(cls, prices: dict[str, float] | None) -> dict[str, float] | None:
        if any(each < 0 for each in (prices or {}).values()):
            raise ValueError("prices of at least 0")
        return prices

    def run_options(self) -> RunOptions:
        """Return what a run may do."""
        return RunOptions(
            **{option.name: option.read(getattr(self, option.setting)) for option in OPTIONS}
        )
