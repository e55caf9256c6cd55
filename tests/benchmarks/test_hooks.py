"""The hooks count and delay what a process asks of store and server, and change nothing else."""

import os
import subprocess
import sys
from pathlib import Path

from benchmarks import figures

ROOT = Path(__file__).resolve().parents[2]

ASKS = """
import os, sys, time
from spark_core.addresses.namespace import Namespace
from spark_core.storage import StoreOptions, open_store
import http.server, threading, urllib3

store = open_store(Namespace("local://bench", sys.argv[1]), StoreOptions(local_path=sys.argv[1]))
began = time.monotonic()
store.put("a", b"1")
assert store.read("a") == b"1"
assert time.monotonic() - began >= 0.1, "two requests of 50 ms each"
assert store.requests == {"put": 1, "read": 1}, store.requests
if os.fork() == 0:
    store.read("a")
    os._exit(0)
os.wait()

class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(204)
        self.end_headers()
    def log_message(self, *_): pass

server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
threading.Thread(target=server.serve_forever, daemon=True).start()
os.environ["LAKEGC_BENCH_SERVER"] = f"127.0.0.1:{server.server_port}"
import pyarrow as pa
from spark_core import schemas
from spark_core.records import reading, writing
schema = schemas.MISSING_ADDRESSES
rows = pa.table({"address": ["data/x", "data/y"]}, schema=schema)
folder = "_lakefs/retention/gc/missing/run_id=1/"
target = writing.Target(store, folder, writing.new_attempt(), schema)
part = writing.write_parts(target, 0, iter(rows.to_batches())).parts[0]
assert [batch.num_rows for batch in reading.read_part(store, schema, part)] == [2]
import sitecustomize
sitecustomize._SERVER = os.environ["LAKEGC_BENCH_SERVER"]
urllib3.PoolManager().request("GET", f"http://{sitecustomize._SERVER}/api/v1/repositories/bench")
"""


def test_requests_of_a_process_and_of_its_forks_are_noted(tmp_path):
    noted = tmp_path / "noted"
    noted.mkdir()
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'benchmarks' / 'hooks'}{os.pathsep}{ROOT}",
        "LAKEGC_BENCH_REQUESTS": str(noted),
        "LAKEGC_BENCH_STORE_MS": "50",
    }
    (tmp_path / "block" / "bench").mkdir(parents=True)
    subprocess.run(
        [sys.executable, "-c", ASKS, str(tmp_path / "block")],
        env=environment,
        check=True,
        timeout=120,
    )
    files = list(noted.glob("*.requests"))
    store, server, rows, feigned = figures.read_requests(
        line for file in files for line in file.read_text().splitlines()
    )
    assert len(files) == 2
    assert store == {"put": 2, "read": 3}
    assert rows == {"missing/part": 2}
    assert server == {"GET /repositories/*": 1}
    assert not feigned
