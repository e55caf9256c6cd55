"""What a collector's assets, jobs, pools and partitions are called in a Dagster project.

The code location that lakegc ships has `OWN`; a collector in somebody else's project has a prefix,
and two collectors in one project have two.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import dagster as dg

from spark_core.errors import SettingsError

# The pool where no prefix names another: every run brings a Spark session of its own.
POOL = "lakegc"

_WORD = re.compile(r"[A-Za-z0-9_]+")


@dataclass(frozen=True)
class Names:
    """Makes every name that a collector takes in a Dagster project.

    Attributes:
        key_prefix: First part of each asset key, and with `_` the beginning of all other names;
            empty for none.
        own_pool: The pool of all assets and checks; None for the prefix, or `lakegc` without one.
        owners: Who owns the assets, in Dagster's form.

    Raises:
        SettingsError: If the prefix is not one word of letters, digits and `_`.

    Examples:
        >>> Names("lakegc").key("verdict"), Names("lakegc").named("nightly_mark")
        (AssetKey(['lakegc', 'verdict']), 'lakegc_nightly_mark')
        >>> Names().key("verdict"), Names().pool
        (AssetKey(['verdict']), 'lakegc')
    """

    key_prefix: str = ""
    own_pool: str | None = None
    owners: tuple[str, ...] = ("team:lakegc",)

    def __post_init__(self) -> None:
        if self.key_prefix and not _WORD.fullmatch(self.key_prefix):
            raise SettingsError(
                f"key_prefix is {self.key_prefix!r}, wanted one word of letters, digits and _",
                "Jobs, groups and pools begin with it, and Dagster allows them nothing else.",
            )

    @property
    def pool(self) -> str:
        """The pool that each asset and each check waits in."""
        return self.own_pool or self.key_prefix or POOL

    def key(self, asset: str) -> dg.AssetKey:
        """Return the key of an asset."""
        return dg.AssetKey([*filter(None, [self.key_prefix]), asset])

    def of_repository(self, repository_id: str) -> dg.AssetKey:
        """Return the key of the asset of a repository."""
        return dg.AssetKey([*filter(None, [self.key_prefix]), "repositories", repository_id])

    def op(self, asset: str) -> str:
        """Return the name of an asset's op, under which a run config has what it is asked."""
        return self.key(asset).to_python_identifier()

    def named(self, name: str) -> str:
        """Return the name of anything else: a job, group, schedule, sensor, op or resource."""
        return f"{self.key_prefix}_{name}" if self.key_prefix else name


OWN = Names()


def asset_name(key: dg.AssetKey) -> str:
    """Return what lakegc calls an asset, whatever stands before it."""
    return key.path[-1]
