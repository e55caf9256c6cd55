"""A gate before an emulator that forwards only what a policy allows, and records what was used.

The emulators do not check policies, or not as completely as the services. So this module derives
the actions that a request needs, by each service's names, and compares them with the policies of
docs/security.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree as ET

from tests.support.fault_proxy import FaultProxy, Forward, fault_proxy
from tests.support.scripted_s3 import Answer, Request, error


@dataclass(frozen=True)
class Use:
    """An action that a request needs.

    Attributes:
        action: Name by the service.
        resource: Bucket or container; for an object, then a slash and the key.
        prefix: Prefix of a listing.
    """

    action: str
    resource: str
    prefix: str | None = None


Allows = Callable[[Use], bool]


@dataclass
class Gate:
    """A running gate.

    Attributes:
        proxy: The proxy of the gate; a meddler added here sees a request before the gate does.
        used: Every requested and allowed use.
        refused: Every requested use that was not allowed.
    """

    proxy: FaultProxy
    used: set[Use] = field(default_factory=set)
    refused: list[Use] = field(default_factory=list)

    @property
    def endpoint(self) -> str:
        """Where it listens."""
        return self.proxy.endpoint

    @property
    def actions(self) -> set[str]:
        """The used actions, on any resource."""
        return {use.action for use in self.used}


@contextmanager
def gate(
    upstream: str,
    needs: Callable[[Request], list[Use]],
    allows: Allows,
    refusal: Callable[[Request, list[Use]], Answer],
    absent: Callable[[Request], Use | None] = lambda _: None,
) -> Iterator[Gate]:
    """Serve before an emulator.

    Args:
        upstream: `http://HOST:PORT` of the emulator.
        needs: The uses that a request needs.
        allows: The policy.
        refusal: The service's answer to a request without permission.
        absent: A further use that a 404 needs; without it the service answers as to a refused
            request.
    """
    with fault_proxy(upstream) as proxy:
        running = Gate(proxy)

        def meddle(request: Request, forward: Forward) -> Answer:
            wanted = needs(request)
            assert wanted, f"no known request of the service: {request.method} {request.target}"
            lacking = [use for use in wanted if not allows(use)]
            if not lacking:
                answer = forward(request)
                hidden = absent(request) if answer.status == 404 else None
                if hidden is None or allows(hidden):
                    running.used.update(wanted)
                    return answer
                lacking = [hidden]
            running.refused.extend(lacking)
            return refusal(request, lacking)

        proxy.meddle(meddle)
        yield running


# S3

# HeadBucket needs no permission: every answer has the bucket's region, also a refusal.
REGION = "region"


def s3_allows(*policies: Mapping[str, Any]) -> Allows:
    """Evaluate IAM policies of Allow statements, their only condition being `s3:prefix`."""
    statements = [statement for policy in policies for statement in policy["Statement"]]
    assert all(statement["Effect"] == "Allow" for statement in statements)

    def allows(use: Use) -> bool:
        return use.action == REGION or any(
            any(fnmatchcase(use.action, pattern) for pattern in _several(statement["Action"]))
            and any(
                fnmatchcase(f"arn:aws:s3:::{use.resource}", each)
                for each in _several(statement["Resource"])
            )
            and _holds(statement.get("Condition"), use.prefix)
            for statement in statements
        )

    return allows


def _several(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def _holds(condition: Mapping[str, Any] | None, prefix: str | None) -> bool:
    if condition is None:
        return True
    ((operator, keys),) = condition.items()
    ((key, patterns),) = keys.items()
    assert (operator, key) == ("StringLike", "s3:prefix"), condition
    return prefix is not None and any(
        fnmatchcase(prefix, pattern) for pattern in _several(patterns)
    )


_OF_A_BUCKET = {
    "versioning": "s3:GetBucketVersioning",
    "lifecycle": "s3:GetLifecycleConfiguration",
    "versions": "s3:ListBucketVersions",
    "location": "s3:GetBucketLocation",
}


def s3_needs(request: Request) -> list[Use]:
    """Say what a request to S3 needs (Amazon S3 API reference, "Actions, resources and condition
    keys").
    """
    bucket, _, key = unquote(request.path).lstrip("/").partition("/")
    query, headers = request.query, {name.lower(): value for name, value in request.headers.items()}
    version = "Version" if "versionId" in query else ""
    where = f"{bucket}/{key}"
    if not key:
        if request.method == "POST" and "delete" in query:
            return [
                Use(
                    f"s3:DeleteObject{'Version' if told.get('VersionId') else ''}",
                    f"{bucket}/{told['Key']}",
                )
                for told in _deleted(request.body)
            ]
        if request.method == "HEAD":
            return [Use(REGION, bucket)]
        action = next(
            (action for name, action in _OF_A_BUCKET.items() if name in query), "s3:ListBucket"
        )
        return [
            Use(
                action,
                bucket,
                query.get("prefix", "") if action.startswith("s3:ListBucket") else None,
            )
        ]
    if request.method in ("GET", "HEAD"):
        return [Use(f"s3:GetObject{version}", where)]
    if request.method == "DELETE":
        return [
            Use(
                "s3:AbortMultipartUpload" if "uploadId" in query else f"s3:DeleteObject{version}",
                where,
            )
        ]
    source = unquote(headers.get("x-amz-copy-source", "")).lstrip("/")
    read = (
        [Use("s3:GetObject" + ("Version" if "?" in source else ""), source.partition("?")[0])]
        if source
        else []
    )
    return [*read, Use("s3:PutObject", where)]


def _deleted(body: bytes) -> list[dict[str, str]]:
    """Read which objects a bulk deletion names."""
    return [
        {child.tag.rpartition("}")[2]: child.text or "" for child in entry}
        for entry in ET.fromstring(body).iter()
        if entry.tag.rpartition("}")[2] == "Object"
    ]


def s3_absent(request: Request) -> Use | None:
    """Return the permission without which S3 does not report that an object is missing."""
    bucket, _, key = unquote(request.path).lstrip("/").partition("/")
    return Use("s3:ListBucket", bucket, key) if key and request.method in ("GET", "HEAD") else None


def s3_refusal(request: Request, lacking: list[Use]) -> Answer:
    """Answer as S3 does: key by key to a bulk deletion."""
    if request.method == "POST" and "delete" in request.query:
        told = "".join(
            f"<Error><Key>{use.resource.partition('/')[2]}</Key><Code>AccessDenied</Code></Error>"
            for use in lacking
        )
        return Answer(200, f"<DeleteResult>{told}</DeleteResult>".encode())
    return error(403, "AccessDenied")


# Azure

_BLOBS = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs"
_PATH = re.compile(r"@Resource\[" + re.escape(_BLOBS) + r":path\] StringLike '([^']*)'")


def azure_allows(*assignments: Mapping[str, Any]) -> Allows:
    """Evaluate role assignments: data actions of the role, on a container, where a condition names
    a path.
    """

    def allows(use: Use) -> bool:
        return any(
            use.action in assignment["role"]["dataActions"]
            and _in_path(assignment.get("condition"), use)
            for assignment in assignments
        )

    return allows


def _in_path(condition: str | None, use: Use) -> bool:
    if condition is None:
        return True
    (pattern,) = _PATH.findall(condition)
    # A listing has no path; a condition on one does not hold for it.
    return use.prefix is None and fnmatchcase(use.resource.partition("/")[2], pattern)


def azure_needs(request: Request) -> list[Use]:
    """Say what a request to Azure Blob Storage needs (REST reference, "Permissions for blob service
    operations").
    """
    _, _, rest = unquote(request.path).lstrip("/").partition("/")
    container, _, blob = rest.partition("/")
    comp = request.query.get("comp", "")
    where = f"{container}/{blob}"
    if comp == "batch":
        lines = re.findall(rb"^DELETE (\S+) HTTP/1.1\r?$", request.body, re.MULTILINE)
        paths = [unquote(urlsplit(line.decode()).path).lstrip("/") for line in lines]
        return [Use(f"{_BLOBS}/delete", path.partition("/")[2]) for path in paths]
    if not blob:
        # Without a container it is the account that is asked: no data action.
        return [
            Use(
                f"{_BLOBS}/read" if comp == "list" else "account",
                container,
                request.query.get("prefix", ""),
            )
        ]
    source = urlsplit(
        {name.lower(): value for name, value in request.headers.items()}.get("x-ms-copy-source", "")
    ).path
    read = [Use(f"{_BLOBS}/read", unquote(source).lstrip("/").partition("/")[2])] if source else []
    actions = {"GET": "read", "HEAD": "read", "PUT": "write", "DELETE": "delete"}
    return [*read, Use(f"{_BLOBS}/{actions[request.method]}", where)]


def azure_refusal(_request: Request, _lacking: list[Use]) -> Answer:
    """Answer as the service does to an identity that lacks a role."""
    body = (
        '<?xml version="1.0" encoding="utf-8"?><Error>'
        "<Code>AuthorizationPermissionMismatch</Code><Message>no</Message></Error>"
    )
    return Answer(403, body.encode(), {"x-ms-error-code": "AuthorizationPermissionMismatch"})


# Google Cloud Storage

_STARTS = re.compile(r'resource\.name\.startsWith\("projects/_/buckets/([^"]*)"\)')


def gcs_allows(*bindings: Mapping[str, Any]) -> Allows:
    """Evaluate bindings of custom roles, whose only condition is the beginning of a name."""

    def allows(use: Use) -> bool:
        return any(
            use.action in binding["permissions"] and _begins(binding.get("condition"), use)
            for binding in bindings
        )

    return allows


def _begins(condition: str | None, use: Use) -> bool:
    if condition is None:
        return True
    (beginning,) = _STARTS.findall(condition)
    bucket, slash, key = use.resource.partition("/")
    return f"{bucket}/objects/{key}".startswith(beginning) if slash else False


class GcsNeeds:
    """Says what a request to the JSON API needs, or a read by the XML API; to replace an object is
    to delete it, too.

    Attributes:
        written: Objects that are known to be there.
    """

    def __init__(self) -> None:
        self.written: set[str] = set()

    def __call__(self, request: Request) -> list[Use]:
        if request.path.startswith("/batch/"):
            lines = re.findall(rb"^DELETE (\S+) HTTP/1.1\r?$", request.body, re.MULTILINE)
            return [
                Use("storage.objects.delete", _gcs_name(urlsplit(line.decode()).path))
                for line in lines
            ]
        if request.path.startswith(("/upload/", "/resumable/")):
            return self._upload(request)
        copied = re.search(r"/b/([^/]+)/o/([^/]+)/rewriteTo/b/([^/]+)/o/([^/]+)$", request.path)
        if copied:
            source, target = (f"{copied[at]}/{unquote(copied[at + 1])}" for at in (1, 3))
            return [Use("storage.objects.get", source), Use("storage.objects.create", target)]
        by_xml = request.method == "GET" and re.fullmatch(r"/([^/]+)/([^/]+)", request.path)
        name = unquote(f"{by_xml[1]}/{by_xml[2]}") if by_xml else _gcs_name(request.path)
        if "/" not in name:
            if not request.path.endswith("/o"):
                return [Use("storage.buckets.get", name)]
            return [Use("storage.objects.list", name, request.query.get("prefix", ""))]
        return [
            Use(
                {"GET": "storage.objects.get", "DELETE": "storage.objects.delete"}[request.method],
                name,
            )
        ]

    def _upload(self, request: Request) -> list[Use]:
        bucket = _gcs_name(request.path)
        named = request.query.get("name") or _name_in(request.body)
        if named is None:
            return [Use("storage.objects.create", f"{bucket}/")]
        where = f"{bucket}/{named}"
        replaces = where in self.written and request.query.get("ifGenerationMatch") != "0"
        self.written.add(where)
        create = [Use("storage.objects.create", where)]
        return [*create, Use("storage.objects.delete", where)] if replaces else create


def _gcs_name(path: str) -> str:
    found = re.search(r"/b/([^/]+)(?:/o(?:/(.*))?)?$", path)
    assert found, path
    return f"{found[1]}/{unquote(found[2])}" if found[2] else found[1]


def _name_in(body: bytes) -> str | None:
    found = re.search(rb'\{[^{}]*"name"[^{}]*\}', body)
    return str(json.loads(found[0])["name"]) if found else None


def gcs_refusal(request: Request, lacking: list[Use]) -> Answer:
    """Answer as the service does; in a batch to each of its parts."""
    no = {
        "error": {
            "code": 403,
            "message": f"no {lacking[0].action} access",
            "errors": [{"reason": "forbidden"}],
        }
    }
    body = json.dumps(no).encode()
    if not request.path.startswith("/batch/"):
        return Answer(403, body, {"Content-Type": "application/json"})
    ids = re.findall(rb"^Content-ID: <?([^>\s]*)>?\r?$", request.body, re.MULTILINE)
    parts = b"".join(
        b"--gate\r\nContent-Type: application/http\r\nContent-ID: response-" + one + b"\r\n\r\n"
        b"HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\n\r\n" + body + b"\r\n"
        for one in ids
    )
    return Answer(200, parts + b"--gate--\r\n", {"Content-Type": "multipart/mixed; boundary=gate"})
