"""Which object a person asks about: by its address, or by a path at a branch, tag or commit."""

from __future__ import annotations

from spark_core.addresses.namespace import AddressType
from spark_core.errors import AddressError, NotFoundError, SettingsError
from spark_core.lakefs.path_lookups import addresses_on
from spark_core.lakefs.refs import no_such_ref
from spark_core.run import Run

SCHEME = "lakefs://"


def address_of(run: Run, wanted: str) -> str:
    """Return the relative address of what somebody asks about.

    Args:
        run: The run; its server is asked about a path.
        wanted: A physical address, full or relative to the namespace, or
            `lakefs://REPOSITORY/REF/PATH`.

    Raises:
        SettingsError: If it is a path of another repository, or no path at all.
        AddressError: If the address lies outside the namespace.
        NoSuchRefError: If there is no such ref.
        NotFoundError: If it has no such path.
    """
    if not wanted.startswith(SCHEME):
        address = run.namespace.relative(wanted, AddressType.BY_PREFIX)
        if address is None:
            raise AddressError(
                f"{wanted} lies outside the storage namespace {run.namespace.root} of repository "
                f"{run.repository.id}",
                "Give an address below that namespace, or a path as lakefs://REPOSITORY/REF/PATH.",
            )
        return address
    ref, path = ref_and_path(run, wanted)
    try:
        physical = dict(addresses_on(run.server, run.repository.id, ref, [path])).get(path)
    except NotFoundError as unknown:
        raise no_such_ref(run.server, run.repository.id, ref) from unknown
    if physical is None:
        raise NotFoundError(
            f"{wanted}: {ref} has no such path",
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


def ref_and_path(run: Run, wanted: str, *, may_be_all: bool = False) -> tuple[str, str]:
    """Take a path of this repository apart.

    Args:
        run: The run.
        wanted: `lakefs://REPOSITORY/REF/PATH`.
        may_be_all: Whether the path may be empty.

    Raises:
        SettingsError: If it is no such path.
    """
    repository, _, rest = wanted.removeprefix(SCHEME).partition("/")
    ref, _, path = rest.partition("/")
    if repository != run.repository.id or not ref or not (path or may_be_all):
        raise SettingsError(
            f"{wanted} is not a path of repository {run.repository.id}",
            f"Write {SCHEME}{run.repository.id}/REF/PATH; REF is a branch, a tag or a commit.",
        )
    return ref, path
