"""Objects that exist only as numbers: name, date, size and fate of each follow from a plan."""

# ruff: noqa: INP001 - measured processes find this folder on PYTHONPATH

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int64]

# Of 19 old objects, the first 13 are committed, the next 5 are staged, and the last is to go.
GROUP, COMMITTED, STAGED = 19, 13, 5
_ALPHABET = np.frombuffer(b"0123456789abcdefghijklmnopqrstuv", np.uint8)
# 4000-01-01; slices are named by the seconds from their start until then.
_REVERSE_FROM = 64_060_588_800
_DAY = 86_400
# The objects of a slice are written within this time.
_SLICE_SECONDS = 3_000
_YOUNG_SHARE = 0.05
_SMALLEST, _SIZES = 1_000, 100_000_000
_KEY_LENGTH = len("data/") + 20 + 1 + 20


@dataclass(frozen=True)
class Plan:
    """The objects of a synthetic namespace.

    Attributes:
        slices: Slices below `data/`, the newest twentieth of which is young.
        slice_objects: Objects in each slice; a multiple of `GROUP`.
        made_at: Instant in seconds since 1970; the old slices lie between 90 and 3 days before it.
        served_at: Instant of the run in seconds since 1970; the young slices lie in the 20 hours
            before it.
        seed: Seed of sizes and checksums.
        young: Number of young slices, if it is not a twentieth.
        begins: The first old slice began so many seconds before `made_at` ...
        ends: ... and the last one so many, which may be negative.
        maker: Five letters in every name, so that two plans have no name in common.
        is_swept: Whether the objects that are to go are gone.
        is_alike: Whether all objects have one fate instead of the three, and sizes that objects of
            other plans do not have.
    """

    slices: int
    slice_objects: int
    made_at: int
    served_at: int
    seed: int = 14
    young: int | None = None
    begins: int = 90 * _DAY
    ends: int = 3 * _DAY
    maker: str = "bench"
    is_swept: bool = False
    is_alike: bool = False

    @classmethod
    def read(cls, file: Path) -> Plan:
        """Read the file of `write`."""
        return cls(**json.loads(file.read_text()))

    def write(self, file: Path) -> None:
        """Write the plan to a file for the measured processes."""
        file.write_text(json.dumps(asdict(self)))

    @property
    def old_slices(self) -> int:
        """Number of slices whose objects are old enough."""
        usual = max(1, int(self.slices * _YOUNG_SHARE))
        return self.slices - (usual if self.young is None else self.young)

    @property
    def groups(self) -> int:
        """Number of groups of old objects, each with one object that is to go."""
        return self.old_slices * self.slice_objects // GROUP

    @cached_property
    def began(self) -> Numbers:
        """The start of each slice, in seconds since 1970."""
        young = self.slices - self.old_slices
        old = np.linspace(
            self.made_at - self.begins, self.made_at - self.ends, self.old_slices
        ).astype(np.int64)
        return np.concatenate(
            [old, self.served_at - np.linspace(20 * 3600, 3600, young).astype(np.int64)]
        )

    @cached_property
    def slice_names(self) -> list[str]:
        """Name of each slice."""
        numbers = np.arange(self.slices, dtype=np.int64)
        names = _xids(_REVERSE_FROM - self.began, numbers, self.maker)
        return [bytes(row).decode() for row in names]

    @property
    def objects(self) -> int:
        """Number of all objects."""
        return self.slices * self.slice_objects

    def there(self, objects: Numbers) -> Numbers:
        """Return those of some objects that are not gone."""
        return objects[objects % GROUP != GROUP - 1] if self.is_swept else objects

    def committed(self, numbers: Numbers) -> Numbers:
        """Return the objects of these numbers among the committed ones."""
        if self.is_alike:
            return numbers
        return numbers // COMMITTED * GROUP + numbers % COMMITTED

    def staged(self, numbers: Numbers) -> Numbers:
        """Return the objects of these numbers among the staged ones."""
        if self.is_alike:
            return numbers
        return numbers // STAGED * GROUP + COMMITTED + numbers % STAGED

    def times(self, objects: Numbers) -> Numbers:
        """Return the instants when objects were written, in seconds since 1970."""
        within = objects % self.slice_objects * _SLICE_SECONDS // self.slice_objects
        times: Numbers = self.began[objects // self.slice_objects] + within
        return times

    def sizes(self, objects: Numbers) -> Numbers:
        """Return sizes of objects.

        An object that is to go shares its size with no other, so no object looks like its twin.
        """
        size = _SMALLEST + (_mixed(objects, self.seed) % np.uint64(_SIZES)).astype(np.int64)
        other = _SIZES if self.is_alike else objects % GROUP == GROUP - 1
        sizes: Numbers = size // 2 * 2 + other
        return sizes

    def checksums(self, objects: Numbers) -> list[str]:
        """Return checksums of objects, 32 hexadecimal digits each."""
        halves = zip(_mixed(objects, self.seed + 1), _mixed(objects, self.seed + 2), strict=True)
        return [f"{int(one):016x}{int(two):016x}" for one, two in halves]

    def addresses(self, objects: Numbers) -> pa.StringArray:
        """Return addresses of objects, relative to the namespace."""
        slices = np.frombuffer("".join(self.slice_names).encode(), np.uint8).reshape(-1, 20)
        rows = np.empty((len(objects), _KEY_LENGTH), np.uint8)
        rows[:, :5] = np.frombuffer(b"data/", np.uint8)
        rows[:, 5:25] = slices[objects // self.slice_objects]
        rows[:, 25] = ord("/")
        rows[:, 26:] = _xids(self.times(objects), objects, self.maker)
        offsets = np.arange(len(objects) + 1, dtype=np.int32) * _KEY_LENGTH
        return pa.StringArray.from_buffers(len(objects), pa.py_buffer(offsets), pa.py_buffer(rows))

    def object_of(self, key: str) -> int | None:
        """Return the number of the object at an address; None if there is none."""
        _, _, rest = key.partition("data/")
        name, _, xid = rest.partition("/")
        number = self.slice_of(name)
        if number is None or len(xid) != 20:
            return None
        bits = 0
        for character in xid:
            bits = bits << 5 | b"0123456789abcdefghijklmnopqrstuv".find(character.encode())
        counter = bits >> 4 & 0xFFFFFF
        first = number * self.slice_objects
        found = first + (counter - first) % (1 << 24)
        if (
            found >= first + self.slice_objects
            or self.addresses(np.array([found]))[0].as_py() != key
        ):
            return None
        return found

    def slice_of(self, name: str) -> int | None:
        """Return the number of a slice by its name; None if there is none."""
        return self._by_name.get(name)

    @cached_property
    def _by_name(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.slice_names)}


@dataclass(frozen=True)
class Layers:
    """The objects of several plans, beside each other in one namespace."""

    plans: tuple[Plan, ...]

    @classmethod
    def read(cls, file: Path) -> Layers:
        """Read the file of `write`, or that of one plan."""
        found = json.loads(file.read_text())
        return cls(tuple(Plan(**one) for one in (found if isinstance(found, list) else [found])))

    def write(self, file: Path) -> None:
        """Write the plans to a file for the measured processes."""
        file.write_text(json.dumps([asdict(plan) for plan in self.plans]))

    @cached_property
    def slice_names(self) -> list[str]:
        """Name of each slice."""
        return [name for plan in self.plans for name in plan.slice_names]

    def slice_of(self, name: str) -> tuple[Plan, int] | None:
        """Return the plan of a slice and its number there; None if there is none."""
        for plan in self.plans:
            found = plan.slice_of(name)
            if found is not None:
                return plan, found
        return None

    def object_of(self, key: str) -> tuple[Plan, int] | None:
        """Return the plan of the object at an address and its number; None if there is none."""
        for plan in self.plans:
            found = plan.object_of(key)
            if found is not None and len(plan.there(np.array([found], np.int64))):
                return plan, found
        return None

    def staged(self, numbers: Numbers, counts: Sequence[int]) -> tuple[list[str], list[int]]:
        """Return addresses and sizes of staged objects.

        Args:
            numbers: Their numbers among the staged ones of all plans, ascending.
            counts: How many of each plan are staged.
        """
        addresses, sizes, first = list[str](), list[int](), 0
        for plan, count in zip(self.plans, counts, strict=True):
            objects = plan.staged(numbers[(numbers >= first) & (numbers < first + count)] - first)
            addresses += plan.addresses(objects).to_pylist()
            sizes += plan.sizes(objects).tolist()
            first += count
        return addresses, sizes


def _xids(seconds: Numbers, counters: Numbers, maker: str) -> Bytes:
    """Encode ids as lakeFS does: 4 bytes of time, 5 of a process, 3 of a counter, in base 32."""
    raw = np.empty((len(seconds), 12), np.uint8)
    raw[:, :4] = (seconds % 2**32).astype(">u4").view(np.uint8).reshape(-1, 4)
    raw[:, 4:9] = np.frombuffer(maker.encode(), np.uint8)
    raw[:, 9:] = (counters % 2**24).astype(">u4").view(np.uint8).reshape(-1, 4)[:, 1:]
    bits = np.zeros((len(seconds), 100), np.uint8)
    bits[:, :96] = np.unpackbits(raw, axis=1)
    return _ALPHABET[bits.reshape(-1, 20, 5) @ np.array([16, 8, 4, 2, 1], np.uint8)]


def _mixed(numbers: Numbers, seed: int) -> NDArray[np.uint64]:
    """Mix numbers well (splitmix64)."""
    mixed = numbers.astype(np.uint64) + np.uint64(seed * 0x9E3779B97F4A7C15 % 2**64)
    mixed = (mixed ^ mixed >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ mixed >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return mixed ^ mixed >> np.uint64(31)
