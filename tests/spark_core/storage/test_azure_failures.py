"""What an Azure that fails, refuses or lies does to the store.

An error by name, never emptiness, never a secret.
"""

from __future__ import annotations

import itertools
import logging
from datetime import timedelta

import pytest

from spark_core.addresses.namespace import Namespace
from spark_core.errors import (
    IncompleteReadError,
    NotFoundError,
    ObjectExistsError,
    PermissionDeniedError,
    SettingsError,
    TransientError,
)
from spark_core.storage import DeleteOutcome, StoreOptions, deletion, open_store
from spark_core.storage.azure import clients as azure_clients
from spark_core.sweep.deadline import DeadlinePassedError
from tests.support.azure_faults import batch, error
from tests.support.failing_store import ACTIONS as SHARED
from tests.support.failing_store import everything_told, require_passing_after_silence, told_server
from tests.support.paces import Called
from tests.support.scripted_s3 import Answer

KEY = "c2NyaXB0ZWQtU0VDUkVULWtleQ=="
SIGNATURE = "scripted%2FSECRET%2Bsignature"
SECRETS = (KEY, SIGNATURE, "scripted/SECRET+signature")

# What the real Azure puts into the body when a signature is wrong.
REVEALING = (
    f"<AuthenticationErrorDetail>The MAC signature found in the HTTP request '{KEY}' is "
    f"not the same as any computed signature. Server used following string to sign: '{SIGNATURE}'."
    "</AuthenticationErrorDetail>"
)
BLOB = {
    "Last-Modified": "Sat, 21 Nov 2026 09:00:00 GMT",
    "ETag": '"0x8D"',
    "x-ms-blob-type": "BlockBlob",
}


def store_at(endpoint: str, **changes):
    options = {
        "azure_endpoint": f"{endpoint}/lake",
        "azure_sas_token": f"sv=2024-11-04&sr=c&sp=rl&sig={SIGNATURE}",
        "allow_http": True,
        "max_retries": 0,
        "connect_timeout": timedelta(seconds=1),
        "read_timeout": timedelta(seconds=1),
    }
    return open_store(
        Namespace.parse("https://lake.blob.core.windows.net/container/ns"),
        StoreOptions(**{**options, **changes}),
    )


@pytest.fixture(autouse=True)
def waited(monkeypatch):
    seconds: list[float] = []
    monkeypatch.setattr(deletion, "wait", seconds.append)
    return seconds


@pytest.fixture(scope="module")
def stage():
    with told_server(store_at) as answer:
        yield answer


@pytest.fixture(params=["signature", "key"])
def answering(stage, request):
    """Give a store whose server answers as told from now on.

    Objects are read by Azure's client, and by obstore.
    """
    shown = {"azure_account_key": KEY, "azure_sas_token": None} if request.param == "key" else {}
    return lambda answers, **changes: stage(answers, **{**shown, **changes})


ACTIONS = {
    **SHARED,
    "head": lambda store: store.head("data/x"),
    "exists": lambda store: store.exists("data/x"),
}
WRITES = {"put", "put_if_absent"}


def reveals(text: str) -> list[str]:
    return [secret for secret in SECRETS if secret in text]


@pytest.mark.parametrize("action", ACTIONS)
def test_a_refusal_says_which_right_is_missing(answering, action):
    store = answering(error(403, "AuthorizationPermissionMismatch", REVEALING))
    with pytest.raises(
        PermissionDeniedError,
        match=r"the store refuses \(HTTP 403 AuthorizationPermissionMismatch\)",
    ) as refusal:
        ACTIONS[action](store)
    text = str(refusal.value)
    assert (
        "Storage Blob Data Contributor" if action in WRITES else "Storage Blob Data Reader"
    ) in refusal.value.next_step
    assert store.root in text
    assert not reveals(everything_told(refusal.value))


@pytest.mark.parametrize(
    "answer",
    [
        error(403, "AuthenticationFailed", REVEALING),
        error(401, "InvalidAuthenticationInfo"),
        error(401, "NoAuthenticationInformation"),
    ],
)
@pytest.mark.parametrize("action", ["list", "head", "read", "put"])
def test_wrong_and_expired_credentials_are_told_apart_from_a_missing_right(
    answering, action, answer
):
    with pytest.raises(
        PermissionDeniedError, match="has expired, and at this machine's clock"
    ) as refusal:
        ACTIONS[action](answering(answer))
    assert not reveals(everything_told(refusal.value))


