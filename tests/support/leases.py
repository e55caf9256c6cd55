"""A run whose store dates objects by a clock of its own, for tests of the lease."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

from spark_core import lakegc_keys
from spark_core.model import RunKey
from spark_core.run import RunOptions
from tests.support.memory_store import MemoryStore
from tests.support.written_run import NOW

TTL = RunOptions().lease_ttl
A_MOMENT = timedelta(seconds=1)
REQUEST = timedelta(seconds=130)


class DatedStore(MemoryStore):
    """A store that dates objects by a clock of its own, against this machine's."""

    ahead = timedelta(0)

    def head(self, key):
        assert key in self.objects
        return SimpleNamespace(last_modified=datetime.now(UTC) + self.ahead)


def other_run(run, *, later=timedelta(days=1), **changes):
    """The same repository under another run key, on the same clock."""
    return replace(run.at(RunKey.at(NOW + later)), **changes)


def records_of(run):
    return [
        (record["epoch"], record["number"], record["state"])
        for record in (
            json.loads(data)
            for key, data in sorted(run.store.objects.items())
            if key.startswith(lakegc_keys.LEASE)
        )
    ]


def end_by_error(held):
    """The holder ends by an error while executors are at work on what it sent."""
    held.sent_until = held.expires_at
    held.close()


def killed(held):
    """Let go of what the kernel lets go of when a process ends."""
    held._presence._file.close()
    return held


def answer_lost(store, key, data, problem):
    store.objects.setdefault(key, data)
    raise problem("the answer to the first request was lost")
