"""Which objects a path had before: those that runs let go under it, by their explanations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import pyarrow.compute as pc

from spark_core.errors import (
    TABLES_UNREADABLE,
    AddressError,
    ChainError,
    LakegcError,
    NotFoundError,
    sentences,
)
from spark_core.explain.address_or_path import SCHEME, address_of, ref_and_path
from spark_core.lakefs.refs import NoSuchRefError
from spark_core.lakefs.side_by_side import side_by_side
from spark_core.plain_text import counted
from spark_core.records import tables
from spark_core.run import Run
from spark_core.spark.exchange import Batches


def let_go_under(run: Run, path: str) -> list[str]:
    """Return the addresses of the objects of a path that a run let go, by its explanations.

    An object is known there by the last path that it had.

    Args:
        run: The run.
        path: A path of the repository; one that ends in a slash names everything below it.

    Returns:
        Relative addresses, that of the commit that was kept last first.

    Raises:
        ChainError: If the run explained nothing.
        NotFoundError: If its explanations were pruned.
        CorruptTableError: If a file of them is damaged.
    """
    named = run.load(tables.EXPLANATIONS).source(["address", "path", "committed_at"])
    found = named.each(lambda: run.spark, partial(_under, path))
    rows = [row for some in found for row in some]
    rows.sort(key=lambda row: (row["committed_at"], row["address"]), reverse=True)
    return [row["address"] for row in rows]


def _under(path: str, batches: Batches) -> list[dict[str, Any]]:
    has = pc.starts_with if path.endswith("/") else pc.equal
    return [
        row
        for batch in batches
        for row in batch.filter(has(batch.column("path"), path)).to_pylist()
    ]


def addresses_of_path(run: Run, wanted: str) -> tuple[list[str], str]:
    """Return the relative addresses of the objects that a path has and had; see `address_of`.

    Those that had the path before are looked up in the explanations of stored runs, which costs a
    small read or two for each run, several at once. A run whose explanations were pruned or are
    damaged is passed over.

    Args:
        run: The run; its server is asked about a path.
        wanted: `lakefs://REPOSITORY/REF/PATH`.

    Returns:
        The address that the ref has there now, then those of objects that had it as their last path
        when a run let them go, those kept last first. If the server does not know the ref, those
        that branches have there now come first, and a text says so; else it is empty.

    Raises:
        LakegcError: As `address_of`; NotFoundError only if no stored run knows the path either.
    """
    _, path = ref_and_path(run, wanted)
    caution = ""
    earlier, unread = list[str](), 0
    runs = [run.at(key) for key in tables.runs(run.store)]
    with ThreadPoolExecutor(run.options.read_threads) as pool:
        explains = list(pool.map(_explains, runs))
    for one in (one for one, does in zip(runs, explains, strict=True) if does):
        try:
            earlier += let_go_under(one, path)
        except TABLES_UNREADABLE:
            unread += 1
    try:
        found = [address_of(run, wanted), *earlier]
    except NoSuchRefError as unknown:
        now = _on_branches(run, path)
        found = [*now.values(), *earlier]
        if not found:
            raise _known_to_no_run(unknown, unread, ", no branch has such a path") from unknown
        caution = sentences(
            unknown.message,
            f"What follows is known of {path} elsewhere; it is shown now by "
            f"{', '.join(now) or 'no branch'}.",
        )
    except NotFoundError as unknown:
        if not earlier:
            raise _known_to_no_run(unknown, unread) from unknown
        found = earlier
    except AddressError:
        # What the ref has there is imported or linked, and may have taken the place of an object.
        if not earlier:
            raise
        found = earlier
    return list(dict.fromkeys(found)), caution


def _on_branches(run: Run, path: str) -> dict[str, str]:
    """Return the relative addresses that branches show at a path now; the default branch first."""

    def shown(branch: str) -> Iterator[str]:
        with suppress(NotFoundError, AddressError):
            yield address_of(run, f"{SCHEME}{run.repository.id}/{branch}/{path}")

    names = [branch.id for branch in run.server.branches(run.repository.id)]
    return dict(
        sorted(
            side_by_side(names, shown, at_once=run.options.branches_at_once),
            key=lambda one: (one[0] != run.repository.default_branch, one[0]),
        )
    )


def _explains(run: Run) -> bool:
    """Say whether a run explains something, as far as its manifests can be read."""
    try:
        run.load(tables.EXPIRED_ADDRESSES)  # theirs lies in it
        run.load(tables.EXPLANATIONS)
    except TABLES_UNREADABLE as problem:
        return not _is_missing(problem)
    return True


def _is_missing(problem: Exception) -> bool:
    """Say whether a table was never made; else it was pruned or is damaged."""
    return isinstance(problem, ChainError) and isinstance(problem.__cause__, NotFoundError)


def _known_to_no_run(unknown: NotFoundError, unread: int, nor: str = "") -> NotFoundError:
    found = f"{unknown.found}{nor}, and no stored run let an object with that path go"
    if unread:
        found += f", as far as is known: the explanations of {unread} runs are pruned or damaged"
    return NotFoundError(found, unknown.next_step)


def deleted_addresses(run: Run, wanted: str) -> list[str]:
    """Return the relative addresses of what somebody wants back from the sweep of a run.

    Args:
        run: The run; its server is asked about a path.
        wanted: A physical address, full or relative to the namespace, or
            `lakefs://REPOSITORY/REF/PATH`; a path that ends in a slash names everything below it.

    Returns:
        For an address: itself. For a path: the address that REF has there, if the run let it go;
        else those of all objects that the run let go under it.

    Raises:
        LakegcError: As `address_of`; NotFoundError if the run let nothing go under the path, or if
            its explanations cannot be read.
    """
    if not wanted.startswith(SCHEME):
        return [wanted]
    ref, path = ref_and_path(run, wanted)
    unknown = ""
    if not path.endswith("/"):
        try:
            if let_go := _of_those_let_go(run, [address_of(run, wanted)]):
                return let_go
        except NoSuchRefError as no_ref:
            unknown = no_ref.message
        except (NotFoundError, AddressError):
            pass  # an import or a link may have taken the place of what is wanted back
    try:
        found = let_go_under(run, path)
    except TABLES_UNREADABLE as problem:
        raise _without_paths(run, wanted, problem) from problem
    if not found:
        raise _nothing_there(run, wanted, ref, unknown)
    return found


def _of_those_let_go(run: Run, named: Sequence[str]) -> list[str]:
    """Return those of some addresses that a run let go, in their order.

    If the table was pruned, the deletion report shows it.
    """
    for spec in (tables.EXPIRED_ADDRESSES, tables.DELETION_REPORT) if named else ():
        with suppress(*TABLES_UNREADABLE):
            let_go = run.load(spec).rows_of(named, run.environment.spark)
            return [address for address in named if address in let_go]
    return []


def _nothing_there(run: Run, wanted: str, ref: str, unknown: str) -> NotFoundError:
    if not wanted.endswith("/"):
        there = "" if unknown else f"neither the object that {ref} has there nor one"
        return NotFoundError(
            f"{wanted}: run {run.key} let go {there or 'no object'} whose last path this was",
            sentences(
                unknown,
                f"`lakegc explain {run.repository.id} {wanted}` says what became of it.",
            ),
        )
    found = f"{wanted}: run {run.key} let nothing go whose last path is below that folder"
    missed = not_on_record(run, wanted)
    return NotFoundError(
        f"{found}; {missed}" if missed else found,
        f"`lakegc explain {run.repository.id} PATH` says what became of one object.",
    )


def _without_paths(run: Run, wanted: str, problem: LakegcError) -> NotFoundError:
    """Say that a run knows no paths, why, and how its objects are named without them."""
    if _is_missing(problem):
        why = (
            'was explained there: `explain` was not "full", or no commit is known to have had '
            "anything that the run let go"
        )
        found = f"{wanted}: nothing of run {run.key} {why}"
    elif isinstance(problem, NotFoundError):
        found = (
            f"{wanted}: the explanations of run {run.key} are pruned (`keep_runs`), so it knows "
            "no paths any more"
        )
    else:
        found = f"{wanted}: the explanations of run {run.key} cannot be read ({problem.found})"
    return NotFoundError(found, _by_address(run))


def _by_address(run: Run) -> str:
    report = f"{run.store.root}{tables.folder(tables.DELETION_REPORT, run.key)}"
    return (
        f"Name the objects by their addresses, which the tables in {report} list, or leave out "
        "--address: everything that the run deleted comes back then."
    )


def not_on_record(run: Run, wanted: str) -> str:
    """Say which objects may have lain below a folder although no explanation lists them there.

    Explanations hold only the last path of an object, and nothing of objects that no commit had
    or that were not explained.

    Args:
        run: A run with explanations.
        wanted: As for `deleted_addresses`.

    Returns:
        A sentence without its full stop; empty if the explanations know all, or if no folder was
        named.
    """
    if not (wanted.startswith(SCHEME) and wanted.endswith("/")):
        return ""
    _, path = ref_and_path(run, wanted)
    let_go = run.load(tables.EXPIRED_ADDRESSES).manifest.rows
    unnamed = let_go - run.load(tables.EXPLANATIONS).manifest.rows
    elsewhere = _elsewhere(run, path)
    clauses = []
    if unnamed > 0:
        has = "has" if unnamed == 1 else "have"
        objects = counted(unnamed, "object")
        clauses.append(f"{objects} that run {run.key} let go {has} no path on record")
    if elsewhere:
        clauses.append(
            f"{counted(elsewhere, 'object')} that it let go also had other paths, and "
            f"{'its' if elsewhere == 1 else 'their'} last one is in another folder"
        )
    if not clauses:
        return ""
    return f"{', and '.join(clauses)}; without --address everything that it deleted comes back"


def _elsewhere(run: Run, folder: str) -> int:
    """Count the objects with several paths whose last one is outside a folder."""
    named = run.load(tables.EXPLANATIONS).source(["path", "other_paths"])
    return sum(named.each(lambda: run.spark, partial(_outside, folder)))


def _outside(folder: str, batches: Batches) -> int:
    found = 0
    for batch in batches:
        outside = pc.invert(pc.starts_with(batch.column("path"), folder))
        found += pc.sum(pc.and_(outside, pc.greater(batch.column("other_paths"), 0))).as_py() or 0
    return found
