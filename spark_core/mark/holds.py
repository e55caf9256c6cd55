"""Holds: what people keep from ever being collected, by name, whatever the rules say."""

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
from spark_core.addresses.namespace import AddressType, Namespace, is_collectable
from spark_core.errors import (
    AddressError,
    CorruptTableError,
    IncompleteReadError,
    NotFoundError,
    ObjectExistsError,
    SettingsError,
    TransientError,
)
from spark_core.model import Refs
from spark_core.records import tables
from spark_core.records.documents import Document, Instant
from spark_core.records.figures import HoldFigures
from spark_core.run import Run
from spark_core.storage import ObjectStore

_WAY_ON = (
    "This is a file of lakegc's own, not of the server, and what it keeps cannot be told without "
    "it. Bring it back as it was, or delete it and make the hold again (`lakegc hold add`)."
)

Kind = Literal["address", "prefix", "commit", "branch", "tag"]
OF_COMMITS = ("commit", "branch", "tag")

# One spelling in every store: a file system may not distinguish upper and lower case.
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_KEY = re.compile(rf"{re.escape(lakegc_keys.HOLDS)}({_NAME.pattern})\.json")
# The file that a local store leaves if it was killed while writing.
_UNPUBLISHED = re.compile(rf"{re.escape(lakegc_keys.HOLDS)}\.lakegc-[0-9a-f]{{16}}\.part")
_COMMIT_ID = re.compile(r"[0-9a-f]{6,64}")
_IN_QUARANTINE = re.compile(rf"^{re.escape(lakegc_keys.QUARANTINE)}run_id=[^/]+/")


@dataclass(frozen=True)
class Hold(Document):
    """One thing that is kept.

    Attributes:
        name: Name that people gave the hold.
        kind: Kind of `value`.
        value: Address or prefix of addresses, relative to the namespace; commit id; name of a
            branch or tag.
        commit_id: The commit that `value` stood for when the hold was made; None for addresses and
            prefixes.
        who: Who made the hold.
        since: When it was made.
        why: A note.
    """

    FORMAT: ClassVar[int] = 1
    # 1: 0.1.0.
    FORMATS: ClassVar[tuple[int, ...]] = (1,)
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
    def from_json(cls, data: bytes, *, name: str, formats: Sequence[int] | None = None) -> Self:
        """Read a hold back.

        Raises:
            CorruptTableError: If it is no hold, or a hold of another name: nobody knows what it
                keeps.
        """
        hold = super().from_json(data, name=name, formats=formats)
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
    """Every hold of a namespace at one moment; small, and travels to executors."""

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
        return tuple(hold for hold in self.holds if hold.kind not in OF_COMMITS)

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


def load(store: ObjectStore) -> Holds:
    """Read every hold of a namespace.

    Args:
        store: Rooted at the namespace.

    Returns:
        The holds, in order of their names.

    Raises:
        CorruptTableError: If a hold cannot be read, or something else lies among the holds: what it
            keeps is unknown.
        IncompleteReadError: If they cannot be listed to the end.
    """
    # A listing that was lost on the way also shows no hold. So an empty listing is believed only
    # when it comes twice.
    found = _names(store) or _names(store)
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


def add(run: Run, name: str, kind: Kind, value: str, *, who: str, why: str) -> Hold:
    """Make a hold, after finding the thing that it keeps.

    Args:
        run: The repository, opened.
        name: Name of the hold: lower case, digits, `.`, `_` and `-`.
        kind: Kind of `value`.
        value: An address or a prefix of addresses, relative or absolute; a commit id, or its
            beginning; the name of a branch or tag.
        who: Who makes it.
        why: A note for those who find it.

    Returns:
        The stored hold.

    Raises:
        SettingsError: If the name is not valid, or is taken.
        AddressError: If the address has an undocumented form, lies outside, or is never collected
            anyway.
        NotFoundError: If there is nothing at `value`.
    """
    if not _NAME.fullmatch(name):
        raise SettingsError(
            f"a hold cannot be called {name!r}",
            "Use 1 to 63 of a-z, 0-9, `.`, `_` and `-`, the first one a letter or digit.",
        )
    if kind in OF_COMMITS:
        commit_id = _commit_of(run, kind, value)
        value = commit_id if kind == "commit" else value
    else:
        commit_id, value = None, _address_of(run, kind, value)
    hold = Hold(name, kind, value, commit_id, who, run.now(), why)
    try:
        run.store.put_if_absent(lakegc_keys.hold_key(name), hold.to_json())
    except ObjectExistsError:
        there = Hold.from_json(
            run.store.read(lakegc_keys.hold_key(name)), name=lakegc_keys.hold_key(name)
        )
        # lakegc's own hold, if the client sent the request twice because the first answer was lost.
        if there != hold:
            raise SettingsError(
                f"there is a hold {name} of {run.repository.id} already ({there.kind} "
                f"{there.value}, by {there.who} since {there.since.isoformat()})",
                f"Choose another name, or remove it first (`lakegc hold remove {run.repository.id} "
                f"{name}`).",
            ) from None
    return hold


