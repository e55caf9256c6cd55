"""Holds: what people keep from ever being collected, by name, whatever the rules say."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import reduce
from typing import Any, Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import layout
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
from spark_core.records.sealed import digest, seal
from spark_core.run import Run
from spark_core.storage import ObjectStore

HOLD_FORMAT = 1
# Read as well: every format of a release (see `sealed`). 1: 0.1.0.
HOLD_FORMATS = (1,)

_WAY_ON = (
    "This is a file of lakegc's own, not of the server, and what it keeps cannot be told without it. Bring it back as it was, "
    "or delete it and make the hold again (`lakegc hold add`)."
)

Kind = Literal["address", "prefix", "commit", "branch", "tag"]
OF_COMMITS = ("commit", "branch", "tag")

# One spelling in every store: a file system may not tell upper case from lower.
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_KEY = re.compile(rf"{re.escape(layout.HOLDS)}({_NAME.pattern})\.json")
# What a local store leaves when it was killed while it wrote.
_UNPUBLISHED = re.compile(rf"{re.escape(layout.HOLDS)}\.lakegc-[0-9a-f]{{16}}\.part")
_COMMIT_ID = re.compile(r"[0-9a-f]{6,64}")
_IN_QUARANTINE = re.compile(rf"^{re.escape(layout.QUARANTINE)}run_id=[^/]+/")


@dataclass(frozen=True)
class Hold:
    """One thing that is kept.

    Attributes:
        name: What people call the hold.
        kind: What `value` is.
        value: Address or prefix of addresses, relative to the namespace; commit id; name of a branch or tag.
        commit_id: The commit that it stood for when the hold was made; None for addresses and prefixes.
        who: Who made it.
        since: When.
        why: A note.
    """

    name: str
    kind: Kind
    value: str
    commit_id: str | None
    who: str
    since: datetime
    why: str

    @property
    def words(self) -> str:
        """The hold as a reason."""
        shown = self.value[:12] if self.kind == "commit" else self.value
        return f"hold {self.name}: {self.kind} {shown}"

    def to_json(self) -> bytes:
        """Write the hold, with a digest: one of which a letter is damaged must not keep something else."""
        return seal({"format": HOLD_FORMAT, **asdict(self), "since": self.since.isoformat()})

    @classmethod
    def from_json(cls, data: bytes, *, name: str) -> Hold:
        """Read a hold back.

        Args:
            data: The bytes as stored.
            name: Key, for the message.

        Raises:
            CorruptTableError: If it is no hold, so that nobody knows what it keeps.
        """
        try:
            document = json.loads(data)
            if document.pop("sha256") != digest(document) or data != seal(document):
                raise CorruptTableError(name, None, "a hold that was edited or damaged since it was written", _WAY_ON)
            written = document.pop("format")
            if written not in HOLD_FORMATS:
                problem = f"a hold of another lakegc, in format {written!r}; use the one that wrote it"
                raise CorruptTableError(name, None, problem, _WAY_ON)
            hold = cls(**{**document, "since": datetime.fromisoformat(document["since"])})
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise CorruptTableError(name, None, f"not a hold ({problem!r})", _WAY_ON) from problem
        texts = (hold.name, hold.value, hold.who, hold.why)
        sound = all(isinstance(text, str) for text in texts) and hold.value and hold.kind in get_args(Kind)
        if (
            not sound
            or isinstance(hold.commit_id, str) != (hold.kind in OF_COMMITS)
            or layout.hold_key(hold.name) != name
        ):
            raise CorruptTableError(name, None, "not a hold, or one that belongs under another name", _WAY_ON)
        return hold


@dataclass(frozen=True)
class Holds:
    """Every hold of a namespace at one moment; small, and travels to executors."""

    holds: tuple[Hold, ...]

    @property
    def facts(self) -> list[Mapping[str, str | None]]:
        """The holds as a manifest's facts record them."""
        return [
            {"name": hold.name, "kind": hold.kind, "value": hold.value, "commit_id": hold.commit_id}
            for hold in self.holds
        ]

    @classmethod
    def of_facts(cls, facts: Sequence[Mapping[str, Any]]) -> Holds:
        """Return the holds that a manifest's facts record; who made them and when is not among those."""
        unknown = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
        return cls(tuple(Hold(**fact, who="", since=unknown, why="") for fact in facts))

    @property
    def of_addresses(self) -> tuple[Hold, ...]:
        """Those that keep objects by their addresses."""
        return tuple(hold for hold in self.holds if hold.kind not in OF_COMMITS)

    @property
    def starting_commits(self) -> list[str]:
        """The commits that holds were made on: whoever walks the graph has to begin there, too."""
        return sorted({hold.commit_id for hold in self.holds if hold.commit_id is not None})

    def protecting(self, addresses: pa.Array) -> pa.BooleanArray:
        """Say of each address whether a hold keeps it by its address.

        Args:
            addresses: Relative to the namespace; no nulls.
        """
        return pc.is_valid(self.reasons(addresses))

    def reasons(self, addresses: pa.Array) -> pa.StringArray:
        """Say of each address which hold keeps it; null where none does.

        Args:
            addresses: Relative to the namespace; no nulls.
        """
        texts = addresses.cast(pa.string())

        def add(found: pa.StringArray, hold: Hold) -> pa.StringArray:
            hit = pc.equal(texts, hold.value) if hold.kind == "address" else pc.starts_with(texts, hold.value)
            return pc.if_else(pc.and_(hit, pc.is_null(found)), pa.scalar(hold.words), found)

        return reduce(add, self.of_addresses, pa.nulls(len(texts), pa.string()))

    def commits(self, refs: Refs) -> Mapping[str, str]:
        """Say which commits holds keep, and why.

        A commit keeps itself. A tag keeps the commit that it names and the one that it named when the hold was made. A
        branch keeps every commit that it reaches, by all parents, and what it reached when the hold was made.

        Args:
            refs: The graph; walked from `starting_commits`, too, where it was not read from a dump.

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
                    f"{hold.words}: commit {hold.commit_id}, which it was made on, is not among the {len(refs.commits)} commits "
                    "that were read; what it keeps is unknown",
                    "Run again; if it stays, the commit is "
                    f"gone from the server, and `lakegc hold remove REPOSITORY {hold.name}` takes the hold away.",
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
        CorruptTableError: If one cannot be read, or something else lies among them: what it keeps is unknown.
        IncompleteReadError: If they cannot be listed to the end.
    """
    # No hold at all is also what a listing looks like that was lost on the way: it is believed when it is said twice.
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
            # Somebody removed it since it was listed, and it is not listed any more.
    return Holds(tuple(sorted(holds, key=lambda hold: hold.name)))


