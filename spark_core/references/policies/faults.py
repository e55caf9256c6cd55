"""The faults of a policy document: collected with their places, and told all together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_core.errors import SettingsError
from spark_core.references.policies.places import Pairs, TextPlace, Value, shown
from spark_core.site import SITE

_NAMED_FAULTS = 20


@dataclass(frozen=True)
class Fault:
    """An error of a document: where it stands in the text, at which key, and what it is."""

    place: TextPlace | None
    key: str
    problem: str

    def __str__(self) -> str:
        where = ", ".join(str(each) for each in (self.place, self.key) if each)
        return f"{where}: {self.problem}" if where else self.problem


class PolicyError(SettingsError):
    """A document is not a policy.

    Attributes:
        faults: All that were found.
    """

    faults: tuple[Fault, ...] = ()

    @classmethod
    def of(cls, name: str, faults: Sequence[Fault]) -> PolicyError:
        """Make the refusal of a document."""
        shown = "; ".join(str(fault) for fault in faults[:_NAMED_FAULTS])
        more = len(faults) - _NAMED_FAULTS
        count = f"{len(faults)} error{'' if len(faults) == 1 else 's'}"
        error = cls(
            f"{name} is not a retention policy, it has {count}: {shown}"
            + (f"; and {more} more" if more > 0 else ""),
            f"{SITE}/object-retention.html explains the form, and has a JSON Schema of it.",
        )
        error.faults = tuple(faults)
        return error


class Faults:
    """Collects the faults of a document while it is read.

    Attributes:
        found: The faults so far.
    """

    def __init__(self) -> None:
        self.found: list[Fault] = []

    def add(self, value: Value, key: str, problem: str) -> None:
        """Note a fault."""
        self.found.append(Fault(value.place, key, problem))

    def keys(self, value: Value, key: str, known: Sequence[str]) -> dict[str, Value] | None:
        """Return the values of a mapping by key; None if it is none."""
        if not isinstance(value.content, Pairs):
            self.add(value, key, f"{shown(value)}, wanted a mapping")
            return None
        found: dict[str, Value] = {}
        for name, content in value.content.items:
            if not isinstance(name.content, str):
                self.add(name, key, f"the key {shown(name)} is no text")
            elif name.content in found:
                self.add(name, below(key, name.content), "it is given twice")
            elif name.content not in known:
                self.add(name, below(key, name.content), f"unknown; known are {', '.join(known)}")
            else:
                found[name.content] = content
        return found


def below(key: str, name: str) -> str:
    """Return the key of a value in a mapping that has a key itself."""
    return f"{key}.{name}" if key else name
