"""Find an inventory: in a bucket of S3, or in a folder of this machine to try it out."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from spark_core.addresses.namespace import Namespace
from spark_core.errors import CorruptTableError, NotFoundError, SettingsError
from spark_core.storage import open_store
from spark_core.storage.contract import ObjectStore
from spark_core.storage.inventory.manifest import OF_AN_INVENTORY, Inventory, read_manifest
from spark_core.storage.options import StoreOptions

MANIFEST, CHECKSUM = "manifest.json", "manifest.checksum"
# The folder of one inventory, named after the time when S3 began to look at the bucket.
_DATED = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\dZ")


def find_inventory(where: str, options: StoreOptions) -> tuple[Inventory, ObjectStore]:
    """Read the manifest at a place, or the newest one under it.

    Under a prefix, an inventory counts once its manifest.checksum lies beside its manifest.json.
    The data files are looked for in the manifest's own bucket. A manifest on this machine is one
    of a copy: the files are looked for below the nearest folder above it that has the first one.

    Args:
        where: `s3://BUCKET/...` or an absolute path; of a manifest.json, or of the folder that has
            the dated folders.
        options: How S3 is reached.

    Returns:
        The inventory, and the store that its files' keys are relative to.

    Raises:
        SettingsError: If the place has another form.
        NotFoundError: If there is no inventory.
        CorruptTableError: If the manifest is damaged.
    """
    scheme, colon, rest = where.partition("://")
    if colon and scheme == "s3":
        bucket, _, key = rest.partition("/")
        store = open_store(Namespace.parse(f"s3://{bucket}"), options)
        is_named = key.endswith(MANIFEST)
        folders = [key.removesuffix(MANIFEST)] if is_named else store.children(key)[0]
        return _newest(folders, store.read, f"s3://{bucket}/", where), store
    path = Path(where)
    if colon or not path.is_absolute():
        raise SettingsError(
            f"inventory is {where!r}",
            "Give it as s3://BUCKET/..., or as an absolute path of a copy on this machine.",
        )
    path = path.resolve()
    if path.name == MANIFEST:
        found = [f"{path.parent}/"]
    else:
        found = [f"{each}/" for each in path.iterdir()] if path.is_dir() else []
    inventory = _newest(found, _read_file, "", where)
    return inventory, _copied(inventory, options)


def is_table(where: str) -> bool:
    """Return whether a place is one of an Iceberg table: an ARN, or a file of metadata."""
    return where.startswith("arn:") or where.endswith(".metadata.json")


def _newest(folders: list[str], read: Callable[[str], bytes], before: str, where: str) -> Inventory:
    """Read the newest of the inventories in these folders; a folder that was named must do."""
    is_named = where.endswith(MANIFEST)
    dated = [folder for folder in folders if is_named or _DATED.fullmatch(_last(folder))]
    for folder in sorted(dated, key=_last, reverse=True):
        checksum = _read_if_there(read, f"{folder}{CHECKSUM}")
        if checksum is None and not is_named:
            continue
        content = _read_if_there(read, f"{folder}{MANIFEST}")
        if content is None:
            continue
        place = f"{before}{folder}{MANIFEST}"
        md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
        if checksum is not None and checksum.decode("ascii", "replace").strip().lower() != md5:
            raise CorruptTableError(
                place, None, f"its MD5 is {md5}, {CHECKSUM} has another", OF_AN_INVENTORY
            )
        return read_manifest(content, place)
    raise NotFoundError(
        f"there is no inventory at {where}",
        f"Name the folder that has the dated folders (PREFIX/BUCKET/CONFIGURATION/), or one "
        f"{MANIFEST}. The first inventory may take two days.",
    )


def _last(folder: str) -> str:
    return folder.rstrip("/").rpartition("/")[2]


def _read_if_there(read: Callable[[str], bytes], key: str) -> bytes | None:
    try:
        return read(key)
    except NotFoundError:
        return None


def _read_file(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise NotFoundError(f"{path} cannot be read ({error.strerror})") from error


def _copied(inventory: Inventory, options: StoreOptions) -> ObjectStore:
    """Open the folder that the keys of a copied inventory's files are relative to."""
    above = Path(inventory.place).parents
    keys = [file.key for file in inventory.files[:1]]
    root = next((each for each in above if all((each / key).is_file() for key in keys)), None)
    if root is None or not root.name:
        raise NotFoundError(
            f"no folder above {inventory.place} has {keys[0]}",
            "Copy the files of the inventory too, with their keys as paths.",
        )
    at = str(root.parent)
    return open_store(
        Namespace.parse(f"local://{root.name}", server_path=at), replace(options, local_path=at)
    )
