"""The check that compares the listing with what branches reach."""

from __future__ import annotations

from dataclasses import dataclass

from spark_core.checks.result import CheckResult, Manifests, setting, share
from spark_core.records.figures import (
    CommittedFigures,
    ExpiredFigures,
    InventoryFigures,
    ListedFigures,
)
from spark_core.run import Run

_NAME = "live_objects_are_listed"
_TABLE = "expired_addresses"


@dataclass(frozen=True)
class _LiveObjects:
    """How many of the objects that branches reach the listing has.

    Attributes:
        live: Objects that branches reach.
        listed: Objects in the listing, live or not.
        retained: Addresses below `data/` that retained commits have.
        missing: Live objects that the listing lacks, without those of the next two.
        by_policy: Live objects that a retention policy took. If the record of them is in this
            store, it is the right store: they are not missing.
        since_inventory: Live objects that were written since the inventory was made.
    """

    live: int
    listed: int
    retained: int
    missing: int
    by_policy: int
    since_inventory: int

    @property
    def missing_share(self) -> float:
        """The share (0 to 1) of the live objects that is missing."""
        return share(self.missing, self.live)

    @property
    def found(self) -> int:
        """Live objects that the listing has."""
        return self.live - self.missing - self.by_policy - self.since_inventory

    @property
    def are_elsewhere(self) -> bool:
        """Whether the listing is empty although something points into it."""
        excused = self.by_policy + self.since_inventory
        return self.listed == 0 and (self.live > excused or (not excused and self.retained > 0))


def live_objects_are_listed(run: Run, manifests: Manifests) -> CheckResult:
    """The listing has what heads and staged entries reach (safety 5).

    A few objects may be missing: some are lost, and some never existed.
    """
    listing = ListedFigures.of(manifests["namespace_slices"])
    figures = ExpiredFigures.of(manifests[_TABLE])
    objects = _counted(manifests)
    limit, floor = run.options.max_missing_share, run.options.share_from_objects
    too_many = objects.live >= floor and objects.missing_share > limit
    if objects.are_elsewhere:
        summary = _elsewhere_words(run, objects) + _inventory_words(listing.inventory)
    elif too_many:
        summary = _missing_words(objects, figures, limit) + _inventory_words(listing.inventory)
    else:
        summary = _listed_words(objects, figures)
    return CheckResult(
        _NAME,
        _TABLE,
        not (objects.are_elsewhere or too_many),
        summary,
        {
            "listed": objects.listed,
            "live": objects.live,
            "missing": objects.missing,
            **({} if listing.inventory is None else {"since_inventory": objects.since_inventory}),
            "missing_share": objects.missing_share,
            "max_missing_share": limit,
            "share_from_objects": floor,
            "missing_named": list(figures.missing_named),
            "missing_table": figures.missing_table,
        },
        limit=f"at most {limit:.1%} of the objects that branches reach may be missing, once there "
        f"are {floor:,}; an empty listing never passes",
        lifted_by=f"{setting('max_missing_share')}; nothing lifts an empty listing",
    )


def _counted(manifests: Manifests) -> _LiveObjects:
    expired = ExpiredFigures.of(manifests[_TABLE])
    return _LiveObjects(
        live=expired.live_objects,
        listed=ListedFigures.of(manifests["namespace_slices"]).objects,
        retained=CommittedFigures.of(manifests["committed_addresses"]).in_data,
        missing=expired.missing_objects,
        by_policy=expired.missing_by_policy or 0,
        since_inventory=expired.since_inventory or 0,
    )


def _elsewhere_words(run: Run, objects: _LiveObjects) -> str:
    return (
        f"the listing of {run.store.root}data/ is empty, although "
        f"{max(objects.live, objects.retained)} retained or staged addresses point into it: the "
        "objects are somewhere else. Compare the store's settings (path, bucket, endpoint) with "
        "one object's physical address."
    )


def _missing_words(objects: _LiveObjects, figures: ExpiredFigures, limit: float) -> str:
    return (
        f"{objects.missing} of {objects.live} objects that branches reach are not in the listing "
        f"({objects.missing_share:.1%}, limit {limit:.1%}), for example "
        f"{figures.missing_named[0]}. {figures.missing_table or 'The table'} names all of them: "
        "look for them; if they are lost for good, raise max_missing_share and mark under a new "
        "run key."
    )


def _listed_words(objects: _LiveObjects, figures: ExpiredFigures) -> str:
    words = f"{objects.found} of {objects.live} objects that branches reach are in the listing"
    if objects.since_inventory:
        words += f", and {objects.since_inventory} were written since the inventory"
    if objects.by_policy:
        words += f", and a retention policy took {objects.by_policy}"
    if objects.missing:
        words += f"; the others are named in {figures.missing_table or 'the figures'}"
    return words


def _inventory_words(inventory: InventoryFigures | None) -> str:
    """Say what else may be wrong if the listing is an inventory."""
    if inventory is None:
        return ""
    return (
        f" The listing is the inventory {inventory.manifest}: check whether it covers all of "
        "data/, or is filtered to another prefix."
    )
