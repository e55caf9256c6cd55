"""What a mark stored in the namespace: the figures of its manifests, and the objects it named."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq

from spark_core.model import RunKey
from spark_core.records import tables

Read = Callable[[str], bytes]


def found(read: Read, key: str) -> dict[str, Any]:
    """Read what a mark found and what it read for that.

    Args:
        read: Reads a key of the namespace.
        key: Key of the run.

    Returns:
        `base`: the run that it began from, or None; `why_full`; `change`; `addresses`: the objects
        it named; and `rows`, the rows of sources that it read, by source.
    """
    run = RunKey.parse(key)
    listed, committed, expired = (
        json.loads(read(tables.manifest_key(spec, run)))
        for spec in (tables.NAMESPACE_SLICES, tables.COMMITTED_ADDRESSES, tables.EXPIRED_ADDRESSES)
    )
    facts, base, change = (
        committed["facts"],
        listed["facts"].get("base"),
        committed["facts"].get("change"),
    )
    metarange_rows = facts.get("metarange_rows_read")
    addresses = sorted(
        name
        for part in expired["parts"]
        for name in pq.read_table(io.BytesIO(read(part["key"])), columns=["address"])["address"]
        .cast("string")
        .to_pylist()
    )
    return {
        "base": None if base is None else base["run"],
        "why_full": listed["facts"].get("why_full"),
        "change": change,
        "addresses": addresses,
        "rows": {
            "objects listed": listed["facts"]["objects"],
            "objects looked up": 0 if change is None else change["looked_up"],
            "rows of metaranges": facts["metarange_rows"]
            if metarange_rows is None
            else metarange_rows,
            "entries of retained ranges": facts["entries_read"],
            "entries of other ranges": sum(part["rows"] for part in committed.get("beside", ())),
        },
    }


def digest(addresses: list[str]) -> str:
    """Return a digest of addresses, so that a file of figures need not name them."""
    return hashlib.sha256("\n".join(addresses).encode()).hexdigest()
