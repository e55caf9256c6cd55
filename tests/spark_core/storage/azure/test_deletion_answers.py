"""Answers to a bulk deletion of Azure are read by the numbers of names, or not at all."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_core.storage.azure.deletion_answers import batch_answers
from spark_core.storage.azure.errors import AzureFailure
from tests.support.azure_faults import batch

_codes = st.sampled_from(
    [(202, ""), (404, "BlobNotFound"), (403, "AuthorizationFailure"), (503, "ServerBusy")]
)


@settings(deadline=None)
@given(
    answers=st.dictionaries(st.integers(min_value=0, max_value=300), _codes, max_size=20),
    seed=st.integers(),
    boundary=st.text("abc-_0123456789", min_size=1, max_size=30),
)
def test_answers_to_a_bulk_deletion_are_told_by_number_in_any_order(answers, seed, boundary):
    parts = [(number, *answer) for number, answer in answers.items()]
    random.Random(seed).shuffle(parts)
    told = batch(*parts, boundary=f"batchresponse_{boundary}")
    found, whole = batch_answers(told.body, told.headers["Content-Type"], 256)
    assert found == {
        number: AzureFailure(*answer) for number, answer in answers.items() if number < 256
    }
    assert whole is None


def test_a_number_that_is_answered_twice_has_no_answer():
    told = batch((0, 202, ""), (1, 202, ""), (0, 202, ""))
    assert batch_answers(told.body, told.headers["Content-Type"], 2) == (
        {1: AzureFailure(202, "")},
        None,
    )


def test_an_answer_without_a_number_is_for_all():
    told = batch((None, 403, "AuthenticationFailed"))
    assert batch_answers(told.body, told.headers["Content-Type"], 2) == (
        {},
        AzureFailure(403, "AuthenticationFailed"),
    )


def test_a_boundary_in_quotes_is_the_same():
    told = batch((0, 202, ""), boundary="b")
    assert batch_answers(told.body, 'multipart/mixed; boundary="b"', 1) == (
        {0: AzureFailure(202, "")},
        None,
    )


def test_what_a_body_says_in_its_text_is_no_answer():
    body = (
        b"--b\r\nContent-Type: application/http\r\n\r\nHTTP/1.1 403 No\r\n\r\nContent-ID: 0\r\n"
        b"HTTP/1.1 202 Accepted\r\n--b--"
    )
    assert batch_answers(body, "multipart/mixed; boundary=b", 1) == ({}, AzureFailure(403, ""))
