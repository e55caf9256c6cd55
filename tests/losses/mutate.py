"""Remove each guard from a copy of the code, and check that the test of its loss fails.

    python -m tests.losses.mutate            every guard of guards.toml
    python -m tests.losses.mutate 5 12       those of these losses
    python -m tests.losses.mutate --jobs 2   two at a time

A guard whose test still passes without it guards nothing, or is not tested; the exit code is 1
then. The working tree is not touched.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

import click

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COPIED = ("spark_core", "lakegc_dagster", "tests", "docs", "pyproject.toml", "workspace.yaml")
# pytest's exit code when tests ran and failed; other codes (no such test, a broken import) prove
# nothing.
_FAILED = 1
_SECONDS_PER_TEST = 600


@dataclass(frozen=True)
class Mutation:
    """A removed guard.

    Attributes:
        loss: Row of the table of losses.
        incident: What happened elsewhere.
        guard: The guard, as text.
        file: Where the guard is.
        find: Its source text, which is once in the file.
        replace: The source text without it.
        test: The test that must fail without it, by pytest's name.
        model: Its lines in the model of the protocol, by their names in `tests/model/protocol.pml`.
    """

    loss: int
    incident: str
    guard: str
    file: str
    find: str
    replace: str
    test: str
    model: Sequence[str] = ()


def mutations() -> Iterator[Mutation]:
    """Read guards.toml."""
    for loss in tomllib.loads((HERE / "guards.toml").read_text())["loss"]:
        for guard in loss["guards"]:
            yield Mutation(loss["number"], loss["incident"], **guard)


def without(source: str, mutation: Mutation) -> str:
    """Return the source without the guard.

    Raises:
        ValueError: If its text is not in the source exactly once; then guards.toml must be changed.
    """
    found = source.count(mutation.find)
    if found != 1:
        raise ValueError(
            f"loss {mutation.loss}: {mutation.file} has {found} times, wanted "
            f"once:\n{mutation.find}"
        )
    return source.replace(mutation.find, mutation.replace)


def run_tests(copy: Path, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run tests of the copy, with the copy's code."""
    env = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        f"--timeout={_SECONDS_PER_TEST}",
    ]
    return subprocess.run(
        [*words, *tests], cwd=copy, env=env, capture_output=True, text=True, check=False
    )


def copied(into: Path) -> Path:
    """Copy what the tests need, and return the folder."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, into / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            into.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, into)
    return into


def is_caught(copy: Path, mutation: Mutation) -> bool:
    """Remove the guard from the copy, run its test, restore the guard; return whether the test
    failed.
    """
    file, began = copy / mutation.file, time.monotonic()
    source = file.read_text()
    file.write_text(without(source, mutation))
    try:
        result = run_tests(copy, [mutation.test])
    finally:
        file.write_text(source)
    caught = result.returncode == _FAILED
    words = "caught" if caught else f"SURVIVED (pytest ended {result.returncode})"
    tail = "" if caught else f"\n{result.stdout[-3000:]}"
    seconds = time.monotonic() - began
    click.echo(
        f"{mutation.loss:>4}  {words:<9} {seconds:5.0f} s  {mutation.test}  {mutation.guard}{tail}"
    )
    return caught


@click.command()
@click.argument("losses", nargs=-1, type=int)
@click.option(
    "--jobs",
    default=1,
    type=click.IntRange(1),
    show_default=True,
    help="Guards that are taken out at once, each of a copy of its own.",
)
def main(losses: tuple[int, ...], jobs: int) -> None:
    """Remove the guards of some LOSSES (rows of docs/safety.md; by default all), and check that
    their tests fail.
    """
    chosen = [mutation for mutation in mutations() if not losses or mutation.loss in losses]
    if unknown := set(losses) - {mutation.loss for mutation in chosen}:
        raise click.UsageError(f"no loss has the number {min(unknown)}")
    with tempfile.TemporaryDirectory(prefix="lakegc-mutations-") as folder:
        copies: Queue[Path] = Queue()
        for number in range(jobs):
            copies.put(copied(Path(folder) / str(number)))
        first = copies.get()
        whole = run_tests(first, sorted({mutation.test for mutation in chosen}))
        copies.put(first)
        click.echo(f"as it is: {whole.stdout.strip().splitlines()[-1]}")
        if whole.returncode:
            click.echo(whole.stdout)
            sys.exit(1)

        def on_any_copy(mutation: Mutation) -> bool:
            copy = copies.get()
            try:
                return is_caught(copy, mutation)
            finally:
                copies.put(copy)

        with ThreadPoolExecutor(jobs) as pool:
            caught = sum(pool.map(on_any_copy, chosen))
    click.echo(f"{len(chosen)} guards taken out, {caught} caught")
    sys.exit(0 if caught == len(chosen) else 1)


if __name__ == "__main__":
    main()
