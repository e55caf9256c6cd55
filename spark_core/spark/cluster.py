"""What the executors of a cluster need of us: this very package, and the libraries that it imports.

On a laptop the executors are the driver. Elsewhere they are other machines. There the package may
be missing, or be another version with other rules, and neither gives an error. So the package is
shipped, and then compared.
"""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import SparkSession

from spark_core import __version__
from spark_core.errors import SettingsError
from spark_core.site import SITE
from spark_core.spark.remote import is_remote
from spark_core.spark.session import SPARK_FAILURES, cores, runs_here

_PACKAGE = "spark_core"
# These imports load all that a task of a mark or a sweep needs.
_ENTRANCES = ("spark_core.mark", "spark_core.sweep")
# ZIP knows no earlier instant. A fixed one makes equal sources equal archives.
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)

Sources: TypeAlias = list[tuple[str, bytes]]

_prepared: set[str] = set()


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


def prepare_cluster(spark: SparkSession, *, ship_package: bool = True) -> None:
    """Give the executors this package, and make sure that they run it.

    This happens once per application, and does nothing on a local master.

    Args:
        spark: The session.
        ship_package: Send the package's sources; else the executors must have the same version
            installed.

    Raises:
        SettingsError: If the executors cannot run what the driver runs, or reach no store.
    """
    if runs_here(spark):
        return
    application = _application(spark)
    if application in _prepared:
        return
    sources = package_sources()
    if ship_package:
        _ship(spark, str(write_archive(sources)))
    executors = probe_executors(spark)
    require_same_package(executors, fingerprint(sources), ship_package=ship_package)
    require_network(executors)
    _prepared.add(application)


def _application(spark: SparkSession) -> str:
    if not is_remote(spark):
        return spark.sparkContext.applicationId
    # Sessions of the other kind, which the type names, have none.
    remote: Any = spark
    return str(remote.session_id)


def _ship(spark: SparkSession, archive: str) -> None:
    if is_remote(spark):
        spark.addArtifacts(archive, pyfile=True)
    else:
        spark.sparkContext.addPyFile(archive)


def package_sources() -> Sources:
    """Return the Python files of this package: name within an archive, and content."""
    return sorted(_sources_in(resources.files(_PACKAGE), _PACKAGE))


def _sources_in(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        within = f"{name}/{entry.name}"
        if entry.is_dir():
            yield from _sources_in(entry, within)
        elif entry.name.endswith(".py"):
            yield within, entry.read_bytes()


def write_archive(sources: Sources) -> Path:
    """Write sources as a zip that Python imports from.

    The file stays until this process ends: Spark's driver serves it to every new executor.
    """
    directory = Path(tempfile.mkdtemp(prefix="lakegc-package-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    path = directory / f"lakegc-{__version__}.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in sources:
            archive.writestr(zipfile.ZipInfo(name, _ZIP_EPOCH), content, zipfile.ZIP_DEFLATED)
    return path


def fingerprint(sources: Sources) -> str:
    """Return the digest of sources; a `PythonProcess` has that of those it would import."""
    digest = hashlib.sha256()
    for name, content in sources:
        digest.update(f"{name} {len(content)} ".encode() + content)
    return digest.hexdigest()


def probe_executors(spark: SparkSession) -> list[PythonProcess]:
    """Ask as many executor processes as there are cores to describe themselves.

    Raises:
        SettingsError: If their Python cannot even start, or is another version than the driver's.
    """
    count = max(1, cores(spark))
    columns = [column.name for column in fields(PythonProcess)]
    described = spark.range(0, count, 1, count).mapInArrow(
        _describing(_self_description(_ENTRANCES), columns),
        ", ".join(f"{column} string" for column in columns),
    )
    try:
        found = described.collect()
    except SPARK_FAILURES as failure:
        raise _unusable(str(failure)) from failure
    return [PythonProcess(*row) for row in sorted({tuple(row) for row in found})]


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
    lines = [
        line.strip()
        for line in text.splitlines()
        if line.strip() and not line.strip().startswith("at ")
    ]
    telling = [
        line for line in lines if "Error: " in line or "[PYTHON_" in line or "error=" in line
    ]
    reason = (telling[-1] if telling else lines[0] if lines else "no word")[:500]
    return SettingsError(
        f"the executors of the Spark cluster cannot run Python tasks ({reason})",
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


def require_same_package(
    executors: Sequence[PythonProcess], driver: str, *, ship_package: bool
) -> None:
    """Refuse executors that lack this package or a library of it, or have other sources.

    Args:
        executors: Their descriptions.
        driver: Fingerprint of the driver's sources.
        ship_package: Whether the sources were sent, for the advice.

    Raises:
        SettingsError: Names the machine and what to do.
    """
    for there in executors:
        where = f"{there.executable} on {there.host}"
        if there.missing.partition(".")[0] == _PACKAGE:
            raise SettingsError(
                f"the executors of the Spark cluster have no lakegc ({where} finds no module "
                f"{there.missing!r}). "
                + (
                    "It was sent and is not there: look for lakegc-*.zip in the executors' log."
                    if ship_package
                    else "Set ship_package = true in [spark], or install the driver's version "
                    "there."
                )
            )
        if there.missing:
            raise SettingsError(
                f"the executors of the Spark cluster lack a library ({where} finds no module "
                f"{there.missing!r})",
                "Give them an environment with lakegc's requirements; "
                f"{SITE}/clusters.html shows how.",
            )
        if there.fingerprint != driver:
            raise SettingsError(
                f"the executors of the Spark cluster run another lakegc than the driver ({where} "
                "imports it from "
                f"{there.place}, and its sources differ): they could decide otherwise",
                "Set ship_package = true in [spark], or install the driver's version there.",
            )


def require_network(executors: Sequence[PythonProcess]) -> None:
    """Refuse executors whose Python can reach no other machine, and so no store.

    Args:
        executors: Their descriptions.

    Raises:
        SettingsError: Names a machine, and the compute that serves.
    """
    for there in executors:
        if there.offline:
            raise SettingsError(
                f"the Python of the Spark executors may not use the network ({there.offline}, on "
                f"{there.host}), and lakegc reaches the object store from there",
                "Use compute that lets it: on Databricks a cluster with dedicated or standard "
                "access instead of serverless compute, elsewhere executors with a network.",
            )
