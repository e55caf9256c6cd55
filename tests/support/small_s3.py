"""An S3 server of a few objects whose buckets have troubles of their own: for what a healthy server
does not do.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from urllib.parse import quote, unquote

from tests.support.scripted_s3 import Answer, Request, error, scripted_s3

ACCESS_KEY_ID = "AKIASMALLSTOREKEY000"
SECRET_ACCESS_KEY = "small/secret+ACCESS/key0000000000000000000"


@dataclass
class Bucket:
    """A bucket and its trouble.

    Attributes:
        refusal: What every request gets instead of an answer.
        read_only: Only GET, HEAD and listing are allowed.
        keeps_data: Nothing under `data/` may be deleted, all else is allowed.
        forgets_conditions: A put with `If-None-Match` replaces what is there.
        demands_md5: A bulk deletion without `Content-MD5` is not taken, whatever other checksum it
            carries.
        knows_no_bulk: A bulk deletion is not taken at all.
        clock: How far its clock is off.
    """

    refusal: Answer | None = None
    read_only: bool = False
    keeps_data: bool = False
    forgets_conditions: bool = False
    demands_md5: bool = False
    knows_no_bulk: bool = False
    clock: timedelta = timedelta(0)
    objects: dict[str, tuple[bytes, datetime]] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)


class SmallS3:
    """Answers for its buckets; a bucket that it has not is not there.

    Attributes:
        buckets: By name.
        endpoint: Once started.
    """

    def __init__(self, **buckets: Bucket) -> None:
        self.buckets = {name.replace("_", "-"): bucket for name, bucket in buckets.items()}
        self.endpoint = ""

    def __call__(self, request: Request) -> Answer:
        name, _, key = unquote(request.path).lstrip("/").partition("/")
        bucket = self.buckets.get(name)
        if bucket is None:
            return error(404, "NoSuchBucket")
        if bucket.refusal is not None:
            return bucket.refusal
        if bucket.read_only and request.method not in ("GET", "HEAD"):
            return error(403, "AccessDenied")
        answers = {"POST": self._delete, "PUT": self._put, "DELETE": self._delete_one}
        return answers.get(request.method, self._get)(bucket, key, request)

    def _get(self, bucket: Bucket, key: str, request: Request) -> Answer:
        if not key:
            return Answer() if request.method == "HEAD" else self._list(bucket, request)
        if key not in bucket.objects:
            return error(404, "NoSuchKey")
        data, modified = bucket.objects[key]
        headers = {"Last-Modified": format_datetime(modified, usegmt=True), "ETag": '"0"'}
        # The answer to a HEAD has the length and no body.
        return Answer(200, data, headers)

    @staticmethod
    def _list(bucket: Bucket, request: Request) -> Answer:
        prefix = request.query.get("prefix", "")
        contents = "".join(
            f"<Contents><Key>{quote(key)}</Key><LastModified>{modified:%Y-%m-%dT%H:%M:%S.000Z}</LastModified>"
            f"<ETag>&quot;0&quot;</ETag><Size>{len(data)}</Size></Contents>"
            for key, (data, modified) in sorted(bucket.objects.items())
            if key.startswith(prefix)
        )
        body = (
            '<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult '
            'xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Name>b</Name><Prefix>{quote(prefix)}</Prefix><KeyCount>0</KeyCount><MaxKeys>1000</MaxKeys>"
            f"<EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>{contents}</ListBucketResult>"
        )
        return Answer(200, body.encode(), {"Content-Type": "application/xml"})

    @staticmethod
    def _put(bucket: Bucket, key: str, request: Request) -> Answer:
        conditional = {name.lower() for name in request.headers} & {"if-none-match"}
        if conditional and key in bucket.objects and not bucket.forgets_conditions:
            return error(412, "PreconditionFailed")
        bucket.objects[key] = (request.body, datetime.now(UTC) + bucket.clock)
        return Answer(200, b"", {"ETag": '"0"'})

    def _delete(self, bucket: Bucket, _key: str, request: Request) -> Answer:
        refusal = _unfit(bucket, request)
        if refusal is not None:
            return refusal
        told = []
        for found in re.findall(r"<Key>(.*?)</Key>", request.body.decode()):
            key = found.replace("&amp;", "&")
            if self._kept(bucket, key):
                told.append(
                    f"<Error><Key>{found}</Key><Code>AccessDenied</Code><Message>no</Message></Error>"
                )
            else:
                bucket.objects.pop(key, None)
                bucket.deleted.append(key)
                told.append(f"<Deleted><Key>{found}</Key></Deleted>")
        return Answer(200, f"<DeleteResult>{''.join(told)}</DeleteResult>".encode())

    def _delete_one(self, bucket: Bucket, key: str, _request: Request) -> Answer:
        if self._kept(bucket, key):
            return error(403, "AccessDenied")
        if bucket.objects.pop(key, None) is None:
            return error(404, "NoSuchKey")
        bucket.deleted.append(key)
        return Answer(204)

    @staticmethod
    def _kept(bucket: Bucket, key: str) -> bool:
        return bucket.keeps_data and "/data/" in f"/{key}"


def _unfit(bucket: Bucket, request: Request) -> Answer | None:
    """Refuse a bulk deletion as a whole."""
    if bucket.knows_no_bulk:
        return error(501, "NotImplemented")
    md5 = {name.lower(): value for name, value in request.headers.items()}.get("content-md5")
    if bucket.demands_md5 and md5 is None:
        return error(400, "MissingContentMD5")
    sent = base64.b64encode(hashlib.md5(request.body, usedforsecurity=False).digest()).decode()
    return error(400, "BadDigest") if md5 not in (None, sent) else None


@contextmanager
def small_s3(**buckets: Bucket) -> Iterator[SmallS3]:
    """Serve buckets until the end of the block; underscores of names are dashes."""
    server = SmallS3(**buckets)
    with scripted_s3(server) as server.endpoint:
        yield server
