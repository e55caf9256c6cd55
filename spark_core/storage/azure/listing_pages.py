"""What Azure Blob Storage answers to a listing, read to the byte.

The client asks, and the answers are read here. The client's own reader makes a large object of
every blob, some 100 ms for 1,000.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from urllib.parse import unquote_to_bytes
from xml.etree import ElementTree as ET

import pyarrow as pa
import pyarrow.compute as pc

from spark_core.schemas import INSTANT
from spark_core.storage.listing_pages import Listed, Page, md5_in_hex

# Not from `calendar`, whose names depend on the locale.
_MONTHS = dict(
    zip(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
        range(1, 13),
        strict=True,
    )
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DATE = re.compile(r"\A[A-Z][a-z]{2}, (\d\d) ([A-Z][a-z]{2}) (\d{4}) (\d\d):(\d\d):(\d\d) GMT\Z")
# The mark of the directories that accounts with a hierarchical namespace list among the blobs.
FOLDER = "hdi_isfolder"


def repeats(page: Page, before: Page | None) -> bool:
    """Say whether a page repeats the page before; one prefix alone may lie on the border of two."""
    if before is None:
        return False
    again = pc.any(pc.is_in(page.rows.column("key"), before.rows.column("key"))).as_py()
    return bool(again) or (page.prefixes == before.prefixes and len(page.prefixes) > 1)


def page_of(body: bytes, listed: Listed) -> Page:
    """Read one page of a listing.

    Directories of a hierarchical namespace are no objects and are left out.

    Args:
        body: The answer to List Blobs, asked with metadata.
        listed: What was asked for.

    Raises:
        IncompleteReadError: If it is no whole page, a name is not UTF-8 or lies elsewhere, or a
            blob has no size or time.
    """
    blobs, marker = _parsed(body, listed)
    keys: list[str] = []
    sizes: list[int] = []
    modified: list[int] = []
    checksums: list[str | None] = []
    tiers: list[str | None] = []
    prefixes: list[str] = []
    for entry in blobs:
        # A loop, as a path for the parser's own search costs ten times as much, and there are
        # millions of entries.
        parts = {part.tag: part for part in entry}
        name = _name(entry.tag, parts.get("Name"), listed)
        if entry.tag == "BlobPrefix":
            prefixes.append(name)
            continue
        properties = {part.tag: part.text or "" for part in parts.get("Properties", ())}
        if "Snapshot" in parts or ("Deleted" in parts and parts["Deleted"].text == "true"):
            raise listed.unlike(f"{name!r} as a snapshot or deleted, which nobody asked for")
        labels = parts.get("Metadata")
        if properties.get("ResourceType") == "directory" or (
            labels is not None and labels.findtext(FOLDER) == "true"
        ):
            continue
        try:
            sizes.append(_size(properties["Content-Length"]))
            modified.append(_instant(properties["Last-Modified"]))
        except (KeyError, ValueError) as error:
            raise listed.unlike(f"{name!r} without a readable size or time") from error
        keys.append(name)
        checksums.append(md5_in_hex(properties.get("Content-MD5")))
        tiers.append(properties.get("AccessTier") or None)
    batch = listed.batch(
        keys,
        sizes,
        pa.array(modified, pa.int64()).cast(INSTANT),
        pa.array(checksums, pa.string()),
        pa.array(tiers, pa.string()),
    )
    return Page(batch, prefixes, marker)


def _parsed(body: bytes, listed: Listed) -> tuple[ET.Element, str | None]:
    """Return the entries of a page, and where the next page begins."""
    try:
        listing = ET.fromstring(body)  # noqa: S314 - the client itself does the same
    except ET.ParseError as error:
        raise listed.unlike("a page that is no XML") from error
    blobs, marker = listing.find("Blobs"), listing.find("NextMarker")
    if listing.tag != "EnumerationResults" or blobs is None or marker is None:
        raise listed.unlike("an answer that is no page of a listing")
    return blobs, marker.text or None


def _size(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):  # what surely fits into 64 bits
        raise ValueError("no size")
    return int(text)


@lru_cache(maxsize=4096)
def _instant(text: str) -> int:
    """Read an HTTP date into microseconds since the epoch; many blobs share their second."""
    match = _DATE.search(text)
    if match is None or match[2] not in _MONTHS:
        raise ValueError("no date")
    day, month, year, hour, minute, second = match.groups()
    read = datetime(
        int(year), _MONTHS[month], int(day), int(hour), int(minute), int(second), tzinfo=UTC
    )
    return (read - _EPOCH) // timedelta(microseconds=1)


def _name(tag: str, element: ET.Element | None, listed: Listed) -> str:
    if tag not in ("Blob", "BlobPrefix") or element is None or not element.text:
        raise listed.unlike(f"an entry <{tag}> without a name")
    name = element.text
    if element.get("Encoded") == "true":
        try:
            name = unquote_to_bytes(name).decode()
        except UnicodeDecodeError as error:
            raise listed.not_utf8(error.object) from error
    return listed.names((name,))[0]
