"""The process: starting, stopping, keys, the clock, what it counts, and the command."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event

import lakefs_sdk
import pytest
import urllib3
from lakefs_sdk.exceptions import ApiException, UnauthorizedException

from lakegc_dagster.sandbox import Sandbox, SandboxClock, objects
from lakegc_dagster.sandbox.xids import IdSource, encode_xid, xid_seconds


def _get(endpoint, path):
    return urllib3.request("GET", endpoint + path, retries=False, timeout=5)


def test_a_sandbox_started_again_has_its_repositories_keys_and_staged_changes(sdk, sandbox):
    sdk.create("demo")
    sdk.upload("demo", "main", "a", b"1")
    commit = sdk.commit("demo", "main", metadata={"k": "v"})
    sdk.upload("demo", "main", "b", b"2")
    sdk.tags.create_tag("demo", lakefs_sdk.TagCreation(id="v1", ref="main"))
    task = sdk.repositories.dump_submit("demo")
    keys = (sandbox.access_key_id, sandbox.secret_access_key)
    sandbox.stop()
    sandbox.start()
    again = type(sdk)(sandbox)
    assert (sandbox.access_key_id, sandbox.secret_access_key) == keys
    assert again.head("demo", "main") == commit
    assert again.objects.get_object("demo", "main", "b") == b"2"
    assert again.head("demo", "v1") == commit
    assert again.repositories.dump_status("demo", task.id).done


def test_a_disk_that_takes_nothing_is_an_answer_and_no_traceback(sdk, tmp_path, capfd):
    with Sandbox(tmp_path / "s") as sandbox:
        there = type(sdk)(sandbox)
        there.create("demo")
        with sandbox.core.lock:
            sandbox.core.state._write("DROP TABLE staged")
        with pytest.raises(ApiException, match=r"disk cannot be used \(no such table: staged"):
            there.upload("demo", "main", "a", b"1")
    assert "Traceback" not in capfd.readouterr().err


def test_a_restarted_server_writes_to_a_new_slice(sdk, sandbox):
    sdk.create("demo")
    first = sdk.upload("demo", "main", "a", b"1").physical_address
    second = sdk.upload("demo", "main", "b", b"2").physical_address
    sandbox.stop()
    sandbox.start()
    third = type(sdk)(sandbox).upload("demo", "main", "c", b"3").physical_address
    slices = [address.split("/")[-2] for address in (first, second, third)]
    assert slices[0] == slices[1] != slices[2]


def test_given_keys_are_the_keys(tmp_path):
    with Sandbox(tmp_path / "s", access_key_id="KEY", secret_access_key="SECRET") as sandbox:
        assert (sandbox.access_key_id, sandbox.secret_access_key) == ("KEY", "SECRET")
        assert not (tmp_path / "s" / "credentials.json").exists()


def test_the_keys_of_a_directory_are_readable_by_their_owner_only(sandbox):
    assert (sandbox.blockstore.parent / "credentials.json").stat().st_mode & 0o077 == 0


def test_wrong_keys_are_refused_and_say_no_more(sandbox):
    configuration = lakefs_sdk.Configuration(
        host=f"{sandbox.endpoint}/api/v1", username="nobody", password="wrong"
    )
    with pytest.raises(UnauthorizedException, match="error authenticating request") as refused:
        lakefs_sdk.RepositoriesApi(lakefs_sdk.ApiClient(configuration)).get_repository("demo")
    assert sandbox.secret_access_key not in str(refused.value)


@pytest.mark.parametrize("header", ["", "Basic", "Basic !!!", "Bearer", "Bearer a.b.c", "Digest x"])
def test_a_broken_authorization_is_refused(sdk, header):
    assert sdk.raw("GET", "/repositories", headers={"Authorization": header}).status == 401


def test_an_unknown_method_is_an_unknown_endpoint(sdk):
    answer = sdk.raw("PATCH", "/repositories")
    assert (answer.status, answer.json()) == (404, {"message": "invalid API endpoint"})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"name": "demo", "storage_namespace": "s3://b/p"}', "invalid address"),
        (b'{"name": "demo", "storage_namespace": "local://a/../b"}', "forbidden"),
        (
            b'{"name": "Not A Name", "storage_namespace": "local://a"}',
            "repository id: invalid value",
        ),
    ],
)
def test_a_repository_that_cannot_be_is_refused(sdk, body, message):
    answer = sdk.raw(
        "POST", "/repositories", body=body, headers={"Content-Type": "application/json"}
    )
    assert answer.status in {400, 403}
    assert message in answer.json()["message"]


def test_the_grace_period_is_a_day(sdk):
    assert sdk.internal.get_garbage_collection_config().grace_period == 86400


def test_requests_are_counted_by_the_sdks_names(sdk, sandbox):
    sdk.create("demo")
    sdk.upload("demo", "main", "a", b"1")
    sdk.upload("demo", "main", "b", b"1")
    assert sandbox.requests == {"create_repository": 1, "upload_object": 2}


def test_an_observer_changes_the_sandbox_in_the_middle_of_a_run(sdk, sandbox):
    sdk.create("demo")

    def upload_first(name):
        if name == "prepare_garbage_collection_uncommitted":
            with sandbox.core.lock:
                objects.upload(sandbox.core, "demo", "main", "late", b"x")

    sandbox.observe(upload_first)
    assert sdk.internal.prepare_garbage_collection_uncommitted("demo").gc_uncommitted_location
    sandbox.observe(None)


def test_a_stopped_sandbox_answers_nothing_and_stopping_twice_is_no_error(tmp_path):
    sandbox = Sandbox(tmp_path / "s")
    with pytest.raises(RuntimeError, match="is not running"):
        _ = sandbox.core
    sandbox.start()
    assert _get(sandbox.endpoint, "/api/v1/healthcheck").status == 204
    sandbox.stop()
    sandbox.stop()
    with pytest.raises(urllib3.exceptions.HTTPError):
        _get(sandbox.endpoint, "/api/v1/healthcheck")


def test_what_is_being_answered_when_a_sandbox_is_stopped_is_answered(tmp_path):
    asked, may_end = Event(), Event()

    def observe(_name):
        asked.set()
        may_end.wait(10)

    with Sandbox(tmp_path / "s") as sandbox, ThreadPoolExecutor() as pool:
        sandbox.observe(observe)
        answer = pool.submit(_get, sandbox.endpoint, "/api/v1/healthcheck")
        assert asked.wait(10)
        stopped = pool.submit(sandbox.stop)
        time.sleep(0.1)
        assert not stopped.done()
        may_end.set()
        stopped.result(10)
        assert answer.result(10).status == 204


def test_everything_an_upload_leaves_follows_the_clock(sdk, sandbox):
    instant = datetime(2026, 3, 1, 12, 30, 15, 250_000, tzinfo=UTC)
    sandbox.clock.set(instant)
    sdk.create("demo")
    stat = sdk.upload("demo", "main", "a", b"1")
    file = Path(stat.physical_address.removeprefix("local://"))
    assert file.stat().st_mtime == instant.timestamp()
    assert stat.mtime == xid_seconds(file.name) == int(instant.timestamp())
    assert (64_060_588_800 - xid_seconds(file.parent.name)) % 2**32 == int(instant.timestamp())
    assert sdk.repositories.get_repository("demo").creation_date == int(instant.timestamp())
    sandbox.clock.advance(timedelta(days=-3))
    older = Path(sdk.upload("demo", "main", "b", b"1").physical_address.removeprefix("local://"))
    assert older.parent.name > file.parent.name


@pytest.mark.slow
def test_the_sandbox_never_hears_of_dagster():
    script = "import sys, lakegc_dagster.sandbox.history; print('dagster' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "False"


def test_a_set_clock_stands_an_advanced_one_runs_and_a_released_one_tells_the_truth():
    clock = SandboxClock()
    clock.advance(timedelta(days=10))
    assert abs(clock.now() - datetime.now(UTC) - timedelta(days=10)) < timedelta(seconds=5)
    with clock.at(datetime(2020, 1, 1, tzinfo=UTC)):
        assert clock.now() == clock.now() == datetime(2020, 1, 1, tzinfo=UTC)
    assert clock.now() - datetime.now(UTC) > timedelta(days=9)
    clock.release()
    assert abs(clock.now() - datetime.now(UTC)) < timedelta(seconds=5)
    with pytest.raises(ValueError, match="timezone-aware"):
        clock.set(datetime(2020, 1, 1))  # noqa: DTZ001 - what is refused


def test_xids_are_those_of_the_recorded_server():
    """Prefixes of a slice and an object recorded on 2026-11-21 between 06:59 and 07:03."""
    started, allocated = 1_795_244_365, 1_795_244_557
    assert encode_xid(64_060_588_800 - started, bytes(8)).startswith("ft6s")
    assert encode_xid(allocated, bytes(8)).startswith("dc0k43")
    assert xid_seconds("dc0k439ksdufl6vf44ug") == allocated
    assert xid_seconds("dc0k439ksdufl6vf44ug,signature") == allocated
    with pytest.raises(ValueError, match="not an xid"):
        xid_seconds("dc0k439ksdufl6vf44u!")


def test_a_slice_ends_after_fifty_thousand_objects_or_an_hour():
    now = [datetime(2026, 1, 1, tzinfo=UTC)]
    ids = IdSource(lambda: now[0])
    slices = [ids.object_address().split("/")[1] for _ in range(50_001)]
    assert len(set(slices[:50_000])) == 1
    assert slices[50_000] != slices[0]
    now[0] += timedelta(minutes=59)
    assert ids.object_address().split("/")[1] == slices[50_000]
    now[0] += timedelta(minutes=1)
    assert ids.object_address().split("/")[1] < slices[50_000]
