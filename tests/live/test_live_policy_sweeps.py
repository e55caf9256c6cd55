"""Retention policies on a real server: set, mark, confirm, sweep, and what it answers after that.

Ages are told by dates: of commits, of entries, and of files, which only a local store takes.
"""

from dataclasses import replace
from datetime import timedelta

import pytest
from botocore.exceptions import ClientError

from spark_core import holds
from spark_core.branches import removal
from spark_core.model import RunKey
from spark_core.records import tables
from spark_core.records.figures import ExpiredFigures
from spark_core.references.policies import confirmed, versions
from spark_core.references.policies.parsing import parse
from spark_core.run import RunOptions, open_run
from tests.support.clock import LaterClock
from tests.support.earlier_runs import store_seen_heads
from tests.support.live_collection import collect, open_anew
from tests.support.live_server import SMALL
from tests.support.pipeline import mark_and_conclude, sweep_only

pytestmark = pytest.mark.spark

DOCUMENT = b"""\
rules:
  - filter: {prefix: main/logs/}
    expiration: {all: {days: 3}}
  - filter: {prefix: main/tables/}
    expiration: {noncurrent: {days: 4}}
  - filter: {prefix: users/}
    status: disabled
    expiration: {all: {days: 1}}
"""
STAGED = b"""\
rules:
  - filter: {prefix: main/tmp/}
    expiration: {uncommitted: {days: 3}}
"""
REMOVAL = b"""\
rules:
  - filter: {prefix: main/logs/}
    effect: remove
    expiration: {all: {days: 3}}
"""
# Days by which a run may be ahead of the server, where no object can be dated.
AHEAD = 8
# The dated objects are older than the repository, which is of today.
SWEEP = {
    "policies": "sweep",
    "max_expired_share": 1,
    "max_policy_share": 1,
    "inherited": "collect",
}


@pytest.fixture
def repository(repository):
    if not repository.server.is_local:
        pytest.skip("only a local store takes dates, without which nothing is old enough here")
    return repository


def write(repository, branch, *paths, days_ago, data=None, commit=True):
    """Commit objects as old as their commit; returns their addresses."""
    found = [
        repository.upload_dated(
            branch, path, data or f"{branch} {path}".encode(), days_ago=days_ago
        )
        for path in paths
    ]
    if commit:
        repository.commit(branch, days_ago=days_ago)
    return found


def opened(repository):
    return repository.server.open_run(None, repository.name, **SWEEP)


def set_policy(repository, document):
    return versions.store_version(
        opened(repository), parse(document, name="policy.yml"), who="live"
    )


def confirm_and_collect(repository, spark, document=DOCUMENT):
    """Set a policy; a first collection takes nothing of it, and one that is confirmed does."""
    set_policy(repository, document)
    before = repository.data()
    first = collect(repository, spark, **SWEEP)
    assert first.outcomes == {}
    assert repository.data() == before
    confirmed.confirm_marked(first.run, who="live")
    return collect(repository, spark, **SWEEP)


def require_left(repository, before, gone, refs):
    """What went is gone, and all the rest is there with its bytes."""
    assert repository.data() == before - set(gone)
    assert repository.require_readable(refs, but=set(gone)) > 0


def test_what_a_confirmed_policy_names_answers_gone_and_the_rest_has_its_bytes(repository, spark):
    (tagged,) = write(repository, "main", "logs/tagged", days_ago=30)
    tagged_at = repository.note_head("main")
    repository.tag("v1", tagged_at)
    gone = write(repository, "main", "logs/a", "logs/b c/%2F", days_ago=10)
    held, linked = write(repository, "main", "logs/held", "logs/linked", days_ago=10)
    write(repository, "main", "data/a", "logs-of-others", "users/a", days_ago=10)
    repository.branch("dev")
    write(repository, "dev", "logs/of-dev", days_ago=9)
    repository.merge("dev", "main")
    # Old by all dates but one: that of its commit, of its file, of its entry.
    write(repository, "main", "logs/committed-today", days_ago=10, commit=False)
    repository.commit("main")
    repository.upload("main", "logs/file-of-today", b"file")
    repository.date_entry("main", "logs/file-of-today", days_ago=10)
    repository.commit("main", days_ago=10)
    repository.store.date(
        repository.upload("main", "logs/entry-of-today", b"entry"), repository.created(tagged_at)
    )
    repository.commit("main", days_ago=10)
    repository.stage_again("main", "logs/linked", "dev", "mine")
    holds.add(opened(repository), "mine", "address", held, who="live", why="for a test")
    before, refs = repository.data(), [*repository.branches(), "v1"]
    done = confirm_and_collect(repository, spark)
    assert done.outcomes == dict.fromkeys(gone, "deleted")
    require_left(repository, before, gone, refs)
    assert {tagged, held, linked} <= repository.data()
    named = done.run.load(tables.POLICY_EXPIRATIONS).manifest.facts["by_rule"]
    assert [objects for _, _, objects, _ in named] == [2, 0, 0]
    again = collect(repository, spark, **SWEEP)
    assert again.outcomes == {}
    figures = ExpiredFigures.of(again.marked.expired.manifest)
    assert (figures.missing_objects, figures.missing_by_policy) == (0, 2)


