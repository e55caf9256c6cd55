"""The rounds of a sweep: each under a look and a lease that are still good, until everything has an
outcome.
"""

from collections import Counter
from datetime import timedelta
from types import SimpleNamespace

import pytest

from spark_core.errors import CorruptTableError, LeaseLostError, TransientError
from spark_core.phases import NOTHING_BY_THIS_SWEEP, NOTHING_DELETED, Deleting, phase
from spark_core.records.journal import Journal
from spark_core.run import RunOptions
from spark_core.sweep import rounds
from spark_core.sweep.deletion_orders import Tally
from spark_core.sweep.why_kept import NOTHING
from tests.support.written_run import NOW, any_name, written_run


class Driver:
    """The loop of the rounds over executors and looks that a test plays."""

    def __init__(self, folder, monkeypatch, **options):
        run = written_run(folder, spark=None).run
        self.clock = run.environment.clock
        self.run = SimpleNamespace(
            key=run.key,
            repository=run.repository,
            store=run.store,
            namespace=run.namespace,
            now=self.clock.now,
            options=RunOptions(**options),
            spark=SimpleNamespace(
                sparkContext=SimpleNamespace(
                    defaultParallelism=2,
                    master="local[2]",
                    statusTracker=lambda: SimpleNamespace(getJobIdsForGroup=lambda _group: []),
                    getLocalProperty=lambda _name: None,
                ),
                conf={"spark.speculation": "false"},
            ),
        )
        self.retries, self.is_here = 0, False
        self.journal = Journal(run.store, str(run.key), "5" * 64)
        self.log, self.told, self.played = [], [], []
        self.lease = SimpleNamespace(
            expires_at=NOW, beat=self.beat, sent_until=None, tasks_lock="lock"
        )
        self.look_takes = timedelta(seconds=20)
        concluded = SimpleNamespace(read=lambda: "concluded", rows=0, release=lambda: None)
        monkeypatch.setattr(rounds, "Concluded", lambda *_: concluded)
        monkeypatch.setattr(rounds, "objects_of_plan", lambda _: "plan")
        monkeypatch.setattr(rounds, "deletes_here", lambda _: self.is_here)
        monkeypatch.setattr(rounds, "delete_as_tasks", self.play)

    def beat(self):
        self.log.append("beat")
        self.lease.expires_at = self.clock.instant + self.run.options.lease_ttl

    def look(self, _run, plan, _mark, concluded):
        assert (plan, concluded) == ("plan", "concluded")
        self.log.append("look")
        began = self.run.now()
        self.clock.instant += self.look_takes
        return SimpleNamespace(
            began=began,
            kept=NOTHING,
            figures=f"look {self.log.count('look')}",
            release=lambda: self.log.append("forget"),
        )

    def play(self, _run, _sources, _kept, orders, _tasks, *, is_here):
        """Let the executors do the next thing of the test's list.

        Objects by outcome, and how long it took.
        """
        self.log.append("round")
        assert is_here == self.is_here
        assert orders.tasks_lock == "lock", "each task works under the lease's lock"
        lasts = (orders.deadline.instant - orders.deadline.given_at).total_seconds()
        objects, took = self.played.pop(0)
        self.clock.instant += timedelta(seconds=lasts if took is None else took)
        self.told.append((orders.round, orders.sweep, lasts))
        left = [("data/s/x", "failed", "SlowDown")] * ("failed" in objects)
        return Tally(Counter(objects), Counter(objects), left, self.retries)

    def sweep(self, *played, progress=None, sent=None):
        self.played = list(played)
        expired = SimpleNamespace(manifest=SimpleNamespace(rows=10))
        plan = rounds.SweepPlan(expired, {}, any_name(NOW, flat=False), self.look, None)
        return rounds.delete_in_rounds(
            self.run,
            plan,
            self.journal,
            self.lease,
            [].append if progress is None else progress.append,
            sent=sent,
        )


