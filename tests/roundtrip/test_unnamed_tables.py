"""The report of lakeFS's own tables: who names each, its bytes and its age; nothing is deleted."""

import json
import os
import re
from datetime import UTC, datetime, timedelta

import pytest

from lakegc_dagster.sandbox import gc, objects, refs, repositories
from spark_core import explain, lakegc_keys
from spark_core.explain.unnamed_tables import (
    BELOW_THEM,
    FOR_CALLS,
    INDEX,
    NAMED,
    OF_A_DUMP,
    OF_RUNS,
    OTHERS,
    UNNAMED,
    UNNAMED_METARANGE,
    UNREADABLE,
)
from spark_core.storage.local import LocalStore
from tests.support.pipeline import mark_and_conclude
from tests.support.sandbox_runs import open_sandbox_run

pytestmark = pytest.mark.spark

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)


@pytest.fixture
def sandbox(made_once, spark):
    """A repository of three commits that is marked."""

    def mark_it(sandbox):
        with sandbox.core.lock, sandbox.clock.at(NOW - timedelta(days=40)):
            repositories.create(sandbox.core, "repo", "local://repo")
            gc.set_rules(sandbox.core, "repo", gc.Rules(7, {}))
            for day in range(3):
                objects.upload(sandbox.core, "repo", "main", "table", b"%d" % day)
                refs.commit(sandbox.core, "repo", "main", message="day")
        sandbox.clock.set(NOW)
        mark_and_conclude(open_sandbox_run(sandbox, "repo", spark, NOW))

    with made_once.begun("three-commits", mark_it) as (copied, _):
        copied.clock.set(NOW)
        yield copied


@pytest.fixture
def run(sandbox, spark):
    return open_sandbox_run(sandbox, "repo", spark, NOW)


def _groups(run):
    return {group.what: group for group in explain.unnamed_tables(run).groups}


def _tables(run):
    return {
        key: size
        for batch in run.store.list("_lakefs/")
        for key, size in zip(batch["key"].to_pylist(), batch["size_bytes"].to_pylist(), strict=True)
        if re.fullmatch(r"_lakefs/[0-9a-f]{64}", key)
    }


def test_each_table_is_in_one_group_and_expired_commits_name_theirs(run):
    tables = _tables(run)
    groups = _groups(run)
    assert sum(group.files for group in groups.values()) == len(tables)
    assert sum(group.size_bytes for group in groups.values()) == sum(tables.values())
    assert groups[NAMED].files == 6, "a metarange and a range for each commit"
    assert groups[OF_A_DUMP].files >= 4
    assert not any(groups[what].files for what in UNNAMED)


def test_what_only_the_record_of_a_branch_names_is_shown_and_stays(run, sandbox):
    with sandbox.core.lock:
        objects.upload(sandbox.core, "repo", "main", "staged", b"staged")
        refs.compact(sandbox.core, "repo", "main")
    groups = _groups(run)
    assert groups[UNNAMED_METARANGE].files == 1
    assert groups[BELOW_THEM].files >= 1
    assert groups[UNNAMED_METARANGE].oldest is not None


def test_a_file_that_is_no_table_is_shown_as_one(run):
    run.store.put("_lakefs/" + "0" * 64, b"no table")
    assert _groups(run)[UNREADABLE].size_bytes == len(b"no table")


def test_what_collections_left_is_counted_with_what_it_grew_by(run, sandbox):
    folder = sandbox.blockstore / "repo"
    files = [path for path in (folder / lakegc_keys.ROOT).rglob("*") if path.is_file()]
    there = sum(path.stat().st_size for path in files)
    (rules,) = (path.stat().st_size for path in files if "rules" in path.parts)
    for name, days in (
        (f"{lakegc_keys.INDEX}old", 400),
        (f"{lakegc_keys.INDEX}new", 20),
        (f"{lakegc_keys.UNIFIED}mark/summary.json", 20),
        (f"{lakegc_keys.in_quarantine(run.key)}data/object", 20),
    ):
        run.store.put(name, b"1234")
        written = (NOW - timedelta(days=days)).timestamp()
        os.utime(folder / name, (written, written))
    found = explain.unnamed_tables(run)
    left = {group.what: group for group in found.collections}
    assert {what: group.older["30 days"] for what, group in left.items()} == {
        INDEX: (1, 4), OF_RUNS: (0, 0), FOR_CALLS: (0, 0), OTHERS: (1, rules)
    }  # fmt: skip
    assert {what: group.files for what, group in left.items()} == {
        INDEX: 2, OF_RUNS: len(files) - 3, FOR_CALLS: 1, OTHERS: 3
    }, "a list of commits; beside what was put the rules and a probe"  # fmt: skip
    assert sum(group.size_bytes for group in left.values()) == there + 12
    dumps = sum(group.size_bytes for group in found.groups if group.what == OF_A_DUMP)
    day, year = there - rules + dumps, there + dumps + 8
    assert found.grown == {"a day": day, "30 days": year - rules, "a year": year}
    assert json.loads(found.to_json())["grown"] == found.grown


def test_nothing_is_deleted_and_the_answer_is_json(run, monkeypatch):
    def deleted(*_, **__):
        raise AssertionError("a report deletes nothing")

    before = _tables(run)
    monkeypatch.setattr(LocalStore, "delete", deleted)
    found = json.loads(explain.unnamed_tables(run).to_json())
    assert (found["repository"], found["prefix"]) == ("repo", "_lakefs")
    assert before.items() <= _tables(run).items()
