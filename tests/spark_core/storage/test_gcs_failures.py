"""What a GCS that fails, refuses or lies does to the client.

An error by name, never emptiness, never a secret.
"""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from urllib.parse import unquote

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
from spark_core.storage.gcs import clients as gcs_clients
from tests.support.failing_store import ACTIONS as SHARED
from tests.support.failing_store import everything_told, require_passing_after_silence, told_server
from tests.support.gcs_faults import batch_answer, error, kind_of, name_in, parts_of, stored
from tests.support.scripted_s3 import Answer, Request, scripted_s3

SECRET = "ya29.scripted-SECRET-token"


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    """Repetitions follow at once; gives what they would have waited in deletions."""
    waited: list[float] = []
    monkeypatch.setattr(gcs_clients, "FIRST_WAIT_SECONDS", 0.001)
    monkeypatch.setattr(deletion, "wait", waited.append)
    return waited


def store_at(endpoint: str, **changes):
    options = {
        "gcs_endpoint": endpoint,
        "allow_http": True,
        "max_retries": 0,
        "connect_timeout": timedelta(seconds=1),
        "read_timeout": timedelta(seconds=1),
    }
    return open_store(Namespace.parse("gs://bucket/ns"), StoreOptions(**{**options, **changes}))


@pytest.fixture(scope="module")
def stage():
    with told_server(store_at) as answer:
        yield answer


@pytest.fixture(params=["obstore", "google"])
def reading(request, monkeypatch):
    """Let obstore read what it may, or Google's client everything; gives who it is."""
    if request.param == "google":
        monkeypatch.setattr(gcs_clients, "open_reader", lambda *_: None)
    gcs_clients.open_clients.cache_clear()
    yield request.param
    gcs_clients.open_clients.cache_clear()


@pytest.fixture
def answering(stage, reading):
    return stage


ACTIONS = {**SHARED, "head": lambda store: store.head("data/x")}
PERMISSION = {
    "list": "storage.objects.list",
    "children": "storage.objects.list",
    "put": "storage.objects.create",
    "put_if_absent": "storage.objects.create",
}


def revealing(status: int, reason: str) -> Answer:
    """An error whose text says what must not be told."""
    answer = error(status, reason)
    return Answer(
        answer.status, answer.body.replace(b"as scripted", SECRET.encode()), answer.headers
    )


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_says_what_to_do_and_nothing_that_is_secret(answering, action, status):
    store = answering(revealing(status, "forbidden"))
    with pytest.raises(
        PermissionDeniedError, match=rf"the store refuses \(HTTP {status} forbidden\)"
    ) as refusal:
        ACTIONS[action](store)
    text = str(refusal.value)
    wanted = (
        PERMISSION.get(action, "storage.objects.get")
        if status == 403
        else "does not take these credentials"
    )
    assert wanted in refusal.value.next_step
    assert store.root in text
    assert SECRET not in everything_told(refusal.value)


def test_a_token_of_too_narrow_a_scope_is_not_taken_for_a_missing_role(answering):
    with pytest.raises(PermissionDeniedError, match="too narrow a scope"):
        answering(error(403, "insufficientPermissions")).read("data/x")


def test_a_refused_head_is_no_absent_object(answering):
    store = answering(error(403, "forbidden"))
    for ask in (store.head, store.exists):
        with pytest.raises(PermissionDeniedError, match=r"storage\.objects\.get"):
            ask("data/x")


def test_an_absent_object_in_a_bucket_that_may_not_be_listed_is_no_absent_object(answering):
    store = answering(
        lambda request: (
            error(403, "forbidden") if kind_of(request) == "list" else error(404, "notFound")
        )
    )
    with pytest.raises(PermissionDeniedError, match=r"storage\.objects\.list"):
        store.exists("data/x")


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (429, "rateLimitExceeded"),
        (403, "userRateLimitExceeded"),
        (503, "backendError"),
        (500, ""),
        (502, ""),
        (504, ""),
    ],
)
def test_a_store_that_cannot_now_is_a_passing_failure(answering, action, status, reason):
    with pytest.raises(TransientError, match=f"HTTP {status}") as failure:
        ACTIONS[action](answering(revealing(status, reason)))
    assert "run again" in str(failure.value)
    assert SECRET not in everything_told(failure.value)


