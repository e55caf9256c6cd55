"""Check the model of the protocol with Spin, and that each of its guards is needed.

    python -m tests.model.run            everything; ten minutes on two cores
    python -m tests.model.run --quick    the smallest configuration and the guards, as in CI

The last lines are a table: what was explored, and which invariant each guard holds. The exit code
is 1 if an invariant is broken with all guards in, or holds without one of them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import click

MODEL = Path(__file__).with_name("protocol.pml")
_GUARD = re.compile(r"/\* guard (\w+) \*/")
_BROKEN = re.compile(r"assertion violated \(*!?\(?(\w+)")
DEFAULTS = {
    "OBJECTS": 3,
    "COLLECTORS": 1,
    "RUNS": 1,
    "ACTS": 2,
    "DO": 0xFFF,
    "KILLS": 0,
    "FAULTS": 0,
    "FAILS": 0,
    "PARTS": 0,
    "INDEX": 0,
    "FAR": 0,
    "HOOKS": 0,
    "LOOK": 1,
    "MARKED": 0,
    "ENDS": 0,
}
# Kinds of what people do, by their numbers in the model.
UPLOAD, LINK, RESET, COMMIT, MERGE, HARD_RESET, BRANCH, TAG = (1 << n for n in range(8))
EXPIRE, OVERWRITE, HOLD, COMPACT, TABLE_AGAIN = (1 << n for n in range(8, 13))
ENDS = "everything_ends"
# Megabytes that one search may take.
_MEMORY = 9_000


@dataclass(frozen=True)
class Configuration:
    """A size of the model.

    Attributes:
        name: Shown in the table.
        defined: What differs from the defaults.
        bitstate: A search that keeps a few bits of each state, and so may leave some out.
        seconds: When it is stopped; only one in bitstate may be.
    """

    name: str
    defined: dict[str, int] = field(default_factory=dict)
    bitstate: bool = False
    seconds: int = 540

    @property
    def flags(self) -> list[str]:
        """The definitions, as Spin takes them."""
        return [f"-D{name}={value}" for name, value in (DEFAULTS | self.defined).items()]


PEOPLE = Configuration("one collector, all that people do twice", {"ACTS": 2})
MOVES = Configuration(
    "one collector, references move four times",
    {"OBJECTS": 2, "ACTS": 4, "DO": LINK | RESET | COMMIT | MERGE | BRANCH},
)
LEASE = Configuration(
    "two collectors, one kill, one lease",
    {"OBJECTS": 2, "COLLECTORS": 2, "KILLS": 1, "ACTS": 0, "MARKED": 1},
)
LONG_LOOK = Configuration(
    "the same, where a look outlasts the lease",
    {"OBJECTS": 2, "COLLECTORS": 2, "KILLS": 1, "ACTS": 0, "MARKED": 1, "LOOK": 3},
)
RESUME = Configuration(
    "one collector, two kills, a store that fails once",
    {"OBJECTS": 2, "KILLS": 2, "FAILS": 1, "ACTS": 1, "DO": LINK | RESET | OVERWRITE},
)
FAULTS = Configuration(
    "readings that lose rows once without an error",
    {"OBJECTS": 2, "FAULTS": 1, "ACTS": 2, "DO": LINK | RESET | COMMIT | BRANCH},
)
INDEX = Configuration(
    "two runs of one collector with an index",
    {"OBJECTS": 2, "RUNS": 2, "INDEX": 1, "ACTS": 2, "DO": LINK | COMMIT | RESET | OVERWRITE},
)
PARTS = Configuration(
    "looks that are renewed in parts",
    {"PARTS": 1, "ACTS": 2, "DO": LINK | RESET | COMMIT},
)
AGAIN = Configuration(
    "a table made again, clocks too far apart",
    {"ACTS": 1, "DO": 0x1FFF, "FAR": 1},
)
ENDING = Configuration(
    "everything ends (a property of whole runs)",
    {"OBJECTS": 2, "KILLS": 1, "FAILS": 1, "ACTS": 1, "ENDS": 1},
)
SMALL = Configuration("one collector, two objects", {"OBJECTS": 2, "ACTS": 2})
WHOLE = (PEOPLE, LEASE, LONG_LOOK, MOVES, RESUME, FAULTS, INDEX, PARTS, AGAIN, ENDING)
LARGE = (
    Configuration("one collector, all that people do five times", {"ACTS": 5}, True, 100),
    Configuration(
        "two collectors, two kills, all that people do three times",
        {"COLLECTORS": 2, "KILLS": 2, "FAILS": 1, "ACTS": 3},
        True,
        100,
    ),
)
# Where the lack of each guard shows soonest.
GUARDS = {
    "HIDDEN_BRANCHES": MOVES,
    "SECOND_SCAN": FAULTS,
    "DIFFS": MOVES,
    "DIFF_OF_EACH_BRANCH": MOVES,
    "COMPACTED": PEOPLE,
    "HEADS": MOVES,
    "RULES": MOVES,
    "TAGS": SMALL,
    "HOLDS": SMALL,
    "NO_COMMIT_REFUSES": FAULTS,
    "RANGES_HAVE_A_DIGEST": INDEX,
    "ONLY_FACTS_ARE_KEPT": INDEX,
    "STAGED_BEFORE_COMMITTED": MOVES,
    "ASK_BRANCHES": PEOPLE,
    "MIN_AGE": PEOPLE,
    "CUTOFF_LESS_SKEW": PEOPLE,
    "CLOCKS_AGREE": AGAIN,
    "CUTOFF_FIRST": PEOPLE,
    "SEEN_BEFORE_IT_IS_NAMED": INDEX,
    "CHAIN_OF_TABLES": AGAIN,
    "LEASE_PLUS_SKEW": LEASE,
    "LONGEST_REQUEST": RESUME,
    "LEASE": LEASE,
    "CONDITION_OF_A_PUT": LEASE,
    "TAKING_OVER_ENDS_THE_LOG": LEASE,
    "ALIVE_STAYS": PARTS,
    "VERDICT": AGAIN,
    "LOOK_AGAIN": PEOPLE,
    "BEAT": LEASE,
    "KEPT_TRAVELS": PEOPLE,
    "INTENT_FIRST": RESUME,
    "RECHECK": PEOPLE,
    "LOOKS_END": PEOPLE,
    "LEASES_END": LONG_LOOK,
    "NOT_MENTIONED_IS_NOT_DELETED": RESUME,
}


@dataclass(frozen=True)
class Explored:
    """What a search found.

    Attributes:
        states: Different states.
        depth: Steps of the longest path.
        seconds: How long it took.
        broken: The broken invariant; empty if none is.
        is_whole: Whether every state was seen.
    """

    states: int
    depth: int
    seconds: float
    broken: str
    is_whole: bool


def why_not() -> str:
    """Say what the model needs and this machine lacks; empty if nothing."""
    if shutil.which("spin") is None:
        return "Spin is missing (Debian: apt-get install spin), so the model is not checked"
    if shutil.which("gcc") is None:
        return "a C compiler is missing (gcc), so the model is not checked"
    return ""


def guards(source: str) -> list[str]:
    """Return the names of the guards, in the order of their lines."""
    return _GUARD.findall(source)


def without(source: str, guard: str) -> str:
    """Return the model without the line of a guard.

    Raises:
        ValueError: If not exactly one line is of the guard.
    """
    lines = source.splitlines(keepends=True)
    left = [line for line in lines if f"/* guard {guard} */" not in line]
    if len(left) != len(lines) - 1:
        raise ValueError(f"{len(lines) - len(left)} lines are of the guard {guard}, wanted one")
    return "".join(left)


def explore(source: str, configuration: Configuration) -> Explored:
    """Search the states of the model up to the first broken invariant.

    Raises:
        RuntimeError: If Spin or the compiler refuses, or the search broke off.
    """
    is_ending = bool(configuration.defined.get("ENDS"))
    if not is_ending:
        source = re.sub(r"^ltl .*$", "", source, flags=re.MULTILINE)
    with tempfile.TemporaryDirectory(prefix="lakegc-model-") as folder:
        Path(folder, "model.pml").write_text(source)
        done(["spin", *configuration.flags, "-a", "model.pml"], folder)
        kind = "-DNFAIR=3" if is_ending else "-DSAFETY"
        keep = "-DBITSTATE" if configuration.bitstate else "-DCOLLAPSE"
        words = ["gcc", "-O2", "-w", kind, keep, f"-DMEMLIM={_MEMORY}", "-o", "pan", "pan.c"]
        done(words, folder)
        search = ["./pan", "-m400000", "-w33" if configuration.bitstate else "-w24"]
        if is_ending:
            search += ["-a", "-f"]
        began = time.monotonic()
        said = done(
            ["timeout", "-s", "INT", str(configuration.seconds), *search],
            folder,
            but={130, 124},
        )
    return _explored(said, time.monotonic() - began, is_cut=not configuration.bitstate)


def done(words: list[str], folder: str, but: set[int] | None = None) -> str:
    ended = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    if ended.returncode and ended.returncode not in (but or set()):
        raise RuntimeError(f"{words[0]} ended {ended.returncode}: {ended.stdout}{ended.stderr}")
    return ended.stdout


def _explored(said: str, seconds: float, *, is_cut: bool) -> Explored:
    found = {
        name: re.search(pattern, said)
        for name, pattern in (
            ("states", r"(\d+) states, stored"),
            ("depth", r"depth reached (\d+)"),
        )
    }
    broken = _BROKEN.search(said)
    if found["states"] is None or found["depth"] is None or "max search depth" in said:
        raise RuntimeError(f"the search broke off:\n{said[-2000:]}")
    name = broken[1] if broken else ""
    if not name and "acceptance cycle" in said and "errors: 0" not in said:
        name = ENDS
    if not name and "errors: 0" not in said:
        raise RuntimeError(f"the search found something else:\n{said[-2000:]}")
    is_whole = "Search not completed" not in said and is_cut
    return Explored(int(found["states"][1]), int(found["depth"][1]), seconds, name, is_whole)


def table(rows: list[tuple[str, ...]]) -> Iterator[str]:
    """Lay out rows of one table, the first of which are headings."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def explored_in_all(rows: list[tuple[str, ...]], seconds: float) -> str:
    """Sum up the rows of the table, without its headings."""
    states = sum(int(row[1].replace(",", "")) for row in rows)
    return f"{len(rows)} searches, {states:,} states, {seconds / 60:.1f} minutes in all"


