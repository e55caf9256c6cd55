"""The order of what a collection asks the server and what writers in other threads do beside it.

A call of the server is one moment, and so is each thing that a writer does: one waits for the
other. Writers may act between any two calls.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

from spark_core.lakefs.calls import Call
from spark_core.lakefs.transport import Transport
from spark_core.run import Run
from tests.support.recorded_events import Recorder, References
from tests.support.writers import WatchedStore

# What a call of the SDK is named, besides the endpoint.
_SUFFIX = "_with_http_info"
# Calls that tell of one branch: it is their second argument.
_OF_A_BRANCH = {"diff_branch", "list_objects"}


@dataclass
class OrderedCalls:
    """Takes note of events beside writers who act in threads of their own.

    Attributes:
        seen: Returns what refers to objects; no writer acts meanwhile.
        recorder: Gets the events.
    """

    seen: Callable[[], References]
    recorder: Recorder = field(default_factory=Recorder)
    _moment: threading.Lock = field(default_factory=threading.Lock)
    _writer: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.recorder.changed(self.seen())

    def act(self, does: Callable[[], object]) -> None:
        """Let a writer do one thing; the collection waits for that, and not for what is noted."""
        with self._writer:
            with self._moment:
                does()
                fill = self.recorder.changing()
            fill(self.seen())

    @contextmanager
    def listening(self, run: Run) -> Iterator[Run]:
        """Note the calls of a run; yields the run to use. It must not be the writers' process that
        calls the server by the client of lakegc.
        """
        real = Transport._once

        def once(
            transport: Transport, call: Call, method: Callable[..., Any], *sent: Any, **more: Any
        ) -> Any:
            name = method.__name__.removesuffix(_SUFFIX)
            with self._moment:
                self.recorder.served(name, sent[1] if name in _OF_A_BRANCH else "")
                return real(transport, call, method, *sent, **more)

        with patch.object(Transport, "_once", once):
            yield replace(run, store=WatchedStore(run.store, lambda _: None, self.recorder.stored))
