"""What a measured command took: exact CPU, also of what it started and left behind."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import processes

linux = pytest.mark.skipif(
    not Path("/proc/self/smaps_rollup").exists(), reason="reads /proc as Linux has it"
)


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (
            "/usr/lib/jvm/bin/java -cp x org.apache.spark.deploy.SparkSubmit pyspark-shell",
            processes.JAVA,
        ),
        ("java -cp x org.apache.spark.executor.CoarseGrainedExecutorBackend", processes.EXECUTOR),
        ("java -version", processes.OTHER),
        ("java -Xmx128m -cp x org.apache.spark.launcher.Main SparkSubmit", processes.OTHER),
        ("/venv/bin/python -m pyspark.daemon pyspark.worker", processes.WORKERS),
        ("/venv/bin/python -m lakegc_daemon pyspark.worker", processes.WORKERS),
        (
            "/venv/bin/python -m pyspark.daemon pyspark.sql.worker.plan_data_source_read",
            processes.PLANNING,
        ),
        ("/venv/bin/python -m pyspark.sql.worker.write_into_data_source", processes.PLANNING),
        ("/bin/bash /venv/bin/spark-submit", processes.OTHER),
    ],
)
def test_a_process_is_known_by_its_command_line(command, kind):
    assert processes.kind_of(command.replace(" ", "\0").encode(), is_root=False) == kind


def test_the_command_itself_is_the_driver_whatever_it_runs():
    assert processes.kind_of(b"java\0", is_root=True) == processes.DRIVER


@pytest.mark.slow
@linux
def test_cpu_of_children_counts_also_where_the_command_does_not_wait_for_them(tmp_path):
    burn = "import time\nwhile time.process_time() < 0.6: pass"
    command = (
        f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {burn!r}]); "
        "print('started'); sys.exit(3)"
    )
    result = tmp_path / "result.json"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "benchmarks.processes",
            str(result),
            "--",
            sys.executable,
            "-c",
            command,
        ],
        check=True,
        timeout=120,
    )
    found = json.loads(result.read_text())
    assert found["exit_code"] == 3
    assert [line for _, line in found["lines"]] == ["started"]
    assert 0.6 <= sum(found["cpu_seconds"].values()) < 30
    assert sum(found["pss_bytes"].values()) > 2**20


@linux
def test_memory_is_what_the_kernel_calls_proportional():
    assert processes.proportional_bytes(Path("/proc/self/smaps_rollup").read_text()) > 2**20
