"""Nights between two dumps: commits are read from the log, and nothing is lost or missed by it."""

from datetime import UTC, datetime, timedelta

import pytest

from lakegc_dagster.sandbox import gc, objects, refs, repositories
from spark_core import holds
from spark_core.errors import PermissionDeniedError
from spark_core.records.figures import CommitsFigures
from spark_core.references import earlier_dump, recorded_heads, retained_commits
from tests.support.pipeline import mark_and_conclude, sweep_only
from tests.support.sandbox_runs import open_sandbox_run

pytestmark = pytest.mark.spark

FIRST = datetime(2026, 11, 20, 2, tzinfo=UTC)
DAY = timedelta(days=1)
LONG_AGO = int((FIRST - timedelta(days=300)).timestamp())


class Nights:
    """A repository with a commit a day that one overwrites; rules keep commits for some days."""

    def __init__(self, sandbox, spark, begun=None):
        self.sandbox, self.spark, self.core = sandbox, spark, sandbox.core
        self.uploads, self.first = begun or (0, None)

    def begin(self, days=30):
        """Make the repository; what a copy of it begins with."""
        with self.core.lock, self.sandbox.clock.at(FIRST - 40 * DAY):
            repositories.create(self.core, "repo", "local://repo")
            self.rules(days)
            self.first = self.commit("main", path="table")
            self.commit("main", path="table")
        return self.uploads, self.first

    def rules(self, days, **branches):
        gc.set_rules(self.core, "repo", None if days is None else gc.Rules(days, branches))

    def upload(self, branch, path, data=None):
        self.uploads += 1
        data = data or f"{self.uploads}".encode()
        return objects.upload(self.core, "repo", branch, path, data).address

    def commit(self, branch, path="table", date=None):
        address = self.upload(branch, path)
        return address, refs.commit(self.core, "repo", branch, message="day", date=date).id

    def at(self, days):
        return self.sandbox.clock.at(FIRST + days * DAY)

    def run(self, days, **options):
        now = FIRST + days * DAY
        self.sandbox.clock.set(now)
        return open_sandbox_run(self.sandbox, "repo", self.spark, now, **options)

    def mark(self, days, **options):
        run = self.run(days, **options)
        marked, found, results = mark_and_conclude(run)
        assert found.passed, [result for result in results if not result.passed]
        return run, marked, CommitsFigures.of(marked.tables.commits.manifest)


@pytest.fixture
def nights(made_once, spark):
    """The repository after its first night, which read a dump."""

    def mark_it(sandbox):
        nights = Nights(sandbox, spark)
        begun = nights.begin()
        assert nights.mark(0)[2].refs_read_by == "dump"
        return begun

    with made_once.begun("first-night", mark_it) as (sandbox, begun):
        sandbox.clock.set(FIRST)
        yield Nights(sandbox, spark, begun)


@pytest.mark.slow
def test_the_next_night_reads_the_log_down_to_the_dump_and_decides_the_same(nights, monkeypatch):
    with nights.at(0.5):
        refs.create_branch(nights.core, "repo", "dev", "main")
        nights.commit("main")
        nights.commit("dev", path="other")
        refs.create_tag(nights.core, "repo", "old", nights.first[1])
    run, marked, figures = nights.mark(1)
    assert (figures.refs_read_by, figures.commits_beside_dump, figures.dump_files) == (
        "earlier dump",
        2,
        0,
    )
    assert "dump_refs" not in run.server.requests
    monkeypatch.setattr(retained_commits, "_earlier", lambda _: None)
    _, dumped, read = nights.mark(1 + 1 / 86_400)
    assert read.refs_read_by == "dump"
    assert (figures.commits, figures.branches, figures.tags, figures.by_reason) == (
        read.commits,
        read.branches,
        read.tags,
        read.by_reason,
    )
    assert marked.addresses(run) == dumped.addresses(run)


@pytest.mark.parametrize(
    ("days", "age", "read_by"),
    [
        (30, 6.9, "earlier dump"),
        (30, 7.1, "dump"),
        (5, 3.9, "earlier dump"),
        (5, 4.1, "dump"),
        (1, 0.1, "dump"),
        (0, 0.1, "dump"),
        (None, 0.1, "dump"),
    ],
)
def test_a_dump_is_made_once_a_week_and_before_what_came_since_can_expire(
    sandbox, spark, days, age, read_by
):
    nights = Nights(sandbox, spark)
    nights.begin(days)
    nights.mark(0)
    assert nights.mark(age)[2].refs_read_by == read_by


def test_the_rule_of_any_branch_counts(nights):
    nights.rules(30, main=2)
    assert nights.mark(1.1)[2].refs_read_by == "dump"


@pytest.mark.slow
def test_the_week_counts_from_the_dump_and_not_from_the_last_run(nights):
    assert nights.mark(3)[2].refs_read_by == "earlier dump"
    assert nights.mark(6)[2].refs_read_by == "earlier dump"
    assert nights.mark(7.1)[2].refs_read_by == "dump"
    assert nights.mark(13)[2].refs_read_by == "earlier dump"


