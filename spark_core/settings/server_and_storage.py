"""The tables about where lakeFS and the object store are, and how to log in to the server."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from spark_core.settings.sections import Section, plain_url

# The ways to log in that the table may name; one of them at most.
LOGINS = ("credentials_file", "token_file", "token_command", "aws_iam")


class ServerSettings(Section):
    """The `[server]` table: where lakeFS is and how patient to be with it.

    Attributes:
        endpoint: URL of the server, with or without `/api/v1`.
        credentials_file: `~/.lakectl.yaml`, or another YAML, JSON, TOML or INI file with one
            `access_key_id` and one `secret_access_key`.
        token_file: File with a bearer token, read for each call.
        token_command: Program and arguments that print a bearer token, such as `["printenv",
            "NAME"]`; asked again before it ends (if it is a JWT that says so), and when the server
            refuses it.
        aws_iam: Log in as the AWS identity of this machine, as a rule a role (lakeFS Enterprise and
            Cloud).
        aws_iam_headers: What the identity's question is signed with; left out,
            `X-LakeFS-Server-ID` and the server's host.
        ca_certificate: File with certificates to trust instead of the system's.
        client_certificate: File with the certificate for a server that demands one of its clients.
        client_key: File with its key; left out, in the same file.
        read_timeout_seconds: For one answer; a page of prepare_uncommitted works for a minute.
        prepare_deadline_seconds: For a task that the server prepares, altogether.
        longest_outage_seconds: How long a server that answered before may be away, such as for a
            restart.
    """

    endpoint: str
    credentials_file: str | None = None
    token_file: str | None = None
    token_command: list[str] = Field(default_factory=list)
    aws_iam: bool = False
    aws_iam_headers: dict[str, str] = Field(default_factory=dict)
    ca_certificate: str | None = None
    client_certificate: str | None = None
    client_key: str | None = None
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
        azure_client_id: Which managed identity is meant, also on executors; with `AZURE_TENANT_ID`
            and `AZURE_CLIENT_SECRET` a service principal; left out, `AZURE_CLIENT_ID`.
        gcs_endpoint: URL of a private endpoint or an emulator; left out, that of the credentials'
            universe, usually `https://storage.googleapis.com`.
        gcs_service_account_file: Key file of a service account, or of a user login; left out,
            `GOOGLE_APPLICATION_CREDENTIALS`, `gcloud auth application-default login`, or the
            account attached to the machine.
        executor_credentials: What Spark's executors on other machines get of the credentials found
            here: `auto` all but machine identities, `always` those too (as temporary keys), `never`
            nothing.
        allow_http: Whether an endpoint without TLS is accepted.
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
    gcs_endpoint: str | None = None
    gcs_service_account_file: str | None = None
    executor_credentials: Literal["auto", "always", "never"] = "auto"
    allow_http: bool = False
    read_timeout_seconds: float = Field(default=120, gt=0, le=86_400)
    max_retries: int = Field(default=8, ge=0, le=100)

    _endpoints = field_validator(
        "s3_endpoint", "s3_sts_endpoint", "azure_endpoint", "gcs_endpoint"
    )(plain_url)
