"""Answers of a real server that a collector can take for something else, some of them with
something in between.
"""

import base64
import json
import re
from datetime import timedelta

import pytest

from spark_core.errors import (
    IncompleteReadError,
    NotFoundError,
    PermissionDeniedError,
    RepositoryStateError,
    SettingsError,
    TransientError,
)
from spark_core.lakefs import LakeFSServer, ServerOptions
from spark_core.model import RetentionRules
from tests.support.live_collection import collect, require_exactly_the_dead_gone
from tests.support.live_proxy import away_for, changed, passed_on, proxy
from tests.support.live_repository import short
from tests.support.pipeline import mark_and_conclude, mark_only, sweep_only
from tests.support.scripted_server import Reply, in_turn
from tests.support.stored_rows import rows_of

pytestmark = pytest.mark.spark

PREPARE = r"/repositories/[^/]+/gc/prepare_commits"
UNCOMMITTED = r"/repositories/[^/]+/gc/prepare_uncommited"
DUMP = r"/repositories/[^/]+/dump"
QUICK = {
    "first_backoff": timedelta(milliseconds=50),
    "longest_backoff": timedelta(seconds=1),
    "tries": 8,
}


@pytest.fixture
def between(server):
    """Something between lakegc and the server, which passes on what the test does not change."""
    with proxy(server) as running:
        yield running


@pytest.fixture
def story(repository):
    """A repository with something of each kind; returns what a collection takes."""
    repository.rules(3, main=3)
    expired = repository.upload("main", "a", b"expired")
    repository.commit("main", days_ago=30)
    repository.upload("main", "a", b"the first commit beyond three days")
    repository.commit("main", days_ago=20)
    repository.upload("main", "a", b"head")
    repository.commit("main", days_ago=1)
    repository.upload("main", "b", b"staged")
    dropped = repository.upload("main", "c", b"dropped")
    repository.delete("main", "c")
    return repository, {dropped, expired}


RULES = (3, {"main": 3})


def _engine_server(server, endpoint=None):
    return LakeFSServer(
        ServerOptions(endpoint or server.endpoint, server.access_key_id, server.secret_access_key)
    )


# Rules


def test_rules_without_a_branch_are_rules_although_the_client_library_stumbles_over_them(
    repository, spark
):
    repository.rules(3)
    assert repository.call("GET", "/settings/gc_rules") == {
        "branches": None,
        "default_retention_days": 3,
    }
    repository.upload("main", "a", b"expired")
    repository.commit("main", days_ago=30)
    repository.upload("main", "a", b"head")
    repository.commit("main", days_ago=10)
    done = require_exactly_the_dead_gone(repository, spark, 3, {})
    assert done.marked.tables.commits.manifest.facts["rules"] == {
        "default_retention_days": 3,
        "branches": {},
    }
    assert len(done.gone) == 1


def test_days_that_the_server_wraps_are_neither_set_nor_collected_under(repository, server, spark):
    engine = _engine_server(server)
    with pytest.raises(SettingsError, match=r"4294967301.*36500|36500.*4294967301"):
        engine.set_retention_rules(repository.name, RetentionRules(4_294_967_301))
    assert engine.retention_rules(repository.name) is None
    repository.rules(4_294_967_301)
    assert repository.call("GET", "/settings/gc_rules")["default_retention_days"] == 5, (
        "the server wraps no more"
    )
    repository.rules(2_147_483_648)
    repository.upload("main", "a", b"dropped")
    repository.reset("main")
    before = repository.data()
    with pytest.raises(RepositoryStateError, match="is -2147483648 days, wanted 0 to 36500"):
        mark_only(server.open_run(spark, repository.name))
    assert repository.data() == before


def test_a_rule_for_a_branch_that_is_not_there_is_shown_and_harmless(repository, spark):
    repository.rules(3, main=3, nowhere=300)
    repository.upload("main", "a", b"kept")
    repository.commit("main", days_ago=30)
    done = require_exactly_the_dead_gone(repository, spark, 3, {"main": 3})
    assert done.marked.tables.commits.manifest.facts["rules_without_branch"] == ["nowhere"]


