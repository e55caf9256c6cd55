"""What other rules would free, as it is kept beside a run for its page.

The answer costs about as much as a mark, so no report computes it: `lakegc what-if` and the asset
`what_if` do, and leave it here.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import ClassVar

from spark_core import lakegc_keys
from spark_core.errors import CorruptTableError, NotFoundError
from spark_core.json_and_toml import read_json
from spark_core.model import RunKey
from spark_core.report.values import Group
from spark_core.storage import ObjectStore

_WAY_ON = "Delete it, and `lakegc what-if` writes it again."


@dataclass(frozen=True)
class WhatIfCurve:
    """The objects that would be free under other rules.

    Attributes:
        asked_at: Before the refs, the commits and the reports of sweeps were read.
        days: Days that every branch would keep, fewest first ...
        free: ... and what would be free then, one for each.
        now: What is free under the rules of now, today and later.
        never_committed: What no commit has; it is part of all of them.
        kept_by_one: What one branch, tag or rule alone keeps under the rules of now, most first.
    """

    FORMAT: ClassVar[int] = 1

    asked_at: datetime
    days: tuple[int, ...]
    free: tuple[Group, ...]
    now: tuple[Group, ...]
    never_committed: Group
    kept_by_one: tuple[Group, ...]

    def to_json(self) -> bytes:
        """Write it."""
        document = {"format": self.FORMAT, **asdict(self)}
        return json.dumps(document, indent=1, default=datetime.isoformat).encode()

    @classmethod
    def from_json(cls, data: bytes, *, name: str) -> WhatIfCurve:
        """Read it back.

        Args:
            data: The bytes as stored.
            name: Key, for the message.

        Raises:
            CorruptTableError: If it is not of this format.
        """
        try:
            found = read_json(data)
            if found["format"] != cls.FORMAT or len(found["days"]) != len(found["free"]):
                raise CorruptTableError(
                    name, None, f"not an answer of format {cls.FORMAT}", _WAY_ON
                )
            return cls(
                datetime.fromisoformat(found["asked_at"]),
                tuple(map(int, found["days"])),
                tuple(Group(**row) for row in found["free"]),
                tuple(Group(**row) for row in found["now"]),
                Group(**found["never_committed"]),
                tuple(Group(**row) for row in found["kept_by_one"]),
            )
        except (ValueError, KeyError, TypeError) as problem:
            raise CorruptTableError(
                name, None, f"not an answer of lakegc ({problem!r})", _WAY_ON
            ) from problem


def load_curve(store: ObjectStore, run: RunKey) -> WhatIfCurve | None:
    """Return what was kept beside a run; None if nobody asked, or if it cannot be read.

    Args:
        store: Rooted at the namespace.
        run: The run.
    """
    where = lakegc_keys.what_if_key(run)
    try:
        return WhatIfCurve.from_json(store.read(where), name=where)
    except (NotFoundError, CorruptTableError):
        # The page of a run does not fail for a picture; the next answer replaces the file.
        return None
