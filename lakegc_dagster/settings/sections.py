"""The tables of `lakegc.toml`: their keys, defaults and limits."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

_DAY_HOURS = 24
# A century; anything longer is a slip of the keyboard, and datetime cannot subtract it.
_LONGEST_HOURS = 36_500 * _DAY_HOURS

_KEY_VARIABLE = "LAKEGC_ACCESS_KEY_ID"
_SECRET_VARIABLE = "LAKEGC_SECRET_ACCESS_KEY"  # noqa: S105 - the name of a variable

RepositoryName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{2,62}$")]


class Section(BaseModel):
    """A table of the file: no unknown keys, no guessing at types, unchanged once read."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def _plain_url(url: str | None) -> str | None:
    # pydantic shows a ValueError's text and, in our messages, no input: the URL may carry a password.
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


class ServerSettings(Section):
    """The `[server]` table: where lakeFS is and how patient to be with it.

    Attributes:
        endpoint: URL of the server, with or without `/api/v1`.
        access_key_id_env: Name of the environment variable with the key id.
        secret_access_key_env: Name of the environment variable with its secret.
        credentials_file: File with `access_key_id` and `secret_access_key`
            (TOML, INI, JSON, or lakectl's own); used when the variables are not set.
        ca_certificate: File with certificates to trust instead of the system's.
        connect_timeout_seconds: For one connection.
        read_timeout_seconds: For one answer; a page of prepare_uncommitted works for a minute.
        prepare_deadline_seconds: For a task that the server prepares, altogether.
        longest_outage_seconds: How long a server that answered before may be away, such as for a restart.
    """

    endpoint: str
    access_key_id_env: str = _KEY_VARIABLE
    secret_access_key_env: str = _SECRET_VARIABLE
    credentials_file: str | None = None
    ca_certificate: str | None = None
    connect_timeout_seconds: float = Field(default=10, gt=0, le=3600)
    read_timeout_seconds: float = Field(default=120, gt=0, le=86_400)
    prepare_deadline_seconds: float = Field(default=1200, gt=0, le=7 * 86_400)
    longest_outage_seconds: float = Field(default=60, ge=0, le=86_400)

    _endpoint = field_validator("endpoint")(_plain_url)


class StorageSettings(Section):
    """The `[storage]` table: how this machine reaches the object store.

    Attributes:
        local_path: Where this machine sees the server's local blockstore.
        server_path: Where the server sees it, when that differs.
        s3_endpoint: URL of an S3-compatible store; left out, AWS.
        s3_region: Region of the bucket.
        s3_profile: Profile of the AWS configuration files.
        s3_path_style: Whether the bucket stands in the path of the URL.
        s3_role_arn: Role to assume for the bucket.
        s3_sts_endpoint: URL of the token service that knows the role; left out, AWS's.
        azure_endpoint: URL of the account when it is not where its namespaces say, such as an emulator's.
        azure_client_id: Which managed identity or service principal is meant.
        azure_tenant_id: Tenant of the service principal.
        gcs_endpoint: URL of a GCS emulator or private endpoint; left out, Google's.
        gcs_service_account_file: Key file of a service account; left out, the usual Google chain.
        executor_credentials: What Spark's executors on other machines get of the credentials found here: `auto` all but
            machine identities, `always` those too (as temporary keys), `never` nothing.
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

    _endpoints = field_validator("s3_endpoint", "s3_sts_endpoint", "azure_endpoint", "gcs_endpoint")(_plain_url)


class SparkSettings(Section):
    """The `[spark]` table.

    Attributes:
        master: Spark master; left out, `local[*]`, and under `spark-submit` what that was given.
        address_partitions: Partitions in which addresses are compared; left out, 200 on a cluster and 4 on a laptop.
        ship_package: Send lakegc's own code to the executors; else they must have this very version installed.
        config: Spark properties; they win over lakegc's own.
    """

    master: str | None = None
    address_partitions: int | None = Field(default=None, ge=1, le=100_000)
    ship_package: bool = True
    config: dict[str, str] = Field(default_factory=dict)


class DagsterSettings(Section):
    """The `[dagster]` table.

    Attributes:
        home: Dagster's home; left out, `DAGSTER_HOME`, else `.lakegc/dagster_home` beside the settings.
    """

    home: str | None = None


class ScheduleSettings(Section):
    """The `[schedule]` table: the nightly run.

    Attributes:
        cron: When.
        timezone: Whose hours `cron` means.
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