def test_a_min_age_below_the_servers_grace_period_is_refused_unless_it_is_called_unsafe(
    repository, server, spark
):
    repository.upload("main", "a", b"dropped")
    repository.reset("main")
    with pytest.raises(
        SettingsError,
        match=r"min_age_hours of .* is 0 seconds, the server lets an upload wait 1 day",
    ):
        mark_only(server.open_run(spark, repository.name, allow_unsafe_min_age=False))
    # With the age that the server wants, everything here is too young.
    day = {"allow_unsafe_min_age": False, "min_age": timedelta(hours=24)}
    done = collect(repository, spark, **day)
    assert done.outcomes == {}
    assert done.marked.tables.slices.manifest.facts["unsafe_min_age"] is False


# prepare_commits


def test_locations_that_do_not_begin_with_the_namespace_are_found_all_the_same(story, spark):
    repository, gone = story
    prepared = repository.call("POST", "/gc/prepare_commits/async")
    while not (
        status := repository.call("GET", "/gc/prepare_commits/status", query={"id": prepared["id"]})
    )["completed"]:
        pass
    location = status["result"]["gc_commits_location"]
    outside = not location.startswith(repository.namespace)
    assert outside == repository.server.is_local
    assert require_exactly_the_dead_gone(repository, spark, *RULES).gone == gone


def test_the_synchronous_call_is_read_where_the_server_has_no_other(story, between, spark):
    """A store that cannot presign makes the server answer an error and the answer, one after the
    other.
    """
    repository, gone = story
    between.answer_with("POST", f"{PREPARE}/async", Reply(404, {"message": "invalid API endpoint"}))
    done = require_exactly_the_dead_gone(repository, spark, *RULES, endpoint=between.endpoint)
    assert done.gone == gone
    assert f"POST /repositories/{repository.name}/gc/prepare_commits" in between.paths()
    rows = rows_of(done.marked.tables.commits)
    assert {row.retained_by for row in rows} == {"server+lakegc"}
    if repository.server.is_local:
        answer = repository.ask("POST", "/gc/prepare_commits")
        assert answer.status == 400
        assert len(re.findall(rb"^\{", answer.body, re.MULTILINE)) == 2


def test_a_task_that_never_ends_is_given_up_at_the_deadline_with_nothing_deleted(
    story, between, spark
):
    repository, _ = story
    stuck = {"task_id": "GCPC", "completed": False, "update_time": "2026-01-01T00:00:00Z"}
    between.answer_with("GET", f"{PREPARE}/status", Reply(200, stuck))
    before = repository.data()
    deadline = {"prepare_deadline": timedelta(seconds=2)}
    run = repository.server.open_run(
        spark, repository.name, endpoint=between.endpoint, server=deadline
    )
    with pytest.raises(TransientError, match="not done within prepare_deadline = 0:00:02"):
        mark_only(run)
    assert repository.data() == before


# The refs dump


def test_the_synchronous_dump_is_read_where_the_server_has_no_other(story, between, spark):
    repository, gone = story
    between.answer_with("POST", DUMP, Reply(404, {"message": "invalid API endpoint"}))
    done = require_exactly_the_dead_gone(repository, spark, *RULES, endpoint=between.endpoint)
    assert done.gone == gone
    assert f"PUT /repositories/{repository.name}/refs/dump" in between.paths()


def test_who_may_not_dump_walks_from_branches_and_tags(story, between, spark):
    repository, gone = story
    repository.branch("dev", hidden=True)
    repository.upload("dev", "d", b"on dev")
    picked = repository.commit("dev", days_ago=25)
    repository.branch("into")
    merged = repository.merge("dev", "into")
    # Only a tag leads here, and only the server's list knows what follows.
    repository.branch("gone", picked)
    repository.upload("gone", "t", b"tagged")
    repository.tag("v1", repository.commit("gone", days_ago=24))
    repository.upload("gone", "t", b"young, and nothing leads to it")
    repository.commit("gone", days_ago=1)
    repository.drop_branch("gone")
    # The server's cache is wrong about the merge from now on.
    repository.branch("beside", repository.commits[merged]["parents"][0])
    repository.cherry_pick("beside", merged, parent_number=1)
    between.answer_with("POST", DUMP, Reply(401, {"message": "insufficient permissions"}))
    done = require_exactly_the_dead_gone(repository, spark, *RULES, endpoint=between.endpoint)
    assert done.gone == gone
    facts = done.marked.tables.commits.manifest.facts
    assert (facts["refs_read_by"], facts["unknown_to_walk"]) == ("walk", 1)


