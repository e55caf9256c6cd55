"""Whatever clients say of contents, a mark with the index finds what a clean one finds."""

from __future__ import annotations

import hashlib
import random
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from lakegc_dagster.sandbox import gc, objects
from lakegc_dagster.sandbox.errors import ApiError
from spark_core.records.figures import ExpiredFigures
from tests.support.clean_beside import mark_beside_a_clean_one, was_clean
from tests.support.hidden_entries import HidingPlace
from tests.support.pipeline import sweep_only

pytestmark = pytest.mark.spark

MINUTE = 1 / 24 / 60
# All of one size, so that any may hide under any path. There are more paths than candidates, so
# that asking the store costs less than asking branches.
CONTENTS = [f"content{number}".encode() for number in range(4)]
PATHS = "abcdefghijklmnopqrst"


@dataclass
class Clients:
    """Clients that say of their objects what they like, and what they did.

    Attributes:
        place: The repository.
        dice: Chooses.
        day: Days before the last mark.
        lies: From this day on they are not honest.
        commits: Made so far.
        written: Objects that were ever written, and when.
        marked: When the last mark began.
        said: The last path at which somebody said something.
        lost: Objects that vanished, with their contents.
    behind: Objects that were lost, written over or found again since the first mark.
    """

    place: HidingPlace
    dice: random.Random
    lies: float
    day: float = 59
    commits: list[str] = field(default_factory=list)
    written: dict[str, float] = field(default_factory=dict)
    marked: float = 60
    said: str = "a"
    branches: list[str] = field(default_factory=lambda: ["main"])
    lost: dict[str, bytes] = field(default_factory=dict)
    behind: set[str] = field(default_factory=set)

    def act(self) -> None:
        """Do something, some hours after what was done before."""
        self.day -= self.dice.uniform(0.1, 0.6)
        does = self.dice.choice(
            [self.upload] * 6
            + [self.commit] * 6
            + [self.copy] * 6
            + [self.stage_honestly, self.branch, self.reset, self.delete]
            + ([self.stage, self.write_over, self.lose, self.find] if self.day < self.lies else [])
        )
        # Such as nothing to commit, or nothing at that path.
        with suppress(ApiError, FileNotFoundError):
            does()

    @property
    def at(self) -> str:
        return self.dice.choice(self.branches)

    @property
    def path(self) -> str:
        return self.dice.choice(PATHS)

    def upload(self) -> None:
        content = self.dice.choice(CONTENTS)
        self.written[self.place.upload(self.day, self.path, content, self.at)] = self.day

    def commit(self) -> None:
        self.commits.append(self.place.commit(self.day, self.at))

    def stage(self) -> None:
        """Stage a new or an old object, and say that its content is another one."""
        said = hashlib.md5(self.dice.choice(CONTENTS)).hexdigest()
        if self.written and self.dice.random() < 0.5:
            address = self.dice.choice(list(self.written))
        else:
            address = self.place.write(self.day, self.dice.choice(CONTENTS), signed=False)
            self.written[address] = self.day
        self.said = self.path
        self.place.stage(self.day, self.said, address, size=8, checksum=said, branch=self.at)

    def stage_honestly(self) -> None:
        content = self.dice.choice(CONTENTS)
        address = self.place.write(self.day, content, signed=False)
        if self.dice.random() < 0.5:
            # No candidate by its name.
            there, address = address, address.rpartition("/")[0] + "/named-by-a-client"
            self.place.file(there).rename(self.place.file(address))
        self.written[address] = self.day
        said = hashlib.md5(content).hexdigest()
        self.place.stage(self.day, self.path, address, size=8, checksum=said, branch=self.at)

    def copy(self) -> None:
        """Copy over the same path, often one of which somebody said something, or another one."""
        source = self.dice.choice([self.path, self.said])
        path = source if self.dice.random() < 0.7 else self.path
        self.written[self.place.copy(self.day, path, source, self.at)] = self.day

    def branch(self) -> None:
        name = f"b{len(self.branches)}"
        self.place.branch(self.day, name, self.dice.choice(self.commits or ["main"]))
        self.branches.append(name)

    def reset(self) -> None:
        with self.place.ago(self.day):
            objects.reset(self.place.core, self.place.name, self.at, kind="reset")

    def delete(self) -> None:
        with self.place.ago(self.day):
            objects.delete(self.place.core, self.place.name, self.at, [self.path])

    def write_over(self) -> None:
        """Write another content over an object that the next mark lists again."""
        young = [address for address, day in self.written.items() if day < self.marked + 0.9]
        if young:
            address = self.dice.choice(young)
            self.place.file(address).write_bytes(self.dice.choice(CONTENTS))
            self.place.date(address, self.day)
            self.behind.add(address)

    def lose(self) -> None:
        if self.written:
            address = self.dice.choice(list(self.written))
            self.lost[address] = self.place.file(address).read_bytes()
            self.place.lose(address)
            self.behind.add(address)

    def find(self) -> None:
        """Bring back what was lost, as old as ever."""
        if self.lost:
            address, content = self.lost.popitem()
            self.place.file(address).write_bytes(content)
            self.place.date(address, self.written[address])


def play(place: HidingPlace, seed: int, *, until: float = 3, **more: Any) -> tuple[int, int]:
    """Play a history; return the marks with the index, and those of them that asked the store.

    Args:
        place: The repository.
        seed: Of the dice.
        until: Days before its end at which it breaks off.
        **more: Attributes of the clients that the dice would choose.
    """
    dice = random.Random(seed)
    with place.core.lock:
        gc.set_rules(place.core, place.name, gc.Rules(dice.choice([3, 10, 100]), {}))
    clients = Clients(place, dice, **{"lies": dice.uniform(5, 45), **more})
    marks = asked = 0
    for path in PATHS:
        clients.written[place.upload(59.5, path, dice.choice(CONTENTS))] = 59.5
    clients.commit()
    limits: dict[str, Any] = {"optimized": True, "full_every": 100, "tells": True}
    while clients.day > until:
        for _ in range(dice.randint(6, 20)):
            clients.act()
        clients.day -= 1.2
        clients.marked = clients.day
        run, (marked, verdict, _) = mark_beside_a_clean_one(
            place.file(""), lambda: place.opened(clients.marked, **limits), behind=clients.behind
        )
        if not was_clean(marked):
            marks += 1
            asked += ExpiredFigures.of(marked.expired.manifest).twins.objects_asked > 0
        clients.day -= MINUTE
        if verdict.passed and dice.random() < 0.5:
            sweep_only(run)
    return marks, asked


def test_a_mark_with_the_index_finds_what_a_clean_one_finds_after_first_lies(
    sandbox: Any, spark: Any
) -> None:
    marks, asked = play(HidingPlace(sandbox, spark), 52, until=51, lies=60)
    assert marks > 0
    assert asked > 0


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(3, marks=pytest.mark.slow),
        *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(4, 35)),
    ],
)
def test_a_mark_with_the_index_finds_what_a_clean_one_finds(
    sandbox: Any, spark: Any, seed: int
) -> None:
    marks, asked = play(HidingPlace(sandbox, spark), seed)
    assert marks > 2
    assert asked > 1
