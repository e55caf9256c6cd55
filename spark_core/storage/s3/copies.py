"""Copies inside an S3 bucket: in one request up to 5 GB, in parts above; facts to compare them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from botocore import xform_name
from botocore.exceptions import ClientError

from spark_core.errors import LakegcError
from spark_core.storage.copies import Copies
from spark_core.storage.objects import Description
from spark_core.storage.s3.errors import failure_of
from spark_core.storage.s3.listing_pages import checksum_of

T = TypeVar("T")

# S3 copies up to 5 GB in one request (Amazon S3 user guide, "Copying objects").
LARGEST_COPY_BYTES = 5_000_000_000
PART_BYTES = 512 << 20
_MOST_PARTS = 10_000
_PARTS_AT_ONCE = 4

# Checksums of a whole object that S3 can keep, in its own names.
_WHOLE = ("ChecksumCRC64NVME", "ChecksumCRC32C", "ChecksumCRC32", "ChecksumSHA256", "ChecksumSHA1")
# With these encryptions the ETag is also 32 hex digits, but no MD5 of the content.
_NO_MD5 = ("SSEKMSKeyId", "SSECustomerAlgorithm")


def description_of(key: str, answer: Mapping[str, Any]) -> Description:
    """Read from HeadObject what is needed to compare an object.

    Args:
        key: Relative to the namespace.
        answer: Answer of HeadObject with `ChecksumMode="ENABLED"`.
    """
    digests = {}
    if answer.get("ChecksumType") == "FULL_OBJECT":
        digests.update({name: answer[name] for name in _WHOLE if answer.get(name)})
    md5 = checksum_of(answer.get("ETag"))
    encrypted = str(answer.get("ServerSideEncryption", "")).startswith("aws:") or any(
        answer.get(n) for n in _NO_MD5
    )
    if md5 and not encrypted:
        digests["md5"] = md5
    # The time is included: the same content written again has the same ETag. Only some buckets give
    # a version id.
    version = (
        f"{answer.get('ETag', '')} {answer['LastModified'].isoformat()} "
        f"{answer.get('VersionId', '')}"
    )
    return Description(key, answer["ContentLength"], version, digests)


@dataclass(frozen=True)
class Bucket(Copies):
    """Where the copies are made.

    Attributes:
        boto: The bucket's client.
        name: Name of the bucket.
        before: The namespace's part of every key.
    """

    boto: Any
    name: str
    before: str

    def head(self, key: str) -> Any:
        """Describe an object in S3's own words, checksums included."""
        where = {"Bucket": self.name, "Key": self.before + key, "ChecksumMode": "ENABLED"}
        return self.ask("head", key, lambda: self.boto.head_object(**where))

    def describe(self, key: str) -> Description:
        """Describe an object, with the checksums that S3 keeps of it."""
        return description_of(key, self.head(key))

    def transfer(self, source: Description, target: str, *, version: str | None = None) -> None:
        """Copy an object or a noncurrent version of it; see `ObjectStore.transfer`.

        Args:
            source: The object to copy.
            target: A free key.
            version: Id of a version of `source.key`.
        """
        from_where = {"Bucket": self.name, "Key": self.before + source.key}
        if version is not None:
            from_where["VersionId"] = version
        where = {"Bucket": self.name, "Key": self.before + target}
        tag = source.version.partition(" ")[0]
        copy_source = {"CopySource": from_where, **({"CopySourceIfMatch": tag} if tag else {})}

        def copy() -> None:
            if source.size_bytes > LARGEST_COPY_BYTES:
                self._in_parts(source, where, copy_source)
            else:
                # S3 may send an error with status 200, once it has begun. The client raises it.
                self.ask(
                    "copy",
                    source.key,
                    lambda: self._where_nothing_is("CopyObject", **where, **copy_source),
                )

        self.unless_there(source.key, target, copy)

    def _where_nothing_is(self, operation: str, **asked: Any) -> Any:
        """Send a request on the condition that no object exists, if client and store know it.

        Otherwise the only protection of an object is that its key was checked just before.
        """
        known = (
            "IfNoneMatch"
            in self.boto.meta.service_model.operation_model(operation).input_shape.members
        )
        send = getattr(self.boto, xform_name(operation))
        try:
            return send(**asked, **({"IfNoneMatch": "*"} if known else {}))
        except ClientError as error:
            if not known or failure_of(error).code != "NotImplemented":
                raise
        return send(**asked)

    def _in_parts(
        self, source: Description, where: Mapping[str, str], copy_source: Mapping[str, Any]
    ) -> None:
        """Copy part by part; the object appears after the last, and a broken copy is deleted."""

        def ask(question: Callable[[], T]) -> T:
            return self.ask("copy", source.key, question)

        begun = ask(lambda: self.boto.create_multipart_upload(**where))
        upload = {**where, "UploadId": begun["UploadId"]}

        def copy_part(numbered: tuple[int, str]) -> dict[str, Any]:
            number, span = numbered
            answer = ask(
                lambda: self.boto.upload_part_copy(
                    **upload, **copy_source, PartNumber=number, CopySourceRange=span
                )
            )
            return {"PartNumber": number, "ETag": answer["CopyPartResult"]["ETag"]}

        try:
            with ThreadPoolExecutor(_PARTS_AT_ONCE) as pool:
                parts = list(pool.map(copy_part, enumerate(_spans(source.size_bytes), start=1)))
            named = {"Parts": parts}
            ask(
                lambda: self._where_nothing_is(
                    "CompleteMultipartUpload", **upload, MultipartUpload=named
                )
            )
        except LakegcError:
            self._abort(upload)
            raise

    def _abort(self, upload: Mapping[str, str]) -> None:
        try:
            self.ask("copy", upload["Key"], lambda: self.boto.abort_multipart_upload(**upload))
        except LakegcError:
            # The reason why the copy failed matters more. The bucket's lifecycle rules end parts
            # without an object.
            return


def _spans(size_bytes: int) -> Iterator[str]:
    step = max(PART_BYTES, math.ceil(size_bytes / _MOST_PARTS))
    for start in range(0, size_bytes, step):
        yield f"bytes={start}-{min(start + step, size_bytes) - 1}"
