"""Objects: upload, stage, read, delete, copy and reset."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from http import HTTPStatus

from lakegc_dagster.sandbox.blockstore import FULL, RELATIVE, SCHEME
from lakegc_dagster.sandbox.core import GRACE, Core
from lakegc_dagster.sandbox.errors import ApiError, bad_request, not_found
from lakegc_dagster.sandbox.listing import staged_or_compacted
from lakegc_dagster.sandbox.records import RepositoryRecord, StagedChange
from lakegc_dagster.sandbox.refs import Ref, resolve
from lakegc_dagster.sandbox.times import from_seconds
from lakegc_dagster.sandbox.xids import xid_seconds
from spark_core.graveler import Entry, entry_identity

DEFAULT_CONTENT_TYPE = "application/octet-stream"
_MAX_PATH = 1024


def check_path(path: str) -> bytes:
    """Return the key of a path.

    Raises:
        ApiError: 400 if it is empty or too long.
    """
    if not path:
        raise bad_request("argument path: required value: validation error")
    if len(path) > _MAX_PATH:
        raise bad_request(
            f"argument path: invalid value: validation error: {len(path)} is above maximum length "
            f"({_MAX_PATH})"
        )
    return path.encode()


def upload(
    core: Core,
    repository_id: str,
    branch_id: str,
    path: str,
    data: bytes,
    *,
    content_type: str = DEFAULT_CONTENT_TYPE,
) -> Entry:
    """Write an object to the store, then stage its entry.

    Raises:
        ApiError: 404, 403 for a read-only repository.
    """
    repository = core.writable(repository_id)
    key = check_path(path)
    if core.state.branch(repository.number, branch_id) is None:
        raise ApiError(HTTPStatus.NOT_FOUND, f"branch '{branch_id}' not found")
    core.require_unprotected(branch_id, "write")
    now = core.now()
    address = core.ids.object_address()
    core.blockstore.write(repository.storage_namespace, address, data, written_at=now)
    entry = Entry(
        path=key,
        address=address,
        address_type=RELATIVE,
        size_bytes=len(data),
        checksum=hashlib.md5(data, usedforsecurity=False).hexdigest(),
        last_modified=now,
        content_type=content_type,
    )
    core.state.stage(repository.number, branch_id, [StagedChange(key, entry)])
    return entry


def stage(
    core: Core,
    repository_id: str,
    branch_id: str,
    path: str,
    *,
    physical_address: str,
    checksum: str,
    size_bytes: int,
    link: bool,
    content_type: str | None = None,
    metadata: Mapping[str, str] | None = None,
    mtime: int | None = None,
) -> Entry:
    """Stage an entry for an object that the caller says is in a store.

    An address that begins with the repository's own namespace becomes relative. The local store's
    own form does not begin with it, so it is stored as a full address, as on the real server
    (`lakefs-facts` 11.35).

    Args:
        core: The sandbox.
        repository_id: The repository.
        branch_id: The branch.
        path: Path of the entry.
        physical_address: Absolute address of the object.
        checksum: Checksum of the object; quotes are dropped.
        size_bytes: Size of the object.
        link: Whether an address inside the namespace must carry this sandbox's signature.
        content_type: Content type of the object; a default when missing.
        metadata: User metadata.
        mtime: Unix seconds that the caller gives as the entry's date; the clock's by default.

    Raises:
        ApiError: 404, 403, 400 for an address of another kind of store or without a valid
            signature.
    """
    repository = core.writable(repository_id)
    key = check_path(path)
    core.branch(repository, branch_id)
    core.require_unprotected(branch_id, "write")
    if "://" not in physical_address:
        raise ApiError(
            HTTPStatus.INTERNAL_SERVER_ERROR,
            f'could not parse URI: parse "{physical_address}": invalid URI for request',
        )
    if not physical_address.startswith(SCHEME):
        raise bad_request("physical address is not valid for block adapter: local")
    prefix = repository.storage_namespace.rstrip("/") + "/"
    address, address_type = physical_address, FULL
    if physical_address.startswith(prefix + "data/"):
        address, address_type = physical_address.removeprefix(prefix), RELATIVE
        if link:
            _check_signature(core, repository_id, branch_id, path, address)
    checksum = checksum.strip(' "')
    if not checksum:
        raise bad_request("checksum is required")
    entry = Entry(
        path=key,
        address=address,
        address_type=address_type,
        size_bytes=size_bytes,
        checksum=checksum,
        last_modified=core.now() if mtime is None else from_seconds(mtime),
        content_type=content_type or DEFAULT_CONTENT_TYPE,
        metadata=dict(metadata or {}),
    )
    core.state.stage(repository.number, branch_id, [StagedChange(key, entry)])
    return entry


def _signature(core: Core, repository_id: str, branch_id: str, path: str, address: str) -> str:
    signed = json.dumps(
        {"repository": repository_id, "branch": branch_id, "path": path, "address": address}
    )
    # The directory is the key, so an address that another sandbox signed is not accepted.
    digest = hmac.new(str(core.directory).encode(), signed.encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def signed_address(core: Core, repository_id: str, branch_id: str, path: str) -> str:
    """Allocate a signed address for an upload outside the server to one path of a branch."""
    core.writable(repository_id)
    check_path(path)
    address = core.ids.object_address()
    return f"{address},{_signature(core, repository_id, branch_id, path, address)}"


def _check_signature(
    core: Core, repository_id: str, branch_id: str, path: str, address: str
) -> None:
    name, comma, signature = address.partition(",")
    if not comma:
        raise bad_request("address is not signed: link address invalid")
    if not hmac.compare_digest(signature, _signature(core, repository_id, branch_id, path, name)):
        raise bad_request("invalid address signature: link address invalid")
    allocated = from_seconds(xid_seconds(name.rpartition("/")[2]))
    if core.now() - allocated > GRACE:
        raise bad_request("link address expired")


def find(core: Core, repository: RepositoryRecord, ref: str, key: bytes) -> Entry | None:
    """Return the entry of a path in a ref, staged changes included, or None."""
    return find_at(core, repository, resolve(core, repository, ref), key)


def find_at(core: Core, repository: RepositoryRecord, ref: Ref, key: bytes) -> Entry | None:
    """Return the entry of a path in a resolved ref, or None."""
    if ref.branch is not None:
        change = core.state.staged(repository.number, ref.branch.id, key)
        if change is not None:
            return change.entry
        return core.trees.get(repository.storage_namespace, core.base(repository, ref.branch), key)
    return core.trees.get(repository.storage_namespace, ref.commit.metarange_id, key)


def stat(core: Core, repository_id: str, ref: str, path: str) -> tuple[RepositoryRecord, Entry]:
    """Return the entry of a path, whether or not its object is in the store.

    Raises:
        ApiError: 404 if there is none.
    """
    repository = core.repository(repository_id)
    entry = find(core, repository, ref, check_path(path))
    if entry is None:
        raise not_found()
    return repository, entry


def delete(core: Core, repository_id: str, branch_id: str, paths: Iterable[str]) -> None:
    """Delete paths from a branch; objects stay in the store.

    A path that does not exist is no error.

    Raises:
        ApiError: 404 without the branch, 403 for a read-only repository or a protected branch.
    """
    core.require_unprotected(branch_id, "write")
    repository = core.writable(repository_id)
    base = core.base(repository, core.branch(repository, branch_id))
    changes = []
    for path in paths:
        key = path.encode()
        if (
            core.state.staged(repository.number, branch_id, key) is not None
            or core.trees.get(repository.storage_namespace, base, key) is not None
        ):
            changes.append(StagedChange(key, None))
    core.state.stage(repository.number, branch_id, changes)


def copy(
    core: Core,
    repository_id: str,
    branch_id: str,
    path: str,
    *,
    source_path: str,
    source_ref: str | None = None,
) -> Entry:
    """Copy an object to a new address and stage it.

    Raises:
        ApiError: 404, 403; 500 if the source's object is gone, as on the real server.
    """
    repository = core.writable(repository_id)
    key = check_path(path)
    if core.state.branch(repository.number, branch_id) is None:
        raise ApiError(HTTPStatus.NOT_FOUND, f"branch '{branch_id}' not found")
    core.require_unprotected(branch_id, "write")
    _, source = stat(core, repository_id, source_ref or branch_id, source_path)
    try:
        data = core.blockstore.read(
            repository.storage_namespace, source.address, source.address_type
        )
    except ApiError as error:
        if error.status is not HTTPStatus.GONE:
            raise
        file = core.blockstore.file(
            repository.storage_namespace, source.address, source.address_type
        )
        raise ApiError(
            HTTPStatus.INTERNAL_SERVER_ERROR, f"open {file}: no such file or directory"
        ) from None
    now = core.now()
    address = core.ids.object_address()
    core.blockstore.write(repository.storage_namespace, address, data, written_at=now)
    entry = replace(source, path=key, address=address, address_type=RELATIVE, last_modified=now)
    core.state.stage(repository.number, branch_id, [StagedChange(key, entry)])
    return entry


def reset(
    core: Core,
    repository_id: str,
    branch_id: str,
    kind: str,
    path: str = "",
) -> None:
    """Undo staged changes of a branch (`reset`), a prefix (`common_prefix`) or a path (`object`).

    Changes of single paths stay staged: the committed entry is staged over them with its old
    address, or a deletion where there is none. A staged entry that does not differ from the
    committed one stays as it is (graveler.go, `resetKey`). What was compacted is undone like what
    is staged.

    Raises:
        ApiError: 404, 403, 400 for another kind.
    """
    core.require_unprotected(branch_id, "write")
    repository = core.writable(repository_id)
    branch = core.branch(repository, branch_id)
    key = path.encode()
    if kind == "reset":
        with core.state.transaction():
            core.state.drop_staged(repository.number, branch_id)
            core.state.put_branch(repository.number, replace(branch, compacted=""))
        return
    if kind not in {"object", "common_prefix"}:
        raise bad_request("unknown reset type")
    head = core.head(repository, branch)
    changes = []
    for change in staged_or_compacted(core, repository, branch, key):
        if change.path != key if kind == "object" else not change.path.startswith(key):
            break
        committed = core.trees.get(repository.storage_namespace, head.metarange_id, change.path)
        if change.entry is None:
            if committed is not None:
                changes.append(StagedChange(change.path, committed))
        elif committed is None or entry_identity(committed) != entry_identity(change.entry):
            changes.append(StagedChange(change.path, committed))
    core.state.stage(repository.number, branch_id, changes)
