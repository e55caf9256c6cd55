"""What became of an object that no commit ever had, as earlier marks found it staged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spark_core import lakegc_keys
from spark_core.errors import TABLES_UNREADABLE
from spark_core.explain.stored_rows import rows_of
from spark_core.fates import WhyMayGo
from spark_core.records import tables
from spark_core.run import Run

# Earlier runs whose staged entries are looked through.
_EARLIER = 14
_NO_RECORD = "lakeFS keeps no record of what became of it"
_SIGNED = "a client wrote it at an address that lakeFS had given out, and "


def never_committed(run: Run, addresses: Sequence[str]) -> dict[str, str]:
    """Say what became of objects that no commit had, as far as it can be told.

    lakeFS keeps no record of staged entries that were dropped. Earlier marks do: their tables of
    staged entries.

    Args:
        run: The run that let them go.
        addresses: Their relative addresses.

    Returns:
        The words for each, by address.
    """
    left, told = list(addresses), {}
    earlier = [key for key in tables.runs(run.store, lakegc_keys.UNCOMMITTED) if key < run.key]
    for key in earlier[:_EARLIER]:
        if not left:
            break
        try:
            earlier_run = replace(run, key=key)
            found = rows_of(earlier_run, tables.UNCOMMITTED_ADDRESSES, left, by_hash=True)
        except TABLES_UNREADABLE:
            continue
        for address in found:
            told[address] = (
                f"{WhyMayGo.NEVER_COMMITTED}: run {key} found it staged, "
                "and since then no branch has it"
            )
        left = [address for address in left if address not in told]
    for address in left:
        told[address] = (
            f"{WhyMayGo.NEVER_COMMITTED}: {_SIGNED if ',' in address else ''}{_NO_RECORD}"
        )
    return told
