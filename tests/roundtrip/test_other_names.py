"""An object that is referred to by another name of its store stays.

An access point, a link to its folder, a domain of its own.
"""

import hashlib
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from spark_core import lakegc_keys, report, sweep
from spark_core.fates import Fate
from spark_core.references.kept_objects import kept_addresses
from tests.support.pipeline import mark_and_conclude
from tests.support.sandbox_repository import SandboxRepository, SandboxServer
from tests.support.sandbox_runs import open_sandbox_run

pytestmark = pytest.mark.spark

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)
NAMES = ("of a head", "of the past", "staged", "staged later", "garbage")


def test_an_object_that_is_named_through_another_name_of_its_store_stays(sandbox, spark):
    clock = sandbox.clock
    clock.set(NOW - timedelta(days=60))
    repository = SandboxRepository(SandboxServer.of(sandbox))
    repository.rules(7)
    repository.branch("gone")
    address = {name: repository.upload("gone", name, name.encode()) for name in NAMES}
    repository.commit("gone")
    repository.drop_branch("gone")

    def refer(name):
        answer = repository.stage(
            "main", name, f"local:///mnt/link/{address[name]}", size_bytes=len(name)
        )
        assert answer.status == 201, answer.body

    clock.set(NOW - timedelta(days=3))
    refer("of the past")
    repository.commit("main")
    repository.delete("main", "of the past")
    refer("of a head")
    repository.commit("main")
    refer("staged")
    clock.set(NOW)
    run = open_sandbox_run(sandbox, repository.name, spark, NOW, min_age=timedelta(hours=24))
    marked, verdict, results = mark_and_conclude(run)
    assert verdict.passed, [result for result in results if not result.passed]
    assert set(marked.addresses(run)) == {address["staged later"], address["garbage"]}
    assert marked.expired.manifest.facts["missing_objects"] == 0

    kept = {group.name: group.objects for group in report.load(run).kept}
    assert kept == {Fate.COMMITTED.sentence: 2, Fate.STAGED.sentence: 1}

    refer("staged later")
    sweep.require_complete(run.keep(sweep.sweep(run)))
    assert set(repository.objects()) == {address[name] for name in NAMES if name != "garbage"}


def test_identical_content_that_is_staged_through_another_name_of_its_store_stays(sandbox, spark):
    """Neither scan nor diff shows it, since its entry says the same size and checksum as the
    committed one.
    """
    clock, body = sandbox.clock, b"the same"
    clock.set(NOW - timedelta(days=60))
    repository = SandboxRepository(SandboxServer.of(sandbox))
    repository.rules(7)
    repository.upload("main", "a", body)
    repository.commit("main")
    repository.branch("gone")
    again, garbage = (repository.upload("gone", name, body) for name in ("again", "garbage"))
    repository.drop_branch("gone")
    digest = hashlib.md5(body, usedforsecurity=False).hexdigest()
    answer = repository.stage(
        "main", "a", f"local:///mnt/link/{again}", size_bytes=len(body), checksum=digest
    )
    assert answer.status == 201, answer.body
    clock.set(NOW)
    run = open_sandbox_run(sandbox, repository.name, spark, NOW, min_age=timedelta(hours=24))
    marked, verdict, results = mark_and_conclude(run)
    assert verdict.passed, [result for result in results if not result.passed]
    assert set(marked.addresses(run)) == {garbage}
    found = report.load(run)
    assert {group.name: group.objects for group in found.kept} == {
        Fate.COMMITTED.sentence: 1,
        Fate.READ_BY_BRANCH.sentence: 1,
    }


def test_an_address_of_what_is_alive_is_that_of_the_object_inside():
    own = "data/gqv3epl4fd2o8m3men70/ce8co454fd2o8m3menag"
    sharded = "data/!ab/c/gqv3epl4fd2o8m3men70/ce8co454fd2o8m3menag"
    legacy = "data/repo-main:b40b9540-91f0-4add-96ba-205f17e03c57/77I_VsbUg1vU05hWRnTlw"
    aside = f"{lakegc_keys.QUARANTINE}run_id=2026-11-20T02-00-00Z/"
    expected = {
        own: own,
        "data/imports/photo.jpg": "data/imports/photo.jpg",
        f"s3://an-access-point/repo/{own}": own,
        "s3://elsewhere/photo.jpg": "s3://elsewhere/photo.jpg",
        f"s3://an-access-point/repo/{sharded}": sharded,
        f"s3://an-access-point/repo/{legacy},": f"s3://an-access-point/repo/{legacy},",
        f"s3://an-access-point/repo/{legacy}": legacy,
        f"{aside}{own}": f"{aside}{own}",
        f"{aside}data/imports/photo.jpg": f"{aside}data/imports/photo.jpg",
        f"s3://an-access-point/repo/{aside}{own}": f"{aside}{own}",
    }
    assert kept_addresses(pa.array(expected)).to_pylist() == list(expected.values())
    assert kept_addresses(pa.array([own])).to_pylist() == [own]
    assert kept_addresses(pa.array([], pa.string())).to_pylist() == []
