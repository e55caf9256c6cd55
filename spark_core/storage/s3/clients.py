"""The two clients of an S3 bucket, boto3 and obstore, with the same settings.

They share credentials, region, endpoint and bounds.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import obstore.store
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import BotoCoreError, ClientError
from obstore.auth.boto3 import Boto3CredentialProvider

from spark_core.errors import SettingsError
from spark_core.pasted_keys import require_plain
from spark_core.storage.endpoint_urls import url_of
from spark_core.storage.obstore_reads import claim_process
from spark_core.storage.options import StoreOptions
from spark_core.storage.s3 import private_doors
from spark_core.storage.s3.content_md5 import add_md5
from spark_core.storage.s3.listing_pages import read_before_parser
from spark_core.storage.s3.roles import assume_role
from spark_core.storage.s3_bucket_names import DIRECTORY_BUCKET

if TYPE_CHECKING:
    from obstore.store import ClientConfig

# The region where S3 answers for buckets of any region, and which stores without regions expect.
_ANY_REGION = "us-east-1"

# boto3 refreshes temporary credentials 15 minutes before they end. Asking this often never uses
# expired ones.
_CREDENTIALS_LIFE = timedelta(minutes=5)


@dataclass(frozen=True)
class S3Clients:
    """The open clients of one process.

    Attributes:
        boto: Lists and describes the bucket.
        deleting: Deletes; it answers key by key and names every key, and repeats nothing by itself.
        objects: Reads and writes, rooted at the bucket.
        region: The bucket's region.
    """

    boto: Any
    deleting: Any
    objects: obstore.store.S3Store
    region: str


def check_options(options: StoreOptions, root: str) -> None:
    """Refuse options that contradict each other.

    Raises:
        SettingsError: Naming the setting.
    """
    if (options.s3_access_key_id is None) != (options.s3_secret_access_key is None):
        raise SettingsError(
            f"{root}: only one of the S3 access key id and its secret is set. Set both or none."
        )
    for name, endpoint in (
        ("s3_endpoint", options.s3_endpoint),
        ("s3_sts_endpoint", options.s3_sts_endpoint),
    ):
        if endpoint is not None:
            url_of(endpoint, name, root, options)


def open_clients(bucket: str, options: StoreOptions, region: str | None) -> S3Clients:
    """Open both clients; ask the bucket for its region if none is known.

    Args:
        bucket: Its name.
        options: Endpoint, credentials, bounds.
        region: The bucket's region if it is known already.

    Raises:
        SettingsError: If there are no credentials or no such profile, or if this process was forked
            from one that used S3 already.
    """
    if not claim_process():
        raise SettingsError(
            "this process was forked from one that had used obstore already, and obstore does not "
            "survive that",
            "Start worker processes with spawn or forkserver.",
        )
    session = open_session(options, os.getpid())
    region = region or options.s3_region or _region_of(bucket, session, options)
    boto = _boto(options, region, os.getpid())
    objects = _obstore(bucket, session, options, boto.meta.endpoint_url, region)
    return S3Clients(boto, _boto(options, region, os.getpid(), repeats=False), objects, region)


@lru_cache(maxsize=16)
def open_session(options: StoreOptions, _process: int) -> boto3.Session:
    """Open the session that all stores of these options share here; each costs 0.25 seconds."""
    try:
        session = boto3.Session(
            aws_access_key_id=options.s3_access_key_id,
            aws_secret_access_key=options.s3_secret_access_key,
            aws_session_token=options.s3_session_token,
            profile_name=options.s3_profile,
        )
        known = session.get_credentials()
    except BotoCoreError as error:
        raise SettingsError(
            f"the AWS configuration cannot be used ({error})", "Correct it."
        ) from None
    if known is None:
        raise SettingsError(
            "no credentials for S3 were found",
            "Set AWS_ACCESS_KEY_ID "
            "and AWS_SECRET_ACCESS_KEY, a profile, or run where an instance role gives them. "
            "lakegc does not read anonymously.",
        )
    # Keys that renew themselves were pasted by nobody, and asking for them takes the network.
    if type(known) is Credentials:
        for called, key in (
            ("the access key id for S3", known.access_key),
            ("the secret access key for S3", known.secret_key),
            ("the session token for S3", known.token or ""),
        ):
            require_plain(key, called)
    return session if options.s3_role_arn is None else assume_role(session, options, _ANY_REGION)


@lru_cache(maxsize=16)
def _boto(options: StoreOptions, region: str, process: int, *, repeats: bool = True) -> Any:
    boto = open_session(options, process).client(
        "s3",
        region_name=region,
        endpoint_url=options.s3_endpoint,
        config=Config(
            ignore_configured_endpoint_urls=options.s3_own_endpoint_only or None,
            connect_timeout=options.connect_timeout.total_seconds(),
            read_timeout=options.read_timeout.total_seconds(),
            # Adaptive: a throttling store slows this client down instead of failing the run. Who
            # deletes has a pace of its own, and must see that the store is busy.
            retries={"mode": "adaptive", "total_max_attempts": options.max_retries + 1}
            if repeats
            else {"mode": "standard", "total_max_attempts": 1},
            s3={"addressing_style": "path" if options.s3_path_style else "virtual"},
            # Copies and restores keep more requests under way than the client's default of ten.
            max_pool_connections=32,
            # Not all stores that speak like S3 know the newer checksums.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )
    private_doors.read_first(boto, read_before_parser)
    private_doors.before_signing(boto, "DeleteObjects", add_md5)
    private_doors.stay_in_region(boto)
    return boto


def signed_link(bucket: str, name: str, options: StoreOptions, region: str, life: timedelta) -> str:
    """Return a URL that reads a page until its life ends; no request is sent.

    The client of all other requests would sign it by a way that newer regions do not take.
    """
    boto = open_session(options, os.getpid()).client(
        "s3",
        region_name=region,
        endpoint_url=options.s3_endpoint,
        config=Config(
            ignore_configured_endpoint_urls=options.s3_own_endpoint_only or None,
            signature_version="s3v4",
            s3={"addressing_style": "path" if options.s3_path_style else "virtual"},
        ),
    )
    asked = {"Bucket": bucket, "Key": name, "ResponseContentType": "text/html"}
    url: str = boto.generate_presigned_url("get_object", asked, int(life.total_seconds()))
    return url


def _region_of(bucket: str, session: boto3.Session, options: StoreOptions) -> str:
    boto = _boto(options, session.region_name or _ANY_REGION, os.getpid())
    return bucket_region(boto, bucket) or session.region_name or _ANY_REGION


def bucket_region(boto: Any, bucket: str) -> str | None:
    """Ask the bucket for its region; S3 tells it even if it refuses the rest, others need not."""
    try:
        answer = boto.head_bucket(Bucket=bucket)
    except ClientError as error:
        answer = error.response
    except BotoCoreError:
        return None
    region = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("x-amz-bucket-region")
    return str(region) if region else None


def _obstore(
    bucket: str, session: boto3.Session, options: StoreOptions, endpoint: str, region: str
) -> obstore.store.S3Store:
    is_zonal = bucket.endswith(DIRECTORY_BUCKET) and options.s3_endpoint is None
    if not options.s3_path_style:
        scheme, _, host = endpoint.partition("://")
        endpoint = f"{scheme}://{bucket}.{host}"
    return obstore.store.S3Store(
        bucket,
        # Of a directory bucket, the client knows the zone's endpoint, and the sessions there.
        **({"s3_express": True} if is_zonal else {"endpoint": endpoint}),
        region=region,
        virtual_hosted_style_request=not options.s3_path_style,
        # Set explicitly, or a variable that only obstore knows (AWS_SKIP_SIGNATURE) would make its
        # requests anonymous.
        skip_signature=False,
        credential_provider=Boto3CredentialProvider(session, ttl=_CREDENTIALS_LIFE),
        client_options=_client_options(options),
        retry_config={"max_retries": options.max_retries, "retry_timeout": options.retry_timeout},
    )


def _client_options(options: StoreOptions) -> ClientConfig:
    chosen: ClientConfig = {
        "allow_http": options.allow_http,
        "connect_timeout": options.connect_timeout,
        "timeout": options.read_timeout,
    }
    bundle = os.environ.get("AWS_CA_BUNDLE")
    if bundle:
        # boto3 trusts it by itself. A store behind a private authority must not answer one client
        # and fail the other.
        chosen["root_certificate"] = Path(bundle).read_bytes()
    return chosen
