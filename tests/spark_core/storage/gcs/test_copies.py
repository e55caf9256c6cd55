"""Copies inside GCS: what is asked, how often, and what answers are believed."""

from __future__ import annotations

import json

import pytest

from spark_core.addresses.namespace import Namespace
from spark_core.errors import (
    IncompleteReadError,
    ObjectExistsError,
    PermissionDeniedError,
    TransientError,
)
from spark_core.storage import open_store
from spark_core.storage.gcs import clients as gcs_clients
from spark_core.storage.objects import Description
from spark_core.storage.options import StoreOptions
from tests.support.gcs_faults import error
from tests.support.scripted_s3 import Answer, scripted_s3

SOURCE = Description("data/s/a", 30, "17", {"crc32c": "AAAAAA=="})


def told(**answer) -> Answer:
    return Answer(200, json.dumps(answer).encode(), {"Content-Type": "application/json"})


def rewritten(so_far: int | None = None, token: str = "t") -> Answer:
    if so_far is None:
        return told(kind="storage#rewriteResponse", done=True)
    return told(
        kind="storage#rewriteResponse",
        done=False,
        rewriteToken=token,
        totalBytesRewritten=str(so_far),
    )


@pytest.fixture
def transfer(monkeypatch):
    """Run a copy against scripted answers; the target exists when they say so.

    Gives the requests.
    """
    monkeypatch.setattr(gcs_clients, "FIRST_WAIT_SECONDS", 0.01)

    def run(*answers, target=None):
        asked, left = [], list(answers)

        def serve(request):
            if request.method == "POST":
                asked.append(request)
                return left.pop(0) if len(left) > 1 else left[0]
            if request.path.endswith("/o"):
                return told(kind="storage#objects")
            return target or error(404, "notFound")

        with scripted_s3(serve) as endpoint:
            options = StoreOptions(gcs_endpoint=endpoint, allow_http=True, max_retries=1)
            try:
                open_store(Namespace.parse("gs://bucket/a/ns"), options).transfer(SOURCE, "copy/b")
            finally:
                run.asked = asked
        return asked

    return run


def test_the_very_generation_that_was_seen_is_copied_and_only_where_nothing_is(transfer):
    (request,) = transfer(rewritten())
    assert (
        request.target.split("?")[0]
        == "/storage/v1/b/bucket/o/a%2Fns%2Fdata%2Fs%2Fa/rewriteTo/b/bucket/o/a%2Fns%2Fcopy%2Fb"
    )
    conditions = {
        name: request.query[name]
        for name in ("sourceGeneration", "ifSourceGenerationMatch", "ifGenerationMatch")
    }
    assert conditions == {
        "sourceGeneration": "17",
        "ifSourceGenerationMatch": "17",
        "ifGenerationMatch": "0",
    }


def test_a_large_object_is_copied_in_as_many_calls_as_google_wants(transfer):
    asked = transfer(rewritten(10, "one"), rewritten(20, "two"), rewritten())
    assert [request.query.get("rewriteToken") for request in asked] == [None, "one", "two"]


def test_a_copy_that_does_not_go_on_ends(transfer):
    with pytest.raises(
        TransientError, match=r"20 requests in a row copied nothing \(10 of 30 bytes are\)"
    ):
        transfer(rewritten(10))
    assert len(transfer.asked) == 21


@pytest.mark.parametrize(
    "answer",
    [
        told(),
        told(kind="storage#object"),
        told(kind="storage#rewriteResponse", done=False),
        told(kind="storage#rewriteResponse"),
        Answer(200, b"<html>"),
    ],
    ids=["empty", "another", "no token", "neither", "page"],
)
def test_an_answer_that_is_no_rewriting_is_no_copy(transfer, answer):
    with pytest.raises(TransientError, match="the answer is none of GCS's"):
        transfer(answer)


def test_of_two_conditions_the_one_that_failed_is_told(transfer):
    described = told(name="x", size="1", generation="3")
    with pytest.raises(ObjectExistsError, match="left as it is"):
        transfer(error(412, "conditionNotMet"), target=described)
    with pytest.raises(TransientError, match="was written again while it was copied"):
        transfer(error(412, "conditionNotMet"))


def test_a_refusal_names_what_to_allow(transfer):
    with pytest.raises(
        PermissionDeniedError, match=r"Allow storage\.objects\.get and storage\.objects\.create"
    ):
        transfer(error(403, "forbidden"))


@pytest.mark.parametrize("answer", [{}, {"size": "3"}, {"size": "x", "generation": "1"}, [], None])
def test_a_description_that_is_none_proves_nothing(answer):
    from spark_core.storage.gcs.copies import description_of

    with pytest.raises(IncompleteReadError, match="does not describe an object"):
        description_of(answer, "data/s/a", "gs://b/")
