"""The bulk request of S3: with every checksum that a store may ask for, and the same before a sweep
as in it.
"""

from __future__ import annotations

import base64
import hashlib
import re
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from spark_core import lakegc_keys
from spark_core.addresses.namespace import Namespace
from spark_core.errors import SettingsError, TransientError
from spark_core.storage import DeleteOutcome, StoreOptions, deletion, open_store, probes
from tests.support.scripted_s3 import Answer, error, scripted_s3
from tests.support.small_s3 import ACCESS_KEY_ID, SECRET_ACCESS_KEY, Bucket, small_s3

ODD_KEYS = ["data/s/a & b", "data/s/<x>", "data/s/ü", "data/s/'q\"", "data/s/a+b%2F"]


def store_at(endpoint, **changes):
    options = {"max_retries": 0, "allow_http": True, "s3_region": "us-east-1"}
    keys = {"s3_access_key_id": ACCESS_KEY_ID, "s3_secret_access_key": SECRET_ACCESS_KEY}
    return open_store(
        Namespace.parse("s3://bucket/ns"),
        StoreOptions(s3_endpoint=endpoint, **{**options, **keys, **changes}),
    )


@contextmanager
def a_bucket(**trouble):
    with small_s3(bucket=Bucket(**trouble)) as server:
        bucket = server.buckets["bucket"]
        bucket.objects["ns/data/s/x"] = (b"x", datetime.now(UTC))
        yield bucket, store_at(server.endpoint)


@contextmanager
def answering(to_bulk, to_one=None):
    """A store that answers bulk requests so, and any other deletion as if all were well."""

    def answer(request):
        if request.method == "POST":
            return to_bulk(request) if callable(to_bulk) else to_bulk
        return to_one or error(404, "NoSuchKey")

    with scripted_s3(answer) as endpoint:
        yield endpoint


def deleted(request):
    keys = re.findall(r"<Key>(.*?)</Key>", request.body.decode())
    told = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
    return Answer(200, f"<DeleteResult>{told}</DeleteResult>".encode())


def test_a_store_that_demands_content_md5_passed_the_probe_and_failed_every_object_each_night():
    with a_bucket(demands_md5=True) as (bucket, store):
        probes.require_deletable(store)
        assert store.delete(["data/s/x"]) == [DeleteOutcome("data/s/x", "deleted")]
    assert "ns/data/s/x" not in bucket.objects


def test_content_md5_is_of_the_bytes_that_are_sent_and_goes_beside_the_newer_checksum():
    sent = []

    def note(request):
        sent.append(request)
        return deleted(request)

    with answering(note) as endpoint:
        outcomes = store_at(endpoint).delete(ODD_KEYS)
    assert [outcome.outcome for outcome in outcomes] == ["deleted"] * len(ODD_KEYS)
    (request,) = sent
    headers = {name.lower(): value for name, value in request.headers.items()}
    assert headers["content-md5"] == base64.b64encode(hashlib.md5(request.body).digest()).decode()
    assert headers["x-amz-checksum-crc32"]
    assert "content-md5" in headers["authorization"], "it is signed"


def test_a_request_that_the_client_sends_again_has_content_md5_too():
    asked = []

    def stumble(request):
        asked.append({name.lower() for name in request.headers})
        return error(503, "SlowDown") if len(asked) == 1 else deleted(request)

    with answering(stumble) as endpoint:
        assert store_at(endpoint, max_retries=1).delete(["data/s/x"]) == [
            DeleteOutcome("data/s/x", "deleted")
        ]
    assert ["content-md5" in headers for headers in asked] == [True, True]


@pytest.mark.parametrize(
    "refusal",
    [error(501, "NotImplemented"), error(400, "MissingContentMD5"), error(405, "MethodNotAllowed")],
    ids=["no bulk deletion", "a proxy that drops the header", "no POST"],
)
def test_a_store_that_takes_no_bulk_deletion_is_found_before_a_sweep_by_name(refusal):
    text = r"the store does not take the request that deletes \(HTTP \d+ \w+\).*DeleteObjects"
    with answering(refusal) as endpoint, pytest.raises(SettingsError, match=text):
        probes.require_deletable(store_at(endpoint))


def test_the_probe_of_an_own_object_names_a_bulk_deletion_that_is_not_taken_too():
    text = (
        r"the store does not take the request that deletes \(HTTP 501 "
        r"NotImplemented\).*DeleteObjects"
    )
    for probe in (
        probes.write_read_delete,
        lambda store: probes.honours_conditional_put(store, lakegc_keys.CLOCK),
    ):
        with a_bucket(knows_no_bulk=True) as (_, store), pytest.raises(SettingsError, match=text):
            probe(store)


def test_the_probe_asks_by_the_request_of_a_sweep_and_learns_if_a_condition_is_needed():
    asked = []

    def refuse_conditions(request):
        asked.append(b"<ETag>*</ETag>" in request.body)
        return error(400, "MalformedXML") if asked[-1] else deleted(request)

    with answering(refuse_conditions) as endpoint:
        store = store_at(endpoint)
        probes.require_deletable(store)
    assert asked == [True, False]
    assert store.requests["delete"] == 2


def test_a_bulk_answer_about_another_name_is_no_consent():
    other = Answer(
        200, b"<DeleteResult><Deleted><Key>ns/data/another</Key></Deleted></DeleteResult>"
    )
    with (
        answering(other) as endpoint,
        pytest.raises(TransientError, match="does not mention the key"),
    ):
        probes.require_deletable(store_at(endpoint))


@pytest.mark.parametrize("key", ["", "<Key></Key>"], ids=["no key", "an empty key"])
@pytest.mark.parametrize(
    ("code", "outcome", "error"),
    [
        ("AccessDenied", "refused", "AccessDenied"),
        ("InternalError", "failed", "InternalError"),
        ("NoSuchKey", "failed", "the store's answer does not mention the key"),
    ],
)
def test_an_error_of_no_key_in_particular_holds_for_those_that_are_not_named(
    key, code, outcome, error
):
    body = (
        f"<DeleteResult><Deleted><Key>ns/data/a</Key></Deleted><Error>{key}<Code>{code}</Code>"
        "</Error></DeleteResult>"
    )
    with answering(Answer(200, body.encode())) as endpoint:
        outcomes = store_at(endpoint).delete(["data/a", "data/b"])
    assert outcomes == [DeleteOutcome("data/a", "deleted"), DeleteOutcome("data/b", outcome, error)]


def test_what_was_throttled_without_naming_a_key_is_asked_for_again(monkeypatch):
    monkeypatch.setattr(deletion, "wait", lambda _: None)
    busy = Answer(200, b"<DeleteResult><Error><Code>SlowDown</Code></Error></DeleteResult>")
    asked = []

    def answer(request):
        asked.append(request)
        return busy if len(asked) == 1 else deleted(request)

    with answering(answer) as endpoint:
        assert store_at(endpoint, max_retries=1).delete(["data/a"]) == [
            DeleteOutcome("data/a", "deleted")
        ]
    assert len(asked) == 2
