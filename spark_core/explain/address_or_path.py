"""Which object a person asks about: by its address, or by a path at a branch, tag or commit."""

from __future__ import annotations

from spark_core.addresses.namespace import AddressType
from spark_core.did_you_mean import did_you_mean
from spark_core.errors import AddressError, NotFoundError, SettingsError
from spark_core.lakefs.path_lookups import just_before
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
        NotFoundError: If there is no such ref or path.
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
        found = run.server.list_entries(run.repository.id, ref, after=just_before(path)).entries
    except NotFoundError as unknown:
        raise no_such_ref(run, wanted, ref, unknown) from unknown
    physical = next((address for shown, address in found if shown == path), None)
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


def no_such_ref(run: Run, wanted: str, ref: str, unknown: NotFoundError) -> NotFoundError:
    """Return the error of a ref that the server does not know, with the one next to it."""
    names = [branch.id for branch in run.server.branches(run.repository.id)]
    names += [tag.id for tag in run.server.tags(run.repository.id)]
    if ref in names:
        return unknown
    question = did_you_mean(ref, names)
    return NotFoundError(
        f"{wanted}: {run.repository.id} has no branch, tag or commit {ref}",
        question or f"`lakectl branch list lakefs://{run.repository.id}` shows its branches.",
    )


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
