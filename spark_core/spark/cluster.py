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
from collections.abc import Iterator, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeAlias

from pyspark.sql import SparkSession

from spark_core import __version__
from spark_core.errors import SettingsError
from spark_core.site import SITE
from spark_core.spark.connect import is_remote
from spark_core.spark.python_of_executors import PythonProcess, probe_executors
from spark_core.spark.session import runs_here

_PACKAGE = "spark_core"
# ZIP knows no earlier instant. A fixed one makes equal sources equal archives.
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)

Sources: TypeAlias = list[tuple[str, bytes]]

_prepared: set[str] = set()


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
