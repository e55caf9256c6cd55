"""How this machine reaches the stores."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

Carry = Literal["never", "auto", "always"]


@dataclass(frozen=True)
class StoreOptions:
    """How this machine reaches the stores; credentials never show in `repr`.

    Attributes:
        local_path: Where this machine sees the server's local blockstore, the root of all
            `local://` namespaces.
        s3_endpoint: URL of an S3-compatible store; None means AWS, or what the AWS environment and
            configuration files say.
        s3_own_endpoint_only: Whether to ignore the endpoints of the AWS environment and
            configuration files. Another machine's may differ from those of the machine these
            options come from.
        s3_region: Region of the bucket; found by asking the bucket when None.
        s3_access_key_id: Explicit credentials; without them the usual AWS chain is used
            (environment, profile, instance role).
        s3_secret_access_key: Belongs to the key id.
        s3_session_token: Belongs to temporary credentials.
        s3_profile: Profile of the AWS configuration files.
        s3_path_style: Whether the bucket stands in the path of the URL rather than in the host.
        s3_role_arn: Role to assume with those credentials.
        s3_sts_endpoint: URL of the token service that knows the role; None means AWS's, or what the
            AWS environment says.
        azure_endpoint: URL of an account that is reached elsewhere than its namespaces say, such as
            an emulator's `http://127.0.0.1:10000/ACCOUNT`.
        azure_account_key: Explicit credentials; without any of these the usual Azure chain is used
            (environment, workload or managed identity, `az login`).
        azure_sas_token: A shared access signature instead.
        azure_tenant_id: Tenant of a service principal, used instead.
        azure_client_id: Id of the service principal; alone, it names the managed identity to use.
        azure_client_secret: Secret of the service principal.
        gcs_endpoint: URL of a GCS emulator or private endpoint; None means Google's.
        gcs_service_account_file: Key file of a service account; without it the usual Google chain
            is used.
        gcs_service_account_key: Content of such a file; it reaches machines that do not have the
            file.
        carry_credentials: Which of this machine's own credentials go along when a store is sent to
            another machine: none; all but the identities that a machine has by itself (roles,
            managed identity, metadata server) and renews; or all.
        allow_http: Whether an endpoint without TLS is accepted.
        connect_timeout: Limit of one connection attempt.
        read_timeout: Limit of one request, its body included.
        max_retries: How often a request that failed for a passing reason is sent again.
        retry_timeout: Time after which a request is not sent again.

    Examples:
        >>> options = StoreOptions(s3_access_key_id="key", s3_secret_access_key="secret-key")
        >>> "secret-key" in repr(options)
        False
    """

    local_path: str | None = None
    s3_endpoint: str | None = None
    s3_own_endpoint_only: bool = False
    s3_region: str | None = None
    s3_access_key_id: str | None = field(default=None, repr=False)
    s3_secret_access_key: str | None = field(default=None, repr=False)
    s3_session_token: str | None = field(default=None, repr=False)
    s3_profile: str | None = None
    s3_path_style: bool = True
    s3_role_arn: str | None = None
    s3_sts_endpoint: str | None = None
    azure_endpoint: str | None = None
    azure_account_key: str | None = field(default=None, repr=False)
    azure_sas_token: str | None = field(default=None, repr=False)
    azure_tenant_id: str | None = None
    azure_client_id: str | None = None
    azure_client_secret: str | None = field(default=None, repr=False)
    gcs_endpoint: str | None = None
    gcs_service_account_file: str | None = None
    gcs_service_account_key: str | None = field(default=None, repr=False)
    carry_credentials: Carry = "never"
    allow_http: bool = False
    connect_timeout: timedelta = timedelta(seconds=10)
    read_timeout: timedelta = timedelta(minutes=2)
    max_retries: int = 8
    retry_timeout: timedelta = timedelta(minutes=3)
