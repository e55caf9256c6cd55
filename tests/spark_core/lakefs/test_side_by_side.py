from __future__ import annotations

import threading
import time
from collections import deque

import pytest

from spark_core.lakefs.side_by_side import side_by_side


def alive() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("lakegc-ask")]


@pytest.mark.parametrize("at_once", [1, 2, 16])
def test_every_item_is_asked_about_once_and_its_answers_keep_their_order(at_once):
    items = [f"branch-{number}" for number in range(50)]
    found = list(
        side_by_side(items, lambda item: (f"{item}/{lot}" for lot in range(3)), at_once=at_once)
    )
    assert sorted(found) == [(item, f"{item}/{lot}") for item in sorted(items) for lot in range(3)]
    for item in items:
        assert [answer for asked, answer in found if asked == item] == [
            f"{item}/{lot}" for lot in range(3)
        ]
    assert alive() == []


def test_without_items_nothing_is_asked():
    assert list(side_by_side([], lambda item: [item], at_once=16)) == []


def test_as_many_are_asked_about_at_a_time_as_may_be_and_no_more():
    meet, most, now, lock = threading.Barrier(4, timeout=20), 0, 0, threading.Lock()

    def ask(item):
        nonlocal most, now
        with lock:
            now += 1
            most = max(most, now)
        meet.wait()
        with lock:
            now -= 1
        yield item

    assert len(list(side_by_side(range(12), ask, at_once=4))) == 12
    assert most == 4


def test_a_slow_caller_holds_the_asking_up_instead_of_filling_the_memory():
    made = []

    def ask(item):
        for lot in range(1_000):
            made.append(lot)
            yield lot

    answers = side_by_side(range(3), ask, at_once=3)
    for _ in range(10):
        next(answers)
    time.sleep(0.3)
    # Taken, waiting to be taken, and one in each thread's hands.
    assert len(made) <= 10 + 3 + 3
    answers.close()
    assert alive() == []


def test_the_first_error_ends_what_is_under_way_and_nothing_further_is_asked():
    asked, begun = [], threading.Barrier(2, timeout=20)

    def ask(item):
        asked.append(item)
        if item < 2:
            begun.wait()
        if item == 1:
            raise ValueError("branch 1 cannot be read")
        while True:
            time.sleep(0.01)
            yield item

    with pytest.raises(ValueError, match="branch 1 cannot be read"):
        deque(side_by_side(range(100), ask, at_once=2), maxlen=0)
    assert sorted(asked) == [0, 1]
    assert alive() == []


def test_an_error_of_the_caller_leaves_no_thread_behind():
    def ask(item):
        while True:
            yield item

    with pytest.raises(ZeroDivisionError):
        sum(1 // answer for _, answer in side_by_side(range(5), ask, at_once=5))
    assert alive() == []


def test_fewer_than_one_at_a_time_is_refused():
    with pytest.raises(ValueError, match="at_once is 0"):
        list(side_by_side([1, 2], lambda item: [item], at_once=0))


def test_calls_made_side_by_side_are_all_counted(client):
    found = {
        "creation_date": 1795245461,
        "default_branch": "main",
        "storage_id": "",
        "storage_namespace": "local://a",
    }
    names = [f"repo-{number}" for number in range(100)]
    server, scripted = client(
        {
            ("GET", "/repositories/repo-[0-9]+"): lambda asked: (
                200,
                {**found, "id": asked.path.rpartition("/")[2]},
            )
        }
    )
    answers = side_by_side(names, lambda name: [server.repository(name).id], at_once=16)
    assert sorted(answers) == sorted((name, name) for name in names)
    assert server.requests["get_repository"] == len(scripted.calls) == 100
