"""Count and delay the requests of every Python process of a measured command.

Python imports a module of this name by itself when its folder is on PYTHONPATH. The module does not
change the results of lakegc. It works with any version that counts its requests to the store in
`ObjectStore.requests`.

LAKEGC_BENCH_REQUESTS   folder; each process appends `store KIND COUNT`, `server ROUTE 1`, for rows
                        that it reads from lakegc's own tables `rows KEY COUNT`, and for what a
                        synthetic store takes for itself `feigned KIND MICROSECONDS` to its own file
                        there
LAKEGC_BENCH_SERVER     host:port of the server
LAKEGC_BENCH_STORE_MS   delay before each request to the store
LAKEGC_BENCH_SERVER_MS  delay before each call to the server
LAKEGC_BENCH_PLAN       file; the store of local files answers for `data/` from this plan (see
                        `lakegc_bench_local`)
"""

# ruff: noqa: INP001 - Python finds this module by its name alone

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import wraps
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_FOLDER = os.environ.get("LAKEGC_BENCH_REQUESTS", "")
_SERVER = os.environ.get("LAKEGC_BENCH_SERVER", "")
_PLAN = os.environ.get("LAKEGC_BENCH_PLAN", "")
_STORE_SECONDS = float(os.environ.get("LAKEGC_BENCH_STORE_MS", "0")) / 1000
_SERVER_SECONDS = float(os.environ.get("LAKEGC_BENCH_SERVER_MS", "0")) / 1000

# File descriptors by process id: a forked process opens a file of its own.
_opened: dict[int, int] = {}


def note(line: str) -> None:
    """Append a line to this process's file, if there is one."""
    if not _FOLDER:
        return
    pid = os.getpid()
    if pid not in _opened:
        _opened[pid] = os.open(
            f"{_FOLDER}/{pid}.requests", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644
        )
    # Written at once, because Spark ends its workers without notice.
    os.write(_opened[pid], line.encode())


class _Noted(Counter[str]):
    """A counter that records each addition, and delays the thread that sends the request."""

    def __setitem__(self, kind: str, count: int) -> None:
        added = count - self.get(kind, 0)
        super().__setitem__(kind, count)
        if added > 0:
            note(f"store {kind} {added}\n")
            if _STORE_SECONDS:
                time.sleep(_STORE_SECONDS)


def _watch_stores(contract: ModuleType) -> None:
    make = contract.ObjectStore.__init__

    def make_watched(self: Any, *arguments: Any, **named: Any) -> None:
        make(self, *arguments, **named)
        self.requests = _Noted()

    contract.ObjectStore.__init__ = make_watched


def _watch_tables(reading: Any) -> None:
    read = reading.read_part

    @wraps(read)
    def read_part(store: Any, schema: Any, part: Any, **how: Any) -> Any:
        for batch in read(store, schema, part, **how):
            note(f"rows {part.key} {batch.num_rows}\n")
            yield batch

    reading.read_part = read_part


def _watch_server(connection: ModuleType) -> None:
    send = connection.HTTPConnection.request

    def request(self: Any, method: str, url: str, *arguments: Any, **named: Any) -> Any:
        if f"{self.host}:{self.port}" == _SERVER:
            note(f"server {method}\t{url} 1\n")
            if _SERVER_SECONDS:
                time.sleep(_SERVER_SECONDS)
        return send(self, method, url, *arguments, **named)

    connection.HTTPConnection.request = request


def _put_plan_in_place(_local: ModuleType) -> None:
    # A worker may have started with this module, which then imports the other one.
    if "lakegc_bench_local" not in sys.modules:
        importlib.import_module("lakegc_bench_local")


_WATCHED: dict[str, Callable[[ModuleType], None]] = {
    "spark_core.storage.contract": _watch_stores,
    "spark_core.records.reading": _watch_tables,
    "urllib3.connection": _watch_server,
    **({"spark_core.storage.local": _put_plan_in_place} if _PLAN else {}),
}


class _AfterImport(MetaPathFinder):
    """Changes a module after its normal import."""

    def find_spec(
        self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a watched module by the other finders; leave all other modules to them."""
        change = _WATCHED.pop(name, None)
        if change is None:
            return None
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            _call_after(spec.loader, name, change)
        return spec


def _call_after(loader: Loader, name: str, change: Callable[[ModuleType], None]) -> None:
    run = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        run(module)
        if module.__name__ == name:  # the loader of a zip is one for all its modules
            change(module)

    loader.exec_module = exec_module  # type: ignore[method-assign]


sys.meta_path.insert(0, _AfterImport())
