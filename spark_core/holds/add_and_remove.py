"""Make and remove holds; a hold is made only for something that is there."""

from __future__ import annotations

import re

import pyarrow.compute as pc

from spark_core import lakegc_keys
from spark_core.addresses.namespace import AddressType, Namespace, is_collectable
from spark_core.errors import (
    AddressError,
    NotFoundError,
    ObjectExistsError,
    SettingsError,
    TransientError,
)
from spark_core.holds.hold import NAME, OF_COMMITS, Hold, Kind, load
from spark_core.holds.path_patterns import require_pattern
from spark_core.lakefs.refs import no_such_ref
from spark_core.records import tables
from spark_core.run import Run

_COMMIT_ID = re.compile(r"[0-9a-f]{6,64}")
_IN_QUARANTINE = re.compile(rf"^{re.escape(lakegc_keys.QUARANTINE)}run_id=[^/]+/")


def add(run: Run, name: str, kind: Kind, value: str, *, who: str, why: str) -> Hold:
    """Make a hold, after finding the thing that it keeps; a pattern of paths is not looked for.

    Args:
        run: The repository, opened.
        name: Name of the hold: lower case, digits, `.`, `_` and `-`.
        kind: Kind of `value`.
        value: An address or a prefix of addresses, relative or absolute; a pattern of paths; a
            commit id, or its beginning; the name of a branch or tag.
        who: Who makes it.
        why: A note for those who find it.

    Returns:
        The stored hold.

    Raises:
        SettingsError: If the name is not valid, or is taken, or the pattern can name no object.
        AddressError: If the address has an undocumented form, lies outside, or is never collected
            anyway.
        NotFoundError: If there is nothing at `value`.

    Examples:
        >>> add(run, "audit", "address", live, who="ana", why="until the audit ends").name
        'audit'
    """
    if not NAME.fullmatch(name):
        raise SettingsError(
            f"a hold cannot be called {name!r}",
            "Use 1 to 63 of a-z, 0-9, `.`, `_` and `-`, the first one a letter or digit.",
        )
    if kind in OF_COMMITS:
        commit_id = _commit_of(run, kind, value)
        value = commit_id if kind == "commit" else value
    elif kind == "path":
        commit_id, value = None, require_pattern(value)
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

    Examples:
        >>> held = add(run, "legal", "branch", "main", who="ana", why="a case")
        >>> remove(run, "legal").value
        'main'
    """
    try:
        hold = (
            Hold.from_json(
                run.store.read(lakegc_keys.hold_key(name)), name=lakegc_keys.hold_key(name)
            )
            if NAME.fullmatch(name)
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
    if not outcome.is_gone:
        raise TransientError(
            f"hold {name} of {run.repository.id} could not be removed ({outcome.error}), so it "
            f"still applies. Allow {run.store.delete_permission} on "
            f"{run.store.root}{lakegc_keys.ROOT}, and try again."
        )
    return hold


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
    raise no_such_ref(server, repository_id, value, kind)


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