def test_who_may_not_dump_and_has_no_rules_is_told_which_permission_is_wanted(
    repository, between, spark
):
    repository.upload("main", "a", b"dropped")
    repository.reset("main")
    before = repository.data()
    between.answer_with("POST", DUMP, Reply(401, {"message": "insufficient permissions"}))
    with pytest.raises(
        PermissionDeniedError, match="fs:ListTags, fs:ListBranches and fs:ListCommits"
    ):
        mark_only(repository.server.open_run(spark, repository.name, endpoint=between.endpoint))
    assert repository.data() == before


# prepare_uncommitted


def test_a_token_that_repeats_ends_the_scan_with_a_refusal(story, between, server, spark):
    repository, _ = story
    first = repository.call("POST", "/gc/prepare_uncommited", data={})
    here = {"branch": "main", "path": "", "run_id": first["run_id"], "key": ""}
    again = {
        "continuation_token": base64.b64encode(json.dumps(here).encode()).decode(),
        "run_id": first["run_id"],
    }
    between.answer_with("POST", UNCOMMITTED, changed(server, lambda body: body.update(again)))
    before = repository.data()
    run = server.open_run(spark, repository.name, endpoint=between.endpoint)
    with pytest.raises(
        IncompleteReadError, match="repeats a continuation token, so the scan makes no progress"
    ):
        mark_only(run)
    assert repository.data() == before


def test_a_server_whose_scan_does_not_get_ahead_is_refused(repository, server, spark):
    repository.upload("main", "a", b"staged")
    first = repository.call("POST", "/gc/prepare_uncommited", data={})
    token = first.get("continuation_token")
    second = (
        repository.call("POST", "/gc/prepare_uncommited", data={"continuation_token": token})
        if token
        else {}
    )
    if not token or second.get("continuation_token") != token:
        pytest.skip(
            "this server's scan gets ahead: needs one that was started with "
            "ugc.prepare_interval=1ns"
        )
    with pytest.raises(
        IncompleteReadError, match="repeats a continuation token, so the scan makes no progress"
    ):
        mark_only(server.open_run(spark, repository.name))
    assert repository.get("main", "a") == b"staged"


def test_staged_objects_on_many_pages_are_all_found(repository, spark):
    repository.branch("b000")
    gone = set()
    for number in range(120):
        name = f"b{number:03}"
        if number:
            repository.branch(name)
        # Pages between and at the end of the scan have no rows.
        if number % 12 == 0 and number < 100:
            repository.upload(name, "staged", name.encode())
    gone.add(repository.upload("b001", "dropped", b"dropped"))
    repository.delete("b001", "dropped")
    first = repository.call("POST", "/gc/prepare_uncommited", data={})
    if not first.get("continuation_token"):
        pytest.skip(
            "this server's scan has one page: needs one that was started with "
            "ugc.prepare_interval=25ms"
        )
    second = repository.call(
        "POST", "/gc/prepare_uncommited", data={"continuation_token": first["continuation_token"]}
    )
    if second.get("continuation_token") == first["continuation_token"]:
        pytest.skip(
            "this server's scan does not get ahead: needs one that was started with "
            "ugc.prepare_interval=25ms"
        )
    done = require_exactly_the_dead_gone(repository, spark)
    assert done.gone == gone
    facts = done.marked.tables.uncommitted.manifest.facts
    assert facts["pages"] > facts["pages_with_data"] > 2


def test_a_branch_that_is_deleted_in_mid_scan_costs_no_other_branch_its_rows(
    story, between, server, spark
):
    """The server's page lost the rows before the deleted branch.

    The scan is made again, and united.
    """
    repository, gone = story
    for name in ("one", "two"):
        repository.branch(name)
        repository.upload(name, "staged", name.encode())
    left = ["two"]

    def scan(asked):
        reply = passed_on(server, asked)
        if not left:
            return reply
        # As seen on a server: the page is answered without a location, and what it had found is
        # lost.
        repository.drop_branch(left.pop())
        body = json.loads(reply.body)
        body["gc_uncommitted_location"] = ""
        return Reply(reply.status, body)

    between.answer_with("POST", UNCOMMITTED, scan)
    dead = {address for address, data in repository.contents.items() if data == b"two"}
    done = collect(repository, spark, endpoint=between.endpoint)
    # What the first scan saw on the branch that is gone now is kept once more: the union errs to
    # that side.
    assert done.gone == gone
    assert repository.get("one", "staged") == b"one"
    assert len(done.marked.tables.uncommitted.manifest.facts["server_runs"]) >= 2
    assert collect(repository, spark).gone == dead


