"""A Spark cluster on this machine whose executors share nothing with the driver but the machine.

`local-cluster` starts executors as processes of their own, which inherit the
driver's environment and find its packages. Here their Python is another one:
it has the libraries but not lakegc, another home, and none of the driver's
credentials.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import py4j
import pyspark

MASTER = "local-cluster[2,1,1024]"

# What executors of other machines would not have.
HIDDEN = ("AWS_", "AZURE_", "GOOGLE_", "LAKEGC_")
OWN_PACKAGES = (
    "spark_core",
    "lakegc_dagster",
    "lakegc-",
    "_lakegc",
    "_editable_impl_lakegc",
    "__editable__",
)

_WRAPPER = """#!/bin/sh
for name in $(env | sed -n 's/^\\(\\({hidden}\\)[A-Za-z0-9_]*\\)=.*/\\1/p'); do unset "$name"; done
export HOME={home} AWS_EC2_METADATA_DISABLED=true
# Where the tests themselves find lakegc by it, executors would, too.
unset PYTHONPATH
exec {python} "$@"
"""


@dataclass(frozen=True)
class SparkCluster:
    """Where the cluster's pieces lie.

    Attributes:
        home: `SPARK_HOME` to start the driver with; what workers write goes there.
        python: Interpreter of the executors.
    """

    home: Path
    python: Path

    @classmethod
    def made_in(cls, directory: Path) -> SparkCluster:
        """Make a Spark home and a Python environment in an empty directory."""
        home = directory / "spark"
        home.mkdir(parents=True)
        for entry in Path(pyspark.__file__).parent.iterdir():
            if entry.name != "work":
                (home / entry.name).symlink_to(entry)
        return cls(home, _bare_python(directory))

    def environment(self, **more: str) -> dict[str, str]:
        """Environment for a driver of this cluster."""
        return {
            **os.environ,
            "SPARK_HOME": str(self.home),
            "PYSPARK_PYTHON": str(self.python),
            **more,
        }

    def run(self, code: str, *arguments: str) -> str:
        """Run some Python as an executor would, and return what it said."""
        command = [self.python, "-c", code, *arguments]
        done = subprocess.run(
            command,
            env=self.environment(),
            cwd=self.home,
            capture_output=True,
            text=True,
            check=False,
        )
        return (done.stdout + done.stderr).strip()


def _bare_python(directory: Path) -> Path:
    """Make an interpreter that has every library of this one, but not the project."""
    packages = directory / "packages"
    packages.mkdir()
    # The Spark that is imported may lie beside that of the environment.
    imported = {Path(found.__file__).parent for found in (pyspark, py4j)}
    for entry in imported:
        (packages / entry.name).symlink_to(entry)
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        own = entry.name.startswith(OWN_PACKAGES) or entry.suffix == ".pth"
        if not own and not (packages / entry.name).exists():
            (packages / entry.name).symlink_to(entry)
    paths = (
        directory
        / "environment"
        / "lib"
        / f"python{sys.version_info[0]}.{sys.version_info[1]}"
        / "site-packages"
    )
    paths.mkdir(parents=True)
    (paths / "libraries.pth").write_text(f"{packages}\n")
    base = Path(sys.base_prefix) / "bin"
    (directory / "environment" / "pyvenv.cfg").write_text(
        f"home = {base}\ninclude-system-site-packages = false\n"
    )
    binary = directory / "environment" / "bin" / "python"
    binary.parent.mkdir()
    binary.symlink_to(base / f"python{sys.version_info[0]}.{sys.version_info[1]}")
    wrapper = directory / "executor-python"
    (directory / "home").mkdir()
    wrapper.write_text(
        _WRAPPER.format(hidden="\\|".join(HIDDEN), home=directory / "home", python=binary)
    )
    wrapper.chmod(0o755)
    return wrapper
