"""Copies that Azure goes on making after it has answered.

Waited for, given up, and cleaned up after; with scripted answers.
"""

from __future__ import annotations

import pytest

from spark_core.addresses.namespace import Namespace
from spark_core.errors import ObjectExistsError, TransientError
from spark_core.storage import StoreOptions, deletion, open_store
from tests.support.azure_faults import error
from tests.support.azurite import ACCOUNT_KEY
from tests.support.scripted_s3 import Answer, scripted_s3

TOLD = {"Last-Modified": "Fri, 20 Nov 2026 02:00:00 GMT", "x-ms-blob-type": "BlockBlob"}
CONTENT = b"content"


class Account:
    """One object and the copy of it, whose state is told as the script says, then as its last line.

    Args:
        states: Status, progress and bytes of the copy, by look.
        begun: The copy was begun by somebody before.
    """

    def __init__(self, *states, begun=False, content=CONTENT):
        self.states, self.begun, self.content = list(states), begun, content
        self.deleted, self.aborted, self.copies = 0, 0, 0

    def _state(self):
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def __call__(self, request):
        if request.query.get("comp") == "batch":
            return error(405, "UnsupportedHttpVerb")
        if request.path.endswith("data/s/a"):
            return self._content(request, CONTENT, '"1"')
        if request.method in ("PUT", "DELETE"):
            return self._changed(request)
        if not self.begun:
            return error(404, "BlobNotFound")
        if request.method == "GET":
            return self._content(request, self.content, '"2"')
        status, progress, size = self._state()
        copied = {"x-ms-copy-status": status, "x-ms-copy-id": "7", "x-ms-copy-progress": progress}
        return Answer(200, b"", {**TOLD, "ETag": '"2"', **copied, "Content-Length": str(size)})

    def _changed(self, request):
        if "x-ms-copy-source" in request.headers:
            self.begun, self.copies = True, self.copies + 1
            return Answer(202, b"", {"x-ms-copy-status": "pending", "x-ms-copy-id": "7"})
        if request.query.get("comp") == "copy":
            self.aborted += 1
            self.states = [("aborted", "", 0)]
            return Answer(204)
        self.deleted, self.begun = self.deleted + 1, False
        # What a copy left is deleted only as long as it is what was looked at.
        assert self.content != CONTENT or request.headers["If-Match"] == '"2"'
        return Answer(202)

    @staticmethod
    def _content(request, content, tag):
        length = len(content)
        told = {**TOLD, "ETag": tag, "Content-Length": str(length)}
        if request.method == "HEAD":
            return Answer(200, b"", told)
        return Answer(206, content, {**told, "Content-Range": f"bytes 0-{length - 1}/{length}"})


@pytest.fixture
def waited(monkeypatch):
    seconds = []
    monkeypatch.setattr(deletion, "wait", seconds.append)
    return seconds


def copy(account):
    with scripted_s3(account) as endpoint:
        options = StoreOptions(
            azure_endpoint=f"{endpoint}/acc",
            azure_account_key=ACCOUNT_KEY,
            allow_http=True,
            max_retries=0,
        )
        return open_store(
            Namespace.parse("https://acc.blob.core.windows.net/box/a/ns"), options
        ).copy("data/s/a", "copy")


DONE = ("success", "7/7", 7)


def test_a_copy_that_takes_its_time_is_waited_for(waited):
    account = Account(("pending", "1/7", 0), ("pending", "5/7", 0), DONE)
    assert copy(account).size_bytes == 7
    assert waited == [0.5, 1.0]
    assert (account.aborted, account.deleted) == (0, 0)


def test_a_copy_that_goes_on_is_waited_for_however_long_and_one_that_stands_still_is_given_up(
    waited,
):
    account = Account(
        *(("pending", f"{number}/9", 0) for number in range(60)), ("pending", "60/9", 0)
    )
    with pytest.raises(TransientError, match=r"began and did not end it \(aborted, 60/9 copied\)"):
        copy(account)
    # 60 looks that went on, and then no longer than the patience of three minutes.
    assert 66 <= len(waited) <= 68
    assert (account.aborted, account.deleted) == (1, 1)


def test_what_a_copy_that_failed_leaves_is_taken_away(waited):
    account = Account(("pending", "1/7", 0), ("failed", "1/7", 0))
    with pytest.raises(TransientError, match=r"did not end it \(failed"):
        copy(account)
    assert account.deleted == 1


def test_an_earlier_copy_that_a_killed_process_had_begun_is_seen_to_its_end_first(waited):
    account = Account(("pending", "1/7", 0), DONE, begun=True)
    with pytest.raises(ObjectExistsError, match="left as it is"):
        copy(account)
    assert (account.copies, account.deleted) == (0, 0)


def test_what_an_earlier_copy_that_failed_has_left_makes_room(waited):
    account = Account(("failed", "1/7", 0), DONE, begun=True)
    assert copy(account).size_bytes == 7
    assert (account.copies, account.deleted) == (1, 1)


def test_a_blob_with_content_is_nobodys_left_over_whatever_became_of_a_copy_to_it(waited):
    account = Account(("failed", "1/7", 3), begun=True)
    with pytest.raises(ObjectExistsError, match="left as it is"):
        copy(account)
    assert account.deleted == 0


def test_a_copy_of_other_bytes_is_found_out_though_the_service_calls_it_a_success(waited):
    account = Account(DONE, content=b"CONTENT")
    with pytest.raises(TransientError, match="the copy is not what was to be copied"):
        copy(account)
    assert account.deleted == 1
