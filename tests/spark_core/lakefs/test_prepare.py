"""The server's long calls: every way in which they end, and those in which they seem to."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from spark_core.errors import (
    IncompleteReadError,
    NotFoundError,
    RepositoryStateError,
    SettingsError,
    TransientError,
)
from spark_core.lakefs import (
    LakeFSServer,
    NoSuchCallError,
    PreparedCommits,
    PreparedUncommitted,
    RefsDump,
)
from tests.spark_core.lakefs.conftest import FakeClock
from tests.support.recordings import recorded, recordings
from tests.support.scripted_server import Asked, Reply, ScriptedServer, in_turn

Client = Callable[..., tuple[LakeFSServer, ScriptedServer]]
SUBMIT = ("POST", "/repositories/[^/]+/gc/prepare_commits/async")
STATUS = ("GET", "/repositories/[^/]+/gc/prepare_commits/status")
SYNC = ("POST", "/repositories/[^/]+/gc/prepare_commits")
SCAN = ("POST", "/repositories/[^/]+/gc/prepare_uncommited")
DUMP = ("POST", "/repositories/[^/]+/dump")
DUMP_STATUS = ("GET", "/repositories/[^/]+/dump")
DUMP_SYNC = ("PUT", "/repositories/[^/]+/refs/dump")
NAME = "obs-45461"
RUNNING = {
    "completed": False,
    "task_id": "GCPC5TyA-uOx8cbTb2USu8Xh",
    "update_time": "2026-11-21T07:17:41.9Z",
}
RUN_ID = "ft6rqqpksduakb446ivg"
UNKNOWN_ROUTE = recorded("prepare-uncommitted", 10)


def test_commits_are_prepared_by_the_asynchronous_call(client: Client) -> None:
    server, scripted = client(
        {SUBMIT: recorded("prepare-commits", 1), STATUS: recorded("prepare-commits", 2)}
    )
    assert server.prepare_commits(NAME) == PreparedCommits("ft6rqqpksduakb446ivg")
    assert scripted.calls[1].query == {"id": "GCPC5TyA-uOx8cbTb2USu8Xh"}
    assert server.requests == {"prepare_commits": 1, "prepare_commits_status": 1}


def test_a_task_is_asked_for_at_growing_intervals(client: Client, clock: FakeClock) -> None:
    running = [(200, RUNNING)] * 9
    server, _ = client(
        {
            SUBMIT: recorded("prepare-commits", 1),
            STATUS: in_turn(*running, recorded("prepare-commits", 2)),
        }
    )
    assert server.prepare_commits(NAME) == PreparedCommits(RUN_ID)
    assert clock.slept == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0, 10.0]


def test_a_task_that_never_ends_is_given_up_at_the_deadline(
    client: Client, clock: FakeClock
) -> None:
    server, _ = client(
        {SUBMIT: recorded("prepare-commits", 1), STATUS: (200, RUNNING)},
        prepare_deadline=timedelta(minutes=2),
    )
    with pytest.raises(
        TransientError,
        match=r"prepare_deadline = 0:02:00 and reported progress never after "
        r"2026-11-21T07:17:41.9Z.*restarted",
    ):
        server.prepare_commits(NAME)
    assert 105 < clock.monotonic() <= 120


def test_a_task_that_moves_but_does_not_end_says_when_it_moved_last(client: Client) -> None:
    ticks = iter(range(10**6))

    def moving(_: Asked) -> tuple[int, Any]:
        return 200, RUNNING | {"update_time": f"tick {next(ticks)}"}

    server, _ = client(
        {SUBMIT: recorded("prepare-commits", 1), STATUS: moving},
        prepare_deadline=timedelta(minutes=2),
    )
    with pytest.raises(TransientError, match=r"reported progress last at tick \d+"):
        server.prepare_commits(NAME)


@pytest.mark.parametrize("store", ["local", "s3"])
def test_no_rules_are_none_by_the_task_and_by_the_synchronous_call(
    client: Client, store: str
) -> None:
    name = f"no-rules-{store}"
    server, _ = client({SUBMIT: recorded(name, 1), STATUS: recorded(name, 2)})
    assert server.prepare_commits(NAME) is None
    server, _ = client({SUBMIT: UNKNOWN_ROUTE, SYNC: recorded(name, 0)})
    assert server.prepare_commits(NAME) is None


@pytest.mark.parametrize("route", [SUBMIT, SYNC])
def test_an_unknown_repository_is_not_one_without_rules(
    client: Client, route: tuple[str, str]
) -> None:
    server, _ = client(
        {SUBMIT: UNKNOWN_ROUTE, SYNC: UNKNOWN_ROUTE} | {route: recorded("prepare-commits", 18)}
    )
    with pytest.raises(NotFoundError, match="repository not found"):
        server.prepare_commits("not-there")


@pytest.mark.parametrize(
    "missing", [UNKNOWN_ROUTE, (500, {"message": "invalid API endpoint"}), Reply(404, b"<html>")]
)
def test_a_server_without_the_asynchronous_call_is_asked_synchronously(
    client: Client, missing: Any
) -> None:
    server, _ = client({SUBMIT: missing, SYNC: recorded("s3-prepare", 0)})
    assert server.prepare_commits("s3-features") == PreparedCommits("ft6rthhksdu8nmvqvsdg")


@pytest.mark.parametrize("index", [0, 3])
def test_of_two_documents_of_a_local_store_the_second_is_the_answer(
    client: Client, index: int
) -> None:
    server, _ = client({SUBMIT: UNKNOWN_ROUTE, SYNC: recorded("prepare-commits", index)})
    assert server.prepare_commits(NAME) == PreparedCommits(
        ["ft6rqqpksduakb446iv0", "", "", "ft6rqqhksduakb446j00"][index]
    )


@pytest.mark.parametrize(
    "body",
    [
        b'{"message":"local adapter presigned URL: operation not supported"}',
        b'{"message":"something else"}\n{"run_id":"ft6rqqpksduakb446iv0"}',
        b'{"message":"presigned URL"}\n{"run_id":"ft6rqqpksduakb446iv0"}\n{"more":1}',
        b'{"message":"presigned URL"}\n{"run_id":"ft6rqq',
    ],
)
def test_other_400s_are_errors(client: Client, body: bytes) -> None:
    server, _ = client({SUBMIT: UNKNOWN_ROUTE, SYNC: Reply(400, body)})
    with pytest.raises(SettingsError, match="answered 400"):
        server.prepare_commits(NAME)


def test_a_404_of_a_proxy_on_both_calls_is_not_no_rules(client: Client) -> None:
    server, _ = client({("POST", ".*"): Reply(404, b"not here")})
    with pytest.raises(SettingsError, match="no such API"):
        server.prepare_commits(NAME)


def test_a_404_in_other_words_is_not_no_rules(client: Client) -> None:
    server, _ = client(
        {SUBMIT: (404, {"message": "not found"}), SYNC: (404, {"message": "not found"})}
    )
    with pytest.raises(NotFoundError, match="not found"):
        server.prepare_commits(NAME)


def test_a_failed_task_is_not_no_rules(client: Client) -> None:
    failed = {"completed": True, "task_id": "t", "error": {"message": "kv: not found"}}
    server, _ = client({SUBMIT: recorded("prepare-commits", 1), STATUS: (200, failed)})
    with pytest.raises(TransientError, match=r"task failed \(kv: not found\)"):
        server.prepare_commits(NAME)


def test_a_task_that_the_server_forgot_is_submitted_once_more(client: Client) -> None:
    forgot = recorded("prepare-commits", 12)
    server, _ = client(
        {
            SUBMIT: recorded("prepare-commits", 1),
            STATUS: in_turn(forgot, recorded("prepare-commits", 2)),
        }
    )
    assert server.prepare_commits(NAME) == PreparedCommits(RUN_ID)
    assert server.requests == {"prepare_commits": 2, "prepare_commits_status": 2}


def test_a_task_that_the_server_forgets_twice_is_transient(client: Client) -> None:
    server, _ = client(
        {SUBMIT: recorded("prepare-commits", 1), STATUS: recorded("prepare-commits", 12)}
    )
    with pytest.raises(TransientError, match=r"no longer knows the task.*restarted"):
        server.prepare_commits(NAME)
    assert server.requests["prepare_commits"] == 2


def test_a_task_that_stands_still_after_the_server_was_away_is_submitted_once_more(
    client: Client,
) -> None:
    away = Reply(200, RUNNING, cut=True)
    first = [(200, RUNNING), away, (200, RUNNING)]
    server, _ = client(
        {
            SUBMIT: recorded("prepare-commits", 1),
            STATUS: in_turn(*first, (200, RUNNING), recorded("prepare-commits", 2)),
        }
    )
    assert server.prepare_commits(NAME) == PreparedCommits(RUN_ID)
    assert server.requests["prepare_commits"] == 2


def test_a_task_that_moves_after_the_server_was_away_is_waited_for(client: Client) -> None:
    moved = (200, RUNNING | {"update_time": "2026-11-21T07:18:00Z"})
    server, _ = client(
        {
            SUBMIT: recorded("prepare-commits", 1),
            STATUS: in_turn(
                (200, RUNNING), Reply(200, RUNNING, cut=True), moved, recorded("prepare-commits", 2)
            ),
        }
    )
    assert server.prepare_commits(NAME) == PreparedCommits(RUN_ID)
    assert server.requests["prepare_commits"] == 1


def test_a_task_that_stands_still_the_second_time_too_has_until_the_deadline(
    client: Client, clock: FakeClock
) -> None:
    away = [(200, RUNNING), Reply(200, RUNNING, cut=True)]
    server, _ = client(
        {
            SUBMIT: recorded("prepare-commits", 1),
            STATUS: in_turn(*away, (200, RUNNING), *away, *[(200, RUNNING)] * 99),
        },
        prepare_deadline=timedelta(minutes=2),
    )
    with pytest.raises(
        TransientError, match=r"not done within prepare_deadline = 0:02:00.*never after"
    ):
        server.prepare_commits(NAME)
    assert server.requests["prepare_commits"] == 2
    assert clock.monotonic() <= 120, "both rounds together"


def test_a_dump_that_the_server_forgot_is_submitted_once_more(client: Client) -> None:
    server, _ = client(
        {
            DUMP: recorded("refs", 22),
            DUMP_STATUS: in_turn(recorded("refs", 25), recorded("refs", 23), recorded("refs", 24)),
        }
    )
    assert server.dump_refs(NAME) == IDS
    assert server.requests["dump_refs"] == 2


def test_a_page_that_takes_longer_than_the_read_timeout_names_the_setting(client: Client) -> None:
    page = {"run_id": RUN_ID, "gc_uncommitted_location": ""}
    slow = {SCAN: Reply(201, page, delay_seconds=0.4)}
    server, _ = client(slow, read_timeout=timedelta(seconds=0.1))
    with pytest.raises(
        TransientError,
        match=r"prepare_uncommitted of .* within read_timeout_seconds = 0.1\b.*up to a minute",
    ):
        server.prepare_uncommitted(NAME)
    server, _ = client(slow, read_timeout=timedelta(seconds=5))
    assert server.prepare_uncommitted(NAME).pages == 1


def test_a_page_that_is_lost_on_its_way_or_throttled_is_asked_for_again_with_its_token(
    client: Client, clock: FakeClock
) -> None:
    last = (201, {"run_id": RUN_ID, "gc_uncommitted_location": ""})
    server, scripted = client(
        {
            SCAN: in_turn(
                (201, a_page(1)), Reply(201, a_page(2), cut=True), (503, None), (429, None), last
            )
        }
    )
    assert server.prepare_uncommitted(NAME) == PreparedUncommitted(RUN_ID, 2, 0)
    token = a_page(1)["continuation_token"]
    assert [call.body.get("continuation_token") for call in scripted.calls] == [
        None,
        token,
        token,
        token,
        token,
    ]
    assert clock.slept == [0.5, 1.0, 2.0]


@pytest.mark.parametrize(
    ("status", "match"),
    [
        ({"completed": True}, "nothing where 'result' should be"),
        ({"completed": True, "error": {}}, "a failed task without a reason"),
        ({"completed": "yes"}, "str where 'completed'"),
        ({}, "nothing where 'completed'"),
        ({"completed": True, "result": {"run_id": "../../data"}}, "is not an xid"),
        ({"completed": True, "result": {"run_id": "FT6RQQPKSDUAKB446IVG"}}, "is not an xid"),
        ({"completed": True, "result": {"run_id": "ft6rqqpksduakb446iv1"}}, "is not an xid"),
        ({"completed": True, "result": {"run_id": ""}}, "is not an xid"),
    ],
)
def test_an_end_that_cannot_be_read_refuses(client: Client, status: Any, match: str) -> None:
    server, _ = client({SUBMIT: recorded("prepare-commits", 1), STATUS: (200, status)})
    with pytest.raises(IncompleteReadError, match=match):
        server.prepare_commits(NAME)


def test_thirty_five_pages_are_read_to_the_last_and_counted(client: Client) -> None:
    pages = [entry for entry in recordings("prepare-uncommitted-pages") if "request" in entry]
    replies = [
        recorded("prepare-uncommitted-pages", at)
        for at, entry in enumerate(recordings("prepare-uncommitted-pages"))
        if "request" in entry
    ]
    server, scripted = client({SCAN: in_turn(*replies)})
    scan = server.prepare_uncommitted("obs-pg-45717")
    assert scan == PreparedUncommitted("ft6rop1ksdubaso5glv0", 35, 6)
    assert [call.body for call in scripted.calls] == [entry["request"]["body"] for entry in pages]


def test_nothing_staged_is_one_page_without_a_file(client: Client) -> None:
    server, scripted = client({SCAN: recorded("prepare-uncommitted", 1)})
    assert server.prepare_uncommitted(NAME) == PreparedUncommitted("ft6rqppksduakb446j6g", 1, 0)
    assert scripted.calls[0].body == {}


def test_a_token_that_repeats_refuses(client: Client) -> None:
    replies = [recorded("observed-prepare-uncommitted-no-progress", at) for at in range(4)]
    server, scripted = client({SCAN: in_turn(*replies)})
    with pytest.raises(
        IncompleteReadError, match=r"page 3 repeats a continuation token.*no progress"
    ):
        server.prepare_uncommitted("unified")
    assert len(scripted.calls) == 3


def a_page(number: int, run_id: str = RUN_ID) -> dict[str, str]:
    token = base64.b64encode(json.dumps({"branch": str(number)}).encode()).decode()
    return {"run_id": run_id, "gc_uncommitted_location": "", "continuation_token": token}


def test_a_token_that_repeats_later_refuses_too(client: Client) -> None:
    server, _ = client({SCAN: in_turn(*((201, a_page(number)) for number in (1, 2, 3, 1)))})
    with pytest.raises(IncompleteReadError, match="page 4 repeats"):
        server.prepare_uncommitted(NAME)


def test_a_page_of_another_run_refuses(client: Client) -> None:
    server, _ = client({SCAN: in_turn((201, a_page(1)), (201, a_page(2, "ft6rqqpksduakb446iv0")))})
    with pytest.raises(
        IncompleteReadError, match="page 2 belongs to run ft6rqqpksduakb446iv0, the pages before to"
    ):
        server.prepare_uncommitted(NAME)


def test_a_scan_without_end_refuses(client: Client) -> None:
    numbers = iter(range(10**6))
    server, scripted = client({SCAN: lambda _: (201, a_page(next(numbers)))}, max_pages=12)
    with pytest.raises(IncompleteReadError, match="max_pages = 12"):
        server.prepare_uncommitted(NAME)
    assert len(scripted.calls) == 12


def test_a_token_that_the_server_refuses_breaks_the_scan(client: Client) -> None:
    server, _ = client({SCAN: in_turn((201, a_page(1)), recorded("prepare-uncommitted", 4))})
    with pytest.raises(IncompleteReadError, match="refused its own token of page 1"):
        server.prepare_uncommitted(NAME)


def test_a_made_up_run_refuses(client: Client) -> None:
    server, _ = client({SCAN: recorded("prepare-uncommitted", 6)})
    with pytest.raises(IncompleteReadError, match="'made-up-run', which is not an xid"):
        server.prepare_uncommitted(NAME)


def test_a_branch_deleted_in_mid_scan_refuses(client: Client) -> None:
    server, _ = client({SCAN: (404, {"message": "branch not found"})})
    with pytest.raises(
        IncompleteReadError, match="a branch was deleted while the server scanned it"
    ):
        server.prepare_uncommitted(NAME)


def test_a_scan_of_an_unknown_repository_is_not_a_deleted_branch(client: Client) -> None:
    server, _ = client({SCAN: recorded("prepare-uncommitted", 9)})
    with pytest.raises(NotFoundError, match="repository not found"):
        server.prepare_uncommitted("not-there")


def test_a_read_only_repository_is_not_scanned(client: Client) -> None:
    server, _ = client({SCAN: recorded("read-only-bare-deleted", 8)})
    with pytest.raises(RepositoryStateError, match="read-only"):
        server.prepare_uncommitted("obs-ro-45461")


IDS = RefsDump(
    commits_metarange_id="73d572423f80cba591070c48ef7e8bf8299a9864e5d523ff862ee0ccfc9651c7",
    branches_metarange_id="d670d6711fdd24f0451ba553b0466ed7fa4a9ccbc5789aab9cdbfe485d8b8104",
    tags_metarange_id="9ac6fcae7c66febf721418df2a7fd7f4f943b50a3b188fcfb2a249189643d4ed",
)


def test_refs_are_dumped_by_the_asynchronous_call(client: Client, clock: FakeClock) -> None:
    server, scripted = client(
        {
            DUMP: recorded("refs", 22),
            DUMP_STATUS: in_turn(recorded("refs", 23), recorded("refs", 24)),
        }
    )
    assert server.dump_refs(NAME) == IDS
    assert scripted.calls[1].query == {"task_id": "DRdv6n4UFcZzWuZyAh2hJI"}
    assert clock.slept == [0.1, 0.2]


def test_a_server_without_it_is_asked_for_the_synchronous_dump(client: Client) -> None:
    server, _ = client({DUMP: UNKNOWN_ROUTE, DUMP_SYNC: recorded("refs", 21)})
    assert server.dump_refs(NAME) == IDS


@pytest.mark.parametrize(
    "unknown", [UNKNOWN_ROUTE, (500, {"message": "invalid API endpoint"}), Reply(404, b"<html>")]
)
def test_a_server_without_any_dump_says_that_it_has_no_such_call(
    client: Client, clock: FakeClock, unknown: Any
) -> None:
    server, _ = client({DUMP: unknown, DUMP_SYNC: unknown})
    with pytest.raises(NoSuchCallError, match="there is no such API"):
        server.dump_refs(NAME)
    assert clock.slept == [], "that will not change"


def test_a_dump_of_an_unknown_repository_says_so(client: Client) -> None:
    server, _ = client({DUMP: recorded("repository", 1)})
    with pytest.raises(NotFoundError, match="repository not found"):
        server.dump_refs("not-there")


@pytest.mark.parametrize(
    ("status", "kind", "match"),
    [
        ({"done": True, "error": "kv is down"}, TransientError, r"task failed \(kv is down\)"),
        ({"done": True}, IncompleteReadError, "nothing where 'refs' should be"),
        (
            {"done": True, "refs": {"commits_meta_range_id": ""}},
            IncompleteReadError,
            "not the id of a table",
        ),
        (
            {"done": True, "refs": {"commits_meta_range_id": "../x"}},
            IncompleteReadError,
            "not the id of a table",
        ),
    ],
)
def test_a_dump_that_cannot_be_used_refuses(
    client: Client, status: Any, kind: type[Exception], match: str
) -> None:
    server, _ = client({DUMP: recorded("refs", 22), DUMP_STATUS: (200, status)})
    with pytest.raises(kind, match=match):
        server.dump_refs(NAME)


def test_a_dump_that_never_ends_is_given_up(client: Client) -> None:
    server, _ = client({DUMP: recorded("refs", 22), DUMP_STATUS: recorded("refs", 23)})
    with pytest.raises(
        TransientError, match="refs dump of repository obs-45461: the task is not done"
    ):
        server.dump_refs(NAME)
