"""A client of S3 that answers as one of a directory bucket would.

The emulators list in order whatever the bucket is called. This client reads their whole listing,
and gives it out in another order, page by page. What a directory bucket refuses, it refuses.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

from botocore.exceptions import ClientError

from spark_core.storage.s3.directory_buckets import DirectoryBucketStore
from spark_core.storage.s3.listing_pages import COLUMNS

_ROWS = ("Contents", "CommonPrefixes")


@dataclass
class DirectoryBucketClient:
    """Wraps the client of an ordinary bucket.

    Attributes:
        boto: That client.
        rows: Rows of a page.
    """

    boto: Any
    rows: int = 7
    _pages: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.boto, name)

    def list_objects_v2(self, **asked: Any) -> dict[str, Any]:
        """Answer a page of a listing without order."""
        prefix, token = asked.get("Prefix", ""), asked.pop("ContinuationToken", None)
        if "StartAfter" in asked or (prefix and not prefix.endswith("/")):
            answer = {"Error": {"Code": "InvalidRequest", "Message": "not in a directory bucket"}}
            raise ClientError(
                {**answer, "ResponseMetadata": {"HTTPStatusCode": 400}}, "ListObjectsV2"
            )
        if token is None:
            token = f"t{len(self._pages)}"
            self._pages[token] = self._read(asked)
        page = self._pages[token].pop(0)
        if self._pages[token]:
            following = f"t{len(self._pages)}"
            self._pages[following] = self._pages.pop(token)
            self._pages[token] = []
            page |= {"IsTruncated": True, "NextContinuationToken": following}
        return page

    def _read(self, asked: dict[str, Any]) -> list[dict[str, Any]]:
        """Read all pages, and deal them out anew."""
        answers = [self.boto.list_objects_v2(**asked)]
        while answers[-1]["IsTruncated"]:
            more = answers[-1]["NextContinuationToken"]
            answers.append(self.boto.list_objects_v2(**asked, ContinuationToken=more))
        shared = {
            name: value
            for name, value in answers[0].items()
            if name not in {*_ROWS, COLUMNS, "NextContinuationToken"}
        } | {"IsTruncated": False}
        shuffle = random.Random(len(answers)).shuffle
        pages = []
        for name in (*_ROWS, COLUMNS):
            found = [row for answer in answers for row in _rows(answer.get(name) or [], name)]
            # An order that is surely none: backwards, then shuffled.
            found.reverse()
            shuffle(found)
            for begin in range(0, len(found), self.rows):
                some = found[begin : begin + self.rows]
                columns = [list(column) for column in zip(*some, strict=True)]
                pages.append({**shared, name: columns if name == COLUMNS else some})
        return pages or [shared]


class UnorderedBucketStore(DirectoryBucketStore):
    """A namespace in an ordinary bucket that is taken for a directory bucket, and lists as one."""

    def _open(self) -> Any:
        found = super()._open()
        return replace(found, boto=DirectoryBucketClient(found.boto))


def _rows(found: Any, name: str) -> list[Any]:
    return list(zip(*found, strict=True)) if name == COLUMNS else list(found)
