"""What a hold is, how holds are read, and which objects and commits they keep."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from typing import ClassVar, Literal, Self

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import lakegc_keys
from spark_core.errors import (
    CorruptTableError,
    IncompleteReadError,
    NotFoundError,
)
from spark_core.holds.path_patterns import matching
from spark_core.model import Refs
from spark_core.records.documents import Document, Instant
from spark_core.records.figures import HoldFigures
from spark_core.storage import ObjectStore

_WAY_ON = (
    "This is a file of lakegc's own, not of the server, and only it says what is kept. Bring it "
    "back as it was, or delete it and make the hold again (`lakegc hold add`)."
)

Kind = Literal["address", "prefix", "path", "commit", "branch", "tag"]
OF_COMMITS = ("commit", "branch", "tag")
_OF_ADDRESSES = ("address", "prefix")

# One spelling in every store: a file system may not distinguish upper and lower case.
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_KEY = re.compile(rf"{re.escape(lakegc_keys.HOLDS)}({NAME.pattern})\.json")
# The file that a local store leaves if it was killed while writing.
_UNPUBLISHED = re.compile(rf"{re.escape(lakegc_keys.HOLDS)}\.lakegc-[0-9a-f]{{16}}\.part")


@dataclass(frozen=True)
class Hold(Document):
    """One thing that is kept.

    Attributes:
        name: Name that people gave the hold.
        kind: Kind of `value`.
        value: Address or prefix of addresses, relative to the namespace; pattern of paths; commit
            id; name of a branch or tag.
        commit_id: The commit that `value` stood for when the hold was made; None for addresses,
            prefixes and paths.
        who: Who made the hold.
        since: When it was made.
        why: A note.

    Examples:
        >>> from datetime import UTC, datetime
        >>> made = datetime(2026, 11, 1, tzinfo=UTC)
        >>> Hold("q3", "path", "reports/2026/**", None, "ana", made, "the audit").kind
        'path'
    """

    CALLED: ClassVar[str] = "a hold"
    NEXT_STEP: ClassVar[str] = _WAY_ON

    name: str
    kind: Kind
    value: str
    commit_id: str | None
    who: str
    since: Instant
    why: str

    @property
    def words(self) -> str:
        """The hold as a reason, in words."""
        shown = self.value[:12] if self.kind == "commit" else self.value
        return f"hold {self.name}: {self.kind} {shown}"

    @classmethod
    def from_json(cls, data: bytes, *, name: str) -> Self:
        """Read a hold back.

        Raises:
            CorruptTableError: If it is no hold, or a hold of another name: nobody knows what it
                keeps.
        """
        hold = super().from_json(data, name=name)
        is_of_a_commit = hold.commit_id is not None
        if (
            not hold.value
            or is_of_a_commit != (hold.kind in OF_COMMITS)
            or lakegc_keys.hold_key(hold.name) != name
        ):
            raise CorruptTableError(
                name, None, "not a hold, or one that belongs under another name", _WAY_ON
            )
        return hold


@dataclass(frozen=True)
class Holds:
    """Every hold of a namespace at one moment; small, and travels to executors.

    Examples:
        >>> Holds(()).of_addresses
        ()
    """

    holds: tuple[Hold, ...]

    @property
    def figures(self) -> tuple[HoldFigures, ...]:
        """The holds as a manifest records them."""
        return tuple(
            HoldFigures(name=hold.name, kind=hold.kind, value=hold.value, commit_id=hold.commit_id)
            for hold in self.holds
        )

    @classmethod
    def of_figures(cls, figures: Sequence[HoldFigures]) -> Holds:
        """Return the holds that a manifest records, without who made them and when."""
        unknown = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
        return cls(tuple(Hold(**vars(held), who="", since=unknown, why="") for held in figures))

    @property
    def of_addresses(self) -> tuple[Hold, ...]:
        """The holds that keep objects by address."""
        return tuple(hold for hold in self.holds if hold.kind in _OF_ADDRESSES)

    @property
    def of_paths(self) -> tuple[Hold, ...]:
        """The holds that keep objects by the paths that commits had them under."""
        return tuple(hold for hold in self.holds if hold.kind == "path")

    @property
    def starting_commits(self) -> list[str]:
        """The commits that holds were made on; a walk of the graph must begin there too."""
        return sorted({hold.commit_id for hold in self.holds if hold.commit_id is not None})

    def protecting(self, addresses: pa.Array) -> pa.BooleanArray:
        """Say for each address whether a hold keeps it by address.

        Args:
            addresses: Relative to the namespace; no nulls.
        """
        return pc.is_valid(self.reasons(addresses))

    def reasons(self, addresses: pa.Array) -> pa.StringArray:
        """Return for each address the hold that keeps it; null if none does.

        Args:
            addresses: Relative to the namespace; no nulls.
        """
        texts = addresses.cast(pa.string())

        def add(found: pa.StringArray, hold: Hold) -> pa.StringArray:
            hit = (
                pc.equal(texts, hold.value)
                if hold.kind == "address"
                else pc.starts_with(texts, hold.value)
            )
            return pc.if_else(pc.and_(hit, pc.is_null(found)), pa.scalar(hold.words), found)

        return reduce(add, self.of_addresses, pa.nulls(len(texts), pa.string()))

    def reasons_of_paths(self, paths: pa.Array) -> pa.StringArray:
        """Return for each path the hold that keeps what is or was there; null if none does.

        Args:
            paths: Binary; no nulls.
        """

        def add(found: pa.StringArray, hold: Hold) -> pa.StringArray:
            hit = pc.and_(matching(paths, hold.value), pc.is_null(found))
            return pc.if_else(hit, pa.scalar(hold.words), found)

        return reduce(add, self.of_paths, pa.nulls(len(paths), pa.string()))

    def commits(self, refs: Refs) -> Mapping[str, str]:
        """Return the commits that holds keep, and why.

        A hold on a commit keeps that commit. A hold on a tag keeps the commit that the tag names,
        and the one that it named when the hold was made. A hold on a branch keeps every commit that
        the branch reaches, by all parents, and what it reached when the hold was made.

        Args:
            refs: The graph. If it was not read from a dump, it was walked from `starting_commits`
                too.

        Returns:
            Words by commit id.

        Raises:
            IncompleteReadError: If the graph lacks a commit that a hold was made on.
        """
        branches = {branch.id: branch.commit_id for branch in refs.branches}
        tags = {tag.id: tag.commit_id for tag in refs.tags}
        kept: dict[str, str] = {}
        for hold in self.holds:
            if hold.commit_id is None:
                continue
            if hold.commit_id not in refs.commits:
                raise IncompleteReadError(
                    f"{hold.words}: commit {hold.commit_id}, which it was made on, is not among "
                    f"the {len(refs.commits)} commits that were read; what it keeps is unknown",
                    "Run again; if it stays, the commit is gone from the server, and `lakegc hold "
                    f"remove REPOSITORY {hold.name}` takes the hold away.",
                )
            now = {"branch": branches, "tag": tags}.get(hold.kind, {}).get(hold.value)
            starts = [hold.commit_id] if now is None else [hold.commit_id, now]
            for commit_id in _reached(refs, starts) if hold.kind == "branch" else starts:
                kept.setdefault(commit_id, hold.words)
        return kept


NONE = Holds(())


def load(store: ObjectStore, *, was_empty: bool = False) -> Holds:
    """Read every hold of a namespace.

    Args:
        store: Rooted at the namespace.
        was_empty: Whether an earlier look of the same mark found none.

    Returns:
        The holds, in order of their names.

    Raises:
        CorruptTableError: If a hold cannot be read, or something else lies among the holds: what it
            keeps is unknown.
        IncompleteReadError: If they cannot be listed to the end.

    Examples:
        >>> load(run.store).of_paths
        ()
    """
    # A listing that was lost on the way also shows no hold. So an empty listing is believed only
    # when it comes twice.
    found = _names(store) or (() if was_empty else _names(store))
    for name in found:
        if not _KEY.fullmatch(name) and not _UNPUBLISHED.fullmatch(name):
            raise CorruptTableError(name, None, "no hold, and nothing else belongs there", _WAY_ON)
    keys = [name for name in found if _KEY.fullmatch(name)]
    holds = []
    for name in keys:
        try:
            holds.append(Hold.from_json(store.read(name), name=name))
        except NotFoundError:
            if store.exists(name) or name in _names(store):
                raise
            # Somebody removed it since the listing, and a new listing does not show it.
    return Holds(tuple(sorted(holds, key=lambda hold: hold.name)))


def _names(store: ObjectStore) -> list[str]:
    return sorted(
        name for batch in store.list(lakegc_keys.HOLDS) for name in batch.column("key").to_pylist()
    )


def _reached(refs: Refs, starts: Sequence[str]) -> set[str]:
    """Return the commits that are reached by all parents; `refs` is known to be whole."""
    reached, left = set(starts), list(starts)
    while left:
        for parent in refs.commits[left.pop()].parents:
            if parent not in reached:
                reached.add(parent)
                left.append(parent)
    return reached
