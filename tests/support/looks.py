"""A second check whose result is scripted."""

from dataclasses import dataclass

import pyarrow as pa

from spark_core.addresses.address_hashes import hashed
from spark_core.records.figures import SecondLookFigures
from spark_core.sweep.why_kept import KEPT, Kept
from tests.support.figures import read


@dataclass(frozen=True)
class Looked:
    began: object
    kept: Kept
    figures: SecondLookFigures

    def release(self):
        """Nothing was set aside."""


def looked(*results):
    """Make a look that finds one of the results after the other, the last one again and again;
    pairs of address and why.
    """
    left = list(results)

    def look(run, _plan, _mark, _concluded):
        found = left.pop(0) if len(left) > 1 else left[0]
        return Looked(run.now(), kept_of(found), read(SecondLookFigures))

    return look


def named(kept, addresses):
    """Return why each of some objects is kept that a look keeps."""
    whys = kept.why(hashed(pa.array(addresses, pa.string())).to_numpy()).to_pylist()
    return {address: why for address, why in zip(addresses, whys, strict=True) if why is not None}


def kept_of(found):
    """Return what a look keeps, from pairs of address and why."""
    addresses = pa.array([address for address, _ in found], pa.string())
    whys = pa.array([why for _, why in found], pa.string())
    return Kept.of(pa.table([hashed(addresses), whys], schema=KEPT))
