"""Ask the Python of Spark's executors what it is, where lakegc itself may not be installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from spark_core.errors import SettingsError
from spark_core.foreign_errors import reason
from spark_core.site import SITE
from spark_core.spark.failures import spark_failures, surfacing_errors
from spark_core.spark.session import Session
from spark_core.spark.tasks import ask_executors, cores

# These imports load all that a task of a mark or a sweep needs.
_ENTRANCES = ("spark_core.mark", "spark_core.sweep")

# Rows that executors are tried with.
_TRIED = 2


@dataclass(frozen=True)
class PythonProcess:
    """A Python process, as it describes itself.

    Attributes:
        host: Its machine.
        python: Its version, `major.minor`.
        executable: Its interpreter.
        missing: The module that could not be imported, empty when all could.
        place: Where the package was imported from.
        fingerprint: Digest of the package's sources, as imported.
        offline: Why it can reach no other machine, empty when nothing forbids it.
    """

    host: str
    python: str
    executable: str
    missing: str
    place: str
    fingerprint: str
    offline: str


def probe_executors(spark: Session) -> list[PythonProcess]:
    """Ask as many executor processes as there are cores to describe themselves.

    Raises:
        SettingsError: If their Python cannot even start, or is another version than the driver's.
    """
    count = max(1, cores(spark))
    columns = [column.name for column in fields(PythonProcess)]
    describe = _describing(_self_description(_ENTRANCES), columns)
    types = ", ".join(f"{column} string" for column in columns)
    try:
        found = ask_executors(spark, count, describe, types)
    except spark_failures() as failure:
        raise _unusable(str(failure)) from failure
    return [PythonProcess(*row) for row in sorted({tuple(row) for row in found})]


def try_executors(start: Callable[[], Session]) -> Session:
    """Let executors run this package's Python on a few rows.

    Args:
        start: Gives the session.

    Returns:
        The session.

    Raises:
        SettingsError: If it does not start, or its executors do not return the rows.
    """
    try:
        session = start()
        with surfacing_errors():
            rows = len(ask_executors(session, _TRIED, _echo, "id long"))
    except (PySparkException, Py4JError, RuntimeError) as failure:
        raise SettingsError(
            f"Spark cannot be used ({reason(str(failure))})",
            "Look at [spark] in the settings, and at whether its executors have Python with this "
            "version of lakegc.",
        ) from failure
    if rows != _TRIED:
        raise SettingsError(f"Spark counted {rows} of {_TRIED} rows", "Look at the cluster's log.")
    return session


def _echo(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _describing(
    describe_self: Callable[[], tuple[str, ...]], columns: Sequence[str]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the task of a probe, which travels by value."""

    def describe(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for _ in numbers:
            values = [[value] for value in describe_self()]
            yield pa.RecordBatch.from_arrays([pa.array(each) for each in values], columns)

    return describe


def _unusable(text: str) -> SettingsError:
    return SettingsError(
        f"the executors of the Spark cluster cannot run Python tasks ({reason(text)})",
        "They need the driver's Python version, pandas and pyarrow: set PYSPARK_PYTHON (or "
        "spark.pyspark.python) to an interpreter that exists on every machine. "
        f"{SITE}/clusters.html shows how.",
    )


def _self_description(entrances: tuple[str, ...]) -> Callable[[], tuple[str, ...]]:
    """Return a function that travels by value: where it runs, this package may not exist."""
    why_offline = _network_description()

    def describe() -> tuple[str, ...]:
        import hashlib
        import importlib
        import platform
        import sys
        from importlib import resources

        missing, place, digest = "", "", hashlib.sha256()
        try:
            for name in entrances:
                importlib.import_module(name)
        except ImportError as error:
            missing = error.name or str(error)
        package = sys.modules.get(entrances[0].partition(".")[0])
        if package is not None:
            place = str(getattr(package, "__file__", ""))
            todo = [(package.__name__, resources.files(package.__name__))]
            sources = []
            while todo:
                within, folder = todo.pop()
                for entry in folder.iterdir():
                    if entry.is_dir():
                        todo.append((f"{within}/{entry.name}", entry))
                    elif entry.name.endswith(".py"):
                        sources.append((f"{within}/{entry.name}", entry.read_bytes()))
            for name, source in sorted(sources):
                digest.update(f"{name} {len(source)} ".encode() + source)
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        found = (platform.node(), version, sys.executable, missing, place, digest.hexdigest())
        return (*found, why_offline())

    return describe


def _network_description() -> Callable[[], str]:
    """Return a function that travels by value: why its process reaches no other machine."""

    def describe() -> str:
        import socket

        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
                # An address for documents: this looks for a way there, and sends nothing.
                silent.connect(("192.0.2.1", 9))
        except OSError as failure:
            alone = all(name.startswith("lo") for _, name in socket.if_nameindex())
            # Machines without a way to there may still have one to the store.
            return str(failure) if alone or isinstance(failure, PermissionError) else ""
        return ""

    return describe