def remove(run: Run, name: str) -> Hold:
    """Remove a hold.

    Returns:
        The removed hold.

    Raises:
        NotFoundError: If no hold has that name.
        TransientError: If the store did not remove it.
    """
    try:
        hold = (
            Hold.from_json(
                run.store.read(lakegc_keys.hold_key(name)), name=lakegc_keys.hold_key(name)
            )
            if _NAME.fullmatch(name)
            else None
        )
    except NotFoundError:
        hold = None
    if hold is None:
        names = ", ".join(hold.name for hold in load(run.store).holds)
        raise NotFoundError(
            f"there is no hold {name!r} of {run.repository.id} "
            f"({f'there are: {names}' if names else 'there is none'})."
        )
    (outcome,) = run.store.delete([lakegc_keys.hold_key(name)])
    if outcome.outcome not in ("deleted", "already_gone"):
        raise TransientError(
            f"hold {name} of {run.repository.id} could not be taken away ({outcome.error}), so it "
            f"holds on. Allow {run.store.delete_permission} on {run.store.root}{lakegc_keys.ROOT}, "
            "and try again."
        )
    return hold


def _reached(refs: Refs, starts: Sequence[str]) -> set[str]:
    """Return the commits that are reached by all parents; `refs` is known to be whole."""
    reached, left = set(starts), list(starts)
    while left:
        for parent in refs.commits[left.pop()].parents:
            if parent not in reached:
                reached.add(parent)
                left.append(parent)
    return reached


def _commit_of(run: Run, kind: Kind, value: str) -> str:
    """Return the commit that a commit id, a branch or a tag stands for now."""
    server, repository_id = run.server, run.repository.id
    if kind == "commit":
        if not _COMMIT_ID.fullmatch(value):
            raise _absent(
                run, f"commit {value!r}", "a commit id is hex, at least its first 6 digits."
            )
        first = next(server.log(repository_id, value), None)
        if first is None or not first.id.startswith(value):
            raise _absent(run, f"commit {value}", "Look at it with `lakectl log`.")
        return first.id
    refs = server.branches(repository_id) if kind == "branch" else server.tags(repository_id)
    for ref in refs:
        if ref.id == value:
            return ref.commit_id
    some = ", ".join(sorted(ref.id for ref in refs)[:10])
    raise _absent(
        run, f"{kind} {value!r}", f"There are: {some}." if some else "There is none at all."
    )


def _address_of(run: Run, kind: Kind, value: str) -> str:
    """Return an address or a prefix relative to the namespace, after finding something there."""
    relative = _relative(run.namespace, kind, value)
    if relative is None:
        raise AddressError(
            f"{kind} {value!r} lies outside {run.store.root}, where lakegc never deletes",
            "Give what `lakectl fs stat` shows as the physical address, or its part below the "
            "namespace.",
        )
    if kind == "address":
        # An object in quarantine is purged some day. A hold keeps it there.
        if not is_collectable(_IN_QUARANTINE.sub("", relative), flat=True):
            raise AddressError(
                f"{kind} {relative!r} of {run.store.root} has a name that is never collected, and "
                "it needs no hold."
            )
        if not run.store.exists(relative) and not _in_quarantine(run, relative):
            raise _absent(
                run,
                f"object {relative!r} in {run.store.root}",
                "Look at it with `lakectl fs stat`.",
            )
        return relative
    if not _anything_below(run, relative):
        raise _absent(
            run,
            f"object below {relative!r} in {run.store.root}",
            "A hold is for what is there already.",
        )
    return relative


def _in_quarantine(run: Run, address: str) -> bool:
    """Say whether an address's object is in quarantine; a hold by the address keeps the copy."""
    return any(
        run.store.exists(lakegc_keys.in_quarantine(key) + address)
        for key in tables.runs(run.store, "quarantine")
    )


def _anything_below(run: Run, prefix: str) -> bool:
    places = (
        prefix,
        *(lakegc_keys.in_quarantine(key) + prefix for key in tables.runs(run.store, "quarantine")),
    )
    return any(
        pc.any(pc.starts_with(batch.column("key"), place)).as_py()
        for place in places
        for batch in run.store.list(place.rpartition("/")[0])
        if len(batch)
    )


def _relative(namespace: Namespace, kind: Kind, value: str) -> str | None:
    # A prefix may end in a slash. An address does not.
    slash = "/" if kind == "prefix" and value.endswith("/") else ""
    relative = namespace.relative(value.removesuffix(slash), AddressType.BY_PREFIX)
    return None if relative is None else relative + slash


def _absent(run: Run, what: str, hint: str) -> NotFoundError:
    return NotFoundError(f"there is no {what} of {run.repository.id}, so nothing can be held", hint)
