"""What somebody refers to again after the mark is found, and named, just before deleting.

Nothing else is kept.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from lakegc_dagster.sandbox import Sandbox, gc, merge, objects, refs, repositories
from spark_core import holds
from spark_core.errors import (
    CorruptTableError,
    IncompleteReadError,
    NotFoundError,
    RepositoryStateError,
    TransientError,
    UnsafePlanError,
)
from spark_core.model import Refs
from spark_core.records import tables
from spark_core.references.metaranges import distinct_ranges
from spark_core.references.range_entries import read_ranges
from spark_core.references.uncommitted_addresses import read_staged
from spark_core.run import Run
from spark_core.spark import placement
from spark_core.spark.exchange import Source
from spark_core.spark.tasks import run_tasks
from spark_core.sweep import reached_now
from spark_core.sweep.references_now import read_again, reader_of_references
from spark_core.sweep.tasks_of_a_round import PLANNED, objects_of_plan
from spark_core.sweep.twins_now import UNCHECKED_TWIN
from spark_core.sweep.why_kept import KEPT, NOTHING
from tests.support.looks import named
from tests.support.pipeline import Marked, mark_only
from tests.support.sandbox_runs import open_sandbox_run

pytestmark = pytest.mark.spark

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory):
    with Sandbox(tmp_path_factory.mktemp("sandbox")) as running:
        yield running


@dataclass
class Ground:
    """A repository, and what a person does to it; days are counted back from `NOW`."""

    sandbox: Sandbox
    name: str
    run: Run | None = None
    marked: Marked | None = None

    def __post_init__(self) -> None:
        self.commits: dict[str, str] = {}
        self.removals: dict[str, str] = {}
        self.dead: dict[str, str] = {}
        with self.ago(60):
            repositories.create(self.core, self.name, f"local://{self.name}")
            gc.set_rules(self.core, self.name, gc.Rules(1, {}))

    @property
    def core(self) -> Any:
        return self.sandbox.core

    @contextmanager
    def ago(self, days: float) -> Any:
        with self.core.lock, self.sandbox.clock.at(NOW - timedelta(days=days)):
            yield

    def upload(self, path: str, data: bytes, branch: str = "main") -> str:
        address: str = objects.upload(self.core, self.name, branch, path, data).address
        return address

    def commit(self, branch: str = "main") -> str:
        commit_id: str = refs.commit(self.core, self.name, branch, message="m").id
        return commit_id

    def stage(
        self, path: str, address: str, *, like: str = "", branch: str = "main", link: bool = False
    ) -> None:
        entry = objects.stat(self.core, self.name, branch, like)[1] if like else None
        objects.stage(
            self.core,
            self.name,
            branch,
            path,
            physical_address=f"local://{self.sandbox.blockstore}/{self.name}/{address}",
            checksum=entry.checksum if entry else "0" * 32,
            size_bytes=entry.size_bytes if entry else 3,
            content_type=entry.content_type if entry else None,
            metadata=entry.metadata if entry else None,
            link=link,
        )

    def let_die(self, *names: str) -> None:
        """Commit a file for each name and remove it in the next commit, all beyond retention."""
        for number, name in enumerate(names):
            with self.ago(50):
                self.dead[name] = self.upload(f"old/{name}", name.encode() * (number + 2))
                self.commits[name] = self.commit()
                objects.delete(self.core, self.name, "main", [f"old/{name}"])
                self.removals[name] = self.commit()

    def mark(self, spark: Any, **options: Any) -> None:
        with self.ago(40):
            self.upload("kept", b"kept")
            self.commit()
        self.sandbox.clock.set(NOW)
        # Old addresses are staged by hand here, of which time tells nothing.
        chosen = {"hidden_entries": "ask_all", **options}
        self.run = open_sandbox_run(self.sandbox, self.name, spark, NOW, **chosen)
        self.marked = mark_only(self.run)
        assert set(self.dead.values()) <= set(self.marked.addresses(self.run)), (
            "dead when it was marked"
        )

    @property
    def tables(self) -> dict[str, Any]:
        assert self.marked is not None
        made = (*self.marked.tables.all, self.marked.expired)
        return {table.manifest.table: table for table in made}

    def plan(self) -> Any:
        assert self.marked is not None
        assert self.run is not None
        return objects_of_plan(self.marked.expired)

    def again(self, **options: Any) -> Any:
        assert self.run is not None
        run = replace(self.run, options=replace(self.run.options, **options))
        return read_again(run, self.plan(), mark=self.tables)

    def named(self, revived: Any) -> dict[str, str]:
        names = {address: name for name, address in self.dead.items()}
        found = named(revived.kept, list(names))
        assert len(found) == len(revived.kept.hashes), "nothing else"
        return {names[address]: why for address, why in found.items()}


@pytest.fixture
def ground(sandbox, request):
    return Ground(sandbox, request.node.name[:40].replace("_", "-").strip("-"))


def test_each_way_of_coming_back_is_found_and_named_and_the_rest_stays_in_the_plan(ground, spark):
    ways = (
        "staged",
        "linked",
        "committed",
        "branched",
        "tagged",
        "reverted",
        "moved",
        "held",
        "held-commit",
        "of a said size",
    )
    ground.let_die(*ways, "dead")
    with ground.ago(45):
        ground.dead["twin"] = ground.upload("kept", b"kept")
        objects.reset(ground.core, ground.name, "main", "reset")
        ground.dead["never committed"] = ground.upload("x", b"never committed")
        objects.reset(ground.core, ground.name, "main", "reset")
        refs.create_branch(ground.core, ground.name, "aside", "main")
        refs.create_branch(ground.core, ground.name, "gone", "main")
    ground.mark(spark)
    core, name = ground.core, ground.name
    look = reader_of_references()
    first = look(ground.run, ground.plan(), ground.tables)
    assert ground.named(first) == {}
    assert (first.figures.new_metaranges, first.figures.ranges_read) == (0, 0)

    with core.lock:
        ground.stage("new/committed", ground.dead["committed"])
        # Both entries say a size and a checksum that are not their objects'.
        ground.stage("said", ground.upload("said", b"longer than it says"))
        added = ground.commit()
        merge.revert(core, name, "main", ground.removals["reverted"], parent_number=0)
        refs.create_branch(core, name, "dev", ground.commits["branched"])
        refs.create_tag(core, name, "v1", ground.commits["tagged"])
        refs.delete_branch(core, name, "gone")
        refs.hard_reset(core, name, "aside", ground.commits["moved"])
        ground.stage("new/staged", ground.dead["staged"])
        ground.stage("new/linked", ground.dead["linked"], link=True, branch="dev")
        ground.stage("kept", ground.dead["twin"], like="kept")
        ground.stage("said", ground.dead["of a said size"])
    holds.add(ground.run, "audit", "address", ground.dead["held"], who="t", why="")
    holds.add(ground.run, "case", "commit", ground.commits["held-commit"], who="t", why="")

    second = look(ground.run, ground.plan(), ground.tables)
    found = ground.named(second)
    # Two new commits reach it; either will do.
    assert found.pop("committed") in {
        f"commit {added[:12]} (main: within 1 day)",
        f"commit {refs_head(ground, 'main')[:12]} (head of main)",
    }
    assert found == {
        "staged": "staged",
        "linked": "staged",
        "reverted": f"commit {refs_head(ground, 'main')[:12]} (head of main)",
        "branched": f"commit {ground.commits['branched'][:12]} (head of dev)",
        "tagged": f"commit {ground.commits['tagged'][:12]} (tag v1)",
        "moved": f"commit {ground.commits['moved'][:12]} (head of aside)",
        "held": f"hold audit: address {ground.dead['held']}",
        "held-commit": f"hold case: commit {ground.commits['held-commit'][:12]}",
        "twin": "twin of an entry at kept",
        "of a said size": "twin of an entry at said",
    }
    assert second.figures.ranges_read > 0
    assert second.figures.new_metaranges >= 6

    third = look(ground.run, ground.plan(), ground.tables)
    assert ground.named(third).keys() == {*found, "committed"}
    assert (
        third.figures.new_metaranges,
        third.figures.metaranges_read,
        third.figures.ranges_read,
    ) == (0, 0, 0)


def refs_head(ground: Ground, branch: str) -> str:
    repository = ground.core.repository(ground.name)
    commit_id: str = ground.core.branch(repository, branch).commit_id
    return commit_id


def test_wider_rules_and_removed_rules_bring_commits_back_and_an_unasked_twin_is_kept(
    ground, spark
):
    ground.let_die("expired")
    with ground.ago(45):
        ground.dead["of the size of an entry"] = ground.upload("kept", b"size")
        objects.reset(ground.core, ground.name, "main", "reset")
    ground.mark(spark)
    assert ground.named(ground.again()) == {}
    # Where everything is to be asked, no size is believed either.
    unasked = {"expired": UNCHECKED_TWIN, "of the size of an entry": UNCHECKED_TWIN}
    assert ground.named(ground.again(twin_calls=0)) == unasked

    kept = f"commit {ground.commits['expired'][:12]} "
    gc.set_rules(ground.core, ground.name, gc.Rules(100, {}))
    assert ground.named(ground.again()) == {"expired": f"{kept}(main: within 100 days)"}
    gc.set_rules(ground.core, ground.name, None)
    assert ground.named(ground.again()).keys() == {"expired"}


def test_what_cannot_be_read_again_is_an_error_and_never_an_empty_answer(
    ground, spark, monkeypatch
):
    ground.let_die("branched")
    ground.mark(spark)
    server = ground.run.server
    with monkeypatch.context() as patch:
        patch.setattr(server, "diff_branch", _failing("the diff fails"))
        with pytest.raises(TransientError, match="the diff fails"):
            ground.again()
    with monkeypatch.context() as patch:
        patch.setattr(server, "branches", lambda _repository: [])
        with pytest.raises(RepositoryStateError, match="has no branch"):
            ground.again()
    with monkeypatch.context() as patch:
        patch.setattr(
            "spark_core.references.commits_from_dump_or_log.read_refs_dump",
            lambda *_, **__: Refs({}, (), ()),
        )
        with pytest.raises(RepositoryStateError, match="hold no"):
            ground.again()
    with ground.core.lock:
        ground.stage("new", ground.dead["branched"])
    with monkeypatch.context() as patch:
        patch.setattr(server, "list_entries", _failing("a branch cannot be listed"))
        with pytest.raises(TransientError, match="a branch cannot be listed"):
            ground.again()

    refs.create_branch(ground.core, ground.name, "dev", ground.commits["branched"])
    repository = ground.core.repository(ground.name)
    metarange = ground.core.commit(repository, ground.commits["branched"]).metarange_id
    tables = ground.sandbox.blockstore / ground.name / "_lakefs"
    (range_id,) = [
        table.id for table in ground.core.trees.ranges(repository.storage_namespace, metarange)
    ]
    file = tables / range_id
    whole = file.read_bytes()
    for damaged in (whole[:-1], bytes([whole[0] ^ 1]) + whole[1:]):
        file.write_bytes(damaged)
        with pytest.raises(CorruptTableError, match=range_id):
            ground.again()
    file.unlink()
    with pytest.raises(NotFoundError, match=range_id):
        ground.again()


def test_rows_that_get_lost_between_reading_and_comparing_end_the_look(ground, spark, monkeypatch):
    """Spark 4.3.0 silently makes frames without the rows behind an empty batch."""
    ground.let_die("staged", "branched")
    ground.mark(spark)
    with ground.core.lock:
        ground.stage("new", ground.dead["staged"])
    refs.create_branch(ground.core, ground.name, "dev", ground.commits["branched"])

    def staged_less(*arguments):
        staged = read_staged(*arguments)
        return replace(
            staged,
            read=lambda task, figures: (batch.slice(1) for batch in staged.read(task, figures)),
        )

    def metaranges_less(run, reader, metaranges):
        return distinct_ranges(run, reader, metaranges[:-1])

    def rows_of_metaranges_less(run, reader, metaranges):
        ranges, figures = distinct_ranges(run, reader, metaranges)
        return ranges.slice(1), figures

    def ranges_less(*arguments, **named):
        for batch in read_ranges(*arguments, **named):
            yield batch.slice(1)

    def source_less(columns):
        def read(source, threads):
            rows = whole(source, threads)
            return rows.slice(1) if rows.column_names == columns else rows

        return read

    whole = Source.here

    losses = (
        (
            {"sweep.staged_now.read_staged": staged_less},
            "rows of diffs were read, of which . are held",
        ),
        (
            {"sweep.reached_now.distinct_ranges": metaranges_less},
            "of 1 metaranges that commits reach anew, 0 were read",
        ),
        (
            {"sweep.reached_now.distinct_ranges": rows_of_metaranges_less},
            "they have 1 metarange rows, of which 0 are held",
        ),
        ({"sweep.reached_now.read_ranges": ranges_less}, "addresses, of which 0 are held"),
        (
            {"spark.exchange.Source.here": source_less(["address_hash"])},
            "1 committed, 2 planned came to their comparison, of 1 committed, 2 planned, 1 staged",
        ),
        (
            {"spark.exchange.Source.here": source_less(KEPT.names)},
            "2 planned, 1 staged came to their comparison, of 1 committed, 2 planned, 1 staged",
        ),
        (
            {"spark.exchange.Source.here": source_less([*PLANNED.names[:-1]])},
            "1 planned, 1 staged came to their comparison, of 1 committed, 2 planned, 1 staged",
        ),
    )
    for meddling, message in losses:
        with monkeypatch.context() as patch:
            for name, meddled in meddling.items():
                patch.setattr(f"spark_core.{name}", meddled)
            with pytest.raises(IncompleteReadError, match=message):
                ground.again()
    assert ground.named(ground.again()).keys() == {"staged", "branched"}


@pytest.mark.slow
def test_executors_find_the_same_and_leave_no_file_behind(ground, spark, monkeypatch):
    ground.let_die("staged", "branched", "held", *(f"dead-{number}" for number in range(5)))
    with ground.ago(45):
        ground.dead["twin"] = ground.upload("kept", b"kept")
        objects.reset(ground.core, ground.name, "main", "reset")
    ground.mark(spark)
    with ground.core.lock:
        ground.stage("new", ground.dead["staged"])
        ground.stage("kept", ground.dead["twin"], like="kept")
    refs.create_branch(ground.core, ground.name, "dev", ground.commits["branched"])
    holds.add(ground.run, "audit", "address", ground.dead["held"], who="t", why="")
    here = ground.again()
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 4)
    monkeypatch.setattr(reached_now, "run_tasks", partial(run_by_executors, run_tasks))
    there = ground.again()
    assert ground.named(there) == ground.named(here)
    assert ground.named(there).keys() == {"staged", "branched", "held", "twin"}
    folder = tables.folder(tables.POLICY_EXPIRATIONS, ground.run.key)

    def left():
        return [
            key
            for batch in ground.run.store.list(folder)
            for key in batch.column("key").to_pylist()
            if "_aside-" in key
        ]

    assert left(), "what commits reach anew is read by the next look"
    there.release()
    assert left() == []


def run_by_executors(run, spark, tasks, work, *, rows):
    return run(spark, tasks, work, rows=rows + placement.MOST_ROWS_OF_THE_DRIVER)


def test_more_than_a_sweep_remembers_ends_it_before_anything_is_deleted(ground, spark, monkeypatch):
    ground.let_die("staged", "held")
    ground.mark(spark)
    with ground.core.lock:
        ground.stage("new", ground.dead["staged"])
    assert ground.named(ground.again()).keys() == {"staged"}
    holds.add(ground.run, "audit", "address", ground.dead["held"], who="t", why="")
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 1)
    with pytest.raises(UnsafePlanError, match="2 of the 2 objects that may go are referenced"):
        ground.again()


def test_what_lacks_rows_is_read_once_more_and_lacking_them_again_ends_the_look(monkeypatch):
    asked = []

    def answer(_run, _plan, *, mark, by_policy, concluded, previous=None, alive=None):
        asked.append(previous or alive)
        if mark == "broken" or len(asked) == 1:
            raise IncompleteReadError("rows are missing")
        return "whole"

    monkeypatch.setattr("spark_core.sweep.references_now.read_again", answer)
    assert reader_of_references()(None, None, {}) == "whole"
    with pytest.raises(IncompleteReadError, match="rows are missing"):
        reader_of_references()(None, None, "broken")
    assert asked == [None, NOTHING] * 2


def _failing(message):
    def fail(*_arguments, **_options):
        raise TransientError(message)

    return fail
