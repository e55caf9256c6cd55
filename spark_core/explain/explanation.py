"""What is known of one object: plain values."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Literal

State = Literal["kept", "may go", "deleted", "gone", "unknown"]

# Commits that are named; the others are counted.
NAMED = 10


@dataclass(frozen=True)
class Reason:
    """One thing that keeps an object, or lets it go.

    Attributes:
        kind: What says so, a word that is printed: commit, hold, rule or sweep; for what else
            decided a value of `fates.Fate`. It decides nothing.
        text: The reason in words.
        until: ISO instant until when it holds at least; None if nothing is known to end it.
    """

    kind: str
    text: str
    until: str | None = None


@dataclass(frozen=True)
class Explanation:
    """What is known of one object.

    Attributes:
        repository: Repository id.
        address: Relative address.
        run: The run whose tables say so.
        state: `kept`, `may go`, `deleted`, `gone` if the store no longer has it and no sweep says
            that it deleted it, or `unknown` if no stored run saw the object.
        sentence: The answer in one sentence.
        reasons: All reasons; commits beyond `NAMED` are one reason together.
        size_bytes: Size of the object; None if it is not known.
        last_modified: ISO instant of the store; None if it is not known.
        rule: The first reason without path and commit.
        path: The path of the commit that keeps it longest, or of the last that had it; None if no
            commit is known.
        other_paths: Number of other paths under which expired commits had it.
        commit_id: That commit.
        branch: The branch on which an expired commit was replaced; None if it is not known.
        replaced_at: ISO instant at which it was replaced there.
        others: Addresses of other objects that had the path that was asked about.
        fate: What the mark made of it, a value of `fates.Fate`; empty if it is not known.
        caution: That the server does not know the ref that was asked about, and where else it shows
            the path; empty if it knows it.

    Examples:
        >>> from spark_core.explain import explain
        >>> explain(run, live).path
        'report.csv'
    """

    repository: str
    address: str
    run: str
    state: State
    sentence: str
    reasons: tuple[Reason, ...]
    size_bytes: int | None = None
    last_modified: str | None = None
    rule: str = ""
    path: str | None = None
    other_paths: int = 0
    commit_id: str | None = None
    branch: str | None = None
    replaced_at: str | None = None
    others: tuple[str, ...] = ()
    fate: str = ""
    caution: str = ""

    def to_json(self) -> str:
        """Return it as one JSON object."""
        return json.dumps(asdict(self), indent=2)


def instant_in_words(text: str) -> str:
    """Print an ISO instant to the minute."""
    return f"{datetime.fromisoformat(text).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