def test_an_old_version_goes_and_the_current_one_stays(repository, spark):
    (first,) = write(repository, "main", "tables/a", days_ago=40, data=b"first")
    (second,) = write(repository, "main", "tables/a", days_ago=20, data=b"second")
    # Days of what no branch shows begin with a run that saw that.
    run = opened(repository)
    store_seen_heads(run, run.now() - timedelta(days=5), repository.branches())
    (third,) = write(repository, "main", "tables/a", days_ago=2, data=b"third")
    write(repository, "main", "logs/none", days_ago=1)
    before = repository.data()
    done = confirm_and_collect(repository, spark)
    # A run saw the second five days ago.
    assert done.gone == {first}
    require_left(repository, before, [first], ["main"])
    assert {second, third} <= repository.data()
    assert repository.get("main~2", "tables/a") == b"second"
    assert repository.ask("GET", "/refs/main~3/objects", query={"path": "tables/a"}).status == 410


def test_what_the_server_answers_for_an_expired_entry(repository, spark):
    """Reading through the API answers 410; what only tells of the entry looks at no store."""
    (address,) = write(repository, "main", "logs/a", days_ago=10)
    write(repository, "main", "data/a", days_ago=10)
    head = repository.branches()["main"]
    done = confirm_and_collect(repository, spark)
    assert done.gone == {address}
    where = {"query": {"path": "logs/a"}}
    for ref in ("main", head):
        assert repository.ask("GET", f"/refs/{ref}/objects", **where).status == 410
    assert repository.ask("HEAD", "/refs/main/objects", **where).status == 200
    assert repository.ask("GET", "/refs/main/objects/stat", **where).status == 200
    assert "logs/a" in repository.entries("main")
    gateway, key = repository.server.gateway, {"Bucket": repository.name, "Key": "main/logs/a"}
    gateway.head_object(**key)
    with pytest.raises(ClientError, match="NoSuchVersion") as refused:
        gateway.get_object(**key)
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 404
    copy = repository.ask(
        "POST",
        "/branches/main/objects/copy",
        query={"dest_path": "copied"},
        data={"src_path": "logs/a", "src_ref": "main"},
    )
    assert copy.status == 500, copy.body
    # The rest goes on: a new branch, a merge that carries the entry, the path written anew.
    repository.branch("dev")
    write(repository, "dev", "data/b", days_ago=0)
    repository.merge("dev", "main")
    repository.upload("main", "logs/a", b"again")
    repository.commit("main")
    assert repository.get("main", "logs/a") == b"again"
    assert repository.get("main", "data/b") == b"dev data/b"


def test_staged_objects_go_by_age_if_rules_take_every_name_and_no_commit_has_them(
    repository, spark
):
    write(repository, "main", "data/a", days_ago=10)
    repository.branch("dev")
    (gone,) = write(repository, "main", "tmp/a b%2F", days_ago=9, commit=False)
    (linked, young) = (
        write(repository, "main", path, days_ago=days, commit=False)[0]
        for path, days in (("tmp/linked", 9), ("tmp/young", 2))
    )
    write(repository, "main", "kept/a", days_ago=9, commit=False)
    write(repository, "dev", "tmp/a", days_ago=9, commit=False)
    repository.stage_again("main", "tmp/linked", "dev", "mine")
    before, refs = repository.data(), [*repository.branches()]
    done = confirm_and_collect(repository, spark, STAGED)
    assert done.outcomes == {gone: "deleted"}
    require_left(repository, before, [gone], refs)
    assert {linked, young} <= repository.data()
    where = {"query": {"path": "tmp/a b%2F"}}
    assert repository.ask("GET", "/refs/main/objects", **where).status == 410
    assert repository.ask("GET", "/refs/main/objects/stat", **where).status == 200
    again = collect(repository, spark, **SWEEP)
    assert again.outcomes == {}
    figures = ExpiredFigures.of(again.marked.expired.manifest)
    assert (figures.missing_objects, figures.missing_by_policy) == (0, 1)