@pytest.fixture
def driver(tmp_path, monkeypatch):
    return Driver(tmp_path, monkeypatch, lease_ttl=timedelta(hours=1))


def test_an_ordinary_sweep_is_one_look_one_round_and_then_forgets_what_it_saw(driver):
    progress = []
    swept = driver.sweep(({"deleted": 8, "kept": 2}, 1), progress=progress)
    assert driver.log == ["look", "beat", "round", "forget"]
    assert (swept.rounds, swept.second_look) == (1, "look 1")
    assert swept.tally.objects == {"deleted": 8, "kept": 2}
    assert (progress[-1].concluded, progress[-1].planned, progress[-1].kept) == (10, 10, 2)
    assert "round 1: 10 of 10 objects done, 2 kept, 0 failed" in str(progress[-1])


def test_a_round_ends_before_its_look_is_ten_minutes_old_and_the_next_one_looks_again(driver):
    swept = driver.sweep(({"deleted": 4, "unsent": 6}, None), ({"deleted": 5, "failed": 1}, 1))
    assert driver.log == ["look", "beat", "round", "look", "beat", "round", "forget"]
    (_, first, lasts), (_, second, _) = driver.told
    assert 399 < lasts <= 400, (
        "ten minutes, less the 20 seconds that the look took and 3 minutes of the client's own"
    )
    assert first == second, "one process"
    assert swept.second_look == "look 2"
    assert swept.tally.objects == {"deleted": 9, "failed": 1}, (
        "what was left to the second round is counted once"
    )
    assert swept.tally.left == [("data/s/x", "failed", "SlowDown")]


def test_a_look_that_is_still_good_serves_another_round(tmp_path, monkeypatch):
    driver = Driver(tmp_path, monkeypatch, lease_ttl=timedelta(seconds=120))
    driver.sweep(*[({"deleted": 1, "unsent": 1}, None)] * 4, ({"deleted": 1}, 1))
    lasts = [round(lasts) for _, _, lasts in driver.told]
    assert lasts[:3] == [90, 90, 90], "the lease, less a margin"
    assert driver.log[:8] == ["look", "beat", "round", "beat", "round", "beat", "round", "beat"]
    assert driver.log[8:11] == ["round", "look", "beat"], (
        "what it has left then is not worth a round"
    )


def test_a_lease_that_is_lost_ends_the_sweep_before_the_next_round(driver):
    def lost():
        raise LeaseLostError("the lease is lost")

    def beat():
        driver.beat()
        driver.lease.beat = lost

    driver.lease.beat = beat
    with pytest.raises(LeaseLostError):
        driver.sweep(({"unsent": 4, "deleted": 1}, None), ({"deleted": 4}, 1))
    assert driver.log.count("round") == 1


def test_a_look_that_takes_longer_than_it_is_good_for_deletes_nothing_and_says_so(driver):
    driver.look_takes = timedelta(minutes=11)
    with pytest.raises(
        TransientError,
        match=r"3 rounds passed without a single deletion.*good for 0:10:00.*lease_ttl_seconds",
    ):
        driver.sweep(*[({"unsent": 10}, 0)] * 3)
    assert all(lasts < 0 for _, _, lasts in driver.told)


def test_rounds_in_which_no_task_comes_to_a_request_end_by_naming_what_makes_them_longer(
    tmp_path, monkeypatch
):
    driver = Driver(tmp_path, monkeypatch, lease_ttl=timedelta(seconds=120))
    with pytest.raises(
        TransientError,
        match=r"3 rounds passed.*The last one had 0:01:30, and no task came to its first "
        r"request.*lease_ttl_seconds",
    ):
        driver.sweep(*[({"unsent": 10}, None)] * 3)


def test_rounds_that_get_on_are_not_counted_as_idle(driver):
    idle, busy = ({"unsent": 9}, 0), ({"unsent": 9, "deleted": 1}, 0)
    assert driver.sweep(idle, idle, busy, idle, idle, ({"deleted": 9}, 0)).rounds == 6