# A server that is slow, overloaded or away


def test_a_server_that_is_overloaded_for_a_while_is_asked_again(story, between, spark):
    repository, gone = story
    throttled = (
        Reply(503, {"message": "throttled"}),
        Reply(429, {"message": "too many requests"}, {"Retry-After": "1"}),
    )
    for method, path in (
        ("POST", f"{PREPARE}/async"),
        ("POST", UNCOMMITTED),
        ("POST", DUMP),
        ("GET", r"/repositories/[^/]+"),
    ):
        between.answer_with(method, path, in_turn(*throttled))
    done = require_exactly_the_dead_gone(
        repository, spark, *RULES, endpoint=between.endpoint, server=QUICK
    )
    assert done.gone == gone


@pytest.mark.parametrize("at", ["prepare_commits/status", "prepare_uncommited", "branches"])
def test_a_server_that_is_away_for_three_seconds_in_mid_run_costs_only_time(
    story, between, spark, at
):
    repository, gone = story
    between.answer_with("GET", rf".*/{at}", away := away_for(3))
    between.answer_with("POST", rf".*/{at}", away)
    done = require_exactly_the_dead_gone(
        repository, spark, *RULES, endpoint=between.endpoint, server=QUICK
    )
    assert done.gone == gone


def test_a_server_that_stays_away_ends_the_run_with_nothing_deleted(story, between, spark):
    repository, _ = story
    before = repository.data()
    run = repository.server.open_run(
        spark, repository.name, endpoint=between.endpoint, server={**QUICK, "tries": 2}
    )
    between.answer_with("POST", UNCOMMITTED, away_for(600))
    with pytest.raises(TransientError, match=re.escape("prepare_uncommitted")):
        mark_only(run)
    assert repository.data() == before


# Deleted repositories, and a cache that a cherry-pick damages


def test_a_repository_deleted_a_moment_ago_is_refused_while_the_server_still_answers(
    story, server, spark
):
    repository, _ = story
    repository.settle()
    before = repository.data()
    run = server.open_run(spark, repository.name)
    repository.call("DELETE", "", query={"force": "true"})
    assert server.ask("GET", f"/repositories/{repository.name}").status == 200, (
        "this server answers no longer at once"
    )
    with pytest.raises(
        RepositoryStateError, match="has no branch: it is bare, or it was deleted a moment ago"
    ):
        mark_only(run)
    assert repository.data() == before


def test_a_repository_deleted_between_mark_and_sweep_is_found_out_at_its_real_cost_in_time(
    story, server, spark
):
    repository, gone = story
    repository.settle()
    before = repository.data()
    run = server.open_run(spark, repository.name, repository_cache=timedelta(seconds=8))
    marked, verdict, _ = mark_and_conclude(run)
    assert verdict.passed
    assert set(marked.addresses(run)) == gone
    repository.call("DELETE", "", query={"force": "true"})
    with pytest.raises((RepositoryStateError, NotFoundError), match=repository.name):
        sweep_only(run)
    assert repository.data() == before


def test_a_cherry_picked_merge_damages_what_the_server_caches_and_no_object(repository, spark):
    repository.rules(3, main=3)
    for branch in ("dev", "picked", "beside"):
        repository.branch(branch)
    repository.upload("dev", "a", b"on dev")
    repository.commit("dev", days_ago=30)
    repository.upload("main", "b", b"on main")
    repository.commit("main", days_ago=20)
    merged = repository.merge("dev", "main")
    repository.upload("picked", "c", b"on picked")
    repository.commit("picked", days_ago=15)
    repository.cherry_pick("picked", merged, parent_number=1)
    repository.upload("main", "b", b"newer")
    repository.commit("main", days_ago=1)
    answer = repository.ask("GET", f"/commits/{merged}")
    damaged = answer.status == 404 or answer.json["id"] != merged
    assert repository.ask("GET", f"/commits/{short(merged)}").json["id"] == merged
    require_exactly_the_dead_gone(repository, spark, 3, {"main": 3})
    if not damaged:
        pytest.skip(
            "this server's cache was not damaged by the cherry-pick; the collection was right"
        )
