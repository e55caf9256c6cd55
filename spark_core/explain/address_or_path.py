"""Which object a person asks about: by its address, or by a path at a branch, tag or commit."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pyarrow.compute as pc
import pyspark.sql.functions as sf

from spark_core import lakegc_keys
from spark_core.addresses.namespace import AddressType
from spark_core.errors import AddressError, NotFoundError, SettingsError
from spark_core.explain.stored_rows import rows_of
from spark_core.lakefs.entries import just_before
from spark_core.mark.explanations import UNREADABLE
from spark_core.records import tables
from spark_core.run import Run
from spark_core.spark.session import surfacing_errors

_SCHEME = "lakefs://"


def address_of(run: Run, wanted: str) -> str:
    """Return the relative address of what somebody asks about.

    Args:
        run: The run; its server is asked about a path.
        wanted: A physical address, full or relative to the namespace, or
            `lakefs://REPOSITORY/REF/PATH`.

    Raises:
        SettingsError: If it is a path of another repository, or no path at all.
        AddressError: If the address lies outside the namespace.
        NotFoundError: If there is no such ref or path.
    """
    if not wanted.startswith(_SCHEME):
        address = run.namespace.relative(wanted, AddressType.BY_PREFIX)
        if address is None:
            raise AddressError(
                f"{wanted} lies outside the storage namespace {run.namespace.root} of repository "
                f"{run.repository.id}",
                "Give an address below that namespace, or a path as lakefs://REPOSITORY/REF/PATH.",
            )
        return address
    ref, path = _ref_and_path(run, wanted)
    found = run.server.list_entries(run.repository.id, ref, after=just_before(path)).entries
    physical = next((address for shown, address in found if shown == path), None)
    if physical is None:
        raise NotFoundError(
            f"{wanted}: {ref} has no such path, and no stored run let an object of that path go",
            f"Ask by its address; `lakegc report {run.repository.id}` names the largest objects.",
        )
    inside = run.namespace.relative(physical, AddressType.FULL)
    if inside is None:
        raise AddressError(
            f"{wanted} is {physical}, which lies outside the storage namespace "
            f"{run.namespace.root}: it is imported or linked",
            "lakegc never looks at such objects.",
        )
    return inside


def addresses_of(run: Run, wanted: str) -> list[str]:
    """Return the relative addresses of what somebody asks about; see `address_of`.

    What had a path before is looked for in the explanations of the stored runs.

    Args:
        run: The run; its server is asked about a path.
        wanted: As for `address_of`.

    Returns:
        The address; for a path first that which its ref has, then those of all objects whose newest
        path it was when they were let go, the last one first.

    Raises:
        LakegcError: As `address_of`; NotFoundError only if no stored run knows the path, either.
    """
    if not wanted.startswith(_SCHEME):
        return [address_of(run, wanted)]
    _, path = _ref_and_path(run, wanted)
    earlier = [
        address
        for key in tables.runs(run.store, lakegc_keys.EXPLANATIONS)
        for address in let_go_under(replace(run, key=key), path)
    ]
    try:
        found = [address_of(run, wanted), *earlier]
    except NotFoundError:
        if not earlier:
            raise
        found = earlier
    return list(dict.fromkeys(found))


def deleted_addresses(run: Run, wanted: str) -> list[str]:
    """Return the relative addresses of what somebody wants back from the sweep of a run.

    Args:
        run: The run; its server is asked about a path.
        wanted: A physical address, full or relative to the namespace, or
            `lakefs://REPOSITORY/REF/PATH`; a path that ends in a slash names everything below it.

    Returns:
        The address; for a path, that which REF has if the run let it go, else those of all objects
        that the run let go under the path.

    Raises:
        LakegcError: As `address_of`; NotFoundError if the run let nothing go under the path.
    """
    if not wanted.startswith(_SCHEME):
        return [wanted]
    ref, path = _ref_and_path(run, wanted)
    if not path.endswith("/"):
        with suppress(NotFoundError):
            at_ref = address_of(run, wanted)
            if rows_of(run, tables.EXPIRED_ADDRESSES, [at_ref]):
                return [at_ref]
    found = let_go_under(run, path)
    if not found:
        raise NotFoundError(
            f"{wanted}: run {run.key} let nothing go that {ref} has there, and nothing whose "
            "newest path it was",
            f"`lakegc explain {run.repository.id} {wanted}` says what became of it.",
        )
    return found


@surfacing_errors()
def let_go_under(run: Run, path: str) -> list[str]:
    """Return the addresses of the objects of a path that a run let go, by its explanations.

    An object is known there by the newest path that it had.

    Args:
        run: The run.
        path: A path of the repository; one that ends in a slash names everything below it.

    Returns:
        Relative addresses, that of the newest commit first; none where the run explained nothing.
    """
    try:
        stored = run.load(tables.EXPLANATIONS)
    except UNREADABLE:
        return []
    columns = ["address", "path", "committed_at"]
    is_folder = path.endswith("/")
    if stored.is_small:
        rows = []
        for batch in stored.batches(columns):
            paths = batch.column("path")
            own = pc.starts_with(paths, path) if is_folder else pc.equal(paths, path)
            rows += batch.filter(own).to_pylist()
    else:
        name = sf.col("path")
        own = name.startswith(path) if is_folder else name == sf.lit(path)
        rows = stored.frame(run.spark, columns).where(own).toArrow().to_pylist()
    rows.sort(key=lambda row: (row["committed_at"], row["address"]), reverse=True)
    return [row["address"] for row in rows]


def _ref_and_path(run: Run, wanted: str) -> tuple[str, str]:
    repository, _, rest = wanted.removeprefix(_SCHEME).partition("/")
    ref, _, path = rest.partition("/")
    if repository != run.repository.id or not ref or not path:
        raise SettingsError(
            f"{wanted} is not a path of repository {run.repository.id}",
            f"Write {_SCHEME}{run.repository.id}/REF/PATH; REF is a branch, a tag or a commit.",
        )
    return ref, path
