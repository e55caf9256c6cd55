"""What tests of failing stores share: a server that answers as told, and what it is asked."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from spark_core.errors import TransientError
from spark_core.storage import ObjectStore
from tests.support.scripted_s3 import Answer, Request, scripted_s3

Store = Callable[..., ObjectStore]

ACTIONS: dict[str, Callable[[ObjectStore], Any]] = {
    "list": lambda store: list(store.list("data/")),
    "children": lambda store: store.children("data/"),
    "read": lambda store: store.read("data/x"),
    "range": lambda store: store.read_range("data/x", 0, 4),
    "parquet": lambda store: list(store.read_parquet("data/x")),
    "put": lambda store: store.put("data/x", b"x"),
    "put_if_absent": lambda store: store.put_if_absent("data/x", b"x"),
}


@contextmanager
def told_server(store_at: Store) -> Iterator[Store]:
    """Run one server for a module: clients are slow to open, and stores of one endpoint share them.

    Yields:
        Gives a store whose server answers as told from now on: an answer, or a function of the
        request; and options of the store.
    """
    told: dict[str, Callable[[Request], Answer]] = {}
    with scripted_s3(lambda request: told["answer"](request)) as endpoint:  # noqa: PLW0108 - looked up at each request

        def answer(answers: Answer | Callable[[Request], Answer], **changes: Any) -> ObjectStore:
            told["answer"] = answers if callable(answers) else lambda _request: answers
            return store_at(endpoint, **changes)

        yield answer


def everything_told(error: BaseException) -> str:
    return (
        "".join(traceback.format_exception(error)) + repr(error.__context__) + repr(error.__cause__)
    )


def require_passing_after_silence(answering: Store, action: str) -> None:
    """Ask a store that does not answer in time."""
    release = threading.Event()

    def silent(_request: Request) -> Answer:
        release.wait(10)
        return Answer(503)

    try:
        with pytest.raises(TransientError, match="no answer"):
            ACTIONS[action](answering(silent, read_timeout=timedelta(milliseconds=300)))
    finally:
        release.set()
