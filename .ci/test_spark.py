"""Run the demo, a killed sweep, a cluster and a damaged task on each Spark; `make test-spark`.

    python .ci/test_spark.py [--only NAME]... [--part PART]...

A Spark other than the one that is installed lies in a folder of its own below the environment,
which comes first on Python's path. Python 3.13, and the oldest version of each library that
`pyproject.toml` allows, have an environment of their own. Ends with 0 if everything passed and all
marks of one history came to the same fates.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

# The newest of each line that the platforms of docs/clusters.md have; others are tried by hand.
SPARKS = {"3.5": "3.5.9", "4.0": "4.0.5", "4.1": "4.1.4"}
NEWEST, CONNECT, PYTHON, OLDEST = "newest", "connect", "python3.13", "oldest"
NAMES = (*SPARKS, NEWEST, CONNECT, PYTHON, OLDEST)
ENVIRONMENTS = Path(sys.prefix) / ".sparks"
LAKEGC = "from spark_core.cli.main import main; main()"
WANTED_BY_TESTS = ("hypothesis", "moto[s3,server]", "pytest", "pytest-timeout")
TESTS = {
    "fates": ["tests/spark_versions"],
    "killed sweep": ["tests/spark_core/sweep/test_sweep_resumed.py", "-k", "executor_was_killed"],
    "cluster": ["tests/roundtrip/test_cluster.py"],
    "damaged task": ["tests/spark_core/spark/test_tasks.py", "-k", "error_on_an_executor"],
}
PARTS = ("demo", *TESTS)


@dataclass
class Place:
    """Where one Spark is run.

    Attributes:
        name: One of `NAMES`.
        python: The interpreter.
        env: Its environment.
        folder: What it writes goes there.
        versions: Of Spark and Python.
    """

    name: str
    python: str
    env: dict[str, str]
    folder: Path
    versions: str = ""


@dataclass
class Outcomes:
    """What came of all parts so far."""

    rows: list[tuple[str, str, str, str]] = field(default_factory=list)
    digests: dict[str, str] = field(default_factory=dict)
    has_failed: bool = False


def _say(words: str = "") -> None:
    sys.stdout.write(words + "\n")
    sys.stdout.flush()


def installed(name: str, folder: Path) -> Place | None:
    """Install what a name stands for, unless it is there; None if this machine cannot."""
    env = {**os.environ, "DAGSTER_DISABLE_TELEMETRY": "yes", "PYTHONDONTWRITEBYTECODE": "1"}
    if name in SPARKS:
        target = ENVIRONMENTS / f"pyspark-{SPARKS[name]}"
        if not (target / "pyspark").exists():
            _pip(sys.executable, "--target", str(target), f"pyspark=={SPARKS[name]}")
        env["PYTHONPATH"] = str(target)
        env["SPARK_HOME"] = str(target / "pyspark")
        return Place(name, sys.executable, env, folder)
    if name in (PYTHON, OLDEST):
        python = ENVIRONMENTS / name / "bin" / "python"
        if not python.exists():
            base = sys.executable if name == OLDEST else _base_python()
            if base is None:
                return None
            subprocess.run([base, "-m", "venv", python.parents[1]], check=True)
        versions = "constraints.txt" if name == PYTHON else _oldest_versions(folder)
        _pip(str(python), "-c", versions, ".[s3]", *WANTED_BY_TESTS)
        return Place(name, str(python), env, folder)
    return Place(name, sys.executable, env, folder)


def _oldest_versions(folder: Path) -> str:
    """Write constraints: each library that lakegc names itself at the oldest that it allows."""
    from spark_core.json_and_toml import read_toml

    project = read_toml((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["s3"]]
    found = (re.match(r"([\w-]+)>=([\d.]+)", each) for each in wanted)
    pins = [f"{each[1]}=={each[2]}" for each in found if each]
    path = folder / "oldest.txt"
    path.write_text("\n".join(pins) + "\n")
    return str(path)


def _pip(python: str, *words: str) -> None:
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *words]
    subprocess.run(command, cwd=ROOT, check=True)


def _base_python() -> str | None:
    for found in (os.environ.get("PYTHON313"), shutil.which(PYTHON)):
        if found and subprocess.run([found, "--version"], check=False).returncode == 0:
            return found
    return None


def versions_of(place: Place) -> str:
    """Ask a place which Spark and Python it has."""
    code = "import platform, pyspark; print(pyspark.__version__, platform.python_version())"
    command = [place.python, "-c", code]
    found = subprocess.run(command, env=place.env, capture_output=True, text=True, check=True)
    spark, python = found.stdout.split()
    return f"Spark {spark}, Python {python}"


@contextmanager
def _server(place: Place) -> Iterator[dict[str, str]]:
    """Give a demo its environment, and the Connect server that it may want."""
    from tests.support.connect_server import IMPORTED_AHEAD, connect_server

    if place.name != CONNECT:
        yield place.env
        return
    env = {**place.env, "PYSPARK_PYTHON": place.python}
    log = place.folder / "server.log"
    with connect_server(log, conf=IMPORTED_AHEAD, env=env) as address:
        yield {**place.env, "SPARK_REMOTE": address}


def run_demo(place: Place) -> int:
    """Run the demo, whose own proof decides."""
    command = [place.python, "-c", LAKEGC, "demo", "--directory", str(place.folder / "sandbox")]
    with _server(place) as env:
        return _said(command, env, place.folder, place.folder / "demo.log")


def run_tests(place: Place, part: str) -> int:
    """Run the tests that are a part."""
    env = {**place.env, "LAKEGC_TESTS_FATES_DIGEST": str(place.folder / "digest")}
    if place.name == CONNECT:
        env["LAKEGC_TESTS_ON_CONNECT"] = "1"
    command = [
        *(place.python, "-m", "pytest", "-q", "-m", "", "-p", "no:cacheprovider", "-x"),
        *("--basetemp", str(place.folder / "tests"), *TESTS[part]),
    ]
    return _said(command, env, ROOT, place.folder / f"{part.replace(' ', '-')}.log")


def _said(command: list[str], env: dict[str, str], cwd: Path, log: Path) -> int:
    with log.open("wb") as lines:
        done = subprocess.run(
            command, env=env, cwd=cwd, stdout=lines, stderr=subprocess.STDOUT, check=False
        )
    if done.returncode:
        sys.stderr.write(log.read_text(errors="replace")[-6000:] + "\n")
    return done.returncode


def run_all(names: list[str], parts: list[str], folder: Path) -> Outcomes:
    """Run the parts on each Spark, one after the other."""
    found = Outcomes()
    for name in names:
        (folder / name).mkdir()
        place = installed(name, folder / name)
        if place is None:
            words = f"skipped: there is no {PYTHON}; name one in PYTHON313"
            found.rows.append((name, "", "", words))
            continue
        place.versions = versions_of(place)
        _say(f"{name}: {place.versions}")
        for part in parts:
            _run_part(place, part, found)
    return found


def _run_part(place: Place, part: str, found: Outcomes) -> None:
    began = time.monotonic()
    code = run_demo(place) if part == "demo" else run_tests(place, part)
    seconds = time.monotonic() - began
    result = "passed" if code == 0 else f"failed ({code})"
    digest = place.folder / "digest"
    if part == "fates" and digest.exists():
        found.digests[place.name] = digest.read_text().strip()
        result += f", {found.digests[place.name][:12]}"
    found.has_failed |= code != 0
    row = (f"{place.name} ({place.versions})", part, f"{seconds:.0f}", result)
    found.rows.append(row)
    _say("  ".join(row))


def main() -> int:
    """Run what the command line names."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("--only", action="append", choices=NAMES, help="this Spark alone")
    asked.add_argument("--part", action="append", choices=PARTS, help="this part alone")
    asked.add_argument("--keep", type=Path, help="folder for all logs; else they go")
    chosen = asked.parse_args()
    with tempfile.TemporaryDirectory(prefix="lakegc-sparks-") as temporary:
        folder = chosen.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        found = run_all(chosen.only or list(NAMES), chosen.part or list(PARTS), folder.resolve())
    widths = [max(len(row[column]) for row in found.rows) for column in range(4)]
    _say()
    for row in found.rows:
        _say("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)))
    alike = len(set(found.digests.values())) <= 1
    if len(found.digests) > 1:
        _say(f"the fates are {'the same' if alike else 'NOT THE SAME'} in {len(found.digests)}")
    passed = sum(row[3].startswith("passed") for row in found.rows)
    failed = sum(row[3].startswith("failed") for row in found.rows) + (not alike)
    _say(f"{passed} passed, {failed} failed")
    return int(found.has_failed or not alike)


if __name__ == "__main__":
    sys.exit(main())
