"""Threads of the driver as tasks of a round: how many at once, and what ends all of them."""

import threading
import time
from collections import Counter
from datetime import timedelta

import pyarrow as pa
import pytest

from spark_core.errors import TransientError
from spark_core.records.journal import Journal
from spark_core.sweep import tasks_of_a_round
from spark_core.sweep.deadline import Deadline
from spark_core.sweep.deletion_orders import DeletionOrders, Tally
from spark_core.sweep.why_kept import NOTHING
from tests.support.written_run import NOW, any_name, written_run


@pytest.fixture
def journal(tmp_path):
    run = written_run(tmp_path, spark=None).run
    return Journal(run.store, str(run.key), "5" * 64)


def test_threads_of_this_process_stop_where_one_of_them_fails(journal, monkeypatch):
    began, stopped = threading.Barrier(2), []

    def delete(orders, number, rows):
        assert rows["why"].to_pylist() == [None]
        began.wait(timeout=60)
        if number == 1:
            raise TransientError("the journal cannot be written")
        until = time.monotonic() + 60
        while not orders.is_ended():
            assert time.monotonic() < until
        stopped.append(number)
        return Tally()

    monkeypatch.setattr(tasks_of_a_round, "run_task", delete)
    monkeypatch.setattr(tasks_of_a_round, "cores_here", lambda: 2)
    row = [[1], ["data/s/a"], [4], [NOW], ["s"]]
    tasks = {number: pa.table(row, schema=tasks_of_a_round.PLANNED) for number in range(2)}
    deadline = Deadline(NOW, NOW, timedelta(0))
    orders = DeletionOrders(journal, any_name(NOW, flat=False), deadline, "ab", 1)
    with pytest.raises(TransientError, match="cannot be written"):
        tasks_of_a_round._side_by_side(tasks, orders, NOTHING)
    assert stopped == [0]


def test_no_more_tasks_delete_at_once_than_this_machine_has_cores(journal, monkeypatch):
    at_once, most, lock = [0], [0], threading.Lock()

    def delete(_orders, number, _rows):
        with lock:
            at_once[0] += 1
            most[0] = max(most[0], at_once[0])
        time.sleep(0.01)
        with lock:
            at_once[0] -= 1
        return Tally(Counter(deleted=number))

    monkeypatch.setattr(tasks_of_a_round, "run_task", delete)
    monkeypatch.setattr(tasks_of_a_round, "cores_here", lambda: 2)
    tasks = dict.fromkeys(range(1, 9), tasks_of_a_round.PLANNED.empty_table())
    orders = DeletionOrders(journal, None, Deadline(NOW, NOW, timedelta(0)), "ab", 1)
    tallies = tasks_of_a_round._side_by_side(tasks, orders, NOTHING)
    assert [tally.objects["deleted"] for tally in tallies] == list(range(1, 9))
    assert most == [2]
