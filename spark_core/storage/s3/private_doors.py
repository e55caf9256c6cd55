"""Uses of botocore that its documents do not have, although all names are public.

An upgrade may break any of these: `tests/spark_core/storage/s3/test_private_doors.py` says which.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import boto3
import botocore.session
from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials
from botocore.handlers import BUILTIN_HANDLERS

BEFORE_PARSER = "before-parse.s3.*"


def read_first(boto: Any, reader: Callable[..., None]) -> None:
    """Put a reader of answers before the client's handlers, one of which parses a whole page.

    That handler looks for an error. The client's handlers still see every answer; of a listing,
    only what the reader left.
    """
    own = own_readers()
    for handler in own:
        boto.meta.events.unregister(BEFORE_PARSER, handler)
    for handler in (reader, *own):
        boto.meta.events.register(BEFORE_PARSER, handler)


def own_readers() -> list[Callable[..., None]]:
    """Return the client's own handlers of answers to S3's requests."""
    return [entry[1] for entry in BUILTIN_HANDLERS if entry[0] == BEFORE_PARSER]


def stay_in_region(boto: Any) -> None:
    """Keep a client from following a bucket into another region.

    obstore does not follow it, and both clients must mean the same bucket. A redirect that names no
    region would also send the client round in circles.
    """
    boto.meta.events.register("before-parameter-build.s3", _called_redirected)


def _called_redirected(context: dict[str, Any], **_: object) -> None:
    context.get("s3_redirect", {})["redirected"] = True


def before_signing(boto: Any, operation: str, handler: Callable[..., None]) -> None:
    """Call a handler when the body is final; headers that it adds are signed with the rest."""
    boto.meta.events.register(f"before-sign.s3.{operation}", handler)


def role_credentials(client: Callable[..., Any], source: Any, role: str, name: str) -> Any:
    """Return credentials of a role that renew themselves.

    Args:
        client: Opens a client of the token service, as `botocore.session.Session.create_client`
            does.
        source: Credentials that may assume the role.
        role: Its ARN.
        name: Of the role's sessions.
    """
    fetcher = AssumeRoleCredentialFetcher(
        client, source, role, extra_args={"RoleSessionName": name}
    )
    return DeferredRefreshableCredentials(
        refresh_using=fetcher.fetch_credentials, method="assume-role"
    )


def session_of(credentials: Any, region: str | None) -> boto3.Session:
    """Open a session with credentials that renew themselves."""
    core = botocore.session.get_session()
    core.register_component("credential_provider", _Given(credentials))
    return boto3.Session(botocore_session=core, region_name=region)


@dataclass(frozen=True)
class _Given:
    """What a session asks for its credentials."""

    credentials: Any

    def load_credentials(self) -> Any:
        return self.credentials
