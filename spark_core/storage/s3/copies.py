"""Copies inside an S3 bucket: one request up to 5 GB, in parts above, and what S3 tells for comparing them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from botocore import xform_name
from botocore.exceptions import ClientError

from spark_core.errors import LakegcError, NotFoundError, ObjectExistsError, TransientError
from spark_core.storage.copies import Sight
from spark_core.storage.s3.errors import failure_of
from spark_core.storage.s3.pages import checksum_of

T = TypeVar("T")

# S3 copies up to 5 GB in one request (Amazon S3 user guide, "Copying objects").
LARGEST_COPY_BYTES = 5_000_000_000
PART_BYTES = 512 << 20
_MOST_PARTS = 10_000
_PARTS_AT_ONCE = 4

# Checksums that S3 can keep of a whole object, in its own names.
_WHOLE = ("ChecksumCRC64NVME", "ChecksumCRC32C", "ChecksumCRC32", "ChecksumSHA256", "ChecksumSHA1")
# Under these the ETag is 32 hex digits as well, and no MD5 of the content.
_NO_MD5 = ("SSEKMSKeyId", "SSECustomerAlgorithm")


def sight_of(key: str, answer: Mapping[str, Any]) -> Sight:
    """Read what HeadObject tells for comparing.

    Args:
        key: Relative to the namespace.
        answer: Of HeadObject with `ChecksumMode="ENABLED"`.
    """
    digests = {}
    if answer.get("ChecksumType") == "FULL_OBJECT":
        digests.update({name: answer[name] for name in _WHOLE if answer.get(name)})
    md5 = checksum_of(answer.get("ETag"))
    encrypted = str(answer.get("ServerSideEncryption", "")).startswith("aws:") or any(answer.get(n) for n in _NO_MD5)
    if md5 and not encrypted:
        digests["md5"] = md5
    # The time as well: the same content written again has the same ETag. A version id is there only on some buckets.
    version = f"{answer.get('ETag', '')} {answer['LastModified'].isoformat()} {answer.get('VersionId', '')}"
    return Sight(key, answer["ContentLength"], version, digests)


class Ask(Protocol):
    """Sends one request about a key, counts it, and tells what fails as the project's errors."""

    def __call__(self, action: str, key: str, question: Callable[[], T]) -> T:
        """Send it."""


@dataclass(frozen=True)
class Bucket:
    """Where the copies are made.

    Attributes:
        boto: The bucket's client.
        name: Of the bucket.
        root: Of the namespace, for an error.
        before: The namespace's part of every key.
        ask: Sends a request.
    """

    boto: Any
    name: str
    root: str
    before: str
    ask: Ask

    def transfer(self, source: Sight, target: str, *, version: str | None = None) -> None:
        """Copy an object, or a version of it that is not the current one; see `ObjectStore.transfer`.

        Args:
            source: What is copied.
            target: Key of none.
            version: Id of a version of `source.key`.
        """
        from_where = {"Bucket": self.name, "Key": self.before + source.key}
        if version is not None:
            from_where["VersionId"] = version
        where = {"Bucket": self.name, "Key": self.before + target}
        tag = source.version.partition(" ")[0]
        told = {"CopySource": from_where, **({"CopySourceIfMatch": tag} if tag else {})}
        try:
            if source.size_bytes > LARGEST_COPY_BYTES:
                self._in_parts(source, where, told)
            else:
                # An error can come with 200, once S3 has begun; the client makes an error of it.
                self.ask("copy", source.key, lambda: self._where_nothing_is("CopyObject", **where, **told))
        except ObjectExistsError:
            # S3 says the same whichever of the two conditions fails.
            if self._is_there(target):
                raise
        else:
            return
        raise TransientError(
            f"{self.root}{source.key} was written again while it was copied, so the copy was not made",
            "Look who writes there, and run again.",
        )

    def _where_nothing_is(self, operation: str, **asked: Any) -> Any:
        """Send a request on the condition that there is no object, where client and store know it for that request.

        Where they do not, what protects an object is that it was asked for just before.
        """
        known = "IfNoneMatch" in self.boto.meta.service_model.operation_model(operation).input_shape.members
        send = getattr(self.boto, xform_name(operation))
        try:
            return send(**asked, **({"IfNoneMatch": "*"} if known else {}))
        except ClientError as error:
            if not known or failure_of(error).code != "NotImplemented":
                raise
        return send(**asked)

    def _is_there(self, key: str) -> bool:
        try:
            self.ask("head", key, lambda: self.boto.head_object(Bucket=self.name, Key=self.before + key))
        except NotFoundError:
            return False
        return True

    def _in_parts(self, source: Sight, where: Mapping[str, str], told: Mapping[str, Any]) -> None:
        """Copy part by part; the object appears when all are there, and what a broken copy leaves is taken away."""

        def ask(question: Callable[[], T]) -> T:
            return self.ask("copy", source.key, question)

        begun = ask(lambda: self.boto.create_multipart_upload(**where))
        upload = {**where, "UploadId": begun["UploadId"]}

        def copy_part(numbered: tuple[int, str]) -> dict[str, Any]:
            number, span = numbered
            answer = ask(lambda: self.boto.upload_part_copy(**upload, **told, PartNumber=number, CopySourceRange=span))
            return {"PartNumber": number, "ETag": answer["CopyPartResult"]["ETag"]}

        try:
            with ThreadPoolExecutor(_PARTS_AT_ONCE) as pool:
                parts = list(pool.map(copy_part, enumerate(_spans(source.size_bytes), start=1)))
            named = {"Parts": parts}
            ask(lambda: self._where_nothing_is("CompleteMultipartUpload", **upload, MultipartUpload=named))
        except LakegcError:
            self._abort(upload)
            raise

    def _abort(self, upload: Mapping[str, str]) -> None:
        try:
            self.ask("copy", upload["Key"], lambda: self.boto.abort_multipart_upload(**upload))
        except LakegcError:
            # The reason why the copy failed matters more; parts without an object end by the bucket's lifecycle rules.
            return


def _spans(size_bytes: int) -> Iterator[str]:
    step = max(PART_BYTES, math.ceil(size_bytes / _MOST_PARTS))
    for start in range(0, size_bytes, step):
        yield f"bytes={start}-{min(start + step, size_bytes) - 1}"