@pytest.mark.parametrize("action", ACTIONS)
def test_a_store_that_is_not_there_is_a_passing_failure(action):
    with pytest.raises(TransientError, match="no answer"):
        ACTIONS[action](store_at("http://127.0.0.1:1"))


@pytest.mark.parametrize("action", ["list", "read", "put"])
def test_a_store_that_does_not_answer_in_time_is_a_passing_failure(answering, action):
    require_passing_after_silence(answering, action)


def page(*names: str, token: str | None = None, **more) -> Answer:
    items = [
        {
            "name": f"ns/{name}",
            "size": "5",
            "updated": "2026-11-21T09:11:07.123Z",
            "md5Hash": "CY9rzUYh03PK3k6DJie09g==",
        }
        for name in names
    ]
    told = {
        "kind": "storage#objects",
        "items": items,
        **({"nextPageToken": token} if token else {}),
        **more,
    }
    return Answer(200, json.dumps(told).encode(), {"Content-Type": "application/json"})


OBJECT = Answer(200, b'{"name": "ns/data/x", "size": "5", "updated": "2026-11-21T09:11:07.123Z"}')


@pytest.mark.parametrize(
    ("action", "good"),
    [
        ("list", page("data/x")),
        ("head", OBJECT),
        ("read", stored(b"data")),
        ("put", OBJECT),
        ("range", Answer(206, b"data")),
    ],
)
def test_a_request_is_sent_again_when_it_failed_in_passing_and_no_oftener_than_told(
    answering, action, good
):
    for failures, retries in ((1, 1), (3, 3)):
        answers = iter([*[error(503, "backendError")] * failures, good])
        ACTIONS[action](
            answering(lambda _request, answers=answers: next(answers), max_retries=retries)
        )
        assert next(answers, None) is None
    sent = itertools.count()
    store = answering(
        lambda _request: [next(sent), error(429, "rateLimitExceeded")][1], max_retries=2
    )
    with pytest.raises(TransientError):
        ACTIONS[action](store)
    assert next(sent) == 3


def test_what_is_wrong_for_good_is_not_asked_again(answering):
    sent = Counter()

    def refuse(request: Request) -> Answer:
        sent[kind_of(request)] += 1
        return error(403, "forbidden")

    store = answering(refuse, max_retries=5)
    for action in ("list", "read", "put"):
        with pytest.raises(PermissionDeniedError):
            ACTIONS[action](store)
    assert sent == {"list": 1, "GET": 1, "POST": 1}


@pytest.mark.parametrize("action", ["read", "parquet", "range", "head"])
def test_a_body_that_is_cut_off_is_never_taken_for_the_object(answering, action):
    status = 206 if action == "range" else 200
    with pytest.raises(TransientError):
        ACTIONS[action](answering(replace(stored(b"PAR1" * 100, cut=7), status=status)))


def test_a_body_that_is_cut_off_is_asked_for_anew_from_its_beginning(answering):
    seen = []

    def second_is_whole(request: Request) -> Answer:
        seen.append({name.lower() for name in request.headers})
        return stored(b"0123456789", cut=4 if len(seen) == 1 else 0)

    assert answering(second_is_whole, max_retries=1).read("data/x") == b"0123456789"
    assert len(seen) == 2
    assert not [headers for headers in seen if "range" in headers]


def test_bytes_that_do_not_fit_the_stores_checksum_are_never_taken_for_the_object(answering):
    with pytest.raises(TransientError, match="DataCorruption"):
        answering(
            Answer(200, b"other", {"X-Goog-Hash": "crc32c=AAAAAA==,md5=CY9rzUYh03PK3k6DJie09g=="})
        ).read("data/x")


@pytest.mark.parametrize(
    ("told", "text"),
    [
        (Answer(206, b"ab"), "ends before byte 4"),
        (Answer(416, b"no"), "ends before byte 4"),
        # A store that ignores the range sends the whole object, which may be as long as what was
        # asked for.
        (Answer(200, b"abcd"), r"sent something else \(HTTP 200\)"),
    ],
)
def test_a_range_that_comes_short_or_elsewhere_is_never_taken_for_it(answering, told, text):
    with pytest.raises(IncompleteReadError, match=text):
        answering(told).read_range("data/x", 0, 4)