@pytest.mark.parametrize(
    ("code", "step"),
    [
        ("KeyBasedAuthenticationNotPermitted", "takes no account keys"),
        ("AuthorizationFailure", "network rules"),
        ("AuthorizationSourceIPMismatch", "bound to other addresses"),
    ],
)
def test_a_policy_of_the_account_is_told_by_its_own_next_step(answering, code, step):
    with pytest.raises(PermissionDeniedError, match=step):
        answering(error(403, code)).read("data/x")


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize(
    ("status", "code"), [(503, "ServerBusy"), (500, "InternalError"), (502, ""), (429, "")]
)
def test_a_store_that_cannot_now_is_a_passing_failure(answering, action, status, code):
    with pytest.raises(TransientError, match=f"HTTP {status}") as failure:
        ACTIONS[action](answering(error(status, code)))
    assert "run again" in str(failure.value)
    assert not reveals(everything_told(failure.value))


@pytest.mark.parametrize("action", ACTIONS)
def test_a_store_that_is_not_there_is_a_passing_failure(action):
    with pytest.raises(TransientError, match="no answer") as failure:
        ACTIONS[action](store_at("http://127.0.0.1:1"))
    assert not reveals(everything_told(failure.value))


@pytest.mark.parametrize("action", ["list", "read", "put"])
def test_a_store_that_does_not_answer_in_time_is_a_passing_failure(answering, action):
    require_passing_after_silence(answering, action)


@pytest.mark.parametrize("action", ["list", "children", "read", "put"])
def test_a_request_is_sent_again_when_it_failed_in_passing(answering, action, waited):
    good = {
        "read": Answer(206, b"data", {**BLOB, "Content-Range": "bytes 0-3/4"}),
        "put": Answer(201, headers=BLOB),
    }.get(action, page(0, 1))
    answers = iter([error(503, "ServerBusy"), error(500, "OperationTimedOut"), good])
    ACTIONS[action](answering(lambda _request: next(answers), max_retries=2))
    assert len(waited) == 2


def test_a_refusal_is_not_asked_again(answering, waited):
    asked = itertools.count()

    def refusing(_request):
        next(asked)
        return error(403, "AuthorizationPermissionMismatch")

    with pytest.raises(PermissionDeniedError):
        answering(refusing, max_retries=5).read("data/x")
    assert (next(asked), waited) == (1, [])


@pytest.mark.parametrize("action", ["read", "parquet"])
def test_a_body_that_is_cut_off_is_never_taken_for_the_object(answering, action):
    with pytest.raises(TransientError):
        ACTIONS[action](answering(Answer(200, b"PAR1" * 100, BLOB, cut=7)))


def test_a_range_that_comes_short_is_never_taken_for_it(answering):
    with pytest.raises(IncompleteReadError, match="ends before byte 4"):
        answering(Answer(206, b"ab", {**BLOB, "Content-Range": "bytes 0-1/2"})).read_range(
            "data/x", 0, 4
        )


@pytest.mark.slow
@pytest.mark.parametrize("action", ["read", "range", "head", "list"])
@pytest.mark.parametrize(
    "header",
    [{"Content-Range": "senseless"}, {"Last-Modified": "yesterday"}, {"Content-Length": "4, 4"}],
)
def test_senseless_headers_are_an_error_by_name_or_do_no_harm(answering, action, header):
    answer = Answer(206, b"data", {**BLOB, "Content-Range": "bytes 0-3/4", **header})
    try:
        ACTIONS[action](answering(answer))
    except (TransientError, IncompleteReadError, SettingsError) as failure:
        assert not reveals(everything_told(failure))  # noqa: PT017 - either is right


def test_an_object_that_is_replaced_while_it_is_read_is_a_passing_failure(answering):
    with pytest.raises(TransientError, match="was replaced while it was read"):
        answering(error(412, "ConditionNotMet")).read("data/x")


def test_a_missing_object_is_not_a_missing_container(answering):
    for action in ("read", "head"):
        with pytest.raises(NotFoundError, match="no such object"):
            ACTIONS[action](answering(error(404, "BlobNotFound")))
        with pytest.raises(SettingsError, match="no such container"):
            ACTIONS[action](answering(error(404, "ContainerNotFound")))


