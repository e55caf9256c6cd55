"""Directory buckets of S3 (Express One Zone): no order, no MD5, no versions.

What differs from other buckets, and what follows:

- A listing has no order, and does not begin at a name. So it is read from its beginning to its end,
  as that of files is, and that no page came twice is seen by the names alone.
- Prefixes end in a slash; all that are asked for here do.
- A tag is random, in the form of an MD5. It is no checksum of anything.
- Versions are not kept, so nothing that was deleted comes back.
- Requests go to the zone's own endpoint, in a session that the clients open by themselves. The zone
  stands in the bucket's name, the region does not.

References:
    Amazon S3 user guide, "Differences for directory buckets"; Amazon S3 API, ListObjectsV2 and
    ObjectIdentifier (read in November 2026). No bucket of AWS was seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np

from spark_core.addresses.address_hashes import hashed
from spark_core.errors import IncompleteReadError, NotFoundError
from spark_core.storage.after_deletion import AfterDeletion
from spark_core.storage.listing_pages import Listed, Page
from spark_core.storage.listing_rows import listing_batch
from spark_core.storage.objects import Description, ObjectInfo
from spark_core.storage.s3.copies import Bucket
from spark_core.storage.s3.store import Requests
from spark_core.storage.undelete import BringBack, Lost


class DirectoryBucketStore(Requests):
    """A namespace in a directory bucket."""

    kind = "S3 Express"

    def _watch(self, listed: Listed) -> Callable[[Page], None]:
        """Refuse a listing that names an object twice, which is known at its end."""
        read = list[Any]()

        def require(page: Page) -> None:
            read.append(hashed(page.rows.column("key")).to_numpy())
            if page.next is None:
                names = np.concatenate(read)
                if len(np.unique(names)) < len(names):
                    raise IncompleteReadError(
                        f"the listing of {listed.root}{listed.prefix} names an object twice: a "
                        "page came twice, so it cannot be known to be whole",
                        "Run again; if it stays so, look for a cache or proxy before the store.",
                    )

        return require

    def link(self, key: str, life: timedelta) -> str | None:  # noqa: ARG002 - the contract
        """Sign none: a session of these buckets lives five minutes."""
        return None

    def _page(self, listed: Listed, token: str, *, deep: bool, after: str) -> Page:
        page = super()._page(listed, token, deep=deep, after=after)
        key, size, modified, _, storage_class = page.rows.columns
        return replace(page, rows=listing_batch(key, size, modified, None, storage_class))

    def head(self, key: str) -> ObjectInfo:
        """Describe one object; its tag is no checksum."""
        return replace(super().head(key), checksum=None)

    def content(self, key: str) -> ObjectInfo:
        """Describe one object; what S3 keeps of its content is no MD5."""
        return self.head(key)

    def describe(self, key: str) -> Description:
        """Describe one object, with the checksums that S3 keeps of it."""
        return _untagged(super().describe(key))

    @property
    def _copies(self) -> Bucket:
        return _WithoutTags(**vars(super()._copies))

    def find_deleted(self, lost: Lost) -> BringBack:
        """Find nothing: such a bucket keeps no versions."""
        self._name(lost.key)
        raise NotFoundError(
            f"{self.root}{lost.key} is gone: a directory bucket keeps nothing that was deleted. "
            "With quarantine = true a sweep moves objects aside instead."
        )

    def undelete_hint(self) -> str | None:
        """Return nothing: such a bucket keeps no versions."""
        return None

    def after_deletion(self) -> AfterDeletion:
        """Say that such a bucket keeps no versions."""
        name = self.namespace.bucket
        return AfterDeletion(False, f"{name} is a directory bucket, which keeps no versions")


class _WithoutTags(Bucket):
    """Where copies are made, and a tag is no checksum."""

    def describe(self, key: str) -> Description:
        return _untagged(super().describe(key))


def _untagged(seen: Description) -> Description:
    digests = {name: value for name, value in seen.digests.items() if name != "md5"}
    return replace(seen, digests=digests)
