"""A store that fails, refuses or lies: the client raises an error by name and shows no secret."""

from __future__ import annotations

import itertools
import tracemalloc
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
from spark_core.storage import DeleteOutcome, StoreOptions, open_store, remote
from tests.support.failing_store import (
    ACTIONS,
    everything_told,
    require_passing_after_silence,
    told_server,
)
from tests.support.paces import Called
from tests.support.scripted_s3 import Answer, error

KEY_ID, SECRET = "AKIASCRIPTEDKEY00000", "scripted-SECRET-access-key"

# What the real S3 puts into the body when a signature is wrong.
REVEALING = (
    f"<AWSAccessKeyId>{KEY_ID}</AWSAccessKeyId>"
    f"<StringToSign>AWS4-HMAC-SHA256 {SECRET}</StringToSign>"
    f"<SignatureProvided>{SECRET}</SignatureProvided>"
)


def store_at(endpoint: str, **changes):
    options = {
        "s3_endpoint": endpoint,
        "s3_region": "us-east-1",
        "s3_access_key_id": KEY_ID,
        "s3_secret_access_key": SECRET,
        "allow_http": True,
        "max_retries": 0,
        "connect_timeout": timedelta(seconds=1),
        "read_timeout": timedelta(seconds=1),
    }
    return open_store(Namespace.parse("s3://bucket/ns"), StoreOptions(**{**options, **changes}))


@pytest.fixture(scope="module")
def answering():
    with told_server(store_at) as answer:
        yield answer


PERMISSION = {
    "list": "s3:ListBucket",
    "children": "s3:ListBucket",
    "put": "s3:PutObject",
    "put_if_absent": "s3:PutObject",
}


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_says_which_permission_is_missing(answering, action, status):
    store = answering(error(status, "AccessDenied", REVEALING))
    with pytest.raises(
        PermissionDeniedError, match=rf"the store refuses \(HTTP {status} AccessDenied\)"
    ) as refusal:
        ACTIONS[action](store)
    text = str(refusal.value)
    assert PERMISSION.get(action, "s3:GetObject") in refusal.value.next_step
    assert store.root in text
    assert not [word for word in (KEY_ID, SECRET) if word in everything_told(refusal.value)]


@pytest.mark.parametrize("code", ["InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken"])
@pytest.mark.parametrize("action", ["list", "read", "put"])
def test_wrong_credentials_are_told_apart_from_a_missing_permission(answering, action, code):
    with pytest.raises(PermissionDeniedError, match="does not take these credentials") as refusal:
        ACTIONS[action](answering(error(403, code, REVEALING)))
    assert not [word for word in (KEY_ID, SECRET) if word in everything_told(refusal.value)]


def test_a_refused_head_is_no_absent_object(answering):
    store = answering(Answer(403))
    for ask in (store.head, store.exists):
        with pytest.raises(PermissionDeniedError, match="s3:GetObject"):
            ask("data/x")


def test_an_absent_object_in_a_bucket_that_may_not_be_listed_is_no_absent_object(answering):
    store = answering(
        lambda request: Answer(404) if request.method == "HEAD" else error(403, "AccessDenied")
    )
    with pytest.raises(PermissionDeniedError, match="s3:ListBucket"):
        store.exists("data/x")


def test_every_listing_stays_below_the_namespace_to_which_a_policy_may_limit_it(answering):
    prefixes = []

    def noting(request):
        if request.method == "HEAD":
            return Answer(404)
        prefixes.append(request.query["prefix"])
        return page(0, 1, rows=0)

    store = answering(noting)
    assert not store.exists("data/x")
    for prefix in ("", "data/"):
        list(store.list(prefix))
        store.children(prefix)
    assert prefixes == ["ns/", "ns/", "ns/", "ns/data/", "ns/data/"]


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize(
    ("status", "code"), [(503, "SlowDown"), (500, "InternalError"), (502, ""), (504, "Gateway")]
)
def test_a_store_that_cannot_now_is_a_passing_failure(answering, action, status, code):
    with pytest.raises(TransientError, match=f"HTTP {status}") as failure:
        ACTIONS[action](answering(error(status, code)))
    assert "run again" in str(failure.value)


