"""When the files of metaranges were last written, as the store says: by pages, or one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from spark_core.errors import LakegcError, NotFoundError
from spark_core.run import Run
from spark_core.storage import ObjectStore
from spark_core.storage.contract import OrderedStore

# Metaranges by id -> when the file of each was last written. One without a file is left out.
WrittenAt = Callable[[Sequence[str]], Mapping[str, datetime]]

# A page of a listing must give at least this many dates. For fewer, questions for single files cost
# no more.
_WORTH_A_PAGE = 16


def metaranges_written_at(run: Run, prefix: str) -> WrittenAt:
    """Return a function that asks the store when the files of metaranges were last written.

    Where the store lists in order, its pages give many dates at once. Single files are asked about,
    side by side, where pages would give too few dates, and for every file that the pages did not
    show.

    Args:
        run: The run.
        prefix: Prefix of the server's tables.
    """

    def head(metarange_id: str) -> datetime | None:
        try:
            return run.store.written_at(f"{prefix}/{metarange_id}")
        except NotFoundError:
            return None  # whoever reads its entries will say so

    def written_at(ids: Sequence[str]) -> Mapping[str, datetime]:
        listed = _read_listed_dates(run.store, f"{prefix}/", ids)
        left = [id_ for id_ in ids if id_ not in listed]
        with ThreadPoolExecutor(
            run.options.branches_at_once, thread_name_prefix="lakegc-heads"
        ) as pool:
            asked = zip(left, pool.map(head, left), strict=True)
            return {**listed, **{id_: when for id_, when in asked if when is not None}}

    return written_at


def _read_listed_dates(
    store: ObjectStore, folder: str, names: Sequence[str]
) -> dict[str, datetime]:
    """Read dates from pages of a listing, as long as a page gives many.

    Each page begins at the next name.

    Names of tables are hashes, so one page shows how many of the names the next page would have.
    """
    found: dict[str, datetime] = {}
    left = sorted(names)
    while isinstance(store, OrderedStore) and len(left) >= _WORTH_A_PAGE:
        try:
            # No name lies between this beginning of the next name and the next name itself.
            rows = next(store.pages(folder, after=folder + left[0][:-1])).rows
        except LakegcError:
            break  # the user may lack the right to list; other errors come up in the questions too
        wanted = rows.filter(
            pc.is_in(rows.column("key"), pa.array([folder + name for name in left], pa.string()))
        )
        keys, dates = wanted.column("key").to_pylist(), wanted.column("last_modified").to_pylist()
        found.update(zip((key.removeprefix(folder) for key in keys), dates, strict=True))
        if len(keys) < _WORTH_A_PAGE:
            break
        left = [name for name in left if folder + name > keys[-1]]
    return found
