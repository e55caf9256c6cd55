"""Work that an interrupt asks to end, and that comes to its own end."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

Result = TypeVar("Result")

AGAIN = "\nending what is under way; Ctrl-C again ends it at once\n"
# A thread that Python itself interrupts hears of it between two waits.
_HEARS_EVERY_SECONDS = 0.2


def to_its_end(work: Callable[[], Result], stop: Callable[[], None]) -> Result:
    """Do work that an interrupt does not break off: it is asked to end, and waited for.

    Args:
        work: Done in a thread of its own.
        stop: Asks it to end soon.

    Returns:
        What the work returns.

    Raises:
        BaseException: The interrupt, after the work has ended; a second one at once. Else the error
            of the work.
    """
    ended: Future[Result] = Future()

    def run() -> None:
        try:
            ended.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again by `result`
            ended.set_exception(error)

    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    if is_main and callable(before):
        # Spark's own handler cancels tasks, which kills them in the middle of a request.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Thread(target=run, name="lakegc-work", daemon=True).start()
        while not ended.done():
            wait([ended], _HEARS_EVERY_SECONDS)
    except BaseException:
        sys.stderr.write(AGAIN if is_main else "")
        stop()
        wait([ended])
        raise
    finally:
        if is_main and callable(before):
            signal.signal(signal.SIGINT, before)
    return ended.result()
