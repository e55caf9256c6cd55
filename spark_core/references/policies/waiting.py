"""What a retention policy names and may not take yet, and what lets it go; the rest goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_core.records.figures import ListedFigures, NamedFigures
from spark_core.references.policies.confirmed import CHECK, ConfirmedPolicy, confirmation_of
from spark_core.references.policies.versions import Version
from spark_core.run import Run, RunOptions


@dataclass(frozen=True)
class Waiting:
    """What waits.

    Attributes:
        everything: Why nothing of the policy goes; None if it may.
        shares: The largest share (0 to 1) of the objects or bytes that each rule names, by number.
        above: Numbers of the rules that name more than they may.
        confirmed: Who confirmed the document; None if nobody did, or nothing of it may go.
    """

    everything: str | None
    shares: Mapping[int, float]
    above: Sequence[int]
    confirmed: ConfirmedPolicy | None = None

    @property
    def figures(self) -> Mapping[str, Any]:
        """The rules whose objects go, and why the others wait: figures by name."""
        goes = () if self.everything else tuple(n for n in self.shares if n not in self.above)
        who = self.confirmed
        return {
            "takes_rules": goes,
            "waits": self.everything,
            "above_share": tuple(self.above),
            "confirmed_by": None if who is None else who.who,
            "confirmed_at": None if who is None else who.since.isoformat(),
        }


def what_waits(run: Run, version: Version, named: NamedFigures, listing: ListedFigures) -> Waiting:
    """Say what of a policy waits in a mark.

    Args:
        run: The run.
        version: The version that the mark looked at.
        named: Figures of what it names.
        listing: Figures of table 1.

    Raises:
        CorruptTableError: If the confirmation of the document is not as it was written.
    """
    everything = confirmed = None
    if not run.options.policies_let_go:
        everything = 'the settings say `policies = "mark"`, which only shows it'
    elif (confirmed := confirmation_of(run, version)) is None:
        everything = (
            f"version {version.number} of the policy is not confirmed: look at what it names, then "
            f"`lakegc confirm {run.repository.id} {CHECK} --run {run.key}` and mark under a new "
            "run key"
        )
    shares = shares_of(named.by_rule, listing)
    return Waiting(everything, shares, above_limit(shares, run.options, listing), confirmed)


def shares_of(
    by_rule: Sequence[tuple[int, str | None, int, int]], listing: ListedFigures
) -> dict[int, float]:
    """Return the largest share (0 to 1) of the objects or bytes that each rule names, by number.

    Args:
        by_rule: As in `NamedFigures`.
        listing: Figures of table 1.
    """
    return {
        number: max(_share(objects, listing.objects), _share(size, listing.object_bytes))
        for number, _, objects, size in by_rule
    }


def above_limit(
    shares: Mapping[int, float], options: RunOptions, listing: ListedFigures
) -> list[int]:
    """Return the numbers of the rules that name more than `max_policy_share`."""
    if listing.objects < options.share_from_objects:
        return []
    return [number for number, share in shares.items() if share > options.max_policy_share]


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