@pytest.mark.parametrize("action", ["list", "children", "put"])
def test_not_found_where_nothing_was_looked_up_is_no_absence(answering, action):
    with pytest.raises(SettingsError, match="no such bucket"):
        ACTIONS[action](answering(Answer(404, b"404 page not found")))


def test_a_missing_object_is_one_only_in_a_bucket_that_is_there(answering):
    def one_bucket(request: Request) -> Answer:
        return page() if kind_of(request) == "list" else error(404, "notFound")

    store = answering(one_bucket)
    for _ in range(2):
        with pytest.raises(NotFoundError, match="no such object") as failure:
            store.read("data/x")
        assert failure.value.__context__ is None
    assert store.requests == {"read": 2, "list": 1}
    with pytest.raises(IncompleteReadError, match="no listing"):
        answering(
            lambda request: (
                Answer(200, b"{}") if kind_of(request) == "list" else error(404, "notFound")
            )
        ).read("x")


def test_a_bad_request_is_a_wrong_setting(answering):
    with pytest.raises(SettingsError, match="requester pays"):
        answering(error(400, "required")).read("data/x")


def test_a_lost_condition_is_another_writer(answering):
    asked = []

    def lost(request: Request) -> Answer:
        asked.append(request.query.get("ifGenerationMatch"))
        return error(412, "conditionNotMet")

    with pytest.raises(ObjectExistsError, match="left as it is"):
        answering(lost).put_if_absent("lease", b"x")
    assert asked == ["0"]


def test_a_token_that_repeats_is_an_error_and_not_an_endless_listing(answering):
    numbers = itertools.count()
    store = answering(lambda _request: page(f"data/{next(numbers):03}", token="same"))
    with pytest.raises(IncompleteReadError, match=r"more but not where \(2 pages came\)"):
        list(store.list("data/"))


@pytest.mark.parametrize("token", ["", 5, None])
def test_more_without_a_place_to_go_on_is_an_error_and_not_the_end(answering, token):
    with pytest.raises(IncompleteReadError, match="says that there is more but not where"):
        list(answering(page("data/x", nextPageToken=token)).list("data/"))


def test_a_page_without_objects_is_not_the_end(answering):
    pages = {None: page(token="1"), "1": page(token="2"), "2": page("data/x")}
    store = answering(lambda request: pages[request.query.get("pageToken")])
    assert sum(batch.num_rows for batch in store.list("data/")) == 1


def test_a_listing_that_breaks_in_the_middle_raises(answering):
    store = answering(
        lambda request: (
            error(500, "") if "pageToken" in request.query else page("data/x", token="1")
        )
    )
    with pytest.raises(TransientError):
        list(store.list("data/"))


@pytest.mark.parametrize("action", ["list", "children", "head"])
def test_what_is_no_answer_of_gcs_is_never_taken_for_the_whole(answering, action):
    whole = (OBJECT if action == "head" else page("data/x")).body
    for body in (
        whole[:-20],
        b"",
        b"<html>busy</html>",
        b"[]",
        b"{}",
        b'"x"',
        b"\xff\xfe",
        b'{"kind": "storage#objects',
    ):
        with pytest.raises(IncompleteReadError, match=r"data/|trusted|GCS"):
            ACTIONS[action](answering(Answer(200, body)))
    with pytest.raises(TransientError):
        ACTIONS[action](answering(Answer(200, whole, cut=10)))


@pytest.mark.parametrize("elsewhere", [b"other/", b"ns/_lakefs/", b"ns2/data/", b"NS/data/"])
def test_a_key_that_does_not_lie_under_the_prefix_is_refused(answering, elsewhere):
    body = page("data/x").body.replace(b"ns/data/", elsewhere)
    for action in ("list", "children"):
        with pytest.raises(IncompleteReadError, match="does not lie there"):
            ACTIONS[action](answering(Answer(200, body)))
    body = page(prefixes=[f"{elsewhere.decode()}p/"]).body
    with pytest.raises(IncompleteReadError, match="does not lie there"):
        answering(Answer(200, body)).children("data/")