def test_what_is_copied_tagged_or_held_after_the_mark_stays(repository, spark):
    gone, held, copied = write(
        repository, "main", "logs/gone", "logs/held", "logs/copied", days_ago=10
    )
    write(repository, "main", "data/a", days_ago=10)
    set_policy(repository, DOCUMENT)
    first = collect(repository, spark, **SWEEP)
    confirmed.confirm_marked(first.run, who="live")
    run = open_anew(repository, spark, **SWEEP)
    mark, verdict, _ = mark_and_conclude(run)
    assert verdict.passed
    assert set(mark.addresses(run)) == {gone, held, copied}
    holds.add(run, "mine", "address", held, who="live", why="for a test")
    repository.stage_again("main", "logs/copied", "main", "data/copy")
    repository.commit("main")
    before = repository.data()
    outcomes = sweep_only(run)
    assert outcomes == {gone: "deleted", held: "kept", copied: "kept"}
    require_left(repository, before, [gone], ["main"])


def test_a_removal_keeps_its_objects_through_a_collection_and_is_undone(repository, spark):
    repository.rules(7, main=7)
    write(repository, "main", "logs/a", "logs/b", "data/a", days_ago=10)
    write(repository, "main", "logs/young", days_ago=1)
    before, data = repository.entries("main"), repository.data()
    run = opened(repository)
    confirmed.confirm(run, set_policy(repository, REMOVAL), "live")
    (named,) = removal.remove(run, who="live").named
    assert (named.outcome.state, named.outcome.entries) == ("removed", 2), named
    repository.note_head("main")
    assert set(repository.entries("main")) == {"data/a", "logs/young"}
    assert collect(repository, spark, **SWEEP).outcomes == {}
    assert repository.data() == data
    (undone,) = removal.undo(opened(repository), run.key, who="live")
    assert undone.state == "reverted", undone
    assert repository.entries("main") == before
    assert repository.require_readable(["main"]) == len(before)


def test_old_staged_entries_are_reset_and_their_objects_collected(repository, spark):
    old = write(repository, "main", "inbox/old", "inbox/old é", days_ago=10, commit=False)
    write(repository, "main", "other", days_ago=10, commit=False)
    repository.upload("main", "inbox/young", b"young")
    run = opened(repository)
    document = REMOVAL.replace(b"main/logs/", b"main/inbox/").replace(b"all:", b"uncommitted:")
    version = set_policy(repository, document)
    confirmed.confirm(run, version, "live")
    confirmed.confirm_resets(run, version, "live")
    (named,) = removal.remove(run, who="live").named
    assert (named.staged.entries, named.staged.kept) == (2, {"young": 1}), named
    assert set(repository.entries("main")) == {"inbox/young", "other"}
    before = repository.data()
    assert collect(repository, spark, **SWEEP).gone == set(old)
    require_left(repository, before, old, ["main"])


def later(repository, spark, options):
    """Open a run of some days ahead: its rules count from then, in any store."""
    environment = replace(
        repository.server.environment(spark), clock=LaterClock(timedelta(days=AHEAD))
    )
    chosen = RunOptions(may_sweep=True, **SMALL, **options)
    return open_run(environment, repository.name, RunKey.at(environment.clock.now()), chosen)


def test_on_any_store_what_is_committed_and_what_is_staged_go_by_their_rules(make, spark):
    """Here days pass by a clock that is ahead, so that nothing needs a date of its own."""
    repository = make()
    logs = repository.upload("main", "logs/a", b"logs")
    data = repository.upload("main", "data/a", b"data")
    repository.commit("main")
    repository.branch("dev")
    scratch = repository.upload("main", "tmp/a", b"scratch")
    on_dev = repository.upload("dev", "tmp/a", b"of dev")
    two = repository.upload("main", "tmp/two", b"two names")
    repository.stage_again("main", "tmp/two", "dev", "two")
    rules = DOCUMENT + STAGED.partition(b"\n")[2]
    run = later(repository, spark, SWEEP)
    confirmed.confirm(
        run, versions.store_version(run, parse(rules, name="policy.yml"), who="live"), "live"
    )
    run = later(repository, spark, SWEEP)
    mark, verdict, _ = mark_and_conclude(run)
    assert verdict.passed
    assert set(mark.addresses(run)) == {logs, scratch}
    assert sweep_only(run) == {logs: "deleted", scratch: "deleted"}
    for path in ("logs/a", "tmp/a"):
        assert repository.ask("GET", "/refs/main/objects", query={"path": path}).status == 410
    assert repository.get("main", "data/a") == b"data"
    assert repository.get("dev", "tmp/a") == b"of dev"
    assert repository.get("dev", "two") == b"two names"
    assert {data, on_dev, two} <= repository.data()
