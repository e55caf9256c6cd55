"""Work that an interrupt asks to end, and Ctrl-C while runs work side by side."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from spark_core.cli import collecting
from spark_core.command import main
from spark_core.errors import INTERRUPTED
from spark_core.interrupts import Interrupts, to_its_end
from spark_core.lakefs.side_by_side import side_by_side


def press(number=signal.SIGINT):
    os.kill(os.getpid(), number)


def test_an_interrupt_asks_the_work_to_end_and_is_raised_after_it(capsys):
    began, asked, done = threading.Event(), threading.Event(), []

    def work():
        began.set()
        assert asked.wait(60)
        time.sleep(0.3)
        done.append("what was under way")

    threading.Thread(target=lambda: began.wait(60) and press()).start()
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        to_its_end(work, asked.set)
    assert done == ["what was under way"]
    assert signal.getsignal(signal.SIGINT) is before
    assert "Ctrl-C again ends it at once" in capsys.readouterr().err


def test_the_second_one_waits_for_nothing():
    never = threading.Event()
    timer = threading.Timer(0.2, press)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        to_its_end(never.wait, lambda: threading.Timer(0.2, press).start())
    never.set()


def test_a_handler_of_spark_that_cancels_tasks_is_not_asked():
    asked = []
    before = signal.signal(signal.SIGINT, lambda *_: asked.append("cancelled"))
    try:
        ended = threading.Event()
        threading.Timer(0.2, press).start()
        with pytest.raises(KeyboardInterrupt):
            to_its_end(lambda: ended.wait(60), ended.set)
    finally:
        signal.signal(signal.SIGINT, before)
    assert asked == []


def test_a_thread_that_is_interrupted_asks_its_work_to_end_as_well(capsys):
    began, asked, raised = threading.Event(), threading.Event(), []

    def work():
        began.set()
        assert asked.wait(60)

    def run():
        try:
            to_its_end(work, asked.set)
        except InterruptedError:
            raised.append(asked.is_set())

    thread = threading.Thread(target=run)
    thread.start()
    assert began.wait(60)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread.ident), ctypes.py_object(InterruptedError)
    )
    thread.join(60)
    assert raised == [True]
    assert capsys.readouterr().err == ""


def test_without_an_interrupt_it_gives_the_result_or_the_error_of_the_work():
    assert to_its_end(lambda: 7, pytest.fail) == 7
    with pytest.raises(ZeroDivisionError):
        to_its_end(lambda: 1 // 0, pytest.fail)


def test_both_threads_end_and_the_old_handlers_come_back():
    interrupts, began, begun, heard = Interrupts(), threading.Barrier(3), [], []
    before = signal.getsignal(signal.SIGINT)

    def work(name):
        try:
            with interrupts.heard_here():
                begun.append(name)
                began.wait()
                while True:
                    time.sleep(0.01)
        except KeyboardInterrupt:
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
    # The third one is heard, too, where a thread takes it before the caller has stopped them.
    assert {"a", "b"} <= {*heard}
    assert sorted(begun) == ["a", "b"]
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
        "from spark_core.interrupts import Interrupts\n"
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


def test_sigterm_ends_a_command_over_one_repository_as_ctrl_c_does(monkeypatch, tmp_path, capsys):
    def collected(*_):
        press(signal.SIGTERM)
        time.sleep(60)

    monkeypatch.setattr(collecting._Night, "collected", collected)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    (tmp_path / "lakegc.toml").write_text(
        '[server]\nendpoint = "http://127.0.0.1:9"\n[repositories.repo]\n'
    )
    before = signal.getsignal(signal.SIGTERM)
    assert main(["mark", "repo", "--config", str(tmp_path / "lakegc.toml")]) == INTERRUPTED
    assert signal.getsignal(signal.SIGTERM) is before
    assert "ended by Ctrl-C: no sweep had begun" in capsys.readouterr().err