def _names(store: ObjectStore) -> list[str]:
    return sorted(name for batch in store.list(layout.HOLDS) for name in batch.column("key").to_pylist())


def add(run: Run, name: str, kind: Kind, value: str, *, who: str, why: str) -> Hold:
    """Make a hold, after the thing that it is to keep was found.

    Args:
        run: The repository, opened.
        name: What the hold is to be called: lower case, digits, `.`, `_` and `-`.
        kind: What `value` is.
        value: An address or a prefix of addresses, relative or absolute; a commit id, or its beginning; the name of a
            branch or tag.
        who: Who makes it.
        why: A note for those who find it.

    Returns:
        The hold as stored.

    Raises:
        SettingsError: If the name is not one, or is taken.
        AddressError: If the address has a form that nobody documented, lies outside, or is never collected anyway.
        NotFoundError: If there is no such thing.
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
        run.store.put_if_absent(layout.hold_key(name), hold.to_json())
    except ObjectExistsError:
        there = Hold.from_json(run.store.read(layout.hold_key(name)), name=layout.hold_key(name))
        # Ours, if the client sent the request twice because the first answer was lost.
        if there != hold:
            raise SettingsError(
                f"there is a hold {name} of {run.repository.id} already ({there.kind} {there.value}, by {there.who} since "
                f"{there.since.isoformat()})",
                f"Choose another name, or remove it first (`lakegc hold remove {run.repository.id} {name}`).",
            ) from None
    return hold


def remove(run: Run, name: str) -> Hold:
    """Take a hold away.

    Returns:
        What it was.

    Raises:
        NotFoundError: If there is none of that name.
        TransientError: If the store did not take it away.
    """
    try:
        hold = (
            Hold.from_json(run.store.read(layout.hold_key(name)), name=layout.hold_key(name))
            if _NAME.fullmatch(name)
            else None
        )
    except NotFoundError:
        hold = None
    if hold is None:
        names = ", ".join(hold.name for hold in load(run.store).holds)
        raise NotFoundError(
            f"there is no hold {name!r} of {run.repository.id} ({f'there are: {names}' if names else 'there is none'})."
        )
    (outcome,) = run.store.delete([layout.hold_key(name)])
    if outcome.outcome not in ("deleted", "already_gone"):
        raise TransientError(
            f"hold {name} of {run.repository.id} could not be taken away ({outcome.error}), so it holds on. Allow "
            f"{run.store.delete_permission} on {run.store.root}{layout.ROOT}, and try again."
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
            raise _absent(run, f"commit {value!r}", "a commit id is hex, at least its first 6 digits.")
        first = next(server.log(repository_id, value), None)
        if first is None or not first.id.startswith(value):
            raise _absent(run, f"commit {value}", "Look at it with `lakectl log`.")
        return first.id
    refs = server.branches(repository_id) if kind == "branch" else server.tags(repository_id)
    for ref in refs:
        if ref.id == value:
            return ref.commit_id
    some = ", ".join(sorted(ref.id for ref in refs)[:10])
    raise _absent(run, f"{kind} {value!r}", f"There are: {some}." if some else "There is none at all.")


def _address_of(run: Run, kind: Kind, value: str) -> str:
    """Return an address or a prefix relative to the namespace, after something was found there."""
    relative = _relative(run.namespace, kind, value)
    if relative is None:
        raise AddressError(
            f"{kind} {value!r} lies outside {run.store.root}, where lakegc never deletes",
            "Give what `lakectl fs stat` shows as the physical address, or its part below the namespace.",
        )
    if kind == "address":
        # An object in quarantine is purged some day; a hold keeps it there.
        if not is_collectable(_IN_QUARANTINE.sub("", relative), flat=True):
            raise AddressError(
                f"{kind} {relative!r} of {run.store.root} has a name that is never collected, and it needs no hold."
            )
        if not run.store.exists(relative) and not _in_quarantine(run, relative):
            raise _absent(run, f"object {relative!r} in {run.store.root}", "Look at it with `lakectl fs stat`.")
        return relative
    if not _anything_below(run, relative):
        raise _absent(run, f"object below {relative!r} in {run.store.root}", "A hold is for what is there already.")
    return relative


def _in_quarantine(run: Run, address: str) -> bool:
    """Say whether the object of an address was moved aside: then a hold by the address keeps the copy."""
    return any(run.store.exists(layout.in_quarantine(key) + address) for key in tables.runs(run.store, "quarantine"))


def _anything_below(run: Run, prefix: str) -> bool:
    places = (prefix, *(layout.in_quarantine(key) + prefix for key in tables.runs(run.store, "quarantine")))
    return any(
        pc.any(pc.starts_with(batch.column("key"), place)).as_py()
        for place in places
        for batch in run.store.list(place.rpartition("/")[0])
        if len(batch)
    )


def _relative(namespace: Namespace, kind: Kind, value: str) -> str | None:
    # A prefix may end in a slash, which no address does.
    slash = "/" if kind == "prefix" and value.endswith("/") else ""
    relative = namespace.relative(value.removesuffix(slash), AddressType.BY_PREFIX)
    return None if relative is None else relative + slash


def _absent(run: Run, what: str, hint: str) -> NotFoundError:
    return NotFoundError(f"there is no {what} of {run.repository.id}, so nothing can be held", hint)
