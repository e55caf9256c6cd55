"""Every repository recorded from a real lakeFS server, marked whole against the answers that it
gave.
"""

from datetime import timedelta

import pytest

from spark_core.lakefs import LakeFSServer
from spark_core.model import RunKey
from spark_core.run import Environment, RunOptions, open_run
from spark_core.storage import StoreOptions
from tests.support import golden
from tests.support.clock import FakeClock
from tests.support.pipeline import mark_and_conclude
from tests.support.recorded_server import RecordedServer

pytestmark = pytest.mark.spark

# The recordings are younger than any cutoff that their own instants allow, so age is switched off
# by a cutoff far ahead.
AGE_OFF = timedelta(days=-36_500)
LOCAL = [
    name
    for name in golden.REPOSITORIES
    if golden.expected(name)["storage_namespace"].startswith("local://")
]
COLLECTABLE = [name for name in LOCAL if name not in {"bare", "read-only", "deleted"}]
MOMENTS = [
    (name, index)
    for name in COLLECTABLE
    for index, moment in enumerate(golden.expected(name)["retention"])
    # The server itself stores "0 days, no branches" as no rules, and lakegc refuses days below
    # zero.
    if moment["rules"]["default_retention_days"] > 0
]
WITHOUT_RULES = [name for name in COLLECTABLE if not golden.expected(name)["retention"]]


def _run(recorded: RecordedServer, spark, **options):
    clock = FakeClock(recorded.now + timedelta(seconds=2))
    environment = Environment(
        server=LakeFSServer(recorded.options(), clock=clock),
        store_options=StoreOptions(local_path=str(recorded.local_path)),
        spark=lambda: spark,
        clock=clock,
        server_path=golden.SERVER_PATH,
    )
    chosen = {
        "min_age": AGE_OFF,
        "allow_unsafe_min_age": True,
        "clock_margin": timedelta(0),
        **options,
    }
    return open_run(environment, recorded.name, RunKey.at(recorded.now), RunOptions(**chosen))


# Its first rules prove that a repository is read rightly; what other rules retain is tested in full
# without Spark.
@pytest.mark.parametrize(
    ("name", "index"),
    [
        pytest.param(
            *moment,
            marks=[pytest.mark.deep] * (moment[1] > 0)
            + [pytest.mark.slow] * (moment[0] == "many-ranges"),
        )
        for moment in MOMENTS
    ],
)
def test_with_rules_exactly_the_recorded_addresses_expire(name, index, tmp_path, spark):
    moment = golden.expected(name)["retention"][index]
    with RecordedServer.unpacked(name, tmp_path, index=index) as recorded:
        run = _run(recorded, spark)
        marked, found, _ = mark_and_conclude(run)
        assert marked.addresses(run) == sorted(
            moment["expired_addresses"]["mark_before_stop_and_tags"]
        )
        assert found.passed, found.failed


@pytest.mark.parametrize("name", WITHOUT_RULES)
def test_without_rules_exactly_what_was_never_committed_nor_staged_expires(name, tmp_path, spark):
    expected = golden.expected(name)
    with RecordedServer.unpacked(name, tmp_path) as recorded:
        run = _run(recorded, spark)
        marked, found, _ = mark_and_conclude(run)
        assert marked.addresses(run) == sorted(expected["never_committed_and_not_staged"])
        assert found.passed, found.failed


@pytest.mark.slow
@pytest.mark.parametrize(("name", "status"), [("merges", 401), ("unified", 403)])
def test_a_user_who_may_not_dump_loses_nothing_that_is_retained(name, status, tmp_path, spark):
    moment = golden.expected(name)["retention"][0]
    denied = {("POST", ".*/dump"): (status, {"message": "insufficient permissions"})}
    with RecordedServer.unpacked(name, tmp_path, index=0, overrides=denied) as recorded:
        run = _run(recorded, spark)
        marked, found, results = mark_and_conclude(run)
        expired = set(marked.addresses(run))
    assert found.passed, found.failed
    # No more than under the server's own list, no less than when every commit is known.
    allowed = moment["expired_addresses"]
    assert set(allowed["mark_before_stop_and_tags"]) <= expired <= set(allowed["as_coded"])
    (known,) = [result for result in results if result.name == "commits_are_known"]
    assert "refs read by: walk" in known.summary
    assert known.figures["refs_read_by"] == "walk"
    facts = marked.tables.commits.manifest.facts
    assert facts["unknown_to_walk"] == len(
        set(moment["retained_as_coded"]) & set(golden.expected(name)["commits"]) - _reached(name)
    )


def _reached(name):
    """The commits that a branch or tag of a recording leads to."""
    server = golden.server(name)
    parents = {commit["id"]: commit["parents"] for commit in server["commits"]}
    waiting, found = [ref["commit_id"] for ref in (*server["branches"], *server["tags"])], set()
    while waiting:
        commit_id = waiting.pop()
        if commit_id not in found:
            found.add(commit_id)
            waiting += parents[commit_id]
    return found
