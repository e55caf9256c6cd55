"""What Azure Blob Storage answers to a listing and to a bulk deletion, taken apart to the byte.

The client asks; the answers are read here. Its own reader makes a large object
of every blob, some 100 ms for 1,000, and gives the answers of a bulk deletion
by position, where the store names each by a number and may answer in another
order, or only once for all.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from urllib.parse import unquote_to_bytes
from xml.etree import ElementTree as ET

import pyarrow as pa

from spark_core.errors import IncompleteReadError
from spark_core.schemas import INSTANT
from spark_core.storage.azure.errors import Failure
from spark_core.storage.contract import listing_batch

# Not from `calendar`, whose names are the locale's.
_MONTHS = dict(
    zip(("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), range(1, 13), strict=True)
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DATE = re.compile(r"\A[A-Z][a-z]{2}, (\d\d) ([A-Z][a-z]{2}) (\d{4}) (\d\d):(\d\d):(\d\d) GMT\Z")
_MD5_BYTES = 16
# What marks the directories that accounts with a hierarchical namespace show among the blobs.
FOLDER = "hdi_isfolder"

_BOUNDARY = re.compile(r'boundary="?([^";,\s]+)"?')
_NUMBER = re.compile(rb"^Content-ID:[ \t]*(\d+)[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_STATUS = re.compile(rb"^HTTP/1\.[01] (\d{3})\b", re.MULTILINE)
_CODE = re.compile(rb"^x-ms-error-code:[ \t]*(\w{1,80})[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True)
class Page:
    """One page of a listing.

    Attributes:
        batch: Columns of `schemas.OBJECT_LISTING`.
        prefixes: The prefixes directly below, of a listing of one level.
        keys: Of the objects.
        next_marker: Where the next page begins; empty at the end.
    """

    batch: pa.RecordBatch
    prefixes: list[str]
    keys: list[str]
    next_marker: str

    def repeats(self, other: Page | None) -> bool:
        """Say whether this page tells again what the one before told; a prefix alone may lie on the border of two."""
        if other is None:
            return False
        return not set(other.keys).isdisjoint(self.keys) or (self.prefixes == other.prefixes and len(self.prefixes) > 1)


def page_of(body: bytes, before: str, prefix: str, root: str) -> Page:
    """Read one page of a listing.

    Directories of a hierarchical namespace are no objects and are left out.

    Args:
        body: The answer to List Blobs, asked with metadata.
        before: The namespace's part of every name; cut off.
        prefix: What was listed, relative to the namespace.
        root: The namespace, for an error.

    Raises:
        IncompleteReadError: If it is no whole page, a name is not UTF-8 or lies elsewhere, or a blob has no size or time.
    """
    try:
        listing = ET.fromstring(body)  # noqa: S314 - the client itself reads the same answer with it
    except ET.ParseError as error:
        raise _unlike_azure("a page that is no XML", prefix, root) from error
    blobs, marker = listing.find("Blobs"), listing.find("NextMarker")
    if listing.tag != "EnumerationResults" or blobs is None or marker is None:
        raise _unlike_azure("an answer that is no page of a listing", prefix, root)
    keys: list[str] = []
    sizes: list[int] = []
    modified: list[int] = []
    checksums: list[str | None] = []
    prefixes: list[str] = []
    for entry in blobs:
        # By hand: a path for the parser's own search costs ten times as much, and there are millions of entries.
        parts = {part.tag: part for part in entry}
        name = _name(entry.tag, parts.get("Name"), before, prefix, root)
        if entry.tag == "BlobPrefix":
            prefixes.append(name)
            continue
        told = {part.tag: part.text or "" for part in parts.get("Properties", ())}
        if "Snapshot" in parts or ("Deleted" in parts and parts["Deleted"].text == "true"):
            raise _unlike_azure(f"{name!r} as a snapshot or deleted, which nobody asked for", prefix, root)
        labels = parts.get("Metadata")
        if told.get("ResourceType") == "directory" or (labels is not None and labels.findtext(FOLDER) == "true"):
            continue
        try:
            sizes.append(_size(told["Content-Length"]))
            modified.append(_instant(told["Last-Modified"]))
        except (KeyError, ValueError) as error:
            raise _unlike_azure(f"{name!r} without a readable size or time", prefix, root) from error
        keys.append(name)
        checksums.append(checksum_of(told.get("Content-MD5")))
    batch = listing_batch(keys, sizes, pa.array(modified, pa.int64()).cast(INSTANT), pa.array(checksums, pa.string()))
    return Page(batch, prefixes, keys, marker.text or "")


def _size(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):  # what surely fits into 64 bits
        raise ValueError("no size")
    return int(text)


@lru_cache(maxsize=4096)
def _instant(text: str) -> int:
    """Read a date as HTTP writes it into microseconds since the epoch; many blobs share their second."""
    match = _DATE.search(text)
    if match is None or match[2] not in _MONTHS:
        raise ValueError("no date")
    day, month, year, hour, minute, second = match.groups()
    read = datetime(int(year), _MONTHS[month], int(day), int(hour), int(minute), int(second), tzinfo=UTC)
    return (read - _EPOCH) // timedelta(microseconds=1)


def checksum_of(md5: str | bytes | bytearray | None) -> str | None:
    """Return the MD5 of the content in hex; None where the store has none (objects uploaded in blocks)."""
    if not md5:
        return None
    try:
        digest = base64.b64decode(md5, validate=True) if isinstance(md5, str) else bytes(md5)
    except (binascii.Error, ValueError):
        return None
    return digest.hex() if len(digest) == _MD5_BYTES else None


def _name(tag: str, element: ET.Element | None, before: str, prefix: str, root: str) -> str:
    if tag not in ("Blob", "BlobPrefix") or element is None or not element.text:
        raise _unlike_azure(f"an entry <{tag}> without a name", prefix, root)
    name = element.text
    if element.get("Encoded") == "true":
        try:
            name = unquote_to_bytes(name).decode()
        except UnicodeDecodeError as error:
            raise IncompleteReadError(
                f"the listing of {root}{prefix} holds a name that is not UTF-8 ({error.object!r}); it cannot be told, so the "
                "listing is not complete",
                "Look at it with the store's own tools and move it away.",
            ) from error
    if not name.startswith(before + prefix):
        raise _unlike_azure(f"the name {name!r}, which does not lie there", prefix, root)
    return name[len(before) :]


def _unlike_azure(what: str, prefix: str, root: str) -> IncompleteReadError:
    return IncompleteReadError(
        f"the listing of {root}{prefix} answered {what}; the store does not list as Azure does, so the listing cannot be "
        "trusted",
        "Look at the endpoint.",
    )


def batch_answers(body: bytes, content_type: str, count: int) -> tuple[dict[int, Failure], Failure | None]:
    """Read the answers to a bulk deletion.

    Args:
        body: `multipart/mixed`, one HTTP answer in each part.
        content_type: Its header, which names the boundary.
        count: How many keys were asked for.

    Returns:
        The answers by the number of the key in the request, and one that names
        no key and so holds for the request as a whole. A number that is answered
        twice has no answer: which one is true cannot be told.
    """
    match = _BOUNDARY.search(content_type)
    found: dict[int, list[Failure]] = {}
    whole: Failure | None = None
    for number, answer in _parts(body, match[1].encode()) if match else ():
        if number is None:
            whole = whole or answer
        elif number < count:
            found.setdefault(number, []).append(answer)
    return {number: answers[0] for number, answers in found.items() if len(answers) == 1}, whole


def _parts(body: bytes, boundary: bytes) -> Iterator[tuple[int | None, Failure]]:
    for part in body.split(b"--" + boundary)[1:]:
        status = _STATUS.search(part)
        if status is None:
            continue
        code = _CODE.search(part, status.start())
        number = _NUMBER.search(part, 0, status.start())
        yield (int(number[1]) if number else None), Failure(int(status[1]), code[1].decode() if code else "")
