"""Run the deep tests by parts, and end with one table.

    python -m tests.deep.run                 every part that has not passed at this commit
    python -m tests.deep.run search faults   those whose name begins so
    python -m tests.deep.run --again         also what passed
    python -m tests.deep.run --table         the table alone, of what ran at this commit

A part is a file of `tests/search` or `tests/faults`, or a folder. What a part found is kept below
`.deep/<commit>/`, so that a run which was ended goes on where it was. Where the tree differs from
its commit, results are kept apart from those of the commit, and thrown away by the next run. The
exit code is 1 if a part failed or did not run.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / ".deep"
PAGE = ROOT / "docs" / "deep-run.md"
DIFFERS = "differs"
# Each of their files is a part; of other folders, the folder is.
BY_FILE = ("search", "faults")
BY_FOLDER = ("spark_core", "roundtrip", "lakegc_dagster", "losses", "security", "benchmarks")
# Begun first: one of them at the end would keep a core waiting.
LONGEST = (
    "search/optimized_histories",
    "faults/of_a_policy",
    "roundtrip",
    "faults/of_an_optimized_mark",
    "spark_core",
    "search/policy_histories",
    "search/more_policy_histories",
    "search/concurrent_writers",
)
_NO_TESTS = 5
# Letters of a line of figures.
_SHOWN = 90
_SECONDS_PER_TEST = 7200


@dataclass(frozen=True)
class Part:
    """A part of the deep tests: its name, and the paths that pytest is given."""

    name: str
    path: str


@dataclass(frozen=True)
class Result:
    """What a part found.

    Attributes:
        part: Its name.
        seconds: How long it took.
        passed: Tests that passed.
        skipped: Tests that were skipped.
        failed: Names of the tests that failed.
        tried: What searches say that they tried, a line each.
        code: pytest's exit code.
    """

    part: str
    seconds: int
    passed: int
    skipped: int
    code: int
    failed: list[str] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return self.code == 0


def parts(tests: Path = ROOT / "tests") -> Iterator[Part]:
    """Give every part, the longest first."""
    found = [
        Part(f"{folder}/{_short(path.stem)}", f"tests/{folder}/{path.name}")
        for folder in BY_FILE
        for path in sorted((tests / folder).glob("test_*.py"))
        if "mark.deep" in path.read_text()
    ]
    found += [Part(folder, f"tests/{folder}") for folder in BY_FOLDER]
    ranks = {name: rank for rank, name in enumerate(LONGEST)}
    yield from sorted(found, key=lambda part: ranks.get(part.name, len(ranks)))


def _short(stem: str) -> str:
    return stem.removeprefix("test_").removeprefix("faults_")


def read_report(text: str) -> tuple[int, int, list[str], list[str]]:
    """Read pytest's XML: how many passed and were skipped, which failed, what searches tried."""
    passed = skipped = 0
    failed, tried = [], []
    for case in ET.fromstring(text).iter("testcase"):
        if case.find("skipped") is not None:
            skipped += 1
        elif case.find("failure") is not None or case.find("error") is not None:
            failed.append(f"{case.get('classname')}.{case.get('name')}")
        else:
            passed += 1
        told = [each for each in case.iter("property") if each.get("name") == "figures"]
        tried += [str(each.get("value")) for each in told]
    return passed, skipped, failed, tried


def table(results: Sequence[Result], missing: Sequence[str]) -> str:
    """Give the table of a run, in Markdown."""
    lines = [
        "| part | seconds | passed | skipped | failed | what searches tried |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for result in results:
        told = "<br>".join(_short_figures(line).replace("|", "\\|") for line in result.tried)
        failed = "<br>".join(result.failed) or ("0" if result.is_good else "did not end")
        lines.append(
            f"| {result.part} | {result.seconds:,} | {result.passed} | {result.skipped} "
            f"| {failed} | {told} |"
        )
    lines += [f"| {name} | not run | | | | |" for name in missing]
    passed, skipped = sum(each.passed for each in results), sum(each.skipped for each in results)
    failed = sum(len(each.failed) for each in results)
    seconds = sum(each.seconds for each in results)
    lines.append(f"| **all** | {seconds:,} | {passed} | {skipped} | {failed} | |")
    return "\n".join(lines) + "\n"


def _short_figures(line: str) -> str:
    """Shorten what a search tells; the whole of it is in its log."""
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN].rsplit(' ', 1)[0]} ..."


