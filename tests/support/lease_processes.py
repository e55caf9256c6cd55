"""A process of this machine that holds the lease or a task's share of its lock, to be killed."""

import os
import subprocess
import sys
from pathlib import Path

_ROOT = str(Path(__file__).parents[2])
_HOLDER = """
import sys, time
from spark_core.lock import processes

processes.folder = lambda: sys.argv[1]
presence = processes.announce(sys.argv[2])
print(presence is not None, flush=True)
time.sleep(300)
"""
_TASK = """
import sys, time
from spark_core.lock import processes

with processes.at_work(sys.argv[1]):
    print(True, flush=True)
    time.sleep(300)
"""


def holder(folder, lease_id):
    return _started(_HOLDER, str(folder), lease_id)


def task(path):
    return _started(_TASK, path)


def _started(script, *arguments):
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": _ROOT},
    )
    assert process.stdout.readline() == "True\n"
    process.stdout.close()
    return process
