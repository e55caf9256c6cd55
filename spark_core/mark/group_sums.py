"""Objects and bytes by names, such as folders and branches: the groups with most bytes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from spark_core.records.figures import Groups

# Names of groups of objects without a folder and without a branch; one for what is left over.
AT_THE_TOP, NO_BRANCH, OTHERS = "(no folder)", "(no branch)", "(others)"

# Groups of each kind that are told, and those that a task tells the driver of. Rows come to tasks
# by a hash, so a group that is among the first of all is among the first of each.
TOP, NAMES_OF_A_TASK = 10, 200


@dataclass
class GroupSums:
    """Objects and bytes by name."""

    objects: Counter[str] = field(default_factory=Counter)
    size_bytes: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, names: pa.ChunkedArray, sizes: pa.ChunkedArray) -> GroupSums:
        """Sum up the rows of a task."""
        summed = (
            pa.table({"name": names, "size": sizes})
            .group_by("name")
            .aggregate([("size", "sum"), ([], "count_all")])
        )
        found = cls()
        for row in summed.to_pylist():
            found.objects[row["name"]] = row["count_all"]
            found.size_bytes[row["name"]] = row["size_sum"]
        return found.first(NAMES_OF_A_TASK)

    def merge(self, other: GroupSums) -> None:
        """Add the sums of another task."""
        self.objects.update(other.objects)
        self.size_bytes.update(other.size_bytes)

    def first(self, count: int) -> GroupSums:
        """Keep the names with most bytes; the others become one."""
        by_size = sorted(
            self.objects, key=lambda name: (name == OTHERS, -self.size_bytes[name], name)
        )
        kept = GroupSums()
        for at, name in enumerate(by_size):
            told = name if at < count else OTHERS
            kept.objects[told] += self.objects[name]
            kept.size_bytes[told] += self.size_bytes[name]
        return kept

    @property
    def groups(self) -> Groups:
        """Name, objects and bytes, in the order of the names."""
        return tuple((name, self.objects[name], self.size_bytes[name]) for name in self.objects)


def folders(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """Name the folder at the top of each path.

    Examples:
        >>> folders(pa.chunked_array([["logs/2026/a.csv", "readme", "/b"]])).to_pylist()
        ['logs/', '(no folder)', '/']
    """
    split = pc.extract_regex(paths, r"(?s)^(?P<folder>[^/]*/)")
    return pc.fill_null(pc.struct_field(split, "folder"), AT_THE_TOP)
