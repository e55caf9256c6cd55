"""The demo's sandbox on disk: never removes what is not its own, never two at once, the same
address again.
"""

import fcntl
import socket
from contextlib import contextmanager, suppress
from datetime import timedelta
from urllib.parse import urlsplit

import pytest
import urllib3

from lakegc_dagster.demo import sandbox as demo_sandbox
from spark_core.errors import LakegcError, SettingsError
from spark_core.settings import load_settings


def _answers(endpoint):
    try:
        answer = urllib3.request("GET", f"{endpoint}/api/v1/healthcheck", retries=False, timeout=2)
    except urllib3.exceptions.HTTPError:
        return False
    return answer.status == 204


def test_a_fresh_sandbox_has_settings_that_lead_to_it(tmp_path):
    with demo_sandbox.fresh(tmp_path / ".sandbox") as sandbox:
        settings = load_settings(demo_sandbox.settings_file(tmp_path / ".sandbox"), env={})
        assert settings.server.endpoint == sandbox.endpoint
        assert settings.server_options().access_key_id == sandbox.access_key_id
        assert settings.store_options().local_path == str(sandbox.blockstore)
        # The sandbox forgets a deleted repository at once, so its sweeps do not wait.
        options = settings.run_options(demo_sandbox.REPOSITORY_ID)
        assert options.repository_cache == timedelta(0)
        assert settings.run_options("lakegc-demo").may_sweep
        assert settings.dagster_home == (tmp_path / ".sandbox" / "dagster_home").resolve()
        assert (
            sandbox.secret_access_key
            not in demo_sandbox.settings_file(tmp_path / ".sandbox").read_text()
        )


def test_an_earlier_sandbox_is_thrown_away(tmp_path):
    for _ in range(2):
        with demo_sandbox.fresh(tmp_path / ".sandbox") as sandbox:
            assert not (tmp_path / ".sandbox" / "left-over").exists()
            (tmp_path / ".sandbox" / "left-over").touch()
            assert sandbox.requests.total() == 0


def test_a_sandbox_whose_disk_takes_nothing_is_a_sentence_that_names_it(tmp_path):
    directory = tmp_path / ".sandbox"
    with demo_sandbox.fresh(directory):
        pass
    settings = load_settings(demo_sandbox.settings_file(directory), env={})
    (directory / "state.sqlite").unlink()
    (directory / "state.sqlite").mkdir()
    with (
        pytest.raises(
            LakegcError, match=rf"the sandbox in {directory} cannot write there \(unable"
        ),
        demo_sandbox.awake(settings),
    ):
        raise AssertionError("it must not start")


@pytest.mark.parametrize("empty", [True, False])
def test_a_directory_that_is_not_ours_is_left_alone(tmp_path, empty):
    other = tmp_path / ".sandbox"
    other.mkdir()
    if not empty:
        (other / "thesis.txt").write_text("do not lose")
    with (
        pytest.raises(
            SettingsError, match=r"was not made by `lakegc demo`; nothing in it was touched"
        ),
        demo_sandbox.fresh(other),
    ):
        pass
    assert empty or (other / "thesis.txt").read_text() == "do not lose"


def test_a_link_to_one_of_ours_is_left_alone(tmp_path):
    with demo_sandbox.fresh(tmp_path / "ours"):
        pass
    (tmp_path / "link").symlink_to(tmp_path / "ours")
    with (
        pytest.raises(SettingsError, match="was not made by"),
        demo_sandbox.fresh(tmp_path / "link"),
    ):
        pass
    assert demo_sandbox.settings_file(tmp_path / "ours").exists()


def test_a_sandbox_in_use_is_left_alone(tmp_path):
    with (
        demo_sandbox.fresh(tmp_path / ".sandbox") as sandbox,
        pytest.raises(
            SettingsError, match=r"is in use by another lakegc .*nothing in it was touched"
        ),
        demo_sandbox.fresh(tmp_path / ".sandbox"),
    ):
        pass
    assert sandbox.blockstore.exists()


def _ended(directory):
    """The settings of a sandbox that nobody serves."""
    with demo_sandbox.fresh(directory):
        pass
    return load_settings(demo_sandbox.settings_file(directory), env={})


@contextmanager
def _taken(settings):
    """Another program on the port of a sandbox."""
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Another test's sandbox may have the port already; then it is taken, too.
        with suppress(OSError):
            other.bind(("127.0.0.1", urlsplit(settings.server.endpoint).port))
            other.listen()
        yield


def test_a_later_command_wakes_it_up_while_it_works(tmp_path):
    settings = _ended(tmp_path / ".sandbox")
    with demo_sandbox.awake(settings) as awake:
        assert _answers(awake.server.endpoint)
    assert not _answers(awake.server.endpoint)


def test_a_sandbox_that_another_command_serves_is_used_as_it_is(tmp_path):
    with demo_sandbox.fresh(tmp_path / ".sandbox"):
        settings = load_settings(demo_sandbox.settings_file(tmp_path / ".sandbox"), env={})
        with demo_sandbox.awake(settings) as awake:
            assert awake is settings
            assert _answers(settings.server.endpoint)
        assert _answers(settings.server.endpoint)


@pytest.mark.parametrize("ours", [True, False])
def test_settings_of_another_server_wake_nothing_up(tmp_path, ours):
    env, folder = {}, tmp_path / ".sandbox"
    if ours:
        # The sandbox's own file, under an environment that names another server.
        _ended(folder)
        env["LAKEGC__SERVER__ENDPOINT"] = "http://127.0.0.1:1"
    else:
        folder.mkdir()
        (folder / "lakegc.toml").write_text('[server]\nendpoint = "http://127.0.0.1:1"\n')
    settings = load_settings(folder / "lakegc.toml", env=env)
    with demo_sandbox.awake(settings) as awake:
        assert awake is settings
        assert awake.server.endpoint == "http://127.0.0.1:1"
        assert not _answers(awake.server.endpoint)


def test_a_sandbox_whose_port_was_taken_moves_and_its_settings_follow(tmp_path):
    settings = _ended(tmp_path / ".sandbox")
    file = demo_sandbox.settings_file(tmp_path / ".sandbox")
    file.write_text(file.read_text().replace("min_age_hours = 24", "min_age_hours = 25"))
    with _taken(settings), demo_sandbox.awake(settings) as awake:
        assert awake.server.endpoint != settings.server.endpoint
        assert _answers(awake.server.endpoint)
        assert awake.repository("lakegc-demo").min_age_hours == 25
        assert load_settings(file, env={}).server.endpoint == awake.server.endpoint


def test_a_new_sandbox_finds_a_free_port(tmp_path):
    settings = _ended(tmp_path / ".sandbox")
    with _taken(settings), demo_sandbox.fresh(tmp_path / ".sandbox") as elsewhere:
        assert elsewhere.endpoint != settings.server.endpoint
        assert _answers(elsewhere.endpoint)


def test_the_lock_goes_with_the_process_that_held_it(tmp_path):
    with demo_sandbox.fresh(tmp_path / ".sandbox"):
        pass
    with (tmp_path / ".sandbox" / ".made-by-lakegc-demo").open() as marker:
        fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