@pytest.mark.parametrize("action", ACTIONS)
def test_a_store_that_is_not_there_is_a_passing_failure(action):
    store = store_at("http://127.0.0.1:1")
    with pytest.raises(TransientError, match="no answer") as failure:
        ACTIONS[action](store)
    assert not [word for word in (KEY_ID, SECRET) if word in everything_told(failure.value)]


@pytest.mark.parametrize("action", ["list", "read", "put"])
def test_a_store_that_does_not_answer_in_time_is_a_passing_failure(answering, action):
    require_passing_after_silence(answering, action)


def test_a_request_is_sent_again_when_it_failed_in_passing(answering):
    for action, good in (
        (
            "read",
            Answer(200, b"data", {"Last-Modified": "Sat, 21 Nov 2026 09:00:00 GMT", "ETag": '"x"'}),
        ),
        ("list", page(0, 1)),
    ):
        answers = iter([error(503, "SlowDown"), good])
        store = answering(lambda _request, answers=answers: next(answers), max_retries=1)
        assert ACTIONS[action](store)


def test_a_deletion_that_is_repeated_as_a_whole_keeps_the_pace(answering):
    paced, asked = [], []
    deleted = Answer(200, b"<DeleteResult><Deleted><Key>ns/data/x</Key></Deleted></DeleteResult>")
    answers = iter([error(503, "SlowDown"), deleted])

    def answer(request):
        asked.append(request)
        return next(answers)

    pace = Called(lambda: paced.append(len(asked)))
    outcomes = answering(answer, max_retries=1).delete(["data/x"], pace=pace)
    assert outcomes == [DeleteOutcome("data/x", "deleted")]
    assert paced == [0, 1], "once before each request"
    assert pace.turned_away == [1], "and it learns of each that the store was too busy for"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "code", "requests"),
    [(503, "SlowDown", 2), (500, "InternalError", 2), (502, "", 2), (429, "", 2), (400, "X", 1)],
)
def test_a_deletion_is_repeated_if_the_store_may_do_better_later(answering, status, code, requests):
    asked = []

    def answer(request):
        asked.append(request)
        return error(status, code)

    (outcome,) = answering(answer, max_retries=1).delete(["data/x"])
    assert (outcome.outcome, len(asked)) == ("failed", requests)


def test_a_pace_that_asks_the_store_itself_ends(answering):
    """A purge proves its lease before each request, and a lease lies in the store."""
    answers = iter(
        [
            error(503, "SlowDown"),
            page(0, 1),
            Answer(200, b"<DeleteResult><Deleted><Key>ns/data/x</Key></Deleted></DeleteResult>"),
        ]
    )
    store, beats = answering(lambda _request: next(answers), max_retries=1), []

    def beat():
        assert len(beats) < 2, "asked again by what it asks"
        beats.append(1)
        if len(beats) == 2:
            assert list(store.list("data/"))

    assert store.delete(["data/x"], pace=Called(beat)) == [DeleteOutcome("data/x", "deleted")]
    assert len(beats) == 2


def test_a_deletion_is_not_repeated_after_the_time_that_it_was_allowed_in(answering):
    class PassedError(Exception):
        """What a sweep raises."""

    asked = []

    def answer(request):
        asked.append(request)
        return error(503, "SlowDown")

    def pace():
        if asked:
            raise PassedError

    with pytest.raises(PassedError):
        answering(answer, max_retries=3).delete(["data/x"], pace=Called(pace))
    assert len(asked) == 1


@pytest.mark.parametrize("action", ["read", "parquet"])
def test_a_body_that_is_cut_off_is_never_taken_for_the_object(answering, action):
    headers = {"Last-Modified": "Sat, 21 Nov 2026 09:00:00 GMT", "ETag": '"x"'}
    with pytest.raises(TransientError):
        ACTIONS[action](answering(Answer(200, b"PAR1" * 100, headers, cut=7)))


def test_a_range_that_comes_short_is_never_taken_for_it(answering):
    headers = {
        "Last-Modified": "Sat, 21 Nov 2026 09:00:00 GMT",
        "ETag": '"x"',
        "Content-Range": "bytes 0-1/2",
    }
    with pytest.raises(IncompleteReadError, match="ends before byte 4"):
        answering(Answer(206, b"ab", headers)).read_range("data/x", 0, 4)


