"""Answers to a bulk deletion of GCS are read by the numbers of names, or not at all."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_core.storage.gcs.deletion import batch_request
from spark_core.storage.gcs.deletion_answers import batch_answers
from tests.support.gcs_faults import batch_answer, error, name_in, parts_of
from tests.support.scripted_s3 import Answer, Request


def test_a_batch_is_read_back_as_it_was_written():
    content_type, body = batch_request(
        ["https://host/storage/v1/b/b/o/a", "https://host/storage/v1/b/b/o/c%2Fd"]
    )
    request = Request("POST", "/batch/storage/v1", {}, body, headers={"Content-Type": content_type})
    parts = parts_of(request)
    assert [name_in(part) for part in parts] == ["a", "c%2Fd"]
    told = batch_answer((parts[1], error(403, "forbidden")), (parts[0], Answer(204)))
    answers = batch_answers(told.headers["Content-Type"], told.body)
    assert {number: str(answer) for number, answer in answers.items()} == {
        0: "HTTP 204",
        1: "HTTP 403 forbidden",
    }


@given(
    statuses=st.lists(st.sampled_from([204, 403, 404, 503]), min_size=4, max_size=4), data=st.data()
)
def test_an_answer_that_is_cut_off_says_of_each_key_what_the_whole_one_says_or_nothing(
    statuses, data
):
    content_type, body = batch_request(
        [f"https://host/storage/v1/b/b/o/{number}" for number in range(4)]
    )
    parts = parts_of(
        Request("POST", "/batch/storage/v1", {}, body, headers={"Content-Type": content_type})
    )
    whole = batch_answer(
        *((part, error(status, "said")) for part, status in zip(parts, statuses, strict=True))
    )
    cut = whole.body[: data.draw(st.integers(0, len(whole.body)))]
    told = batch_answers(whole.headers["Content-Type"], cut)
    assert {number: answer.status for number, answer in told.items()}.items() <= dict(
        enumerate(statuses)
    ).items()


@given(
    content_type=st.text(st.characters(exclude_categories=["Cs", "Cc"]))
    | st.just("multipart/mixed; boundary=x"),
    body=st.binary(),
)
def test_an_answer_that_is_no_batch_says_nothing(content_type, body):
    assert batch_answers(content_type, body) == {}
