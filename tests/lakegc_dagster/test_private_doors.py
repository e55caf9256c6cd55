"""Whether the Dagster that is installed still has what lakegc uses behind its public interface."""

from importlib import import_module

import dagster as dg
import pytest

CLOSED = (
    f"Dagster {dg.__version__} has no {{}} any more: find another way in "
    "lakegc_dagster/private_doors.py"
)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("dagster._core.instance", "InstanceRef"),
        ("dagster._core.storage.noop_compute_log_manager", "NoOpComputeLogManager"),
    ],
)
def test_the_private_class_is_still_where_it_was(module, name):
    try:
        found = getattr(import_module(module), name, None)
    except ImportError:
        found = None
    assert found is not None, CLOSED.format(f"{module}.{name}")


def test_an_instance_of_a_home_is_still_made_with_another_keeper_of_logs(tmp_path):
    from lakegc_dagster.private_doors import NO_LOG_FILES, instance_without_log_files

    (tmp_path / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    with instance_without_log_files(tmp_path) as instance:
        found = type(instance.compute_log_manager)
        assert (found.__module__, found.__name__) == tuple(NO_LOG_FILES.values()), CLOSED.format(
            "overrides of compute_logs in InstanceRef.from_dir"
        )
        assert not instance.telemetry_enabled, CLOSED.format(
            "DagsterInstance.from_ref that reads the home's own dagster.yaml"
        )
