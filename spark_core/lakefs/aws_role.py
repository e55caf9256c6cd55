"""Log in to the lakeFS server as the AWS identity that this machine has: a role, as a rule.

The machine signs a question to AWS, "who am I?", and does not send it. The lakeFS server sends it,
learns the identity from AWS, and gives a token for the lakeFS user to whom that identity belongs.
No secret leaves the machine: the signed question says nothing else, and ends after a minute.

References:
    lakeFS `api/swagger.yml`, `externalPrincipalLogin`, and
    `pkg/authentication/externalidp/awsiam` (commit 71a45eeb1); the server's side of it is part of
    lakeFS Enterprise and Cloud.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from spark_core import extras
from spark_core.errors import SettingsError, TransientError
from spark_core.lakefs.tokens import LogIn, Token

if TYPE_CHECKING:
    from botocore.credentials import ReadOnlyCredentials

SERVER_HEADER = "X-LakeFS-Server-ID"
_QUESTION = {"Action": "GetCallerIdentity", "Version": "2011-06-15"}
# What a signed question becomes in the identity that lakeFS reads.
_FROM_QUERY = {
    "action": "Action",
    "date": "X-Amz-Date",
    "expiration_duration": "X-Amz-Expires",
    "signature": "X-Amz-Signature",
    "version": "Version",
    "algorithm": "X-Amz-Algorithm",
}
# Where AWS answers for any region.
_ANY_REGION = "us-east-1"


@dataclass(frozen=True)
class TokenOfAwsRole:
    """A token that the server gives to an AWS identity.

    Attributes:
        headers: Signed with the question. The server may accept it only if it names this server.
        life: For how long a token is asked for; the server may give a shorter one.
        question_life: For how long the signed question is good.
    """

    headers: tuple[tuple[str, str], ...]
    life: timedelta = timedelta(hours=1)
    question_life: timedelta = timedelta(minutes=1)
    called: str = field(default="the log-in of this machine's AWS identity", init=False)
    is_cheap: bool = field(default=False, init=False, repr=False)

    @classmethod
    def at(cls, endpoint: str, **options: Any) -> TokenOfAwsRole:
        """Log in at one server: the question is good for the server of this name."""
        return cls(((SERVER_HEADER, urlsplit(endpoint).hostname or ""),), **options)

    def read(self, log_in: LogIn) -> Token:
        """Sign the question anew, with the credentials that the machine has now, and log in."""
        credentials, region, endpoint = _aws()
        signed = signed_question(
            credentials, region, endpoint, dict(self.headers), self.question_life
        )
        return log_in({"identity_token": identity_of(signed)}, int(self.life.total_seconds()))


def signed_question(
    credentials: ReadOnlyCredentials,
    region: str,
    endpoint: str,
    headers: dict[str, str],
    life: timedelta,
) -> str:
    """Sign the question "who am I?" of AWS's token service; nothing is sent.

    Args:
        credentials: Of the identity.
        region: Where the token service is asked.
        endpoint: URL of the token service.
        headers: What is signed besides the host.
        life: How long the question is good.

    Returns:
        The presigned URL, for POST.
    """
    from botocore.auth import SigV4QueryAuth
    from botocore.awsrequest import AWSRequest

    url = f"{endpoint.rstrip('/')}/?{urlencode(_QUESTION)}"
    request = AWSRequest(method="POST", url=url, headers=headers)
    seconds = int(life.total_seconds())
    SigV4QueryAuth(credentials, "sts", region, expires=seconds).add_auth(request)
    return str(request.url)


def identity_of(signed: str) -> str:
    """Return the identity in the form of lakeFS: the parts of a signed question, JSON in base64."""
    parts = urlsplit(signed)
    query = dict(parse_qsl(parts.query))
    key, _, scope = query["X-Amz-Credential"].partition("/")
    identity = {
        "method": "POST",
        "host": parts.netloc,
        "region": scope.split("/")[1],
        "access_key_id": key,
        "signed_headers": query["X-Amz-SignedHeaders"].split(";"),
        "security_token": query.get("X-Amz-Security-Token", ""),
        **{name: query[variable] for name, variable in _FROM_QUERY.items()},
    }
    return base64.b64encode(json.dumps(identity).encode()).decode()


def _aws() -> tuple[ReadOnlyCredentials, str, str]:
    """Return the machine's AWS credentials, its region, and the URL of the token service there."""
    extras.require("s3", "Log-ins by AWS identity")
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        session = boto3.Session()
        found = session.get_credentials()
        credentials = None if found is None else found.get_frozen_credentials()
        region = session.region_name or _ANY_REGION
        endpoint = str(session.client("sts", region_name=region).meta.endpoint_url)
    except (BotoCoreError, ClientError) as error:
        # The client's own text may quote the answer of a token service.
        problem = type(error).__name__
        raise TransientError(
            f"this machine's AWS credentials cannot be had ({problem})",
            "Look at `aws sts get-caller-identity` on this machine, and run again.",
        ) from None
    if credentials is None:
        raise SettingsError(
            "no AWS credentials were found to log in to the lakeFS server with",
            "Run where a role gives them, or set a profile or AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY.",
        )
    return credentials, region, endpoint