def _verdict(found: Explored, wanted: str) -> str:
    if found.broken:
        return f"BROKEN: {found.broken}"
    return wanted if found.is_whole else "nothing broken, not all states seen"


def _of_a_configuration(source: str, one: Configuration) -> tuple[bool, tuple[str, ...]]:
    found = explore(source, one)
    is_right = not found.broken and found.is_whole != one.bitstate
    verdict = _verdict(found, "every state seen, nothing broken")
    figures = (f"{found.states:,}", f"{found.depth:,}", f"{found.seconds:.0f}")
    click.echo(f"  {one.name}: {verdict}")
    return is_right, (one.name, *figures, verdict)


def _of_a_guard(source: str, guard: str) -> tuple[bool, tuple[str, ...]]:
    found = explore(without(source, guard), GUARDS[guard])
    figures = (f"{found.states:,}", f"{found.depth:,}", f"{found.seconds:.0f}")
    verdict = f"breaks {found.broken}" if found.broken else "NOTHING BREAKS WITHOUT IT"
    click.echo(f"  without {guard}: {verdict}")
    return bool(found.broken), (f"without {guard}", *figures, verdict)


@click.command()
@click.argument("names", nargs=-1)
@click.option("--quick", is_flag=True, help="The smallest configuration, and each guard taken out.")
@click.option(
    "--jobs", default=2, show_default=True, type=click.IntRange(1), help="Searches at once."
)
def main(names: tuple[str, ...], jobs: int, *, quick: bool) -> None:
    """Check the model, or only what holds without the guards of some NAMES."""
    if why := why_not():
        click.echo(f"skipped: {why}.")
        return
    source, began = MODEL.read_text(), time.monotonic()
    if set(guards(source)) != set(GUARDS):
        raise click.ClickException(f"without a configuration: {set(guards(source)) ^ set(GUARDS)}")
    whole = () if names else (SMALL,) if quick else (*WHOLE, *LARGE)
    with ThreadPoolExecutor(jobs) as pool:
        explored = [pool.submit(_of_a_configuration, source, one) for one in whole]
        explored += [pool.submit(_of_a_guard, source, name) for name in names or GUARDS]
        ended = [each.result() for each in explored]
    click.echo()
    headings = ("configuration", "states", "depth", "seconds", "verdict")
    for line in table([headings, *(row for _, row in ended)]):
        click.echo(line)
    click.echo(explored_in_all([row for _, row in ended], time.monotonic() - began))
    sys.exit(0 if all(is_right for is_right, _ in ended) else 1)


if __name__ == "__main__":
    main()