@pytest.mark.parametrize("action", ACTIONS)
def test_a_not_found_that_is_not_azures_own_is_no_absence(answering, action):
    with pytest.raises(SettingsError, match=r"no such container|does not take the request"):
        ACTIONS[action](answering(Answer(404, b"404 page not found")))


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (error(400, "InvalidHeaderValue"), "Look at the endpoint and the account"),
        (error(409, "BlobArchived"), "Rehydrate it"),
        (error(400, "FeatureVersionMismatch"), "HTTP 400 FeatureVersionMismatch"),
    ],
)
def test_what_the_store_does_not_take_is_a_wrong_setting(answering, answer, text):
    with pytest.raises(SettingsError, match=text):
        answering(answer).read("data/x")


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("status", [301, 302, 307])
def test_a_redirect_is_not_followed(answering, action, status):
    asked = itertools.count()

    def elsewhere(_request):
        next(asked)
        return Answer(status, headers={"Location": "https://127.0.0.1:1/other"})

    store = answering(elsewhere)
    # obstore does follow it: `test_reads` says where to, and what it takes along.
    led_away = action == "read" and store.options.azure_account_key
    with pytest.raises(
        TransientError if led_away else SettingsError,
        match="no answer" if led_away else f"HTTP {status}",
    ):
        ACTIONS[action](store)
    assert next(asked) == 1


def test_a_leased_object_is_not_written(answering):
    with pytest.raises(PermissionDeniedError, match="holds a lease"):
        answering(error(412, "LeaseIdMissing")).put("data/x", b"")


@pytest.mark.parametrize("answer", [error(409, "BlobAlreadyExists"), error(412, "ConditionNotMet")])
def test_a_lost_condition_is_another_writer(answering, answer):
    with pytest.raises(ObjectExistsError, match="left as it is"):
        answering(answer).put_if_absent("lease", b"x")


def test_a_key_named_like_an_answer_does_not_pass_for_one():
    store = store_at("http://127.0.0.1:1")
    with pytest.raises(TransientError, match="no answer"):
        store.read("data/HTTP 404 BlobNotFound")


def test_no_log_holds_a_signature(answering, caplog):
    caplog.set_level(logging.DEBUG)
    for action in ("read", "range"):
        ACTIONS[action](answering(Answer(206, b"data", {**BLOB, "Content-Range": "bytes 0-3/4"})))
    answering(page(0, 1)).children("data/")
    answering(batch((0, 202, ""))).delete(["data/x"])
    assert "/lake/container/ns/data/x" in caplog.text
    assert not reveals(caplog.text)


def test_a_refusal_that_is_not_azures_own_is_told_so(answering):
    with pytest.raises(
        PermissionDeniedError, match=r"what stands before the store, refuses \(HTTP 401\)"
    ):
        answering(Answer(401)).read("data/x")


@pytest.mark.parametrize(
    ("failure", "kind", "text"),
    [
        (
            "DefaultAzureCredential failed to retrieve a token",
            SettingsError,
            "there are no usable credentials for Azure",
        ),
        (
            "AADSTS7000215: Invalid client secret provided: PRIVATE",
            PermissionDeniedError,
            r"identity provider.* refuses \(AADSTS7000215\)",
        ),
    ],
)
def test_an_identity_that_cannot_be_had_is_never_nobody(monkeypatch, failure, kind, text):
    from azure.core.exceptions import ClientAuthenticationError

    class Nobody:
        def get_token(self, *_scopes, **_more):
            raise ClientAuthenticationError(failure)

    monkeypatch.setattr(azure_clients, "credential_of", lambda *_: Nobody())
    azure_clients.open_clients.cache_clear()
    store = store_at("https://127.0.0.1:1", azure_sas_token=None)
    for action in ACTIONS.values():
        with pytest.raises(kind, match=text) as told:
            action(store)
        assert "PRIVATE" not in str(told.value)
    (outcome,) = store.delete(["data/x"])
    assert (outcome.outcome, outcome.error) == ("refused", "no answer ClientAuthenticationError")
    azure_clients.open_clients.cache_clear()


