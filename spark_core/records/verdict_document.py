"""The verdict as it is stored beside a mark's expired addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from spark_core.records.documents import Count, Flag, Instant, OfAMark, Parsed

# Checks that inform people and never stop a sweep.
ADVISORY = frozenset({"hidden_entries_were_asked"})

_CHECK_FIELDS = {"name", "passed", "summary"}


def _checks(found: list[Any]) -> list[Any]:
    for check in found:
        if not isinstance(check, dict) or not check.keys() >= _CHECK_FIELDS:
            raise ValueError(f"{check!r} is not the result of a check")
    return found


@dataclass(frozen=True)
class Verdict(OfAMark):
    """The findings about a mark.

    Attributes:
        repository: Repository id.
        instance: Instance of the repository.
        namespace: Its storage namespace.
        run: Run key.
        passed: Whether every check that can stop a sweep passed.
        concluded_at: When it was written.
        cutoff: The mark's cutoff.
        min_age_seconds: The minimum age that the cutoff follows from.
        rules: Retention rules as the server showed them; None without any.
        options: The options that decided what may go; a verdict without any is not swept.
        tables: The chain of tables. Table name -> sha256 of its manifest (`manifest`), manifests
            that it was made from (`parents`), rows, bytes, parts, and when its reading began and
            ended. The expired addresses also have the digest of what the mark saved for an
            optimized run (`saved`).
        addresses: Key of each Parquet part of the expired addresses -> its sha256.
        expired_objects: Rows of the expired addresses.
        standing: Figures that later runs are compared with.
        checks: Each check's name, table, result, sentence, figures, limit, and who may lift it.
        versions: Versions of lakegc and of what it decides with.
        policy: The retention policy by which objects go although entries lead to them: its name
            (the key of its version), number, digest, who set it, who confirmed it and when, and the
            objects by rule; None if nothing goes by one.
    """

    CALLED: ClassVar[str] = "a verdict of a lakegc mark"
    LEFT_OUT_IF_EMPTY: ClassVar[tuple[str, ...]] = ("policy",)

    repository: str
    instance: str
    namespace: str
    run: str
    passed: Flag
    concluded_at: Instant
    cutoff: str
    min_age_seconds: float
    rules: Mapping[str, Any] | None
    options: Mapping[str, Any] | None
    tables: Mapping[str, Mapping[str, Any]]
    addresses: Mapping[str, str]
    expired_objects: Count
    standing: Mapping[str, Count]
    checks: Annotated[Sequence[Mapping[str, Any]], Parsed(list, "the results of checks", _checks)]
    versions: Mapping[str, str]
    policy: Mapping[str, Any] | None = None

    @property
    def failed(self) -> list[Mapping[str, Any]]:
        """The checks that failed and stop a sweep."""
        return [
            check
            for check in self.checks
            if check["passed"] is not True and check["name"] not in ADVISORY
        ]
