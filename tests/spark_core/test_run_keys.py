"""The key of a run that nobody named."""

from datetime import UTC, datetime, timedelta

from spark_core.run_keys import new_run_key


class Clock:
    def __init__(self):
        self.time = datetime(2026, 11, 20, 2, 0, 0, 250_000, tzinfo=UTC)

    def now(self):
        return self.time

    def wait(self, seconds):
        self.time += timedelta(seconds=seconds)


def test_two_runs_in_one_second_get_two_keys(tmp_path):
    clock = Clock()
    keys = [str(new_run_key(tmp_path, now=clock.now, wait=clock.wait)) for _ in range(3)]
    assert keys == ["2026-11-20T02-00-00Z", "2026-11-20T02-00-01Z", "2026-11-20T02-00-02Z"]


def test_a_key_never_lies_in_the_future(tmp_path):
    clock = Clock()
    for _ in range(3):
        assert new_run_key(tmp_path, now=clock.now, wait=clock.wait).instant <= clock.time


def test_claims_of_yesterday_are_taken_away(tmp_path):
    clock = Clock()
    new_run_key(tmp_path, now=clock.now, wait=clock.wait)
    clock.time += timedelta(days=2)
    key = new_run_key(tmp_path, now=clock.now, wait=clock.wait)
    assert [claim.name for claim in (tmp_path / "run_keys").iterdir()] == [str(key)]


def test_where_nothing_can_be_written_the_second_is_the_key(tmp_path):
    (tmp_path / "mount").touch()
    clock = Clock()
    for _ in range(2):
        key = new_run_key(tmp_path / "mount" / "home", now=clock.now, wait=clock.wait)
        assert str(key) == "2026-11-20T02-00-00Z"