@pytest.mark.parametrize(
    ("was", "instead"),
    [
        (b'"size": "5", ', b""),
        (b'"size": "5"', b'"size": "many"'),
        (b'"size": "5"', b'"size": 5'),
        (b'"size": "5"', b'"size": "-4"'),
        (b'"size": "5"', b'"size": null'),
        (b'"size": "5"', b'"size": "99999999999999999999"'),
        (b"2026-11-21T09:11:07.123Z", b"yesterday"),
        (b'"updated"', b'"other"'),
        (b'"name"', b'"other"'),
        (b'"ns/data/x"', b"7"),
        (b'"ns/data/x"', b"null"),
        (b'"ns/data/x"', b'"ns/data/\\ud800"'),
    ],
)
def test_an_object_without_a_readable_name_size_or_time_is_refused(answering, was, instead):
    body = page("data/x").body
    assert was in body
    with pytest.raises(IncompleteReadError, match=r"as GCS does|trusted"):
        list(answering(Answer(200, body.replace(was, instead))).list("data/"))


def test_a_time_is_read_to_the_microsecond_and_finer_digits_are_cut(answering):
    finer = b"2026-11-21T09:11:07.123456789Z"
    body = page("data/x").body.replace(b"2026-11-21T09:11:07.123Z", finer)
    (batch,) = answering(Answer(200, body)).list("data/")
    assert str(batch["last_modified"][0]) == "2026-11-21 09:11:07.123456+00:00"
    told = OBJECT.body.replace(b"2026-11-21T09:11:07.123Z", finer)
    assert answering(Answer(200, told)).head("data/x").last_modified.microsecond == 123_456


def test_a_prefix_that_is_not_text_is_refused(answering):
    with pytest.raises(IncompleteReadError, match="not UTF-8"):
        answering(page(prefixes=["ns/data/\ud800/"])).children("data/")


@pytest.mark.parametrize("md5", [None, "", "AAAA", "not base64!", "CY9rzUYh03PK3k6DJie09g"])
def test_an_object_without_a_whole_md5_has_no_checksum(answering, md5):
    """Objects that were composed of others, or sent in parallel parts, have a CRC only."""
    told = json.loads(page("data/x").body)
    del told["items"][0]["md5Hash"]
    if md5 is not None:
        told["items"][0]["md5Hash"] = md5
    (batch,) = answering(Answer(200, json.dumps(told).encode())).list("data/")
    assert batch.column("checksum").to_pylist() == [None]


def test_the_age_of_an_object_is_that_of_its_last_change(answering):
    body = page("data/x").body
    (batch,) = answering(Answer(200, body)).list("data/")
    assert (
        batch.column("last_modified")[0].as_py().isoformat() == "2026-11-21T09:11:07.123000+00:00"
    )
    assert (
        answering(OBJECT).head("data/x").last_modified == batch.column("last_modified")[0].as_py()
    )


def batches(said):
    """Answer deletions key by key, all else as an empty bucket."""

    def answer(request: Request) -> Answer:
        if kind_of(request) != "delete":
            return page()
        parts = parts_of(request)
        random.Random(1).shuffle(parts)
        return batch_answer(*((part, said(unquote(name_in(part)))) for part in parts))

    return answer


def test_each_key_gets_the_stores_own_answer_whatever_their_order(answering):
    answers = {
        "ns/data/a": Answer(204),
        "ns/data/b": revealing(403, "forbidden"),
        "ns/data/c": error(404, "notFound"),
        "ns/data/d": error(403, "retentionPolicyNotMet"),
        "ns/data/e": Answer(200),
        "ns/data/f": error(412, "conditionNotMet"),
    }
    outcomes = answering(batches(answers.__getitem__)).delete([f"data/{name}" for name in "fedcba"])
    assert outcomes == [
        DeleteOutcome("data/f", "failed", "HTTP 412 conditionNotMet"),
        DeleteOutcome("data/e", "deleted"),
        DeleteOutcome("data/d", "refused", "HTTP 403 retentionPolicyNotMet"),
        DeleteOutcome("data/c", "already_gone"),
        DeleteOutcome("data/b", "refused", "HTTP 403 forbidden"),
        DeleteOutcome("data/a", "deleted"),
    ]


