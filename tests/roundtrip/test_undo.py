"""Whole runs that are undone: out of quarantine on files, out of the versions of an S3 bucket."""

from __future__ import annotations

import hashlib
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from lakegc_dagster.sandbox import history, refs
from spark_core import holds, lakegc_keys, report
from spark_core.explain import last_commits
from spark_core.spark import placement
from spark_core.sweep import quarantine
from spark_core.undo.restore import restore
from spark_core.upkeep import house_keeping
from tests.support.moto_s3 import moto_s3
from tests.support.moved_repository import collected_exactly
from tests.support.pipeline import mark_and_conclude, mark_only, sweep_only
from tests.support.sandbox_repository import SandboxRepository, SandboxServer
from tests.support.sandbox_runs import open_sandbox_run

pytestmark = pytest.mark.spark

SAME = b"the same"
NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)


def keys(store, prefix):
    return {key for batch in store.list(prefix) for key in batch.column("key").to_pylist()}


def test_a_sweep_with_quarantine_is_undone_to_the_last_byte(sandbox, spark):
    story = history.documents_history(sandbox, "repo", now=NOW)
    sandbox.clock.set(NOW + timedelta(seconds=1))
    run = open_sandbox_run(sandbox, "repo", spark, NOW, quarantine=True, quarantine_days=30)
    mark_and_conclude(run)
    dead = {file.address: file.data for file in story.deleted}
    assert sweep_only(run) == dict.fromkeys(dead, "deleted")
    kept = {file.address for file in story.kept}
    assert keys(run.store, "data/") == kept
    assert keys(run.store, lakegc_keys.QUARANTINE) == {
        quarantine.key_of(run.key, address) for address in dead
    }
    told = report.load(run).undo
    assert f"`lakegc restore repo {run.key}` brings it back" in told

    one = min(dead)
    assert restore(run, [one]).objects == Counter(restored=1)
    assert keys(run.store, "data/") == {*kept, one}
    done = restore(run)
    assert (done.objects, done.complete) == (Counter(restored=len(dead) - 1, already_there=1), True)
    assert {address: run.store.read(address) for address in dead} == dead

    # The branches that `lakegc restore` advises refer again to all that commits had.
    commits = last_commits(run, None)
    for each in commits:
        refs.create_branch(sandbox.core, "repo", f"back-{each.commit_id[:12]}", each.commit_id)
    # What came back is as young as its copy.
    later = NOW + timedelta(days=3650)
    sandbox.clock.set(later)
    next_run = open_sandbox_run(sandbox, "repo", spark, later)
    expired = dead.keys() & mark_only(next_run).addresses(next_run)
    assert len(expired) == len(dead) - sum(each.objects for each in commits) < len(dead)


@pytest.fixture(
    params=[
        pytest.param(False, id="by the driver"),
        pytest.param(True, id="by executors", marks=pytest.mark.deep),
    ]
)
def who(request, monkeypatch):
    """Who lists, brings back and deletes."""
    monkeypatch.setattr(placement._PROCESS, "are_executors_chosen", request.param)


@pytest.mark.slow
@pytest.mark.usefixtures("who")
def test_what_came_back_to_life_while_it_was_in_quarantine_stays_there(sandbox, spark):
    """By a branch on the commit that had expired, a hold of such a commit, an entry of the copy,
    one by another name of the store, a twin.

    The copy of what was brought back may go like that of what is dead.
    """
    clock = sandbox.clock
    clock.set(NOW - timedelta(days=60))
    repository = SandboxRepository(SandboxServer.of(sandbox))
    repository.rules(7)
    repository.upload("main", "same", SAME)
    repository.commit("main")
    address, commits = {}, {}
    for name in ("branched", "held", "copied", "aliased", "late", "restored", "twin", "dead"):
        repository.branch(f"gone-{name}")
        address[name] = repository.upload(
            f"gone-{name}", name, SAME if name == "twin" else name.encode()
        )
        commits[name] = repository.commit(f"gone-{name}")
        repository.drop_branch(f"gone-{name}")
    clock.set(NOW)
    run = open_sandbox_run(
        sandbox, repository.name, spark, NOW, quarantine=True, quarantine_days=30
    )
    mark_and_conclude(run)
    assert sweep_only(run) == dict.fromkeys(address.values(), "deleted")

    month = NOW + timedelta(days=31)
    clock.set(month)
    for name in ("branched", "restored"):
        repository.branch(name, commits[name])
    assert restore(run, [address["restored"]]).objects == Counter(restored=1)
    holds.add(run, "audit", "commit", commits["held"], who="ann", why="a test")
    root, digest = (
        f"local://{repository.name}",
        hashlib.md5(SAME, usedforsecurity=False).hexdigest(),
    )
    for path, uri, size, checksum in (
        ("copied", f"{root}/{quarantine.key_of(run.key, address['copied'])}", 6, "said"),
        ("aliased", f"local:///mnt/link/{address['aliased']}", 7, "said"),
        # No scan and no diff shows it, since the committed entry says the same.
        ("same", f"{root}/{quarantine.key_of(run.key, address['twin'])}", len(SAME), digest),
    ):
        answer = repository.stage("main", path, uri, size_bytes=size, checksum=checksum)
        assert answer.status == 201, answer.body
    later = open_sandbox_run(
        sandbox, repository.name, spark, month, quarantine=True, quarantine_days=30
    )
    _, verdict, results = mark_and_conclude(later)
    assert verdict.passed, [result for result in results if not result.passed]
    # After the mark, so only what is read again shows it.
    repository.branch("late", commits["late"])
    house = house_keeping.keep_house(later)
    assert house.pruned.not_purged is None, house.words
    assert (house.pruned.purged.objects, house.pruned.purged.in_use) == (2, 6)
    left = {
        quarantine.key_of(run.key, address[name])
        for name in address
        if name not in ("restored", "dead")
    }
    assert keys(run.store, lakegc_keys.QUARANTINE) == left
    assert restore(run).objects == Counter(restored=6, already_there=1, not_restorable=1)


@pytest.mark.deep
def test_what_a_sweep_deleted_from_a_bucket_with_versions_comes_back_from_them(tmp_path, spark):
    with moto_s3() as s3:
        bucket, client = s3.bucket(), s3.client()
        client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        written = {}

        def put(key, data):
            written[key] = data
            client.put_object(Bucket=bucket, Key=f"ns/{key}", Body=data)

        def names():
            pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
            return {
                found["Key"].removeprefix("ns/")
                for page in pages
                for found in page.get("Contents", [])
            }

        run = collected_exactly(
            f"s3://{bucket}/ns", s3.options(), tmp_path, spark, put=put, names=names
        )
        dead = written.keys() - names()
        assert restore(run, dry_run=True).objects == Counter(restorable=len(dead))
        done = restore(run)
        assert (done.objects, done.complete) == (Counter(restored=len(dead)), True), done.left
        assert {key: run.store.read(key) for key in dead} == {key: written[key] for key in dead}
