"""The end of Spark's Java process."""

import subprocess
import sys

import pytest

ENDS = """
import os, sys
from pathlib import Path
from spark_core.terminal import java_process
from spark_core.spark.session import spark_config, start_session
from spark_core.spark.tasks import ask_executors
properties = spark_config(master="local[1]")
java_process.start_logged(properties, Path(sys.argv[1]))
session = start_session(properties)
assert len(ask_executors(session, 1, lambda batches: batches, "id long")) == 1
print(java_process.end(seconds=60), flush=True)
# As long as Python looks for what Java has to say.
import time
time.sleep(2)
os._exit(0)
"""


@pytest.mark.slow
@pytest.mark.spark
def test_java_ends_without_a_traceback_of_what_heard_from_it(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", ENDS, str(tmp_path / "spark.log")],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "0"), done.stderr
    assert "Traceback" not in done.stderr
