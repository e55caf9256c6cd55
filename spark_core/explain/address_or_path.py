"""Which object a person asks about: by its address, or by a path at a branch, tag or commit."""

from __future__ import annotations

from spark_core.addresses.namespace import AddressType
from spark_core.errors import AddressError, NotFoundError, SettingsError
from spark_core.lakefs.entries import just_before
from spark_core.run import Run

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
    repository, _, rest = wanted.removeprefix(_SCHEME).partition("/")
    ref, _, path = rest.partition("/")
    if repository != run.repository.id or not ref or not path:
        raise SettingsError(
            f"{wanted} is not a path of repository {run.repository.id}",
            f"Write {_SCHEME}{run.repository.id}/REF/PATH; REF is a branch, a tag or a commit.",
        )
    found = run.server.list_entries(run.repository.id, ref, after=just_before(path)).entries
    physical = next((address for shown, address in found if shown == path), None)
    if physical is None:
        raise NotFoundError(
            f"{wanted}: {ref} has no such path. Ask by its address; `lakegc report "
            f"{run.repository.id}` names what was deleted."
        )
    inside = run.namespace.relative(physical, AddressType.FULL)
    if inside is None:
        raise AddressError(
            f"{wanted} is {physical}, which lies outside the storage namespace "
            f"{run.namespace.root}: it is imported or linked",
            "lakegc never looks at such objects.",
        )
    return inside
