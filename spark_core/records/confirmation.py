"""Confirmations: a person says that a check's finding is unusual but right.

A verdict never changes. A confirmation is a second small object beside it, which names the run, the
check and the digest of the verdict. The sweep reads both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from spark_core import lakegc_keys
from spark_core.errors import NotFoundError
from spark_core.model import RunKey
from spark_core.records.documents import Instant, OfAMark
from spark_core.storage import ObjectStore

_WAY_ON = (
    "This is a file of lakegc's own, not of the server: the note of a person about a check. Delete "
    "it, and confirm the finding again (`lakegc confirm`)."
)


@dataclass(frozen=True)
class Confirmation(OfAMark):
    """One finding that a person confirmed.

    Attributes:
        repository: Repository id.
        run: Run key.
        check: Name of the check.
        verdict: Digest of the verdict that holds the finding.
        found: The check's sentence, as the person saw it.
        who: Account and machine that confirmed it.
        confirmed_at: When.
    """

    CALLED: ClassVar[str] = "a confirmation of lakegc"
    NEXT_STEP: ClassVar[str] = _WAY_ON

    repository: str
    run: str
    check: str
    verdict: str
    found: str
    who: str
    confirmed_at: Instant


def load(store: ObjectStore, run: RunKey, check: str) -> Confirmation | None:
    """Read the confirmation of a check; None if there is none.

    Args:
        store: Rooted at the namespace.
        run: Run key.
        check: Name of the check.

    Raises:
        CorruptTableError: If it is not as it was written.
        VerdictError: If it was written in another format.
    """
    where = lakegc_keys.confirmation_key(run, check)
    try:
        data = store.read(where)
    except NotFoundError:
        return None
    return Confirmation.from_json(data, name=where)


def covers(store: ObjectStore, run: RunKey, verdict: str, check: Mapping[str, Any]) -> bool:
    """Say whether a check's finding was confirmed for this very verdict.

    Args:
        store: Rooted at the namespace.
        run: Run key.
        verdict: Digest of the verdict.
        check: The check as the verdict has it.
    """
    confirmation = load(store, run, check["name"])
    return confirmation is not None and (
        confirmation.run,
        confirmation.check,
        confirmation.verdict,
    ) == (
        str(run),
        check["name"],
        verdict,
    )
