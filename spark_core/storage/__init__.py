"""Object stores: open one for a namespace; list, read, write, delete in it.

contract   what every store can do, and its values
local      files
s3         S3 and what speaks like it
azure      Azure Blob Storage
gcs        Google Cloud Storage (needs `lakegc[gcs]`)
deletion   the way of a deletion that all kinds share
copies     copies that are proved before anybody relies on them; undo brings deleted objects back
listings   listings of many prefixes at once, long ones from several names on
parquet    Parquet files on a store's streams
"""

from __future__ import annotations

from spark_core.addresses.namespace import Namespace
from spark_core.errors import SettingsError
from spark_core.storage.contract import DeleteOutcome, ObjectInfo, ObjectStore, StoreOptions, WrittenFile

__all__ = ["DeleteOutcome", "ObjectInfo", "ObjectStore", "StoreOptions", "WrittenFile", "open_store"]


def open_store(namespace: Namespace, options: StoreOptions) -> ObjectStore:
    """Open the store of a namespace.

    Raises:
        SettingsError: If this kind of store is not known here, or its options are missing or wrong.
    """
    if namespace.scheme == "local":
        from spark_core.storage.local import LocalStore

        return LocalStore(namespace, options)
    if namespace.scheme == "s3":
        from spark_core.storage.s3.store import S3Store

        return S3Store(namespace, options)
    if namespace.scheme in ("https", "http"):
        from spark_core.storage.azure.store import AzureStore

        return AzureStore(namespace, options)
    if namespace.scheme == "gs":
        from spark_core.storage.gcs.store import GcsStore

        return GcsStore(namespace, options)
    raise SettingsError(
        f"{namespace.root}: stores of the kind {namespace.scheme}:// cannot be opened by this version",
        "Local blockstores, S3, Azure Blob and GCS can.",
    )
