"""What a mark stored in the namespace: the figures of its manifests, and a digest of its fates."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_core.model import RunKey
from spark_core.records import tables
from spark_core.records.manifest import ENCLOSED

Read = Callable[[str], bytes]
# Odd numbers, which mix the bits of a product.
_SIZE, _MIXED = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)


def found(read: Read, key: str) -> dict[str, Any]:
    """Read what a mark found and what it read for that.

    Args:
        read: Reads a key of the namespace.
        key: Key of the run.

    Returns:
        `index`: the run that saved the index from which it took, or None; `why_full`; `taken`: what
        it took; `named`: how many objects may go; `fates`: of each fate the stored rows, their
        bytes and a digest of all; `by_fate`: objects and bytes of each fate; and `rows` and
        `files`: the rows of sources that it read, and the pages and files they were in, by source.
    """
    run = RunKey.parse(key)
    listed, committed, expired = (
        json.loads(read(tables.manifest_key(spec, run)))
        for spec in (tables.NAMESPACE_SLICES, tables.COMMITTED_ADDRESSES, tables.EXPIRED_ADDRESSES)
    )
    facts, index = committed["facts"], listed["facts"].get("index")
    taken = facts.get("taken") or {}
    own = _objects(index)
    return {
        "index": None if index is None else index["run"],
        "why_full": listed["facts"].get("why_full"),
        "taken": {**taken, **{name: index[name] for name in ("slices", "objects") if index}},
        "named": sum(part["rows"] for part in expired["parts"]),
        "fates": fates(read, expired["facts"].get(ENCLOSED, {}).get(tables.FATES.name)),
        "by_fate": expired["facts"].get("by_fate"),
        "rows": {
            "objects listed": listed["facts"]["objects"] - own,
            "rows of metaranges": facts.get("metarange_rows_read") or facts["metarange_rows"],
            "entries of retained ranges": facts["entries_read"],
        },
        "files": {
            "pages of the listing": listed["facts"]["requests"].get("list", 0),
            "metaranges": facts["metaranges_read"],
            "ranges": facts["ranges_read"],
        },
    }


def _objects(index: Mapping[str, Any] | None) -> int:
    return 0 if index is None else int(index["objects"])


def fates(read: Read, manifest: str | None) -> dict[str, list[int]]:
    """Sum up the stored fates of a mark.

    Args:
        read: Reads a key of the namespace.
        manifest: Manifest of the table as it was stored; None for a mark that stored none.

    Returns:
        By fate: rows, bytes, and a digest of the hashes and sizes, whatever their order.
    """
    sums: dict[str, list[int]] = {}
    for part in [] if manifest is None else json.loads(manifest)["parts"]:
        held = part.get("content")
        data = base64.b64decode(held) if held else read(part["key"])
        rows = pq.read_table(io.BytesIO(data), columns=["fate", "address_hash", "size_bytes"])
        for name, some in _by_fate(rows):
            before = sums.setdefault(name, [0, 0, 0])
            sums[name] = [one + other for one, other in zip(before, some, strict=True)]
    return {name: [rows, size, digest % 2**64] for name, (rows, size, digest) in sums.items()}


def _by_fate(rows: pa.Table) -> Sequence[tuple[str, list[int]]]:
    names = rows["fate"].cast(pa.string()).combine_chunks().dictionary_encode()
    codes = names.indices.to_numpy()
    sizes = rows["size_bytes"].to_numpy()
    hashes = rows["address_hash"].to_numpy().view(np.uint64)
    mixed = (hashes ^ (sizes.astype(np.uint64) * _SIZE)) * _MIXED
    mixed ^= mixed >> np.uint64(31)
    found = []
    for number, name in enumerate(names.dictionary.to_pylist()):
        here = codes == number
        sums = (here, sizes[here], mixed[here])
        found.append((name, [int(each.sum()) for each in sums]))
    return found
