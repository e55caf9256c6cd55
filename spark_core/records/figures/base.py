"""What all figures have in common: they are read from a manifest and written as its `facts`.

A figure with a default was absent in some manifests, and the default says what its absence meant. A
manifest without another figure is refused by name, and so is a figure of another type. Figures that
only a later lakegc knows are passed over.

Objects, rows, calls and the like are numbers of them; what is in bytes or seconds ends in the unit.
Instants are text in ISO 8601. Figures that add up what tasks counted are built once, at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from spark_core.records.documents import read_values
from spark_core.records.manifest import Manifest

# Metadata of a figure that is not written where it is None.
LEFT_OUT = {"left_out": True}

# Name, objects and bytes of each group of objects.
Groups = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class Figures:
    """Figures that one manifest holds; those of a table without any of its own."""

    @classmethod
    def of(cls, manifest: Manifest) -> Self:
        """Read them from a manifest.

        Raises:
            CorruptTableError: If one is missing or has another type.
        """
        return read_values(
            cls, manifest.facts, name=f"the manifest of {manifest.table} of run {manifest.run}"
        )

    def facts(self) -> dict[str, Any]:
        """Return them as JSON values."""
        found = ((each, getattr(self, each.name)) for each in fields(self))
        return {
            each.name: _plain(value)
            for each, value in found
            if value is not None or each.metadata != LEFT_OUT
        }


def _plain(value: Any) -> Any:
    if isinstance(value, Figures):
        return value.facts()
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value