def test_a_missing_object_is_not_a_missing_bucket(answering):
    with pytest.raises(NotFoundError, match="no such object"):
        answering(error(404, "NoSuchKey")).read("data/x")
    with pytest.raises(SettingsError, match="no such bucket"):
        answering(error(404, "NoSuchBucket")).read("data/x")


@pytest.mark.parametrize("action", ["list", "children", "put"])
def test_not_found_where_nothing_was_looked_up_is_no_absence(answering, action):
    with pytest.raises(SettingsError, match="no such bucket"):
        ACTIONS[action](answering(Answer(404, b"404 page not found")))


@pytest.mark.parametrize(
    ("status", "code"), [(301, "PermanentRedirect"), (400, "AuthorizationHeaderMalformed")]
)
def test_a_wrong_region_or_endpoint_is_a_wrong_setting(answering, status, code):
    def elsewhere(request):
        return Answer(status) if request.method == "HEAD" else error(status, code)

    for action in ("list", "put"):
        with pytest.raises(
            SettingsError, match="Look at the region, the endpoint and the path style"
        ):
            ACTIONS[action](answering(elsewhere))


def test_a_key_named_like_an_answer_does_not_pass_for_one():
    store = store_at("http://127.0.0.1:1")
    with pytest.raises(TransientError, match="no answer"):
        store.read("data/status code: 404 <Code>NoSuchKey<")


def test_a_lost_condition_is_another_writer(answering):
    with pytest.raises(ObjectExistsError, match="left as it is"):
        answering(error(412, "PreconditionFailed")).put_if_absent("lease", b"x")


def page(
    number: int,
    pages: int,
    *,
    rows: int = 1000,
    token: str | None = "",
    truncated: bool | None = None,
) -> Answer:
    contents = "".join(
        f"<Contents><Key>ns/data/ft6rufhksdu8nmvqvqhg/dc0k8e9ksd{number:05}{row:05}</Key><LastModified>2026-11-21T09:11:07.000Z"
        "</LastModified><ETag>&quot;9dd4e461268c8034f5c8564e155c67a6&quot;</ETag><Size>5</Size></Contents>"
        for row in range(rows)
    )
    more = number + 1 < pages if truncated is None else truncated
    next_token = str(number + 1) if token == "" else token
    tail = (
        f"<NextContinuationToken>{next_token}</NextContinuationToken>"
        if more and next_token
        else ""
    )
    return Answer(
        body=f'<?xml version="1.0"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>bucket</Name>'
        f"<EncodingType>url</EncodingType><IsTruncated>{str(more).lower()}</IsTruncated>{contents}{tail}</ListBucketResult>".encode()
    )


@pytest.mark.slow
def test_a_listing_of_any_length_stays_small_in_memory(answering, monkeypatch):
    monkeypatch.setattr(remote, "LISTING_BATCH_ROWS", 2000)

    def peak(pages: int) -> int:
        store = answering(
            lambda request: page(int(request.query.get("continuation-token", 0)), pages)
        )
        tracemalloc.start()
        try:
            rows = [batch.num_rows for batch in store.list("data/")]
            assert sum(rows) == pages * 1000
            assert max(rows) == 2000
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    few, many = peak(4), peak(12)
    assert many < 1.2 * few + 200_000


def test_a_token_that_repeats_is_an_error_and_not_an_endless_listing(answering):
    numbers = itertools.count()
    store = answering(lambda _request: page(next(numbers), 9_999, rows=1, token="same"))
    with pytest.raises(IncompleteReadError, match="says that there is more but not where"):
        list(store.list("data/"))


@pytest.mark.parametrize("action", ["list", "children"])
def test_more_without_a_token_is_an_error_and_not_the_end(answering, action):
    store = answering(page(0, 9, rows=1, token=None, truncated=True))
    with pytest.raises(IncompleteReadError, match="says that there is more but not where"):
        ACTIONS[action](store)


