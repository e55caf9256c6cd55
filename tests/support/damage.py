"""Random damage to a file: flipped bits and cut-off ends, the same ones for the same seed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from spark_core.errors import LakegcError


class Damaged(NamedTuple):
    """A damaged file.

    Attributes:
        what: What was done to it.
        data: Its bytes.
    """

    what: str
    data: bytes


def damages(data: bytes, number: int, *, seed: int) -> Iterator[Damaged]:
    """Damage a file in a number of ways, each from the intact bytes: mostly one bit, sometimes
    several, or a missing end.

    Args:
        data: The intact bytes.
        number: How many.
        seed: Seed of the choice.
    """
    chance = random.Random(f"{seed} {len(data)}")
    for turn in range(number):
        if turn % 5 == 4:
            length = chance.randrange(len(data))
            yield Damaged(f"cut to {length} of {len(data)} bytes", data[:length])
            continue
        bits = chance.sample(range(len(data) * 8), 1 if turn % 5 else chance.randint(2, 8))
        broken = bytearray(data)
        for bit in bits:
            broken[bit // 8] ^= 1 << bit % 8
        yield Damaged(f"flipped bits {bits}", bytes(broken))


@dataclass
class Answers:
    """The results of reading damaged files.

    Attributes:
        refused: Errors by class.
        unchanged: Results that were those of the intact file.
        more: Results that let go of less than the intact file does.
        wrong: All other results, described; there must be none.
    """

    refused: Counter[str] = field(default_factory=Counter)
    unchanged: int = 0
    more: int = 0
    wrong: list[str] = field(default_factory=list)

    def ask(
        self,
        damaged: Damaged,
        read: Callable[[], Any],
        intact: Any,
        *,
        names: tuple[str, ...],
        keeps_more: Callable[[Any], bool] = lambda _: False,
    ) -> None:
        """Read a damaged file, and judge the result.

        Args:
            damaged: The file.
            read: Reads it.
            intact: The result of the intact file.
            names: An error names the file by one of these.
            keeps_more: Says of another result that it can only keep more.
        """
        try:
            found = read()
        except LakegcError as error:
            text = str(error)
            self.refused[type(error).__name__] += 1
            if not any(name in text for name in names):
                self.wrong.append(f"{damaged.what}: the error does not name the file: {text[:300]}")
        except Exception as error:  # noqa: BLE001 - whatever is no error of the tree is a finding
            self.wrong.append(f"{damaged.what}: {error!r}")
        else:
            if found == intact:
                self.unchanged += 1
            elif keeps_more(found):
                self.more += 1
            else:
                self.wrong.append(f"{damaged.what}: read as {str(found)[:300]}")

    def __str__(self) -> str:
        errors = ", ".join(f"{count} {name}" for name, count in sorted(self.refused.items()))
        more = f", {self.more} that keep more" if self.more else ""
        return (
            f"{self.refused.total()} refused ({errors}), {self.unchanged} unchanged{more}, "
            f"{len(self.wrong)} wrong"
        )
