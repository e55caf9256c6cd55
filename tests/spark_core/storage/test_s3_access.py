"""Ways to a bucket: an assumed role, the bucket in the host, another region, versions.

Proved by what goes over the wire.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from datetime import timedelta

import botocore.credentials
import pytest

from spark_core.addresses.namespace import Namespace
from spark_core.errors import PermissionDeniedError, SettingsError, TransientError
from spark_core.storage import DeleteOutcome, StoreOptions, open_store
from spark_core.storage.s3 import clients as s3_clients
from tests.support.fault_proxy import fault_proxy
from tests.support.moto_s3 import ACCESS_KEY_ID
from tests.support.scripted_s3 import Answer, error, scripted_s3
from tests.support.self_signed import self_signed
from tests.support.store_conformance import rows_of

ROLE = "arn:aws:iam::123456789012:role/collector"


@pytest.fixture
def wire(s3_proxy):
    """What the server was asked: key id, token and action of each request."""
    asked = []

    def note(request, forward):
        headers = {name.lower(): value for name, value in request.headers.items()}
        signed = headers.get("authorization", "").partition("Credential=")[2].partition("/")[0]
        asked.append((request.method, signed, "x-amz-security-token" in headers, request.body))
        return forward(request)

    s3_proxy.meddle(note)
    yield asked
    s3_proxy.reset()


@pytest.fixture
def fresh():
    """No session of an earlier test, nor of this one afterwards."""
    s3_clients.open_session.cache_clear()
    s3_clients._boto.cache_clear()
    yield
    s3_clients.open_session.cache_clear()
    s3_clients._boto.cache_clear()


@pytest.fixture
def role_store(s3_server, s3_proxy, fresh):
    def opened(**changes):
        options = s3_server.options(
            s3_endpoint=s3_proxy.endpoint,
            s3_sts_endpoint=s3_proxy.endpoint,
            s3_role_arn=ROLE,
            **changes,
        )
        return open_store(Namespace.parse(f"s3://{s3_server.bucket()}/ns"), options)

    return opened


def store_at(endpoint, **changes):
    options = {
        "s3_endpoint": endpoint,
        "s3_region": "us-east-1",
        "s3_access_key_id": "AKIASCRIPTEDKEY00000",
        "s3_secret_access_key": "scripted-SECRET-access-key",
        "allow_http": True,
        "max_retries": 0,
    }
    return open_store(Namespace.parse("s3://bucket/ns"), StoreOptions(**{**options, **changes}))


def use_everything(store):
    store.put("data/a", b"x")
    assert store.read("data/a") == b"x"
    assert set(rows_of(store, "data/")) == {"data/a"}
    assert store.delete(["data/a"]) == [DeleteOutcome("data/a", "deleted")]


def test_a_role_is_assumed_once_and_used_by_both_clients(role_store, wire):
    store = role_store()
    use_everything(store)
    (method, signed, token, body), *others = wire
    assert (method, signed, token) == ("POST", ACCESS_KEY_ID, False)
    assert b"RoleSessionName=lakegc" in body
    assert others
    assert all(token and key_id != ACCESS_KEY_ID for _, key_id, token, _ in others)


@pytest.mark.slow
def test_a_role_is_assumed_anew_where_a_store_travels_to(role_store, tmp_path):
    store = role_store()
    store.put("data/a", b"x")
    code = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')).read('data/a').decode())"
    (tmp_path / "store").write_bytes(pickle.dumps(store))
    bare = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    told = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "store")],
        capture_output=True,
        text=True,
        check=True,
        env=bare,
    )
    assert told.stdout == "x\n"


def test_the_credentials_of_a_role_are_renewed_before_they_end(role_store, wire, monkeypatch):
    store = role_store()
    store.put("data/a", b"x")
    credentials = store._clients.objects.credential_provider.credentials
    before = credentials.get_frozen_credentials().access_key
    now = botocore.credentials._local_now

    def later():
        return now() + timedelta(minutes=50)

    monkeypatch.setattr(botocore.credentials, "_local_now", later)
    monkeypatch.setattr(credentials, "_time_fetcher", later)
    del wire[:]
    assert set(rows_of(store, "")) == {"data/a"}
    assert next(signed for _, signed, _, _ in wire) == ACCESS_KEY_ID
    assert wire[-1][1] not in (before, ACCESS_KEY_ID)
    assert store._clients.objects.credential_provider()["access_key_id"] != before


def test_a_role_that_may_not_be_assumed_any_more_is_told_in_the_middle_of_the_work(
    role_store, s3_proxy, wire, monkeypatch
):
    store = role_store()
    store.put("data/a", b"x")
    now = botocore.credentials._local_now
    credentials = store._clients.objects.credential_provider.credentials
    monkeypatch.setattr(credentials, "_time_fetcher", lambda: now() + timedelta(minutes=59))
    monkeypatch.setattr(botocore.credentials, "_local_now", lambda: now() + timedelta(minutes=59))
    s3_proxy.meddle(
        lambda request, forward: (
            denied() if b"Action=AssumeRole" in request.body else forward(request)
        )
    )
    with pytest.raises(PermissionDeniedError, match="the role cannot be assumed any more"):
        rows_of(store, "")
    assert [outcome.outcome for outcome in store.delete(["data/a"])] == ["refused"]


def denied(status=403, code="AccessDenied"):
    body = (
        "<ErrorResponse "
        'xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>'
        f"<Code>{code}</Code><Message>as scripted</Message></Error></ErrorResponse>"
    )
    return Answer(status, body.encode())


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        (
            denied(),
            PermissionDeniedError,
            "cannot be assumed .HTTP 403 AccessDenied.*sts:AssumeRole",
        ),
        (denied(403, "InvalidClientTokenId"), PermissionDeniedError, "cannot be assumed"),
        (denied(400, "ValidationError"), SettingsError, "Look at the role's name"),
        (denied(500, "InternalFailure"), TransientError, "run again"),
    ],
)
def test_a_role_that_cannot_be_assumed_is_named(fresh, answer, kind, text):
    with scripted_s3(lambda _request: answer) as endpoint:
        store = store_at(endpoint, s3_sts_endpoint=endpoint, s3_role_arn=ROLE)
        with pytest.raises(kind, match=text) as failure:
            store.read("x")
        assert ROLE in str(failure.value)
        assert failure.value.__context__ is None


def test_an_endpoint_of_the_token_service_without_tls_is_refused(s3_server):
    with pytest.raises(SettingsError, match=r"s3_sts_endpoint http://sts\.example\.com sends"):
        open_store(
            Namespace.parse("s3://bucket/ns"),
            s3_server.options(
                s3_endpoint=None, s3_sts_endpoint="http://sts.example.com", allow_http=False
            ),
        )


def test_the_host_style_reaches_the_bucket_in_the_host_with_both_clients(
    s3_server, fresh, monkeypatch
):
    hosts = set()

    def note(request, forward):
        hosts.update(value for name, value in request.headers.items() if name.lower() == "host")
        path = request.target.partition("://")[2]
        return forward(type(request)(**{**vars(request), "target": path[path.index("/") :]}))

    bucket = s3_server.bucket()
    with fault_proxy(s3_server.endpoint) as proxy:
        proxy.meddle(note)
        for name in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(name, proxy.endpoint)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        options = s3_server.options(
            s3_endpoint="http://s3.us-east-1.amazonaws.com",
            s3_path_style=False,
            s3_region="us-east-1",
        )
        use_everything(open_store(Namespace.parse(f"s3://{bucket}/ns"), options))
    assert hosts == {f"{bucket}.s3.us-east-1.amazonaws.com"}


@pytest.mark.parametrize("code", ["AuthorizationHeaderMalformed", "PermanentRedirect"])
def test_a_bucket_in_another_region_is_told_with_its_region(fresh, code):
    def elsewhere(request):
        told = error(400 if code.startswith("Auth") else 301, code, "<Region>eu-west-3</Region>")
        return Answer(
            told.status,
            b"" if request.method == "HEAD" else told.body,
            {"x-amz-bucket-region": "eu-west-3"},
        )

    with scripted_s3(elsewhere) as endpoint:
        store = store_at(endpoint)
        for ask in (
            lambda: rows_of(store, ""),
            lambda: store.read("x"),
            lambda: store.put("x", b""),
        ):
            with pytest.raises(
                SettingsError, match=r'another region, eu-west-3 .*Set s3_region = "eu-west-3"'
            ):
                ask()


def test_a_bucket_that_keeps_versions_says_so(s3_server):
    client, bucket = s3_server.client(), s3_server.bucket()
    store = open_store(Namespace.parse(f"s3://{bucket}/ns"), s3_server.options())
    assert store.undelete_hint() is None
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    assert "depends on the bucket's lifecycle rules" in store.undelete_hint()
    rule = {
        "ID": "old",
        "Status": "Enabled",
        "Filter": {"Prefix": ""},
        "NoncurrentVersionExpiration": {"NoncurrentDays": 9},
    }
    client.put_bucket_lifecycle_configuration(
        Bucket=bucket, LifecycleConfiguration={"Rules": [rule]}
    )
    assert "may end that 9 days after the deletion" in store.undelete_hint()
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Suspended"})
    assert "kept versions once" in store.undelete_hint()


def test_a_bucket_that_does_not_say_whether_it_keeps_versions_gives_no_hint(fresh):
    for answer in (
        error(403, "AccessDenied"),
        error(501, "NotImplemented"),
        Answer(200, b"<html>"),
    ):
        with scripted_s3(lambda _request, answer=answer: answer) as endpoint:
            assert store_at(endpoint).undelete_hint() is None


def test_only_a_bucket_that_never_had_versions_is_read_as_keeping_nothing(s3_server, fresh):
    client, bucket = s3_server.client(), s3_server.bucket()
    store = open_store(Namespace.parse(f"s3://{bucket}/ns"), s3_server.options())
    assert store.after_deletion().keeps is False
    for status in ("Enabled", "Suspended"):
        client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": status})
        assert store.after_deletion().keeps is True
        assert status in store.after_deletion().words
    for answer in (error(403, "AccessDenied"), error(501, "NotImplemented")):
        with scripted_s3(lambda _request, answer=answer: answer) as endpoint:
            said = store_at(endpoint).after_deletion()
            assert said.keeps is None
            assert "allow s3:GetBucketVersioning" in said.words


def test_a_read_is_never_led_away_from_tls(fresh, tmp_path, monkeypatch):
    headers = {"Last-Modified": "Sat, 21 Nov 2026 09:00:00 GMT", "ETag": '"x"'}
    with scripted_s3(lambda _request: Answer(200, b"from elsewhere", headers)) as plain:
        chain = self_signed(tmp_path / "chain.pem")
        monkeypatch.setenv("AWS_CA_BUNDLE", str(chain))

        def lead_away(request):
            return Answer(302, b"", {"Location": plain + request.path})

        with scripted_s3(lead_away, certificate=chain) as endpoint:
            store = store_at(endpoint, allow_http=False)
            for ask in (
                store.read,
                store.head,
                store.exists,
                lambda key: store.read_range(key, 0, 4),
            ):
                with pytest.raises((TransientError, SettingsError)):
                    ask("data/x")


def test_every_request_of_obstore_is_signed_whatever_its_own_variables_say(fresh, monkeypatch):
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    seen = []

    def note(request):
        seen.append({name.lower() for name in request.headers})
        return Answer(
            200, b"data", {"Last-Modified": "Sat, 21 Nov 2026 09:00:00 GMT", "ETag": '"x"'}
        )

    with scripted_s3(note) as endpoint:
        assert store_at(endpoint).read("data/x") == b"data"
    assert "authorization" in seen[-1]
