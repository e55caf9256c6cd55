"""Object stores: open one for a namespace; list, read, write, delete in it.

contract   what every store can do: `copies` are proved before anybody relies on them,
           `unchanging_files` are tables that are written once
options    how a store is reached
objects    what a store says of one object; `listing_rows`: of many
outcomes   what it says of each key of a deletion, whose steps are in `deletion`
local      files
s3         S3 and stores that speak like it; its directory buckets
azure      Azure Blob Storage
gcs        Google Cloud Storage (needs `lakegc[gcs]`)
remote     shared by S3, Azure and GCS; `listing_pages` and `failures` read their answers,
           `obstore_reads` reads their objects
undelete   brings deleted objects back
listings   listings of many prefixes at once, long ones starting at several names;
           `listing_order` checks that the names come in order
probes     questions that are answered by trying
parquet    Parquet files on a store's streams
inventory  objects as S3 Inventory writes them down, instead of a listing
"""

from __future__ import annotations

from spark_core.addresses.namespace import Namespace
from spark_core.errors import SettingsError
from spark_core.storage.contract import ObjectStore
from spark_core.storage.objects import ObjectInfo as ObjectInfo
from spark_core.storage.options import StoreOptions
from spark_core.storage.outcomes import DeleteOutcome as DeleteOutcome
from spark_core.storage.s3_bucket_names import is_directory_bucket as is_directory_bucket
from spark_core.storage.unchanging_files import WrittenFile as WrittenFile

__all__ = ["ObjectStore", "StoreOptions", "open_store"]


def open_store(namespace: Namespace, options: StoreOptions) -> ObjectStore:
    """Open the store of a namespace.

    Raises:
        SettingsError: If this kind of store is not known here, or its options are missing or wrong.

    Examples:
        >>> namespace = Namespace.parse("local://lake", server_path="/blocks")
        >>> open_store(namespace, storage.store_options).exists("data/none")
        False
    """
    if namespace.scheme == "local":
        from spark_core.storage.local import LocalStore

        return LocalStore(namespace, options)
    if namespace.scheme == "s3":
        if is_directory_bucket(namespace):
            from spark_core.storage.s3.directory_buckets import DirectoryBucketStore

            return DirectoryBucketStore(namespace, options)
        from spark_core.storage.s3.store import S3Store

        return S3Store(namespace, options)
    if namespace.scheme in ("https", "http"):
        from spark_core.storage.azure.store import AzureStore

        return AzureStore(namespace, options)
    if namespace.scheme == "gs":
        from spark_core.storage.gcs.store import GcsStore

        return GcsStore(namespace, options)
    raise SettingsError(
        f"{namespace.root}: stores of the kind {namespace.scheme}:// cannot be opened by this "
        "version",
        "Local blockstores, S3, Azure Blob and GCS can.",
    )
