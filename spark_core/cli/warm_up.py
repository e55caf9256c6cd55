"""The warm-up: the loops are compiled."""

from __future__ import annotations

from spark_core import graveler
from spark_core.addresses import address_hashes
from spark_core.mark import compared
from spark_core.references.policies import canonical_names


def compile_loops() -> None:
    """Compile every loop of the engine, or load what was kept of it.

    Compiling takes some fifteen seconds. A collection may not come to all loops.
    """
    graveler.warm_up()
    address_hashes.warm_up()
    compared.combine_references(compared.REFERENCES.empty_table())
    canonical_names.warm_up()