@pytest.mark.parametrize(
    ("master", "retries", "speculation", "lost"),
    [
        ("local[2]", 1, "true", False),
        ("spark://head:7077", 0, "false", False),
        ("spark://head:7077", 1, "false", True),
        ("yarn", 0, "true", True),
    ],
)
def test_an_executor_that_was_lost_may_be_at_work_until_the_deadline_it_was_given(
    driver, master, retries, speculation, lost
):
    driver.run.spark.sparkContext.master, driver.retries = master, retries
    driver.run.spark.conf["spark.speculation"] = speculation
    began = driver.run.now() + driver.look_takes
    driver.sweep(({"deleted": 10}, 5))
    until = driver.lease.sent_until
    if not lost:
        assert until is None
        return
    ((_, _, lasts),) = driver.told
    assert timedelta() <= until - (began + timedelta(seconds=lasts)) < timedelta(seconds=1)


def test_nobody_is_at_work_any_more_where_threads_of_this_process_deleted(driver):
    driver.is_here, driver.run.spark = True, None
    driver.sweep(({"deleted": 10}, 5))
    assert driver.lease.sent_until is None


def test_an_executor_that_was_lost_in_one_round_may_be_at_work_in_the_next_ones(
    driver, monkeypatch
):
    driver.run.spark.sparkContext.master, driver.retries = "spark://head:7077", 1
    play = driver.play

    def without_loss(*arguments, **named):
        driver.retries = int(not driver.told)
        return play(*arguments, **named)

    monkeypatch.setattr(rounds, "delete_as_tasks", without_loss)
    driver.sweep(({"deleted": 4, "unsent": 6}, 1), ({"deleted": 6}, 1))
    ((_, _, lasts), _) = driver.told
    assert driver.lease.sent_until < NOW + timedelta(seconds=lasts + 30), "the first round's"


def test_executors_may_be_at_work_after_an_error_in_a_round_and_not_after_one_between(driver):
    with pytest.raises(IndexError):
        driver.sweep()
    assert driver.lease.sent_until is not None
    driver.lease.sent_until = None
    look, driver.look = driver.look, None
    with pytest.raises(TypeError):
        driver.sweep()
    driver.look = look
    assert driver.lease.sent_until is None


def test_a_damaged_lease_in_a_sweep_under_way_ends_with_what_was_deleted(driver):
    def damaged():
        raise CorruptTableError(
            "lease/0000000001/0000000002", None, "the record of a lease that was damaged"
        )

    def beat():
        driver.beat()
        driver.lease.beat = damaged

    driver.lease.beat, sent = beat, Deleting("journal/")
    with pytest.raises(CorruptTableError) as ended, phase(NOTHING_DELETED), phase(sent):
        driver.sweep(({"unsent": 3, "deleted": 7}, None), ({"deleted": 3}, 1), sent=sent)
    assert "this sweep is known to have deleted 7 objects in rounds that ended" in str(ended.value)
    assert "Nothing was deleted" not in str(ended.value)


def test_a_look_that_fails_before_the_first_round_ends_with_nothing_deleted(driver):
    def away(*_):
        raise TransientError("the server does not answer")

    driver.look, sent = away, Deleting("journal/")
    with pytest.raises(TransientError, match=rf"answer\. {NOTHING_BY_THIS_SWEEP}$"), phase(sent):
        driver.sweep(({"deleted": 3}, 1), sent=sent)


def test_rounds_that_had_no_time_to_send_anything_have_deleted_nothing(driver):
    driver.look_takes, sent = timedelta(minutes=11), Deleting("journal/")
    with pytest.raises(TransientError, match=rf"{NOTHING_BY_THIS_SWEEP}$"), phase(sent):
        driver.sweep(*[({"unsent": 10}, 0)] * 3, sent=sent)