def page(number: int, pages: int, *, rows: int = 1000, marker: str | None = "") -> Answer:
    blobs = "".join(
        f"<Blob><Name>ns/data/ft6rufhksdu8nmvqvqhg/dc0k8e9ksd{number:05}{row:05}</Name><Properties>"
        "<Last-Modified>Sat, 21 Nov 2026 09:11:07 "
        "GMT</Last-Modified><Etag>0x8D</Etag><Content-Length>5</Content-Length>"
        "<Content-Type>application/octet-stream</Content-Type>"
        "<Content-MD5>nU5GEmjAhPXIVk6MFVZnxg==</Content-MD5>"
        "<BlobType>BlockBlob</BlobType><LeaseStatus>unlocked</LeaseStatus></Properties><Metadata "
        "/></Blob>"
        for row in range(rows)
    )
    following = (str(number + 1) if number + 1 < pages else "") if marker == "" else marker or ""
    body = (
        '<?xml version="1.0" encoding="utf-8"?><EnumerationResults '
        'ServiceEndpoint="https://lake/" ContainerName="container">'
        f"<Prefix>ns/data/</Prefix><Blobs>{blobs}</Blobs><NextMarker>{following}</NextMarker>"
        "</EnumerationResults>"
    )
    return Answer(body=body.encode(), headers={"Content-Type": "application/xml"})


def test_a_marker_that_repeats_is_an_error_and_not_an_endless_listing(answering):
    numbers = itertools.count()
    for action in ("list", "children"):
        store = answering(lambda _request: page(next(numbers), 9, rows=1, marker="same"))
        with pytest.raises(IncompleteReadError, match="says that there is more but not where"):
            ACTIONS[action](store)


@pytest.mark.slow
def test_a_listing_that_breaks_in_the_middle_raises_after_its_first_batches(answering):
    def broken(request):
        number = int(request.query.get("marker", 0))
        return page(number, 99) if number < 15 else error(500, "InternalError")

    found = answering(broken).list("data/")
    assert next(found).num_rows == 10_000
    with pytest.raises(TransientError):
        next(found)


