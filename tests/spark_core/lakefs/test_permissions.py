"""Whether heavy calls would be allowed, asked without making the server do them."""

from __future__ import annotations

import pytest

from spark_core.clocks import MAX_CLOCK_SKEW
from spark_core.errors import (
    IncompleteReadError,
    NotFoundError,
    PermissionDeniedError,
    SettingsError,
    TransientError,
)
from spark_core.lakefs.permissions import Permissions
from tests.spark_core.lakefs.conftest import FakeClock
from tests.support.scripted_server import Reply
from tests.support.small_lakefs import DENIED, SmallLakeFS

ROUTES = {
    "prepare_commits": ("GET", "/repositories/repo/gc/prepare_commits/status"),
    "prepare_uncommitted": ("POST", "/repositories/repo/gc/prepare_uncommited"),
    "dump_refs": ("GET", "/repositories/repo/dump"),
}


@pytest.fixture
def lakefs():
    with SmallLakeFS({"repo": "s3://bucket/ns"}) as server:
        yield server


@pytest.fixture(params=ROUTES)
def asking(request, lakefs):
    """Ask for each permission, after the server's answer was chosen."""

    def ask(reply=None, repository="repo"):
        if reply is not None:
            lakefs.answer_with(*ROUTES[request.param], reply)
        return getattr(Permissions(lakefs.options(), clock=FakeClock()), request.param)(repository)

    return ask


def test_an_answer_that_comes_only_after_the_permission_says_that_it_is_there(asking, lakefs):
    assert asking() is True
    assert len(lakefs.calls) == 1


def test_a_lacking_permission_is_refused(asking):
    with pytest.raises(PermissionDeniedError, match="their user lacks the action"):
        asking(DENIED)


@pytest.mark.parametrize(
    "reply", [(404, {"message": "invalid API endpoint"}), Reply(404, b"<html>nothing here</html>")]
)
def test_a_server_without_the_call_says_no_and_not_yes(asking, reply):
    assert asking(reply) is False


def test_a_500_is_neither_yes_nor_no(asking):
    with pytest.raises(
        TransientError, match=r"answers 500 \(boom\), because it does not have this call"
    ):
        asking((500, {"message": "boom"}))


def test_a_result_is_neither_yes_nor_no(asking):
    with pytest.raises(IncompleteReadError, match="a result to a call that must fail"):
        asking((200, {"id": "x"}))


def test_a_repository_that_is_not_there_is_not_taken_for_a_task_that_is_not(asking):
    with pytest.raises(NotFoundError, match="repository not found"):
        asking(repository="nobody")


@pytest.mark.parametrize("status", [200, 302, 400, 401, 403, 404])
def test_something_else_than_lakefs_is_told_by_its_health(lakefs, status):
    lakefs.answer_with("GET", "/healthcheck", Reply(status, b"<html></html>"))
    with pytest.raises(SettingsError, match=f"answers {status} where a lakeFS server answers 204"):
        Permissions(lakefs.options()).require_lakefs()


def test_the_health_of_lakefs_tells_its_clock(lakefs):
    permissions = Permissions(lakefs.options())
    assert permissions.clock_reading is None
    permissions.require_lakefs()
    assert not permissions.clock_reading.further_than(MAX_CLOCK_SKEW)
