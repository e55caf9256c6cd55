"""Pages of an S3 listing, exact to the byte: boto3 asks, this module reads the answer.

obstore cannot name every key: it silently lists `x/` as `x`. boto3 can, but its general parser
takes some 60 ms for a page of 1,000 keys, 10 minutes for 10 million. So this module reads the
answer into columns before that parser sees it, in 4 ms. If the answer does not look exactly as S3
writes it, it is left to the parser.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote_to_bytes

import pyarrow as pa
import pyarrow.compute as pc

from spark_core.addresses.collectable import arrow_pattern
from spark_core.schemas import INSTANT
from spark_core.storage.listing_pages import Listed
from spark_core.storage.listing_rows import instants

# The key of the page's columns in the client's answer.
COLUMNS = "LakegcColumns"
# The key of the status as it came.
STATUS = "LakegcStatus"

# Stores that do not know a time write the beginning of an era: 1970, or the year 1.
_FIRST_OBJECT = datetime(2000, 1, 1, tzinfo=UTC)

_KEY = re.compile(rb"<Key>([^<]*)</Key>")
_SIZE = re.compile(rb"<Size>([0-9]+)</Size>")
_MODIFIED = re.compile(rb"<LastModified>([^<&]*)</LastModified>")
_TAG = re.compile(rb"<ETag>([^<]*)</ETag>")
_STANDARD = b"<StorageClass>STANDARD</StorageClass>"
_CLASS = re.compile(rb"<StorageClass>([^<&]*)</StorageClass>")
# Some stores write out quotes, as one entity or the other.
_QUOTE = r"(?:\"|&quot;|&#34;)?"
_MD5 = rf"^{_QUOTE}(?P<md5>[0-9a-f]{{32}}){_QUOTE}$"
_MD5_PATTERN = arrow_pattern(_MD5)


def read_before_parser(
    operation_model: Any,
    response_dict: Mapping[str, Any],
    customized_response_dict: dict[str, Any],
    **_: object,
) -> None:
    """Take the objects out of an answer to ListObjectsV2 (botocore's event `before-parse`).

    Args:
        operation_model: The operation; anything but a listing is left alone.
        response_dict: The raw answer; its body loses the objects if they could be read here.
        customized_response_dict: Gets the status under `STATUS`, and the columns of the page under
            `COLUMNS`.
    """
    # The client takes a body that breaks off, or holds an error, for an answer with status 500.
    customized_response_dict[STATUS] = response_dict["status_code"]
    if operation_model.name != "ListObjectsV2" or response_dict["status_code"] != 200:
        return
    body = response_dict["body"]
    if b"<CommonPrefixes" in body or b"<!" in body:
        return
    first, last = body.find(b"<Contents>"), body.rfind(b"</Contents>")
    if first < 0 or last < first:
        return
    columns = [pattern.findall(body, first, last) for pattern in (_KEY, _SIZE, _MODIFIED, _TAG)]
    count = body.count(b"<Contents")
    # Keys are percent-encoded, so an entity means a store that does not encode them.
    if any(len(column) != count for column in columns) or any(b"&" in key for key in columns[0]):
        return
    columns.append(_classes(body, first, last, count))
    customized_response_dict[COLUMNS] = columns
    response_dict["body"] = body[:first] + body[last + len(b"</Contents>") :]  # type: ignore[index]


def _classes(body: bytes, first: int, last: int, count: int) -> list[bytes | None]:
    """Return the storage class of each object; of none where a store does not name it for all."""
    # As a rule all objects have one, and to count them costs a tenth of finding them.
    if body.count(_STANDARD, first, last) == count:
        return [b"STANDARD"] * count
    classes = _CLASS.findall(body, first, last)
    return classes if len(classes) == count else [None] * count


def page_batch(answer: Mapping[str, Any], listed: Listed) -> pa.RecordBatch:
    """Turn one page of a listing into a batch.

    Args:
        answer: What the client gave for ListObjectsV2 with `EncodingType="url"`.
        listed: What was asked for.

    Returns:
        Columns of `schemas.OBJECT_LISTING`.

    Raises:
        IncompleteReadError: If a key is not UTF-8 or lies elsewhere, or an object has no size or
            time.
    """
    columns = answer.get(COLUMNS)
    try:
        if columns is None:
            found = answer.get("Contents", [])
            keys = [entry["Key"].encode() for entry in found]
            sizes = pa.array([entry["Size"] for entry in found], pa.int64())
            modified = pa.array([_in_a_zone(entry["LastModified"]) for entry in found], INSTANT)
            tags = pa.array([entry.get("ETag") for entry in found], pa.string())
            classes = pa.array([entry.get("StorageClass") for entry in found], pa.string())
        else:
            keys = columns[0]
            sizes = pa.array(columns[1], pa.binary()).cast(pa.string()).cast(pa.int64())
            modified = instants(pa.array(columns[2], pa.binary()).cast(pa.string()))
            tags = pa.array(columns[3], pa.binary()).cast(pa.string())
            classes = pa.array(columns[4], pa.binary()).cast(pa.string())
    except (KeyError, ValueError) as error:
        raise listed.unlike(f"an object without a readable key, size or time ({error})") from error
    earliest = pc.min(modified).as_py()
    if earliest is not None and earliest < _FIRST_OBJECT:
        raise listed.unlike(
            f"an object written at {earliest.isoformat()}, before there was S3: it does not know "
            "when, and a young object "
            "would look old"
        )
    names = _names(keys, answer, listed)
    return listed.batch(
        names, sizes, modified, pc.struct_field(pc.extract_regex(tags, _MD5), "md5"), classes
    )


def _in_a_zone(instant: datetime) -> datetime:
    """Refuse a time that was parsed without a zone: taken for UTC, it may be hours off."""
    if instant.tzinfo is None:
        raise ValueError(f"the time {instant.isoformat()} has no zone")
    return instant


def page_prefixes(answer: Mapping[str, Any], listed: Listed) -> list[str]:
    """Return the common prefixes of a page, relative to the namespace; see `page_batch`."""
    return _names(
        [entry["Prefix"].encode() for entry in answer.get("CommonPrefixes", [])], answer, listed
    )


def _names(keys: Sequence[bytes], answer: Mapping[str, Any], listed: Listed) -> list[str]:
    try:
        names = [
            key.decode()
            for key in (map(_unquoted, keys) if answer.get("EncodingType") == "url" else keys)
        ]
    except UnicodeDecodeError as error:
        raise listed.not_utf8(error.object) from error
    return listed.names(names)


def checksum_of(tag: str | None) -> str | None:
    """Return the MD5 in an ETag; None if the ETag is no MD5 (uploads in parts)."""
    plain = _MD5_PATTERN.search(tag or "")
    return plain["md5"] if plain else None


def _unquoted(key: bytes) -> bytes:
    """Undo the encoding of `EncodingType="url"`, in which a space is a plus."""
    return unquote_to_bytes(key.replace(b"+", b" ")) if b"%" in key or b"+" in key else key
