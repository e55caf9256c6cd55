"""The bytes of objects by storage class, as far as the store's listing says classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

# Begins the names under which tasks count the bytes of a class.
_CLASS = "class:"


def bytes_by_class(rows: pa.RecordBatch) -> Counter[str]:
    """Sum up bytes by storage class.

    Args:
        rows: Columns size_bytes and storage_class.

    Returns:
        Class -> bytes; nothing of objects whose class is not known.

    Examples:
        >>> rows = {"size_bytes": [1, 2, 4], "storage_class": ["COLD", None, "COLD"]}
        >>> bytes_by_class(pa.RecordBatch.from_pydict(rows))
        Counter({'COLD': 5})
    """
    classes, sizes = rows.column("storage_class"), rows.column("size_bytes")
    if classes.null_count == len(classes):
        return Counter()
    # They are few, as a rule one.
    return Counter(
        {
            name: pc.sum(sizes.filter(pc.equal(classes, name))).as_py()
            for name in pc.unique(classes).to_pylist()
            if name is not None
        }
    )


def as_measured(classes: Mapping[str, int]) -> dict[str, int]:
    """Return bytes by class under the names by which tasks add them up."""
    return {f"{_CLASS}{name}": size_bytes for name, size_bytes in classes.items()}


def taken_apart(measured: Mapping[str, Any]) -> tuple[dict[str, int], dict[str, Any]]:
    """Return bytes by class, and what else tasks have added up."""
    classes = {
        name.removeprefix(_CLASS): count
        for name, count in sorted(measured.items())
        if name.startswith(_CLASS)
    }
    return classes, {name: each for name, each in measured.items() if not name.startswith(_CLASS)}
