"""Pages of an S3 listing, exact to the byte: the store's own client asks, this reads the answer into columns.

obstore cannot name every key: it lists `x/` as `x` without a word. boto3 can,
but its general parser takes some 60 ms for a page of 1,000 keys, 10 minutes for 10
million. So the client's answer is read here before its parser sees it; whenever
it does not look exactly as S3 writes it, it is left to that parser.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import unescape
from typing import Any
from urllib.parse import unquote_to_bytes

import pyarrow as pa
import pyarrow.compute as pc

from spark_core.errors import IncompleteReadError
from spark_core.schemas import INSTANT
from spark_core.storage.contract import listing_batch

# Where the columns of a page wait in the client's answer.
COLUMNS = "LakegcColumns"

_KEY = re.compile(rb"<Key>([^<]*)</Key>")
_SIZE = re.compile(rb"<Size>([0-9]+)</Size>")
_MODIFIED = re.compile(rb"<LastModified>([^<&]+)</LastModified>")
_TAG = re.compile(rb"<ETag>([^<]*)</ETag>")
_MD5 = r"^[0-9a-f]{32}$"


def read_before_parser(response_dict: Mapping[str, Any], customized_response_dict: dict[str, Any], **_: object) -> None:
    """Take the objects out of an answer to ListObjectsV2 (botocore's event `before-parse`).

    Args:
        response_dict: The raw answer; its body loses the objects when they could be read here.
        customized_response_dict: Gets the columns of the page under `COLUMNS`.
    """
    body = response_dict["body"]
    if response_dict["status_code"] != 200 or b"<CommonPrefixes" in body or b"<!" in body:
        return
    first, last = body.find(b"<Contents>"), body.rfind(b"</Contents>")
    if first < 0 or last < first:
        return
    columns = [pattern.findall(body, first, last) for pattern in (_KEY, _SIZE, _MODIFIED, _TAG)]
    count = body.count(b"<Contents")
    if any(len(column) != count for column in columns):
        return
    customized_response_dict[COLUMNS] = columns
    response_dict["body"] = body[:first] + body[last + len(b"</Contents>") :]  # type: ignore[index]


def page_batch(answer: Mapping[str, Any], before: str, where: str) -> pa.RecordBatch:
    """Turn one page of a listing into a batch.

    Args:
        answer: What the client gave for ListObjectsV2 with `EncodingType="url"`.
        before: What every key must begin with; cut off.
        where: What was listed, for an error.

    Returns:
        Columns of `schemas.OBJECT_LISTING`.

    Raises:
        IncompleteReadError: If a key is not UTF-8 or does not begin with `before`.
    """
    encoded = answer.get("EncodingType") == "url"
    columns = answer.get(COLUMNS)
    if columns is None:
        found = answer.get("Contents", [])
        keys = [entry["Key"].encode() for entry in found]
        sizes = pa.array([entry["Size"] for entry in found], pa.int64())
        modified = pa.array([entry["LastModified"] for entry in found], INSTANT)
        tags = pa.array([entry.get("ETag") for entry in found], pa.string())
    else:
        keys = [unescape(key.decode()).encode() for key in columns[0]] if b"&" in b"".join(columns[0]) else columns[0]
        sizes = pa.array(columns[1], pa.binary()).cast(pa.string()).cast(pa.int64())
        modified = pa.array(columns[2], pa.binary()).cast(pa.string()).cast(INSTANT)
        tags = pc.replace_substring(pa.array(columns[3], pa.binary()).cast(pa.string()), "&quot;", '"')
    try:
        names = [key.decode() for key in (map(_unquoted, keys) if encoded else keys)]
    except UnicodeDecodeError as error:
        raise IncompleteReadError(
            f"the listing of {where} holds a key that is not UTF-8 ({error.object!r}); it cannot be named, so the listing is "
            "not complete and nothing was deleted. Look at it with the store's own tools and move it away."
        ) from error
    stranger = next((name for name in names if not name.startswith(before)), None)
    if stranger is not None:
        raise IncompleteReadError(
            f"the listing of {where} answered the key {stranger!r}, which does not lie there; "
            "nothing was deleted. The store does not list as S3 does."
        )
    checksums = pc.utf8_trim(tags, '"')
    plain = pc.match_substring_regex(checksums, _MD5)
    cut = len(before)
    return listing_batch(
        [name[cut:] for name in names] if cut else names,
        sizes,
        modified,
        pc.if_else(plain, checksums, pa.scalar(None, pa.string())),
    )


def checksum_of(tag: str | None) -> str | None:
    """Return the MD5 that an ETag is, None when it is another thing (uploads in parts)."""
    plain = (tag or "").strip('"')
    return plain if re.fullmatch(_MD5, plain) else None


def _unquoted(key: bytes) -> bytes:
    """Undo the encoding of `EncodingType="url"`, where a space is a plus."""
    return unquote_to_bytes(key.replace(b"+", b" ")) if b"%" in key or b"+" in key else key


def unquoted_prefix(prefix: str, answer: Mapping[str, Any]) -> str:
    """Return a common prefix as it is in the store."""
    return _unquoted(prefix.encode()).decode() if answer.get("EncodingType") == "url" else prefix


def gathered(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Put small batches together to ones of at least `rows` rows; the last one may be smaller."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        if count >= rows:
            yield pa.concat_batches(waiting)
            waiting, count = [], 0
    if count:
        yield pa.concat_batches(waiting)