def _commit() -> tuple[str, bool]:
    """Return the commit's short name, and whether the tree is just that."""
    asked = ["git", "-C", str(ROOT), "rev-parse", "--short=8", "HEAD"]
    name = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    changed = ["git", "-C", str(ROOT), "status", "--porcelain", "--untracked-files=no"]
    return name, not subprocess.run(changed, capture_output=True, text=True, check=True).stdout


def _kept(folder: Path, part: Part) -> Result | None:
    path = folder / (part.name.replace("/", "-") + ".json")
    return Result(**json.loads(path.read_text())) if path.exists() else None


def _run(part: Part, folder: Path) -> Result:
    stem = part.name.replace("/", "-")
    report, log = folder / f"{stem}.xml", folder / f"{stem}.log"
    command = [sys.executable, "-m", "pytest", "-q", "-m", "deep", "-p", "no:cacheprovider"]
    command += [f"--timeout={_SECONDS_PER_TEST}", "--hypothesis-profile=deep"]
    command += [f"--junitxml={report}", part.path]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    begun = time.monotonic()
    with log.open("wb") as out:
        code = subprocess.run(
            command,
            check=False,
            cwd=ROOT,
            env=environment,
            stdout=out,
            stderr=subprocess.STDOUT,
        ).returncode
    seconds = round(time.monotonic() - begun)
    code = 0 if code == _NO_TESTS else code
    passed, skipped, failed, tried = (
        read_report(report.read_text()) if report.exists() else (0, 0, [], [])
    )
    result = Result(part.name, seconds, passed, skipped, code, failed, tried)
    (folder / f"{stem}.json").write_text(json.dumps(asdict(result), indent=1))
    click.echo(f"{part.name}: {passed} passed, {len(failed)} failed, {seconds} s ({log})")
    return result


def _write_page(commit: str, told: str) -> None:
    day = datetime.now(UTC).date().isoformat()
    PAGE.write_text(
        "# The last deep run\n\n"
        f"Commit {commit}, {day}, by `make test-deep` ([tests](development.md#tests)); "
        "each part by itself, seconds by the clock.\n\n" + told
    )


@click.command()
@click.argument("names", nargs=-1)
@click.option("--jobs", default=2, show_default=True, help="Parts at once.")
@click.option("--again", is_flag=True, help="Also parts that passed at this commit.")
@click.option("--table", "only_table", is_flag=True, help="Run nothing; show the table.")
def run(names: tuple[str, ...], jobs: int, *, again: bool, only_table: bool) -> None:
    """Run the deep tests by parts."""
    commit, is_clean = _commit()
    folder = KEPT / (commit if is_clean else DIFFERS)
    if not is_clean and not only_table:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    every = list(parts())
    asked = [part for part in every if not names or part.name.startswith(names)]
    if not only_table:
        done = {part.name for part in asked if (kept := _kept(folder, part)) and kept.is_good}
        left = [part for part in asked if again or part.name not in done]
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(lambda part: _run(part, folder), left))
    results = [kept for part in every if (kept := _kept(folder, part))]
    ran = {result.part for result in results}
    told = table(results, [part.name for part in every if part.name not in ran])
    click.echo(told)
    is_whole = len(ran) == len(every)
    if is_whole and is_clean:
        _write_page(commit, told)
        click.echo(f"written to {PAGE.relative_to(ROOT)}")
    shown = {part.name for part in asked}
    if any(not each.is_good for each in results if each.part in shown) or not shown <= ran:
        raise SystemExit(1)


if __name__ == "__main__":
    run()
