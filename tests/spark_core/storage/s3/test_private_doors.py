"""Whether the store clients that are installed still have what lakegc uses behind their public
interfaces.
"""

from __future__ import annotations

import inspect
from datetime import timedelta
from importlib.metadata import version

import boto3
import botocore.session
import pytest
from botocore.config import Config

from spark_core.storage import StoreOptions
from spark_core.storage.s3 import private_doors
from tests.support.scripted_s3 import Answer, scripted_s3

BOTOCORE = (
    f"botocore {version('botocore')} {{}}: find another way in "
    "spark_core/storage/s3/private_doors.py"
)
LISTING = (
    b'<?xml version="1.0"?><ListBucketResult><Name>bucket</Name><IsTruncated>false</IsTruncated>'
    b"</ListBucketResult>"
)


def client(endpoint, **config):
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region_name": "us-east-1"}
    style = {"addressing_style": "path"}
    return boto3.client("s3", endpoint_url=endpoint, config=Config(s3=style, **config), **keys)


def test_botocore_still_has_its_own_readers_of_answers_that_ours_goes_before():
    assert private_doors.own_readers(), BOTOCORE.format(
        f"has no handlers of {private_doors.BEFORE_PARSER} any more"
    )


def test_botocore_still_gives_a_reader_the_raw_answer_and_passes_on_what_it_leaves():
    seen = []

    def read(operation_model, response_dict, customized_response_dict, **_):
        seen.append((operation_model.name, response_dict["status_code"], response_dict["body"]))
        response_dict["body"] = response_dict["body"].replace(b"bucket", b"left")
        customized_response_dict["Columns"] = "ours"

    with scripted_s3(
        lambda _request: Answer(200, LISTING, {"Content-Type": "application/xml"})
    ) as endpoint:
        boto = client(endpoint)
        private_doors.read_first(boto, read)
        answer = boto.list_objects_v2(Bucket="bucket")
    assert seen == [("ListObjectsV2", 200, LISTING)], BOTOCORE.format(
        "gives no raw answers to `before-parse` any more"
    )
    assert (answer["Name"], answer["Columns"]) == ("left", "ours"), BOTOCORE.format(
        "reads past `before-parse`"
    )


def test_botocore_still_knows_the_mark_of_a_request_that_was_led_on():
    elsewhere = Answer(
        301,
        b"<Error><Code>PermanentRedirect</Code></Error>",
        {"Content-Type": "application/xml", "x-amz-bucket-region": "eu-west-1"},
    )
    asked = []
    with scripted_s3(lambda request: asked.append(request) or elsewhere) as endpoint:
        boto = client(endpoint, retries={"total_max_attempts": 1})
        private_doors.stay_in_region(boto)
        with pytest.raises(boto.exceptions.ClientError):
            boto.list_objects_v2(Bucket="bucket")
    assert len(asked) == 1, BOTOCORE.format(
        "follows a bucket into another region, whatever s3_redirect says"
    )


def test_botocore_still_signs_what_is_added_before():
    answers, signed = iter((503, 200)), []

    def answer(request):
        signed.append("content-md5" in request.headers.get("Authorization", ""))
        return Answer(next(answers), b"<DeleteResult/>", {"Content-Type": "application/xml"})

    def add(request, **_):
        request.headers["Content-MD5"] = "x"

    with scripted_s3(answer) as endpoint:
        boto = client(endpoint, retries={"mode": "adaptive", "total_max_attempts": 2})
        private_doors.before_signing(boto, "DeleteObjects", add)
        boto.delete_objects(Bucket="bucket", Delete={"Objects": [{"Key": "x"}]})
    assert signed == [True, True], BOTOCORE.format("does not sign what is added at `before-sign`")


def test_botocore_still_takes_credentials_that_renew_themselves():
    given = botocore.credentials.Credentials("of the role", "secret")
    session = private_doors.session_of(given, "us-east-1")
    assert session.get_credentials() is given, BOTOCORE.format(
        "keeps a session's credentials elsewhere"
    )
    made = private_doors.role_credentials(
        lambda *_a, **_k: None, given, "arn:aws:iam::1:role/x", "lakegc"
    )
    assert made.method == "assume-role", BOTOCORE.format("has other credentials of roles")


def test_azures_client_still_leaves_its_repetition_to_a_subclass():
    from azure.storage.blob import ExponentialRetry

    from spark_core.storage.azure.clients import Patience

    closed = (
        f"azure-storage-blob {version('azure-storage-blob')}: ExponentialRetry has no {{}} any "
        "more (azure/clients.py)"
    )
    for name in ("configure_retries", "increment", "get_backoff_time", "sleep"):
        assert callable(getattr(ExponentialRetry, name, None)), closed.format(name)
        assert getattr(Patience, name) is not getattr(ExponentialRetry, name)
    Patience(StoreOptions(retry_timeout=timedelta(seconds=1)))


def test_azures_client_still_writes_the_account_before_the_paths_of_a_bulk_deletion():
    from azure.storage.blob import _container_client_helpers as helpers

    assert "url_prepend" in inspect.getsource(helpers), (
        f"azure-storage-blob {version('azure-storage-blob')} does not know url_prepend any more, "
        "by which "
        "azure/store.py deletes where the account stands in the path"
    )


def test_googles_client_still_takes_a_session_that_somebody_else_opened():
    from google.cloud import storage

    assert "_http" in inspect.signature(storage.Client).parameters, (
        f"google-cloud-storage {version('google-cloud-storage')} takes no _http any more, by "
        "which gcs/clients.py "
        "gives it the session that follows no redirects"
    )


def test_obstore_still_tells_the_status_and_the_kind_of_a_failure_in_its_text():
    import obstore
    import obstore.store

    from spark_core.storage.obstore_reads import OBSTORE_ERRORS, ONCE, obstore_failure

    closed = (
        f"obstore {version('obstore')} words its errors otherwise: read {{}} anew in "
        "storage/obstore_reads.py and s3/errors.py"
    )

    def failed(endpoint):
        store = obstore.store.S3Store(
            "bucket",
            endpoint=endpoint,
            skip_signature=True,
            client_options={"allow_http": True},
            retry_config=ONCE,
        )
        with pytest.raises(OBSTORE_ERRORS) as raised:
            obstore.get(store, "x")
        return obstore_failure(raised.value)

    with scripted_s3(
        lambda _request: Answer(403, b"<Error><Code>AccessDenied</Code></Error>", {})
    ) as endpoint:
        found = failed(endpoint)
    assert (found.status, "AccessDenied" in found.body) == (403, True), closed.format(
        "status and body"
    )
    assert failed("http://127.0.0.1:9").kind == "Connect", closed.format(
        "the kind of a failed connection"
    )