@pytest.mark.parametrize("action", ["list", "children"])
def test_a_page_that_is_cut_off_is_never_taken_for_the_whole(answering, action):
    whole = page(0, 1, rows=3)
    for body in (
        whole.body[:-40],
        whole.body[: len(whole.body) // 2],
        b"",
        b"<html>busy</html>",
        b"[]",
    ):
        for kind in ("application/xml", "text/html", "application/json"):
            with pytest.raises((TransientError, IncompleteReadError, SettingsError)):
                ACTIONS[action](answering(Answer(body=body, headers={"Content-Type": kind})))
    with pytest.raises(TransientError):
        ACTIONS[action](answering(Answer(body=whole.body, headers=whole.headers, cut=10)))


def test_a_page_without_its_end_is_never_taken_for_the_last(answering):
    body = page(0, 1, rows=3).body.replace(b"<NextMarker></NextMarker>", b"")
    for action in ("list", "children"):
        with pytest.raises(IncompleteReadError, match="no page of a listing"):
            ACTIONS[action](
                answering(Answer(body=body, headers={"Content-Type": "application/xml"}))
            )


def test_an_empty_page_in_the_middle_is_not_the_end(answering):
    def sparse(request):
        number = int(request.query.get("marker", 0))
        return page(number, 4, rows=0 if number in (0, 2) else 5)

    assert sum(batch.num_rows for batch in answering(sparse).list("data/")) == 10


def test_each_key_gets_the_stores_own_answer_whatever_their_order(answering):
    answer = batch(
        (4, 403, "AuthorizationPermissionMismatch"),
        (0, 202, ""),
        (5, 409, "BlobImmutableDueToPolicy"),
        (2, 404, "ContainerNotFound"),
        (1, 404, "BlobNotFound"),
        (9, 202, ""),
    )
    keys = [f"data/{name}" for name in "abcdef"]
    assert answering(answer).delete(keys) == [
        DeleteOutcome("data/a", "deleted"),
        DeleteOutcome("data/b", "already_gone"),
        DeleteOutcome("data/c", "failed", "HTTP 404 ContainerNotFound"),
        DeleteOutcome("data/d", "failed", "the store's answer does not mention the key"),
        DeleteOutcome("data/e", "refused", "HTTP 403 AuthorizationPermissionMismatch"),
        DeleteOutcome("data/f", "refused", "HTTP 409 BlobImmutableDueToPolicy"),
    ]


def test_a_key_that_is_answered_twice_is_not_confirmed(answering):
    outcomes = answering(
        batch((0, 202, ""), (0, 403, "AuthorizationFailure"), (1, 202, ""))
    ).delete(["data/a", "data/b"])
    assert [outcome.outcome for outcome in outcomes] == ["failed", "deleted"]


def test_one_success_for_all_keys_confirms_none(answering):
    outcomes = answering(batch((None, 202, ""))).delete(["data/a", "data/b"])
    assert [outcome.outcome for outcome in outcomes] == ["failed", "failed"]


def test_one_answer_for_all_keys_that_a_blob_is_gone_tells_of_none(answering):
    outcomes = answering(batch((None, 404, "BlobNotFound"))).delete(["data/a", "data/b"])
    assert [(outcome.outcome, outcome.error) for outcome in outcomes] == [
        ("failed", "the store's answer does not mention the key")
    ] * 2


def test_one_answer_for_all_keys_is_the_answer_for_each(answering):
    """Azure answers 202 to a bulk request that it refuses whole, with one part without a key."""
    outcomes = answering(batch((None, 403, "AuthenticationFailed"))).delete(["data/a", "data/b"])
    assert [(outcome.outcome, outcome.error) for outcome in outcomes] == [
        ("refused", "HTTP 403 AuthenticationFailed")
    ] * 2


@pytest.mark.parametrize(
    ("told", "outcome", "text"),
    [
        (error(403, "AuthorizationPermissionMismatch", REVEALING), "refused", "HTTP 403"),
        (error(503, "ServerBusy"), "failed", "HTTP 503 ServerBusy"),
        (error(404, "ContainerNotFound"), "failed", "ContainerNotFound"),
        (Answer(202, b"busy", {"Content-Type": "text/html"}), "failed", "does not mention the key"),
        (
            Answer(202, b"", {"Content-Type": "multipart/mixed; boundary=x"}),
            "failed",
            "does not mention the key",
        ),
        (Answer(202, b"--x\r\n", {}), "failed", "does not mention the key"),
        (Answer(200, b"<html>"), "failed", ""),
        (
            Answer(202, b"x" * 40, {"Content-Type": "multipart/mixed; boundary=x"}, cut=5),
            "failed",
            "no answer",
        ),
    ],
)
def test_a_deletion_that_was_not_confirmed_is_never_told_as_done(answering, told, outcome, text):
    outcomes = answering(told).delete(["data/a", "data/b"])
    assert [(one.key, one.outcome) for one in outcomes] == [
        ("data/a", outcome),
        ("data/b", outcome),
    ]
    assert all(text in one.error and not reveals(one.error) for one in outcomes)


def test_a_cut_off_answer_confirms_only_what_it_says(answering):
    whole = batch((0, 202, ""), (1, 202, ""), (2, 202, ""))
    half = Answer(202, whole.body[: whole.body.index(b"Content-ID: 1") + 5], whole.headers)
    outcomes = answering(half).delete(["data/a", "data/b", "data/c"])
    assert [outcome.outcome for outcome in outcomes] == ["deleted", "failed", "failed"]


def test_throttled_keys_are_asked_for_again_with_backoff_then_failed(answering, waited):
    asked: list[int] = []

    def busy(request):
        keys = request.body.count(b"DELETE /")
        asked.append(keys)
        return batch((0, 503, "ServerBusy"), *((number, 202, "") for number in range(1, keys)))

    outcomes = answering(busy, max_retries=3).delete(["data/a", "data/b", "data/c"])
    assert outcomes == [
        DeleteOutcome("data/a", "failed", "HTTP 503 ServerBusy"),
        DeleteOutcome("data/b", "deleted"),
        DeleteOutcome("data/c", "deleted"),
    ]
    assert asked == [3, 1, 1, 1]
    assert len(waited) == 3
    assert waited == sorted(waited)


def test_keys_that_go_one_by_one_ask_again_whether_they_still_may(answering, monkeypatch):
    seconds, paced, asked = [0.0], [], []

    def slow(request):
        asked.append(request)
        seconds[0] += 180
        return Answer(403) if len(asked) == 1 else Answer(202)

    monkeypatch.setattr(deletion, "monotonic", lambda: seconds[0])
    store = answering(slow)
    store._bulk = False
    store.delete(["data/a", "data/b", "data/c"], pace=Called(lambda: paced.append(len(asked))))
    assert paced == [0, 1, 2], "the service took three minutes for each"


def test_a_deletion_that_the_client_repeats_by_itself_keeps_the_pace(answering):
    paced, asked = [], []
    answers = iter([error(503, "ServerBusy"), batch((0, 202, ""))])

    def answer(request):
        asked.append(request)
        return next(answers)

    pace = Called(lambda: paced.append(len(asked)))
    outcomes = answering(answer, max_retries=1).delete(["data/a"], pace=pace)
    assert outcomes == [DeleteOutcome("data/a", "deleted")]
    assert paced == [0, 1], "once before each request"
    assert pace.turned_away == [None], "and it learns of each that the store was too busy for"


def test_a_deletion_is_not_repeated_once_its_time_is_over(answering):
    asked = []

    def answer(request):
        asked.append(request)
        return error(503, "ServerBusy")

    def pace():
        if asked:
            raise DeadlinePassedError

    with pytest.raises(DeadlinePassedError):
        answering(answer, max_retries=3).delete(["data/a"], pace=Called(pace))
    assert len(asked) == 1


def test_a_bulk_request_holds_no_more_keys_than_the_service_takes(answering):
    asked: list[int] = []

    def confirm(request):
        keys = request.body.count(b"DELETE /")
        asked.append(keys)
        return batch(*((number, 202, "") for number in range(keys)))

    store = answering(confirm)
    outcomes = store.delete([f"data/{number}" for number in range(600)])
    assert {outcome.outcome for outcome in outcomes} == {"deleted"}
    assert asked == [256, 256, 88]
    assert store.requests == {"delete": 3}


def test_what_cannot_be_asked_about_the_account_is_no_hint(answering):
    for answer in (
        error(403, "AuthorizationPermissionMismatch"),
        error(503, "ServerBusy"),
        Answer(200, b"<html>"),
    ):
        assert answering(answer).undelete_hint() is None


def test_versions_are_noticed_by_what_lakegc_itself_has_written(answering):
    def versioned(request):
        if request.method == "HEAD" and request.path.endswith(
            "/container/ns/_lakefs/retention/gc/probe/clock"
        ):
            return Answer(200, headers={**BLOB, "x-ms-version-id": "2026-11-21T09:00:00.0000000Z"})
        return error(403, "AuthorizationPermissionMismatch")

    assert answering(versioned).undelete_hint() == (
        "The account keeps versions, so that a deleted blob stays as a previous version until a "
        "rule ends it; what is kept "
        "takes up its space."
    )


@pytest.mark.parametrize(
    ("enabled", "version", "keeps"),
    [("false", None, False), ("true", None, True), ("false", "2026-11-21T09:00:00Z", True)],
)
def test_only_an_account_that_says_both_keeps_nothing(answering, enabled, version, keeps):
    days = "<Days>7</Days>" if enabled == "true" else ""
    policy = f"<DeleteRetentionPolicy><Enabled>{enabled}</Enabled>{days}</DeleteRetentionPolicy>"
    told = f"<StorageServiceProperties>{policy}</StorageServiceProperties>".encode()

    def account(request):
        if request.method == "HEAD":
            more = {} if version is None else {"x-ms-version-id": version}
            return Answer(200, headers={**BLOB, **more})
        return Answer(200, told, {"Content-Type": "application/xml"})

    assert answering(account).after_deletion().keeps is keeps


def test_an_account_that_may_not_be_asked_is_not_known_to_keep_nothing(answering):
    for answer in (error(403, "AuthorizationPermissionMismatch"), Answer(200, b"<html>")):
        assert answering(answer).after_deletion().keeps is None

    def without_a_mark(request):
        if request.method == "HEAD":
            return error(404, "BlobNotFound")
        return Answer(200, b"<StorageServiceProperties/>", {"Content-Type": "application/xml"})

    assert answering(without_a_mark).after_deletion().keeps is None