def test_odd_keys_are_sent_as_themselves(answering):
    keys = [
        "data/s p",
        "data/%20",
        "data/a+b",
        "data/#1",
        "data/?a=b",
        "data/é",
        "data/e\u0301",
        "data/a&b;c",
        "data/😀",
    ]
    asked = []
    outcomes = answering(batches(lambda name: [asked.append(name), Answer(204)][1])).delete(keys)
    assert sorted(asked) == sorted(f"ns/{key}" for key in keys)
    assert {outcome.outcome for outcome in outcomes} == {"deleted"}


def test_only_what_could_not_be_done_now_is_sent_again(answering, no_waiting):
    sent, left = [], Counter({"ns/data/1": 1, "ns/data/3": 2, "ns/data/4": 99})

    def busy(name: str) -> Answer:
        sent.append(name)
        left[name] -= 1
        return (
            error(503 if name.endswith("1") else 429, "rateLimitExceeded")
            if left[name] >= 0
            else Answer(204)
        )

    outcomes = answering(batches(busy), max_retries=3).delete(
        [f"data/{number}" for number in range(5)]
    )
    assert [outcome.outcome for outcome in outcomes] == ["deleted"] * 4 + ["failed"]
    assert outcomes[4].error == "HTTP 429 rateLimitExceeded"
    assert Counter(sent) == {
        "ns/data/0": 1,
        "ns/data/1": 2,
        "ns/data/2": 1,
        "ns/data/3": 3,
        "ns/data/4": 4,
    }
    assert len(no_waiting) == 3


@pytest.mark.parametrize(
    ("told", "outcome", "text"),
    [
        (revealing(403, "forbidden"), "refused", "HTTP 403 forbidden"),
        (revealing(401, "authError"), "refused", "HTTP 401 authError"),
        (revealing(503, "backendError"), "failed", "HTTP 503 backendError"),
        (Answer(404, b"404 page not found"), "failed", "HTTP 404"),
        (
            Answer(200, b"--x", {"Content-Type": "multipart/mixed; boundary=x"}, cut=2),
            "failed",
            "no answer",
        ),
        (
            Answer(200, b"<html>busy</html>", {"Content-Type": "text/html"}),
            "failed",
            "does not mention the key",
        ),
        (
            Answer(200, b"", {"Content-Type": "multipart/mixed; boundary=x"}),
            "failed",
            "does not mention the key",
        ),
        (Answer(200, b""), "failed", "does not mention the key"),
        (Answer(200, b'{"kind": "storage#objects"}'), "failed", "does not mention the key"),
    ],
)
def test_a_deletion_that_was_not_confirmed_is_never_taken_for_done(answering, told, outcome, text):
    outcomes = answering(told).delete(["data/a", "data/b"])
    assert [(told.key, told.outcome) for told in outcomes] == [
        ("data/a", outcome),
        ("data/b", outcome),
    ]
    assert all(text in told.error and SECRET not in told.error for told in outcomes)


def test_a_store_that_is_not_there_fails_each_key():
    outcomes = store_at("http://127.0.0.1:1").delete(["data/a", "data/b"])
    assert [(told.outcome, told.error) for told in outcomes] == [
        ("failed", "no answer ConnectionError")
    ] * 2


def test_an_answer_for_keys_that_nobody_asked_for_is_dropped(answering):
    def strange(request: Request) -> Answer:
        (part,) = parts_of(request)
        return batch_answer(
            *(
                (part.replace(b"lakegc+0", tag), Answer(204))
                for tag in (b"lakegc+1", b"lakegc+99", b"0", b"lakegc+x")
            )
        )

    assert answering(strange).delete(["data/a"]) == [
        DeleteOutcome("data/a", "failed", "the store's answer does not mention the key")
    ]


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(answering, reading, status):
    """A deletion that went where it leads would be one in another store."""
    paths = []
    with scripted_s3(lambda request: paths.append(request.path) or Answer(500)) as elsewhere:
        moved = Answer(status, b"", {"Location": f"{elsewhere}/batch/storage/v1"})
        store = answering(moved)
        assert store.delete(["data/a"]) == [
            DeleteOutcome("data/a", "failed", "no answer TooManyRedirects")
        ]
        for action in ACTIONS.keys() - ({"read"} if reading == "obstore" else set()):
            with pytest.raises(TransientError, match="TooManyRedirects"):
                ACTIONS[action](answering(moved))
    assert paths == []


