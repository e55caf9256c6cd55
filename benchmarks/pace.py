"""Measure a task's deletions on an S3 server that throttles them: rate, failures, refused requests.

    python -m benchmarks.pace SERVER                    whole requests are answered 503 SlowDown
    python -m benchmarks.pace SERVER --some             single keys are
    python -m benchmarks.pace SERVER --rate 3500 --objects 105000 --tasks 2

SERVER is the path of a program that serves S3 from memory and takes `-addr`, `-log`, `-del-rate`
and `-del-some`; a line of its log ends an answer, with the status after the name of the operation.
The objects lie in one slice for each task; the tasks run side by side, as on one machine.
"""

from __future__ import annotations

import argparse
import re
import socket
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import boto3
import pyarrow as pa
from rich.console import Console

from spark_core import schemas
from spark_core.addresses.candidates import Limits
from spark_core.addresses.namespace import Namespace
from spark_core.records.journal import Journal
from spark_core.storage import ObjectStore, StoreOptions, open_store
from spark_core.sweep.deadline import Deadline
from spark_core.sweep.delete_batches import run_task
from spark_core.sweep.deletion_orders import DeletionOrders, Tally
from spark_core.sweep.pacing import first_rate

_PLAN = pa.schema([*list(schemas.EXPIRED_ADDRESSES)[:3], pa.field("why", pa.string())])
_PUTS_AT_ONCE = 16
_START_SECONDS = 10.0


def main() -> None:
    """Measure once and print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("server", type=Path)
    parser.add_argument("--rate", type=int, default=3_500, help="keys a second that it deletes")
    parser.add_argument("--some", action="store_true", help="single keys are throttled")
    parser.add_argument("--objects", type=int, default=105_000)
    parser.add_argument("--tasks", type=int, default=2)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "requests.log")
        throttle = ["-del-rate", str(asked.rate), *(["-del-some"] if asked.some else [])]
        with served(asked.server, log, throttle) as endpoint:
            seconds, tally = swept(endpoint, asked.objects, asked.tasks)
        answers = deletions(log)
    # The server lets a second's worth through at once when it begins.
    rate = max(0, tally.objects["deleted"] - asked.rate) / seconds
    Console().print(
        f"{seconds:.1f} s, {rate:,.0f} keys a second ({rate / asked.rate:.0%} of {asked.rate:,}), "
        f"{dict(tally.objects)}, requests by status {dict(answers)}",
        soft_wrap=True,
    )


@contextmanager
def served(server: Path, log: Path, throttle: list[str]) -> Iterator[str]:
    """Run the server on a free port; yield its URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(server), "-addr", f"127.0.0.1:{port}", "-log", str(log), *throttle]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until:
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def swept(endpoint: str, objects: int, tasks: int) -> tuple[float, Tally]:
    """Upload objects and delete them by tasks; return the seconds of the tasks, and what they did.

    Args:
        endpoint: URL of the server.
        objects: How many.
        tasks: How many tasks at once.
    """
    options = StoreOptions(
        s3_endpoint=endpoint,
        s3_region="us-east-1",
        s3_access_key_id="bench",
        s3_secret_access_key="bench",  # noqa: S106 - the server checks none
        allow_http=True,
    )
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="bench",
        aws_secret_access_key="bench",  # noqa: S106 - the server checks none
    )
    client.create_bucket(Bucket="bench")
    store = open_store(Namespace.parse("s3://bench/lake"), options)
    plans = [planned(store, f"data/slice{task}/", objects // tasks) for task in range(tasks)]
    later = datetime.now(UTC) + timedelta(hours=1)
    long_ago = datetime(2000, 1, 1, tzinfo=UTC)
    orders = DeletionOrders(
        Journal(store, "bench", "5" * 64),
        Limits(later, later, long_ago, flat=False, strangers="collect", inherited="collect"),
        Deadline.after(timedelta(minutes=30), store),
        "bench",
        1,
        rate=first_rate(None, 1),
    )
    total = Tally()
    began = time.monotonic()
    with ThreadPoolExecutor(tasks) as pool:
        for tally in pool.map(lambda task: run_task(orders, task, plans[task]), range(tasks)):
            total.add(tally)
    return time.monotonic() - began, total


def planned(store: ObjectStore, folder: str, objects: int) -> pa.Table:
    """Upload the objects of a task; return its plan, from the listing."""
    with ThreadPoolExecutor(_PUTS_AT_ONCE) as pool:
        list(pool.map(lambda number: store.put(f"{folder}{number:08}", b"1"), range(objects)))
    listed = pa.Table.from_batches(store.list(folder), schemas.OBJECT_LISTING)
    columns = [listed[name] for name in ("key", "size_bytes", "last_modified")]
    return pa.table([*columns, pa.nulls(len(listed), pa.string())], schema=_PLAN)


def deletions(log: Path) -> Counter[str]:
    """Count the server's answers to requests for deletion, by status."""
    found = re.findall(r"DeleteObjects (\d{3})", log.read_text())
    return Counter(found)


if __name__ == "__main__":
    main()
