"""Compile every loop of the engine ahead, where no run shall do it: `python -m` this module.

Compiling takes some fifteen seconds. What was compiled is kept (`spark_core.jit`), and a run
compiles or loads the loops that it comes to.
"""

from __future__ import annotations

from spark_core import graveler
from spark_core.addresses import address_hashes
from spark_core.mark import compared
from spark_core.references.policies import canonical_names


def compile_loops() -> None:
    """Compile every loop of the engine, or load what was kept of it."""
    graveler.warm_up()
    address_hashes.warm_up()
    compared.combine_references(compared.REFERENCES.empty_table())
    canonical_names.warm_up()


if __name__ == "__main__":
    compile_loops()