@pytest.mark.parametrize("action", ["list", "children"])
def test_a_listing_that_ends_and_goes_on_is_an_error(answering, action):
    whole = page(0, 1, rows=1).body.replace(
        b"</ListBucketResult>",
        b"<NextContinuationToken>2</NextContinuationToken></ListBucketResult>",
    )
    with pytest.raises(IncompleteReadError, match="says that it ends and where it goes on"):
        ACTIONS[action](answering(Answer(body=whole)))


def test_a_store_that_ignores_where_to_go_on_is_an_error(answering):
    numbers = itertools.count(1)
    store = answering(lambda _request: page(0, 9, rows=3, token=f"token-{next(numbers)}"))
    with pytest.raises(IncompleteReadError, match="is not in order"):
        list(store.list("data/"))


def test_a_store_that_answers_for_keys_that_nobody_asked_for_is_asked_no_more(
    answering, monkeypatch
):
    asked = []

    def trimming(request):
        asked.append(request.body)
        return deletion(
            "<Deleted><Key>ns/data/a</Key></Deleted>",
            "<Deleted><Key>ns/data/trimmed</Key></Deleted>",
        )

    store = answering(trimming)
    monkeypatch.setattr(type(store), "delete_batch_size", 2)
    outcomes = store.delete(["data/a", "data/trimmed ", "data/b"])
    assert [outcome.outcome for outcome in outcomes] == ["deleted", "failed", "refused"]
    assert "'ns/data/trimmed', which was not in the request" in outcomes[2].error
    assert [outcome.outcome for outcome in store.delete(["data/c"])] == ["refused"]
    assert len(asked) == 1


def test_a_listing_that_breaks_in_the_middle_raises_after_its_first_batches(answering):
    numbers = itertools.count()

    def broken(request):
        return (
            page(next(numbers), 99)
            if int(request.query.get("continuation-token", 0)) < 15
            else error(500, "InternalError")
        )

    found = answering(broken).list("data/")
    assert next(found).num_rows == 10_000
    with pytest.raises(TransientError):
        next(found)


@pytest.mark.parametrize("action", ["list", "children"])
def test_a_page_that_breaks_off_after_its_status_is_told_as_that(answering, action):
    body = page(0, 1, rows=3).body[:-40]
    with pytest.raises(TransientError, match=r"\(HTTP 200 with a body that breaks off\)") as told:
        ACTIONS[action](answering(Answer(body=body)))
    assert "500" not in str(told.value)


def test_an_error_without_a_code_names_its_status_once(answering):
    with pytest.raises(TransientError, match=r"\(HTTP 503\)"):
        ACTIONS["list"](answering(Answer(503)))


@pytest.mark.parametrize("of_parser", [False, True])
def test_an_object_without_a_time_is_an_error_by_name_whoever_reads_the_page(answering, of_parser):
    body = page(0, 1, rows=1).body.replace(b"2026-11-21T09:11:07.000Z", b"")
    if of_parser:
        prefixes = b"<CommonPrefixes><Prefix>ns/p/</Prefix></CommonPrefixes></ListBucketResult>"
        body = body.replace(b"</ListBucketResult>", prefixes)
    words = (
        'cannot be read \\(Invalid timestamp ""\\)' if of_parser else "readable key, size or time"
    )
    with pytest.raises(IncompleteReadError, match=words):
        ACTIONS["children"](answering(Answer(body=body)))


