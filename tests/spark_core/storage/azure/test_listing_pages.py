"""Pages of a listing are read to the byte, or refused."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from email.utils import format_datetime
from urllib.parse import quote
from xml.sax.saxutils import escape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_core.errors import IncompleteReadError
from spark_core.storage.azure.listing_pages import page_of, repeats
from spark_core.storage.listing_pages import Listed, md5_in_hex

ROOT = "https://lake.blob.core.windows.net/container/ns/"
LISTED = Listed(ROOT, "ns/", "data/", "Azure")
DATE = "Sat, 21 Nov 2026 09:11:07 GMT"
MD5 = "9dd4e461268c8034f5c8564e155c67a6"


def blob(
    name: str,
    *,
    size: object = 5,
    modified: str = DATE,
    md5: str = "",
    more: str = "",
    encoded: bool = False,
) -> str:
    tag = (
        f'<Name Encoded="true">{escape(name)}</Name>' if encoded else f"<Name>{escape(name)}</Name>"
    )
    checksum = f"<Content-MD5>{md5}</Content-MD5>" if md5 else "<Content-MD5 />"
    return (
        f"<Blob>{tag}<Properties><Last-Modified>{modified}</Last-Modified><Etag>0x8D</Etag>"
        f"<Content-Length>{size}</Content-Length>"
        f"{checksum}<BlobType>BlockBlob</BlobType></Properties>{more}</Blob>"
    )


def page(*entries: str, marker: str = "") -> bytes:
    # The real service begins with a byte order mark.
    return (
        '\ufeff<?xml version="1.0" encoding="utf-8"?><EnumerationResults '
        'ServiceEndpoint="https://lake/" ContainerName="container">'
        f"<Prefix>ns/data/</Prefix><Blobs>{''.join(entries)}</Blobs><NextMarker>{marker}"
        "</NextMarker></EnumerationResults>"
    ).encode()


def read(*entries: str, **more):
    return page_of(page(*entries, **more), LISTED)


# What XML can hold; the service escapes the rest.
_characters = st.characters(
    exclude_characters="\x7f\ufffe\uffff\r\n\t", exclude_categories=["Cs", "Cc"]
)
# Hypothesis wants bounds without a timezone.
_BOUNDS = (datetime(1901, 1, 1), datetime(2200, 1, 1))  # noqa: DTZ001
_blobs = st.tuples(
    st.text(_characters, min_size=1, max_size=20),
    st.integers(min_value=0, max_value=2**59),
    st.datetimes(*_BOUNDS).map(lambda at: at.replace(microsecond=0, tzinfo=UTC)),
    st.one_of(st.none(), st.binary(min_size=16, max_size=16)),
    st.booleans(),
)


@settings(deadline=None)
@given(
    entries=st.lists(_blobs, max_size=6),
    marker=st.text(_characters.filter(str.isalnum), max_size=5),
)
def test_a_page_says_what_was_written_into_it(entries, marker):
    told = read(
        *(
            blob(
                quote(f"ns/data/{name}", safe="") if encoded else f"ns/data/{name}",
                size=size,
                modified=format_datetime(modified, usegmt=True),
                md5=base64.b64encode(digest).decode() if digest else "",
                encoded=encoded,
            )
            for name, size, modified, digest, encoded in entries
        ),
        marker=escape(marker),
    )
    assert told.rows.to_pylist() == [
        {
            "key": f"data/{name}",
            "size_bytes": size,
            "last_modified": modified,
            "checksum": digest and digest.hex(),
            "storage_class": None,
        }
        for name, size, modified, digest, _ in entries
    ]
    assert (told.prefixes, told.next) == ([], marker or None)


def test_the_access_tier_is_the_storage_class():
    entry = blob("ns/data/a").replace("<BlobType>", "<AccessTier>Cool</AccessTier><BlobType>")
    assert read(entry, blob("ns/data/b")).rows["storage_class"].to_pylist() == ["Cool", None]


def test_names_that_xml_cannot_hold_come_encoded_and_are_told_exactly():
    told = read(blob("ns/data/%01a%EF%BF%BF%2F%25", encoded=True), blob("ns/data/%2F%25"))
    assert told.rows["key"].to_pylist() == ["data/\x01a\uffff/%", "data/%2F%25"]


def test_an_encoded_name_that_is_not_text_is_refused():
    with pytest.raises(IncompleteReadError, match="a key that is not UTF-8"):
        read(blob("ns/data/%FF", encoded=True))


def test_prefixes_come_without_the_namespace():
    entry = "<BlobPrefix><Name>ns/data/s1/</Name></BlobPrefix>"
    encoded = '<BlobPrefix><Name Encoded="true">ns%2Fdata%2F%02%2F</Name></BlobPrefix>'
    assert read(entry, blob("ns/data/x"), encoded).prefixes == ["data/s1/", "data/\x02/"]


@pytest.mark.parametrize(
    "entry",
    [
        blob("ns/data/s1", size=0, more="<Metadata><hdi_isfolder>true</hdi_isfolder></Metadata>"),
        blob("ns/data/s1", size=0).replace(
            "<BlobType>", "<ResourceType>directory</ResourceType><BlobType>"
        ),
    ],
)
def test_a_directory_of_a_hierarchical_namespace_is_left_out(entry):
    assert read(entry, blob("ns/data/s1/a")).rows["key"].to_pylist() == ["data/s1/a"]


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (blob("other/data/x"), "does not lie there"),
        (blob("ns/_lakefs/x"), "does not lie there"),
        (blob("ns2/data/x"), "does not lie there"),
        ("<BlobPrefix><Name>ns/</Name></BlobPrefix>", "does not lie there"),
        (blob(""), "without a name"),
        ("<Blob><Properties/></Blob>", "without a name"),
        ("<Other><Name>ns/data/x</Name></Other>", "an entry <Other>"),
        (blob("ns/data/x", size=""), "without a readable size or time"),
        (blob("ns/data/x", size="-1"), "without a readable size or time"),
        (blob("ns/data/x", size="1" * 19), "without a readable size or time"),
        (blob("ns/data/x", size="\u0663"), "without a readable size or time"),
        (blob("ns/data/x", modified="yesterday"), "without a readable size or time"),
        (
            blob("ns/data/x", modified="Sat, 31 Feb 2026 09:11:07 GMT"),
            "without a readable size or time",
        ),
        (
            blob("ns/data/x", modified="Sat, 21 Nov 2026 09:11:07 +0100"),
            "without a readable size or time",
        ),
        (blob("ns/data/x").replace("Last-Modified", "Modified"), "without a readable size or time"),
        (
            blob("ns/data/x", more="<Snapshot>2026-11-21T09:11:07.0000000Z</Snapshot>"),
            "as a snapshot or deleted",
        ),
        (blob("ns/data/x", more="<Deleted>true</Deleted>"), "as a snapshot or deleted"),
    ],
)
def test_an_entry_unlike_azures_is_refused(entry, text):
    with pytest.raises(IncompleteReadError, match=text) as refusal:
        read(blob("ns/data/good"), entry)
    assert "so the listing cannot be trusted" in refusal.value.found


@pytest.mark.parametrize("cut", [0, 1, 40, 200, -1, -60])
def test_a_part_of_a_page_is_refused(cut):
    whole = page(blob("ns/data/x"), blob("ns/data/y"))
    with pytest.raises(IncompleteReadError, match="answered a page that is no XML"):
        page_of(whole[:cut], LISTED)


def test_a_page_tells_whether_it_repeats_the_one_before():
    first, second = (
        read(blob("ns/data/a"), blob("ns/data/b"), marker="m"),
        read(blob("ns/data/b"), blob("ns/data/c")),
    )
    assert repeats(second, first)
    assert not repeats(read(blob("ns/data/c")), first)
    assert not repeats(first, None)
    prefixes = [f"<BlobPrefix><Name>ns/data/{name}/</Name></BlobPrefix>" for name in "abc"]
    assert repeats(read(*prefixes), read(*prefixes))
    assert not repeats(read(prefixes[1], prefixes[2]), read(prefixes[0], prefixes[1]))


@pytest.mark.parametrize(
    ("told", "md5"),
    [
        (base64.b64encode(bytes.fromhex(MD5)).decode(), MD5),
        (bytearray.fromhex(MD5), MD5),
        (None, None),
        ("", None),
        ("no base64!", None),
        (base64.b64encode(b"short").decode(), None),
        (bytearray(8), None),
    ],
)
def test_a_checksum_is_an_md5_or_nothing(told, md5):
    assert md5_in_hex(told) == md5
