"""The repository whose runs fail at any call."""

import pytest

from lakegc_dagster.sandbox import Sandbox
from tests.support.fault_world import FaultWorld


@pytest.fixture(scope="module")
def world(spark, tmp_path_factory):
    """Build it once: every point begins with its namespace as it was."""
    with Sandbox(tmp_path_factory.mktemp("failing")) as sandbox:
        yield FaultWorld(sandbox, spark, tmp_path_factory.mktemp("aside"))