def test_a_commit_that_only_the_servers_list_has_asks_for_a_dump_and_keeps_its_objects(nights):
    with nights.at(0.5):
        refs.create_branch(nights.core, "repo", "short", "main")
        address, _ = nights.commit("short", path="mine")
        refs.delete_branch(nights.core, "repo", "short")
    run, marked, figures = nights.mark(5)
    assert figures.refs_read_by == "dump"
    assert address not in marked.addresses(run)


@pytest.mark.parametrize("how", ["deleted", "reset"])
def test_a_head_that_nothing_reaches_any_more_asks_for_a_dump(nights, how):
    with nights.at(0.2):
        refs.create_branch(nights.core, "repo", "dev", "main")
        nights.commit("dev", path="mine", date=LONG_AGO)
    assert nights.mark(0.5)[2].refs_read_by == "earlier dump"
    with nights.at(0.7):
        if how == "deleted":
            refs.delete_branch(nights.core, "repo", "dev")
        else:
            refs.hard_reset(nights.core, "repo", "dev", "main")
    assert nights.mark(1)[2].refs_read_by == "dump"


def test_a_hold_on_a_commit_that_nothing_shows_asks_for_a_dump(nights, monkeypatch):
    with nights.at(0.5):
        refs.create_branch(nights.core, "repo", "short", "main")
        _, commit = nights.commit("short", path="mine", date=LONG_AGO)
        refs.delete_branch(nights.core, "repo", "short")
    monkeypatch.setattr(holds.Holds, "starting_commits", property(lambda _: [commit]))
    assert nights.mark(1)[2].refs_read_by == "dump"


@pytest.mark.parametrize("made", ["before the mark", "after it"])
def test_a_hold_by_path_keeps_what_only_a_dump_of_now_shows(nights, made):
    with nights.at(0.5):
        refs.create_branch(nights.core, "repo", "short", "main")
        address, _ = nights.commit("short", path="mine", date=LONG_AGO)
        refs.delete_branch(nights.core, "repo", "short")
    if made == "before the mark":
        holds.add(nights.run(1), "mine", "path", "mine", who="ann", why="")
    run, marked, figures = nights.mark(5)
    assert (address in marked.addresses(run)) is (made == "after it")
    if made == "after it":
        assert figures.refs_read_by == "earlier dump"
        holds.add(run, "mine", "path", "mine", who="ann", why="")
        assert sweep_only(run)[address] == "kept"


def test_logs_that_may_not_be_read_or_that_break_off_ask_for_a_dump(nights, monkeypatch):
    def denied(*_):
        raise PermissionDeniedError("no log")

    monkeypatch.setattr(earlier_dump, "complete_refs", denied)
    assert nights.mark(1)[2].refs_read_by == "dump"


def test_an_earlier_dump_that_is_gone_asks_for_one(nights):
    figures = nights.mark(1)[2]
    for id_ in figures.dump.values():
        (nights.sandbox.blockstore / "repo/_lakefs" / id_).unlink()
    assert nights.mark(2)[2].refs_read_by == "dump"


def test_where_the_heads_of_the_last_run_cannot_be_read_a_dump_is_made(nights):
    manifest = recorded_heads.last_manifest(nights.run(1))
    folder = f"_lakefs/retention/gc/commits/run_id={manifest.run}"
    (nights.sandbox.blockstore / "repo" / folder / "_manifest.json").write_text("{")
    assert nights.mark(1)[2].refs_read_by == "dump"


@pytest.mark.slow
def test_what_hides_after_a_reset_onto_a_new_commit_is_kept_without_its_sign(nights):
    """The sign of such a reset is a commit that nothing reaches, and only a dump of now shows it:
    the branch of the commit went on, was dated back, and is gone.
    """
    with nights.at(-30):
        refs.create_branch(nights.core, "repo", "x", "main")
    nights.mark(0.01)
    with nights.at(1):
        hidden = nights.upload("x", "p", b"content")
    with nights.at(4):
        refs.create_branch(nights.core, "repo", "y", "main")
        nights.upload("y", "p", b"content")
        onto = refs.commit(nights.core, "repo", "y", message="same").id
        nights.commit("y", path="q", date=LONG_AGO)
    with nights.at(4.5):
        refs.hard_reset(nights.core, "repo", "x", onto)
        refs.delete_branch(nights.core, "repo", "y")
    run, marked, figures = nights.mark(6.5, longest_upload=timedelta(days=1))
    assert figures.refs_read_by == "earlier dump"
    assert hidden not in marked.addresses(run)


@pytest.mark.slow
def test_a_sweep_looks_again_from_the_dump_of_its_mark(nights):
    with nights.at(0.5):
        nights.commit("main")
    run, marked, _ = nights.mark(1)
    expired = marked.addresses(run)
    assert nights.first[0] in expired
    with nights.at(1):
        refs.create_branch(nights.core, "repo", "again", nights.first[1])
        nights.commit("again", path="news")
    outcomes = sweep_only(run)
    assert outcomes[nights.first[0]] == "kept"
    assert "dump_refs" not in run.server.requests