@pytest.mark.parametrize("statuses", [(403, 204), (204, 403), (204, 204)])
def test_a_key_that_is_answered_twice_is_not_confirmed(answering, statuses):
    def twice(request: Request) -> Answer:
        (part,) = parts_of(request)
        return batch_answer(*((part, Answer(status)) for status in statuses))

    assert answering(twice).delete(["data/a"]) == [
        DeleteOutcome("data/a", "failed", "the store's answer does not mention the key")
    ]


def test_one_failed_request_of_several_fails_only_its_own_keys(answering, monkeypatch):
    def second_fails(request: Request) -> Answer:
        names = [unquote(name_in(part)) for part in parts_of(request)]
        return (
            error(500, "") if "ns/data/3" in names else batches(lambda _name: Answer(204))(request)
        )

    store = answering(second_fails)
    monkeypatch.setattr(type(store), "delete_batch_size", 3)
    outcomes = store.delete([f"data/{number}" for number in range(6)])
    assert [outcome.outcome for outcome in outcomes] == ["deleted"] * 3 + ["failed"] * 3


def test_google_gets_at_most_a_hundred_calls_in_one_request_and_only_paths(answering):
    sizes = []

    def count(request: Request) -> Answer:
        assert request.path == "/batch/storage/v1"
        assert b"DELETE /storage/v1/b/bucket/o/ns%2Fdata%2F" in request.body
        assert b"http:" not in request.body
        sizes.append(len(parts_of(request)))
        return batches(lambda _name: Answer(204))(request)

    assert len(answering(count).delete([f"data/{number}" for number in range(250)])) == 250
    assert sizes == [100, 100, 50]


@pytest.mark.parametrize(
    ("told", "hint"),
    [
        ({}, None),
        (
            {
                "softDeletePolicy": {"retentionDurationSeconds": "0"},
                "versioning": {"enabled": False},
            },
            None,
        ),
        (
            {"softDeletePolicy": {"retentionDurationSeconds": "604800"}},
            (
                "Soft delete: deleted objects can be restored for 7 days. Until then they are paid "
                "for."
            ),
        ),
        (
            {"versioning": {"enabled": True}},
            (
                "Versioning: deleted objects stay as noncurrent versions until a lifecycle rule "
                "removes them. Until then they are paid for."
            ),
        ),
    ],
)
def test_a_bucket_that_keeps_what_is_deleted_is_noticed(answering, told, hint):
    asked = []

    def bucket(request: Request) -> Answer:
        asked.append((request.path, request.query["fields"]))
        return Answer(200, json.dumps(told).encode())

    assert answering(bucket).undelete_hint() == hint
    assert asked == [("/storage/v1/b/bucket", "softDeletePolicy,versioning")]


def test_a_bucket_that_may_not_be_described_gives_no_hint(answering):
    assert answering(error(403, "forbidden")).undelete_hint() is None
    for body in (
        b"",
        b"[]",
        b'{"softDeletePolicy": {"retentionDurationSeconds": "long"}}',
        b'{"versioning": 5}',
    ):
        with pytest.raises(IncompleteReadError, match="no answer of GCS"):
            answering(Answer(200, body)).undelete_hint()


@pytest.mark.parametrize(
    ("told", "keeps"),
    [
        ({}, None),
        ({"softDeletePolicy": {"retentionDurationSeconds": "0"}}, False),
        ({"softDeletePolicy": {"retentionDurationSeconds": "604800"}}, True),
        (
            {
                "softDeletePolicy": {"retentionDurationSeconds": "0"},
                "versioning": {"enabled": True},
            },
            True,
        ),
        ([], None),
    ],
)
def test_only_a_bucket_that_says_so_keeps_nothing(answering, told, keeps):
    assert answering(Answer(200, json.dumps(told).encode())).after_deletion().keeps is keeps


def test_a_bucket_that_may_not_be_described_is_not_known_to_keep_nothing(answering):
    assert answering(error(403, "forbidden")).after_deletion().keeps is None
