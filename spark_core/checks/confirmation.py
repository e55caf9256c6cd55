"""What a person said of a mark by name: that a finding of a check is unusual, and right all the same.

A verdict never changes. Who confirms one of its findings puts a second small
object beside it, which names the run, the check and the digest of the verdict;
the sweep reads both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from spark_core import layout
from spark_core.errors import CorruptTableError, NotFoundError
from spark_core.model import RunKey
from spark_core.records import sealed
from spark_core.storage import ObjectStore

CONFIRMATION_FORMAT = 1
# Read as well: every format of a release (see `sealed`). 1: 0.1.0.
CONFIRMATION_FORMATS = (1,)

_WAY_ON = (
    "This is a file of lakegc's own, not of the server: the note of a person about a check. Delete it, and confirm the "
    "finding again (`lakegc confirm`)."
)


@dataclass(frozen=True)
class Confirmation:
    """One finding that a person confirmed.

    Attributes:
        repository: Repository id.
        run: Run key.
        check: Name of the check.
        verdict: Digest of the verdict that holds the finding.
        found: The check's sentence, as the person saw it.
        who: Account and machine from which it was said.
        confirmed_at: When.
    """

    repository: str
    run: str
    check: str
    verdict: str
    found: str
    who: str
    confirmed_at: datetime

    def to_json(self) -> bytes:
        """Write it, sealed."""
        return sealed.seal({"format": CONFIRMATION_FORMAT, **vars(self), "confirmed_at": self.confirmed_at.isoformat()})

    @classmethod
    def from_json(cls, data: bytes, *, name: str) -> Confirmation:
        """Read it back.

        Raises:
            CorruptTableError: If it is not as it was written.
            VerdictError: If it was written in another format.
        """
        document = sealed.unseal(data, name=name, formats=CONFIRMATION_FORMATS, next_step=_WAY_ON)
        del document["format"]
        try:
            return cls(**{**document, "confirmed_at": datetime.fromisoformat(document["confirmed_at"])})
        except (ValueError, KeyError, TypeError) as problem:
            raise CorruptTableError(name, None, f"not a confirmation of lakegc ({problem!r})", _WAY_ON) from problem


def load(store: ObjectStore, run: RunKey, check: str) -> Confirmation | None:
    """Read what was said of a check; None if nothing was.

    Args:
        store: Rooted at the namespace.
        run: Run key.
        check: Name of the check.

    Raises:
        CorruptTableError: If it is not as it was written.
        VerdictError: If it was written in another format.
    """
    where = layout.confirmation_key(run, check)
    try:
        data = store.read(where)
    except NotFoundError:
        return None
    return Confirmation.from_json(data, name=where)


def covers(store: ObjectStore, run: RunKey, verdict: str, check: Mapping[str, Any]) -> bool:
    """Say whether a check's finding in a verdict was confirmed, in that very verdict.

    Args:
        store: Rooted at the namespace.
        run: Run key.
        verdict: Digest of the verdict.
        check: The check as the verdict has it.
    """
    said = load(store, run, check["name"])
    return said is not None and (said.run, said.check, said.verdict) == (str(run), check["name"], verdict)
