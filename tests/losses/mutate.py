"""Take each guard out of a copy of the code, one after the other, and look whether the test of its loss fails.

    python -m tests.losses.mutate            every guard of guards.toml
    python -m tests.losses.mutate 5 12       those of these losses

A guard whose test still passes without it guards nothing, or is not tested; the exit code is 1 then. The working tree is
not touched.
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
from dataclasses import dataclass
from pathlib import Path

import click

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COPIED = ("spark_core", "lakegc_dagster", "tests", "docs", "pyproject.toml", "workspace.yaml")
# What pytest ends with when tests ran and failed; anything else (no such test, a broken import) shows nothing.
_FAILED = 1
_SECONDS_PER_TEST = 600


@dataclass(frozen=True)
class Mutation:
    """A guard taken out.

    Attributes:
        loss: Row of the table of losses.
        incident: What happened elsewhere.
        guard: What stands against it, in words.
        file: Where the guard is.
        find: Its text, once in the file.
        replace: What stands there without it.
        test: The test that must fail then, as pytest names it.
    """

    loss: int
    incident: str
    guard: str
    file: str
    find: str
    replace: str
    test: str


def mutations() -> Iterator[Mutation]:
    """Read guards.toml."""
    for loss in tomllib.loads((HERE / "guards.toml").read_text())["loss"]:
        for guard in loss["guards"]:
            yield Mutation(loss["number"], loss["incident"], **guard)


def without(source: str, mutation: Mutation) -> str:
    """Return the source without the guard.

    Raises:
        ValueError: If its text is not there exactly once: the guard moved, so guards.toml has to follow.
    """
    found = source.count(mutation.find)
    if found != 1:
        raise ValueError(f"loss {mutation.loss}: {mutation.file} has {found} times, wanted once:\n{mutation.find}")
    return source.replace(mutation.find, mutation.replace)


def run_tests(copy: Path, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run tests of the copy, with the copy's code."""
    env = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    words = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"--timeout={_SECONDS_PER_TEST}"]
    return subprocess.run([*words, *tests], cwd=copy, env=env, capture_output=True, text=True, check=False)


def main(only: Sequence[str]) -> int:
    """Take out the guards of some losses, of all by default."""
    chosen = [mutation for mutation in mutations() if not only or str(mutation.loss) in only]
    survivors = 0
    with tempfile.TemporaryDirectory(prefix="lakegc-mutations-") as folder:
        copy = Path(folder)
        for name in COPIED:
            source = ROOT / name
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, copy / name, ignore=ignored) if source.is_dir() else shutil.copy(source, copy)
        whole = run_tests(copy, sorted({mutation.test for mutation in chosen}))
        click.echo(f"as it is: {whole.stdout.strip().splitlines()[-1]}")
        if whole.returncode:
            click.echo(whole.stdout)
            return 1
        for mutation in chosen:
            file, began = copy / mutation.file, time.monotonic()
            source = file.read_text()
            file.write_text(without(source, mutation))
            try:
                result = run_tests(copy, [mutation.test])
            finally:
                file.write_text(source)
            caught = result.returncode == _FAILED
            survivors += not caught
            words = "caught" if caught else f"SURVIVED (pytest ended {result.returncode})"
            seconds = time.monotonic() - began
            click.echo(f"{mutation.loss:>4}  {words:<9} {seconds:5.0f} s  {mutation.test}  {mutation.guard}")
            if not caught:
                click.echo(result.stdout[-3000:])
    click.echo(f"{len(chosen)} guards taken out, {len(chosen) - survivors} caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
