"""Libraries that only some users need, and the one sentence that names those that are absent."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Literal

from spark_core.errors import SettingsError

Extra = Literal["azure", "certificate", "charts", "connect", "gcs", "iceberg", "s3", "spark", "ui"]

# What is imported of each extra; pyproject.toml says which distributions bring it.
_MODULES: dict[Extra, tuple[str, ...]] = {
    "azure": ("azure.identity", "azure.storage.blob"),
    "certificate": ("cryptography",),
    "charts": ("matplotlib",),
    "connect": ("google.rpc", "grpc", "grpc_status"),
    "gcs": ("google.cloud.storage",),
    "iceberg": ("pyiceberg",),
    "s3": ("boto3",),
    "spark": ("pyspark", "pandas"),
    "ui": ("dagster_webserver",),
}


def require(extra: Extra, what: str) -> None:
    """Refuse to go on without the libraries of an extra.

    Args:
        extra: The extra that brings them.
        what: What needs them, in the plural: the beginning of the sentence.

    Raises:
        SettingsError: If one of them is not installed; the sentence names the extra.
    """
    absent = [module for module in _MODULES[extra] if not _is_installed(module)]
    if absent:
        raise SettingsError(
            f"{what} need {' and '.join(absent)}, not installed here",
            f"On every machine that runs lakegc: {installation(extra)}.",
        )


def installation(extra: Extra) -> str:
    """Return the command that installs an extra: by path, as no index has lakegc."""
    wheel = f"{_distribution().replace('-', '_')}-*.whl"
    return f'pip install "$(echo {wheel})[{extra}]", beside its wheel (`make wheels`)'


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        # A package above it is not there.
        return False


def _distribution() -> str:
    """Return the name under which this code was installed; a cluster may have the engine alone."""
    for name in ("lakegc", "lakegc-engine"):
        try:
            version(name)
        except PackageNotFoundError:
            continue
        return name
    return "lakegc"
