"""Copies inside S3: what is asked, in how many parts, and what answers are believed."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime

import pytest
from moto.s3 import models

from spark_core.addresses.namespace import Namespace
from spark_core.errors import (
    NotFoundError,
    ObjectExistsError,
    PermissionDeniedError,
    SettingsError,
    TransientError,
)
from spark_core.storage import open_store
from spark_core.storage.copies import same_content
from spark_core.storage.s3 import copies as s3_copies
from spark_core.storage.s3.copies import description_of
from tests.support.s3_faults import is_copy
from tests.support.scripted_s3 import Answer, error

CONTENT = bytes(range(256)) * 50


@pytest.fixture
def bucket(s3_server):
    return s3_server.bucket()


@pytest.fixture
def client(s3_server):
    return s3_server.client()


@pytest.fixture
def store(s3_server, s3_proxy, bucket):
    yield open_store(
        Namespace.parse(f"s3://{bucket}/a/ns"),
        s3_server.options(s3_endpoint=s3_proxy.endpoint, s3_region="us-east-1"),
    )
    s3_proxy.reset()


@pytest.fixture
def asked(s3_proxy):
    """The requests that went to the server, as a test goes on."""
    seen = []

    def watch(request, forward):
        seen.append(request)
        return forward(request)

    s3_proxy.meddle(watch)
    return seen


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(s3_copies, "LARGEST_COPY_BYTES", 10_000)
    monkeypatch.setattr(s3_copies, "PART_BYTES", 3_000)
    # The emulator, like S3, takes no small parts but the last one; it can be told to.
    monkeypatch.setattr(models, "S3_UPLOAD_PART_MIN_SIZE", 1)


@pytest.fixture
def uploads(client, bucket):
    """The uploads that were begun and neither ended nor given up."""
    return lambda: client.list_multipart_uploads(Bucket=bucket).get("Uploads", [])


def reads(asked):
    return [
        request for request in asked if request.method == "GET" and "list-type" not in request.query
    ]


def test_a_copy_is_asked_for_on_both_conditions_and_its_bytes_stay_in_the_store(store, asked):
    store.put("data/s/a", CONTENT)
    tag = f'"{hashlib.md5(CONTENT).hexdigest()}"'
    store.copy("data/s/a", "copy")
    (request,) = filter(is_copy, asked)
    headers = {name.lower(): value for name, value in request.headers.items()}
    assert headers["x-amz-copy-source-if-match"] == tag
    assert headers["if-none-match"] == "*"
    assert not request.body
    assert reads(asked) == []


@pytest.mark.parametrize("size", [10, 12_000])
@pytest.mark.usefixtures("small_parts")
def test_a_store_that_knows_no_condition_for_copies_copies_without_it(store, s3_proxy, size):
    store.put("data/s/a", CONTENT[:size])

    def older(request, forward):
        conditional = "If-None-Match" in request.headers
        return error(501, "NotImplemented") if conditional else forward(request)

    s3_proxy.meddle(older)
    store.copy("data/s/a", "copy")
    assert store.read("copy") == CONTENT[:size]
    with pytest.raises(ObjectExistsError, match="left as it is"):
        store.copy("data/s/a", "copy")


def test_an_error_that_comes_with_200_is_an_error(store, s3_proxy, client, bucket):
    store.put("data/s/a", CONTENT)
    said = error(500, "InternalError").body
    s3_proxy.meddle(
        lambda request, forward: Answer(200, said) if is_copy(request) else forward(request)
    )
    with pytest.raises(TransientError, match=r"copy 'data/s/a'.*InternalError"):
        store.copy("data/s/a", "copy")
    assert not store.exists("copy")


def test_a_success_that_copied_nothing_is_no_copy(store, s3_proxy):
    store.put("data/s/a", CONTENT)
    said = b'<?xml version="1.0"?><CopyObjectResult><ETag>"x"</ETag></CopyObjectResult>'
    s3_proxy.meddle(
        lambda request, forward: Answer(200, said) if is_copy(request) else forward(request)
    )
    with pytest.raises(NotFoundError, match="no such object"):
        store.copy("data/s/a", "copy")


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        (error(403, "AccessDenied"), PermissionDeniedError, "Allow s3:GetObject and s3:PutObject"),
        (error(404, "NoSuchKey"), NotFoundError, "no such object"),
        (error(404, "NoSuchBucket"), SettingsError, "no such bucket"),
        (error(403, "InvalidObjectState"), PermissionDeniedError, "InvalidObjectState"),
        (error(412, "PreconditionFailed"), TransientError, "was written again while it was copied"),
    ],
    ids=["denied", "gone", "bucket", "archived", "changed"],
)
def test_a_copy_that_the_store_refuses_is_told_as_what_it_is(store, s3_proxy, answer, kind, text):
    store.put("data/s/a", CONTENT)
    s3_proxy.meddle(lambda request, forward: answer if is_copy(request) else forward(request))
    with pytest.raises(kind, match=text):
        store.copy("data/s/a", "copy")


def test_a_target_that_appears_under_the_copy_is_left_as_it_is(store, s3_proxy, client, bucket):
    store.put("data/s/a", CONTENT)

    def other_was_first(request, forward):
        if is_copy(request):
            client.put_object(Bucket=bucket, Key="a/ns/copy", Body=b"of somebody else")
            return error(412, "PreconditionFailed")
        return forward(request)

    s3_proxy.meddle(other_was_first)
    with pytest.raises(ObjectExistsError, match="left as it is"):
        store.copy("data/s/a", "copy")
    assert store.read("copy") == b"of somebody else"


@pytest.mark.parametrize(("size", "parts"), [(10_000, 0), (10_001, 4), (12_000, 4), (12_001, 5)])
@pytest.mark.usefixtures("small_parts")
def test_what_is_too_large_for_one_request_is_copied_in_parts(store, asked, uploads, size, parts):
    content = (CONTENT * 2)[:size]
    store.put("data/s/a", content)
    copy = store.copy("data/s/a", "copy")
    spans = sorted(
        request.headers.get("x-amz-copy-source-range", "") for request in asked if is_copy(request)
    )
    assert len(spans) == max(parts, 1)
    if parts:
        begins = sorted(
            tuple(map(int, re.fullmatch(r"bytes=(\d+)-(\d+)", span).groups())) for span in spans
        )
        assert [begin for begin, _ in begins] == list(range(0, size, 3_000))
        assert begins[-1][1] == size - 1
    assert store.read("copy") == content
    assert copy.size_bytes == size
    assert uploads() == []


def test_a_part_that_fails_leaves_neither_an_object_nor_an_upload(
    store, s3_proxy, small_parts, uploads
):
    store.put("data/s/a", CONTENT)

    def third_part_fails(request, forward):
        return (
            error(403, "AccessDenied")
            if request.query.get("partNumber") == "3"
            else forward(request)
        )

    s3_proxy.meddle(third_part_fails)
    with pytest.raises(PermissionDeniedError, match="the store refuses"):
        store.copy("data/s/a", "copy")
    assert not store.exists("copy")
    assert uploads() == []


def test_an_original_that_changes_between_two_parts_is_found_out(
    store, s3_proxy, small_parts, client, bucket
):
    store.put("data/s/a", CONTENT)

    def changed(request, forward):
        if request.query.get("partNumber") == "3":
            client.put_object(Bucket=bucket, Key="a/ns/data/s/a", Body=CONTENT[::-1])
        return forward(request)

    s3_proxy.meddle(changed)
    # The store dates objects by the second: in the same one only the bytes tell.
    found = "the copy is not what was to be copied|was written again while it was copied"
    with pytest.raises(TransientError, match=found):
        store.copy("data/s/a", "copy")
    assert store.read("data/s/a") == CONTENT[::-1]


def test_the_tag_of_an_upload_in_parts_is_no_checksum_so_the_bytes_are_compared(
    store, client, bucket, asked
):
    begun = client.create_multipart_upload(Bucket=bucket, Key="a/ns/data/s/a")["UploadId"]
    where = {"Bucket": bucket, "Key": "a/ns/data/s/a", "UploadId": begun}
    part = client.upload_part(**where, PartNumber=1, Body=CONTENT)
    client.complete_multipart_upload(
        **where, MultipartUpload={"Parts": [{"ETag": part["ETag"], "PartNumber": 1}]}
    )
    assert "-1" in store.describe("data/s/a").version
    assert "md5" not in store.describe("data/s/a").digests
    store.copy("data/s/a", "copy")
    assert len(reads(asked)) == 2


HEAD = {
    "ETag": f'"{"a" * 32}"',
    "ContentLength": 3,
    "LastModified": datetime(2026, 11, 20, tzinfo=UTC),
}


@pytest.mark.parametrize(
    ("more", "digests"),
    [
        ({}, {"md5": "a" * 32}),
        ({"ServerSideEncryption": "AES256"}, {"md5": "a" * 32}),
        ({"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "k"}, {}),
        ({"ServerSideEncryption": "aws:kms:dsse"}, {}),
        ({"SSECustomerAlgorithm": "AES256"}, {}),
        ({"ETag": f'"{"a" * 32}-2"'}, {}),
        (
            {"ETag": f'"{"a" * 32}-2"', "ChecksumCRC64NVME": "c=", "ChecksumType": "FULL_OBJECT"},
            {"ChecksumCRC64NVME": "c="},
        ),
        ({"ETag": f'"{"a" * 32}-2"', "ChecksumSHA256": "c=-2", "ChecksumType": "COMPOSITE"}, {}),
    ],
    ids=["plain", "AES256", "KMS", "DSSE", "customer", "parts", "whole", "of parts"],
)
def test_only_what_depends_on_the_content_alone_is_a_checksum(more, digests):
    assert description_of("data/s/a", {**HEAD, **more}).digests == digests


def test_an_object_written_again_with_the_same_content_is_another_version():
    later = {**HEAD, "LastModified": datetime(2026, 11, 20, 0, 0, 1, tzinfo=UTC)}
    assert description_of("a", HEAD).version != description_of("a", later).version
    assert (
        description_of("a", {**HEAD, "VersionId": "1"}).version
        != description_of("a", {**HEAD, "VersionId": "2"}).version
    )


def test_checksums_that_differ_are_doubt_and_the_bytes_decide(store):
    store.put("data/s/a", CONTENT)
    store.put("data/s/b", CONTENT)
    one, other = store.describe("data/s/a"), store.describe("data/s/b")
    # As where a store encrypts what it keeps without saying so.
    differing = type(other)(other.key, other.size_bytes, other.version, {"md5": "0" * 32})
    assert same_content(store, one, differing)
    store.put("data/s/b", CONTENT[::-1])
    assert not same_content(store, one, differing)