class RepositorySettings(Section):
    """The `[defaults]` table and each `[repositories.NAME]`: what a run may do and how far it goes.

    Attributes:
        mode: `mark` shows what would go, `sweep` also deletes it.
        min_age_hours: An object younger than this, and what clocks may differ by, is never considered.
        allow_unsafe_min_age: Accept less than the server's grace period; for throw-away repositories.
        flat: Also consider the flat 32-hex names of old lakeFS versions.
        tags_protect: Every tag keeps the commit it names.
        clock_margin_minutes: How much more generous than the rules our own retention is.
        twin_calls: Calls to the server that looking for hidden entries may take; left out, 1000 or ten for each branch.
        hidden_entries: `by_time` asks a branch only about objects that can have been staged since its head was made;
            `ask_all` asks every branch about all.
        longest_upload_days: How long an upload through the server may take: its object's name and date are of its beginning.
        branches_at_once: Branches that the server is asked about side by side.
        strangers: What becomes of objects below `data/` whose names lakeFS did not give: `keep` or `collect`. An entry that
            names one by another name of the store, such as an access point, does not keep it; put a hold on those.
        inherited: What becomes of objects that are older than the repository: `keep` or `collect`.
        explain_ranges: Ranges of expired commits read to tell why an object may go.
        max_expired_share: Refuse when more than this share of the objects would go ...
        max_missing_share: ... or when more than this share of what branches reach is not in the store ...
        share_from_objects: ... but only from this many objects on.
        max_sudden_drop: Refuse when objects, live objects or retained commits are fewer by more than this share than at the last
            run that passed ...
        max_expired_rise: ... or when this much more of the objects would go than then (0.25 means 25 points of a hundred).
        max_clock_skew_seconds: Refuse when the clock of server or store is further from this machine's; it cannot be raised.
        max_mark_age_days: A mark whose reading began longer ago than this is not swept.
        max_deletes_per_second: Objects that a sweep deletes in a second at most; left out, as fast as the store takes it.
        reread_minutes: How old the second look at what is referenced may be when a batch is deleted; what is staged may be older
            where reading it takes longer than a quarter of that.
        quarantine: Move objects to lakegc's own folder instead of deleting them; `lakegc restore` brings them back.
        quarantine_days: Days that they stay there, counted from the end of the sweep.
        repository_cache_seconds: How long the server may go on answering for a repository that was just deleted.
        range_partitions: Spark partitions for reading metaranges and ranges.
        read_threads: Reads that one Spark task keeps under way.
        write_reference_mark: Also write a mark whose verdict passed as lakeFS's own job does; that job sweeps it unseen.
        exclusive: Nobody else ever collects this namespace: sweep on a store that does not honour create-if-absent, too.
        lease_ttl_seconds: How long the lease of a sweep is good for without a sign of life of its holder.
        keep_runs: Runs whose tables are kept; of older ones only verdicts, manifests and reports stay.
    """

    mode: Literal["mark", "sweep"] = "mark"
    min_age_hours: float = Field(default=24, ge=0, le=_LONGEST_HOURS)
    allow_unsafe_min_age: bool = False
    flat: bool = False
    tags_protect: bool = True
    clock_margin_minutes: float = Field(default=60, ge=0, le=7 * _DAY_HOURS * 60)
    twin_calls: int | None = Field(default=None, ge=0)
    hidden_entries: Literal["by_time", "ask_all"] = "by_time"
    longest_upload_days: float = Field(default=7, ge=0, le=36_500)
    branches_at_once: int = Field(default=16, ge=1, le=256)
    strangers: Literal["keep", "collect"] = "keep"
    inherited: Literal["keep", "collect"] = "keep"
    explain_ranges: int = Field(default=1_000, ge=0)
    max_expired_share: float = Field(default=0.5, ge=0, le=1)
    max_missing_share: float = Field(default=0.01, ge=0, le=1)
    share_from_objects: int = Field(default=1_000, ge=0)
    max_sudden_drop: float = Field(default=0.5, ge=0, le=1)
    max_expired_rise: float = Field(default=0.25, ge=0, le=1)
    max_clock_skew_seconds: float = Field(default=300, ge=5, le=300)
    max_mark_age_days: float = Field(default=7, gt=0, le=36_500)
    max_deletes_per_second: float | None = Field(default=None, gt=0)
    reread_minutes: float = Field(default=10, gt=0, le=10)
    quarantine: bool = False
    quarantine_days: float = Field(default=30, ge=1, le=36_500)
    repository_cache_seconds: float = Field(default=8, ge=0, le=3600)
    range_partitions: int = Field(default=50, ge=1, le=100_000)
    read_threads: int = Field(default=8, ge=1, le=256)
    write_reference_mark: bool = False
    exclusive: bool = False
    lease_ttl_seconds: float = Field(default=300, ge=30, le=3600)
    keep_runs: int = Field(default=14, ge=1, le=100_000)
