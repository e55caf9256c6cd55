"""Dagster's own pages on a home with runs of the sandbox, as a person finds them."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import urllib3
from click.testing import CliRunner

from lakegc_dagster.definitions import build_defs
from lakegc_dagster.demo import sandbox as demo_sandbox
from lakegc_dagster.launch import webserver
from lakegc_dagster.launch.home import open_instance, prepare_home, write_workspace
from lakegc_dagster.launch.ui import environment
from lakegc_dagster.partitions import add_partition
from lakegc_dagster.resources import Wiring, build_resources
from lakegc_dagster.runs_made_elsewhere import build_runs_made_elsewhere
from lakegc_dagster.sandbox import Sandbox
from spark_core.cli.main import main
from spark_core.model import RunKey
from spark_core.settings import FILE_VARIABLE, Settings, load_settings
from tests.support.small_spark import SMALL_SPARK

# One repository is collected, the other one's mark is refused for the share that would go.
COLLECTED, REFUSED = "collected", "refused"

_SETTINGS = """\
throwaway_repositories = ["{collected}", "{refused}"]
[server]
endpoint = "{endpoint}"
credentials_file = "credentials.json"
[storage]
local_path = "blockstore"
[dagster]
home = "dagster_home"
[spark]
master = "local[2]"
[spark.config]
{spark}
[defaults]
mode = "sweep"
repository_cache_seconds = 0
[repositories.{collected}]
[repositories.{refused}]
max_expired_share = 0.1
share_from_objects = 0
"""
_STARTS_SECONDS = 180


@dataclass(frozen=True)
class ShownHome:
    """A Dagster home with runs in it.

    Attributes:
        settings: The settings of its code location.
        key: The run key of both runs.
        refused: Dagster's id of the run that was refused.
    """

    settings: Settings
    key: RunKey
    refused: str


def write_settings(directory: Path, sandbox: Sandbox) -> Settings:
    """Write the settings of both repositories beside the sandbox's credentials."""
    file = demo_sandbox.settings_file(directory)
    file.write_text(
        _SETTINGS.format(
            collected=COLLECTED,
            refused=REFUSED,
            endpoint=sandbox.endpoint,
            spark="\n".join(f'"{name}" = "{value}"' for name, value in SMALL_SPARK.items()),
        )
    )
    return load_settings(file, env={})


def materialized(settings: Settings, repository_id: str, key: RunKey) -> dg.ExecuteInProcessResult:
    """Let Dagster mark and sweep a repository on the home of the settings."""
    with open_instance(settings.dagster_home) as instance:
        job = build_defs(settings).resolve_job_def("mark_and_sweep")
        return job.execute_in_process(
            instance=instance,
            partition_key=add_partition(instance, repository_id, key),
            raise_on_error=False,
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        )


def run_both(settings: Settings, key: RunKey) -> ShownHome:
    """Mark and sweep one repository by the command line, the other in Dagster, and sum them up."""
    words = ["run", COLLECTED, "--run", str(key)]
    answer = CliRunner().invoke(main, words, env={FILE_VARIABLE: str(settings.file)})
    assert answer.exit_code == 0, answer.output
    tell_of_runs_made_elsewhere(settings)
    refused = materialized(settings, REFUSED, key)
    assert not refused.success
    with open_instance(settings.dagster_home) as instance:
        job = build_defs(settings).resolve_job_def("overview")
        assert job.execute_in_process(instance=instance).success
    return ShownHome(settings, key, refused.run_id)


def tell_of_runs_made_elsewhere(settings: Settings) -> None:
    """Evaluate the sensor once, as Dagster's daemon does."""
    (sensor,) = build_runs_made_elsewhere(settings)
    resources = build_resources(Wiring(settings))
    with (
        open_instance(settings.dagster_home) as instance,
        dg.build_sensor_context(instance, resources=resources) as context,
    ):
        sensor.evaluate_tick(context)


def log_of(settings: Settings) -> Path:
    """Return the file with what the server of the pages says."""
    return settings.dagster_home / "pages.log"


@contextmanager
def pages_of(settings: Settings) -> Iterator[str]:
    """Serve Dagster's pages on loopback as `lakegc ui` does, without the daemon.

    They begin to answer while the block goes on; `answers` waits for it.
    """
    workspace = write_workspace(prepare_home(settings.dagster_home))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = ["-m", webserver.__name__, "-w", str(workspace), "-h", "127.0.0.1", "-p", str(port)]
    # Its code server ends when it hears nothing of it any more.
    with log_of(settings).open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, *words],
            env=environment(settings, os.environ),
            stdout=log,
            stderr=log,
        )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for(pages: str) -> None:
    """Wait until pages are answered."""
    deadline = time.monotonic() + _STARTS_SECONDS
    while True:
        try:
            urllib3.request("GET", f"{pages}/server_info", retries=False, timeout=10)
        except urllib3.exceptions.HTTPError:
            assert time.monotonic() < deadline, "Dagster's pages do not begin"
            time.sleep(0.2)
        else:
            return
