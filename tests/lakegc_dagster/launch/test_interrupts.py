"""Ctrl-C while runs work side by side: each of them hears it."""

import os
import signal
import subprocess
import sys
import threading
import time

import dagster as dg
import pytest

from lakegc_dagster.launch.interrupts import Interrupts
from spark_core.lakefs.side_by_side import side_by_side


def test_both_threads_end_and_the_old_handlers_come_back():
    interrupts, began, heard = Interrupts(), threading.Barrier(3), []
    before = signal.getsignal(signal.SIGINT)

    def work(name):
        try:
            with interrupts.heard_here():
                began.wait()
                while True:
                    time.sleep(0.01)
        except dg.DagsterExecutionInterruptedError:
            heard.append(name)
        yield name

    def press():
        began.wait()
        # A signal just before a thread begins to wait is heard when it wakes.
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    with pytest.raises(KeyboardInterrupt), interrupts.passed_on():
        list(side_by_side(["a", "b", "never begun"], work, at_once=2))
    assert sorted(heard) == ["a", "b"]
    assert signal.getsignal(signal.SIGINT) is before


def test_what_begins_after_it_ends_at_once():
    interrupts = Interrupts()
    with pytest.raises(KeyboardInterrupt), interrupts.passed_on():
        signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), interrupts.heard_here():
        raise AssertionError("it began")


@pytest.mark.slow
def test_the_second_one_ends_a_process_whose_call_does_not_end():
    script = (
        "import os, signal, threading, time\n"
        "from lakegc_dagster.launch.interrupts import Interrupts\n"
        "with Interrupts().passed_on():\n"
        "    threading.Thread(target=time.sleep, args=(60,)).start()\n"
        "    try: signal.raise_signal(signal.SIGINT)\n"
        "    except KeyboardInterrupt: signal.raise_signal(signal.SIGINT)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, timeout=30, check=False
    )
    assert ended.returncode == 130
    assert b"Ctrl-C again ends it at once" in ended.stderr