@pytest.mark.parametrize("action", ["list", "children"])
def test_a_page_that_is_cut_off_is_never_taken_for_the_whole(answering, action):
    whole = page(0, 1, rows=3)
    for body in (whole.body[:-40], whole.body[: len(whole.body) // 2], b"", b"<html>busy</html>"):
        with pytest.raises((TransientError, IncompleteReadError)):
            ACTIONS[action](answering(Answer(body=body)))
    with pytest.raises(TransientError):
        ACTIONS[action](answering(Answer(body=whole.body, cut=10)))


@pytest.mark.parametrize("elsewhere", [b"<Key>other/", b"<Key>ns/_lakefs/", b"<Key>ns2/data/"])
def test_a_key_that_does_not_lie_under_the_prefix_is_refused(answering, elsewhere):
    body = page(0, 1, rows=1).body.replace(b"<Key>ns/data/", elsewhere)
    for action in ("list", "children"):
        with pytest.raises(IncompleteReadError, match="does not lie there"):
            ACTIONS[action](answering(Answer(body=body)))


@pytest.mark.parametrize(
    ("was", "instead"),
    [
        (b"<Size>5</Size>", b""),
        (b"2026-11-21T09:11:07.000Z", b"yesterday"),
        (b"<Size>5<", b"<Size>99999999999999999999<"),
    ],
)
def test_an_object_without_a_readable_size_or_time_is_refused(answering, was, instead):
    body = page(0, 1, rows=2).body.replace(was, instead, 1)
    with pytest.raises((IncompleteReadError, TransientError)):
        list(answering(Answer(body=body)).list("data/"))


def test_a_key_that_is_not_text_is_refused(answering):
    body = page(0, 1, rows=1).body.replace(b"<Key>ns/data/", b"<Key>ns/data/%FF")
    with pytest.raises(IncompleteReadError, match="a key that is not UTF-8"):
        list(answering(Answer(body=body)).list("data/"))


def deletion(*entries: str) -> Answer:
    return Answer(
        body=(
            '<?xml version="1.0"?><DeleteResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            + "".join(entries)
        ).encode()
        + b"</DeleteResult>"
    )


def test_each_key_gets_the_stores_own_answer(answering):
    store = answering(
        deletion(
            "<Deleted><Key>ns/data/a</Key></Deleted>",
            f"<Error><Key>ns/data/b</Key><Code>AccessDenied</Code><Message>{SECRET}</Message></Error>",
            "<Error><Key>ns/data/c</Key><Code>NoSuchKey</Code></Error>",
        )
    )
    assert store.delete(["data/d", "data/c", "data/b", "data/a"]) == [
        DeleteOutcome("data/d", "failed", "the store's answer does not mention the key"),
        DeleteOutcome("data/c", "already_gone"),
        DeleteOutcome("data/b", "refused", "AccessDenied"),
        DeleteOutcome("data/a", "deleted"),
    ]


def test_a_deletion_that_was_refused_is_told_so_for_every_key(answering):
    for status, code in ((403, "AccessDenied"), (401, "ExpiredToken")):
        outcomes = answering(error(status, code, REVEALING)).delete(["data/a", "data/b"])
        assert outcomes == [
            DeleteOutcome(key, "refused", f"HTTP {status} {code}") for key in ("data/a", "data/b")
        ]


@pytest.mark.parametrize(
    ("told", "text"),
    [
        (error(503, "SlowDown"), "HTTP 503 SlowDown"),
        (Answer(body=b"<html>", cut=2), ""),
        (Answer(body=b"<html>busy</html>"), "does not mention the key"),
        (Answer(body=b""), "does not mention the key"),
    ],
)
def test_a_deletion_that_was_not_confirmed_failed_for_every_key(answering, told, text):
    outcomes = answering(told).delete(["data/a", "data/b"])
    assert [(outcome.key, outcome.outcome) for outcome in outcomes] == [
        ("data/a", "failed"),
        ("data/b", "failed"),
    ]
    assert all(text in outcome.error and SECRET not in outcome.error for outcome in outcomes)


def test_one_failed_request_of_several_fails_only_its_own_keys(answering, monkeypatch):
    def second_fails(request):
        if b"ns/data/0" in request.body:
            return deletion(
                *(f"<Deleted><Key>ns/data/{number}</Key></Deleted>" for number in range(3))
            )
        return error(500, "InternalError")

    store = answering(second_fails)
    monkeypatch.setattr(type(store), "delete_batch_size", 3)
    outcomes = store.delete([f"data/{number}" for number in range(6)])
    assert [outcome.outcome for outcome in outcomes] == ["deleted"] * 3 + ["failed"] * 3


def test_an_error_inside_a_success_is_still_an_error(answering):
    """S3 may begin an answer with 200 and find an error later; the client still notices that."""
    body = error(500, "InternalError").body
    for action in ("list", "children"):
        with pytest.raises(TransientError, match="InternalError"):
            ACTIONS[action](answering(Answer(200, body)))
    assert answering(Answer(200, body)).delete(["data/a"]) == [
        DeleteOutcome("data/a", "failed", "HTTP 500 InternalError")
    ]
