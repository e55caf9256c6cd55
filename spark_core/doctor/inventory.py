"""Ask about the inventory that marks of the repository read in place of a listing.

A mark asks the same of it. Beyond that, a few of its rows are compared with the store, because its
manifest does not say which prefix it covers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc

from spark_core.clocks import MAX_CLOCK_SKEW
from spark_core.doctor.examination import Examination
from spark_core.doctor.questions import ProbeAnswer, Question
from spark_core.errors import CorruptTableError, NotFoundError
from spark_core.mark.inventory import ask_manifest, require_of_bucket, require_past, wanted_of
from spark_core.plain_text import span_text
from spark_core.storage.inventory import Inventory, InventoryFile, rows_of
from spark_core.storage.inventory.manifest import OF_AN_INVENTORY
from spark_core.storage.inventory.rows import PASSED_OVER, ROWS

# Somebody waits for the answers: bytes of data files that are read, the smallest files first.
_MOST_BYTES = 32 << 20
# An inventory takes S3 hours, and need not show what was written or deleted shortly before.
_SURELY_IN = timedelta(days=2)
# An inventory that is made each day is older than that only if one did not arrive.
_USUAL_AGE = timedelta(days=1)


def _manifest(examination: Examination) -> ProbeAnswer:
    namespace, where = examination.namespace, examination.options.inventory or ""
    options = examination.storage().store_options
    examination.inventory = inventory, _ = ask_manifest(namespace, where, options)
    size = sum(file.size_bytes for file in inventory.files)
    return ProbeAnswer(
        f"{inventory.place}, of {len(inventory.files):,} files ({size:,} bytes)",
        figures={
            "manifest": inventory.place,
            "files": len(inventory.files),
            "file_bytes": size,
        },
    )


def _bucket(examination: Examination) -> ProbeAnswer:
    inventory, _ = examination.inventory
    require_of_bucket(inventory, examination.namespace)
    return ProbeAnswer(f"{inventory.source_bucket}, as the namespace")


def _age(examination: Examination) -> ProbeAnswer:
    inventory, _ = examination.inventory
    now = examination.clock.now()
    require_past(inventory, now, MAX_CLOCK_SKEW)
    age = max(now - inventory.created_at, timedelta(0))
    shown = f"made at {inventory.created_at.isoformat()}, {span_text(age)} ago"
    figures = {
        "created_at": inventory.created_at.isoformat(),
        "age_seconds": age.total_seconds(),
    }
    if age <= _USUAL_AGE:
        return ProbeAnswer(shown, figures=figures)
    return ProbeAnswer(
        f"{shown}, which is more than a day: garbage since then is not seen",
        None,
        "If it should be made daily, look at its destination: a newer one may have no "
        "manifest.checksum yet, or could not be written there.",
        figures,
    )


def _columns(examination: Examination) -> ProbeAnswer:
    inventory, _ = examination.inventory
    inventory.require_columns()
    return ProbeAnswer(
        f"{inventory.file_format}, with {', '.join(inventory.needed_columns)}",
        figures={"file_format": inventory.file_format, "columns": list(inventory.columns)},
    )


def _versions(examination: Examination) -> ProbeAnswer:
    inventory, _ = examination.inventory
    inventory.require_columns()
    figures = {"versions": inventory.has_versions}
    if inventory.has_versions:
        return ProbeAnswer(
            "all versions: only the latest count, and no delete markers", figures=figures
        )
    return ProbeAnswer("current versions only", figures=figures)


def _readable(examination: Examination) -> ProbeAnswer:
    """Read a byte of a data file: it may lie under another key of KMS than the manifest."""
    inventory, store = examination.inventory
    if not inventory.files:
        return ProbeAnswer("it has no data files")
    file = inventory.files[0]
    try:
        store.read_range(file.key, 0, min(1, file.size_bytes))
    except NotFoundError as error:
        problem = "its inventory's manifest names it, and it is not there"
        raise CorruptTableError(
            f"{store.root}{file.key}", None, problem, OF_AN_INVENTORY
        ) from error
    return ProbeAnswer(f"{store.root}{file.key} can be read")


def _rows(examination: Examination) -> ProbeAnswer:
    """Read some data files whole, and look for objects of the store in them."""
    inventory, _ = examination.inventory
    inventory.require_columns()
    wanted = wanted_of(examination.namespace, flat=examination.options.flat)
    files = list(_within_reach(inventory))
    if inventory.files and not files:
        return ProbeAnswer(f"not read: each of its files has more than {_MOST_BYTES:,} bytes", None)
    expected, figures = _expected(examination, inventory), Counter[str]()
    _, store = examination.inventory
    for file in files:
        for batch in rows_of(store, inventory, file, wanted, figures):
            keys = batch.column("key")
            expected = expected.filter(pc.invert(pc.is_in(expected, value_set=keys)))
    inside = figures[ROWS] - figures[PASSED_OVER]
    is_whole = len(files) == len(inventory.files)
    shown = (
        f"{'all' if is_whole else len(files)} of its {len(inventory.files):,} files read: "
        f"{inside:,} of {figures[ROWS]:,} rows are objects below {wanted.before}data/"
    )
    numbers = {"files_read": len(files), "rows": figures[ROWS], "rows_in_namespace": inside}
    if is_whole and len(expected):
        return ProbeAnswer(
            f"{shown}; it lacks {len(expected):,} of the objects that the store has had for two "
            f"days longer, such as {expected[0].as_py()}",
            False,
            f"Filter the inventory to no prefix, or to one that covers {wanted.before}data/.",
            {**numbers, "lacking": len(expected)},
        )
    return ProbeAnswer(shown, True if is_whole or inside else None, figures=numbers)


def _within_reach(inventory: Inventory) -> Iterator[InventoryFile]:
    left = _MOST_BYTES
    for file in sorted(inventory.files, key=lambda one: one.size_bytes):
        left -= file.size_bytes
        if left < 0:
            return
        yield file


def _expected(examination: Examination, inventory: Inventory) -> pa.StringArray:
    """Return objects of the first page of `data/` that the inventory should have."""
    store, *_ = examination.store, examination.listing
    page = next(iter(store.list("data/")), None)
    if page is None:
        return pa.array([], pa.string())
    before = pa.scalar(inventory.created_at - _SURELY_IN, page.schema.field("last_modified").type)
    return page.filter(pc.less(page.column("last_modified"), before)).column("key")


INVENTORY_QUESTIONS = (
    Question("inventory", "manifest", _manifest),
    Question("inventory", "bucket", _bucket),
    Question("inventory", "age", _age),
    Question("inventory", "columns", _columns),
    Question("inventory", "versions", _versions),
    Question("inventory", "data files", _readable),
    Question("inventory", "rows", _rows),
)
