"""Spark Connect: a session whose Spark, with its Java, is a server elsewhere.

Such a session has no context. What it cannot say is answered with care by whoever asks for it.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING

from spark_core.errors import SettingsError
from spark_core.extras import installation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Where people name the master of other sessions; the address may hold a token.
NAME = "Spark Connect"

# Spark takes the address from there if a session names none, and so nothing that shows a session's
# properties shows a token.
_ADDRESS = "SPARK_REMOTE"
_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy", "all_proxy")
_HOST_AND_PORT = re.compile(r"sc://(\[[^]]+\]|[^:/;]+)(?::(\d+))?(?=[/;]|$)")
_PORT = 15002
_CONNECT_SECONDS = 10


def is_remote(spark: SparkSession) -> bool:
    """Say whether a session is one of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def chosen_remote() -> str | None:
    """Return the address of the server that this process's session is on; None: no server."""
    return os.environ.get(_ADDRESS)


def choose_remote(address: str | None) -> None:
    """Let this process's session, which is yet to start, be on a Spark Connect server.

    Until then nobody is told: another collector of the same process may have Spark elsewhere.

    Args:
        address: `sc://host:port/;parameters`; None leaves it as it is.
    """
    if address is not None:
        os.environ[_ADDRESS] = address


def remote_config(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the properties of a session on a Spark Connect server.

    Args:
        extra: The operator's own properties; they win.
    """
    return {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
        # The server cuts long texts at their end, and there the error of a task is named.
        "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
        **(extra or {}),
    }


def require_connect(address: str) -> None:
    """Refuse to begin without the libraries of Spark Connect, or a server that takes connections.

    Spark itself would try an address for ten minutes.

    Args:
        address: As for `choose_remote`.

    Raises:
        SettingsError: Names what is missing.
    """
    try:
        import pyspark.sql.connect.session  # noqa: F401 - whether it can be imported
    except ImportError as missing:
        raise SettingsError(
            f"a Spark Connect server as [spark] master needs more libraries ({missing})",
            f"Install them: {installation('connect')}.",
        ) from missing
    found = _HOST_AND_PORT.match(address)
    if found is None or any(os.environ.get(name) for name in (*_PROXIES, *_upper(_PROXIES))):
        return
    host, port = found[1].strip("[]"), int(found[2] or _PORT)
    try:
        socket.create_connection((host, port), _CONNECT_SECONDS).close()
    except OSError as failure:
        raise SettingsError(
            f"no Spark Connect server takes connections at {host}:{port} ({failure})",
            "Look at [spark] master in the settings, and whether the server runs.",
        ) from failure


def _upper(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.upper() for name in names)
