"""The quick reader of listing pages says what the client's own parser says, or leaves the page to
it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import quote_plus
from xml.sax.saxutils import escape

import botocore.session
import pytest
from botocore.parsers import create_parser
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_core.errors import IncompleteReadError
from spark_core.storage.listing_pages import Listed
from spark_core.storage.s3.listing_pages import COLUMNS, checksum_of, page_batch, read_before_parser

MD5 = "9dd4e461268c8034f5c8564e155c67a6"
LISTING = botocore.session.get_session().get_service_model("s3").operation_model("ListObjectsV2")

characters = st.characters(min_codepoint=32, exclude_categories=["Cs", "Cc"])
entries = st.tuples(
    st.text(characters, min_size=1, max_size=20),
    st.integers(min_value=0, max_value=2**62),
    st.datetimes().map(
        lambda instant: (
            f"{max(instant.year, 2000)}-11-21T09:11:07.{instant.microsecond // 1000:03}Z"
        )
    ),
    st.sampled_from([f'"{MD5}"', MD5, f'"{MD5}-2"', f'"{MD5.upper()}"', '""', '"&<>"']),
)


def page(objects, *, encoded=True, quote='"', extra="", before="", prefix_after=""):
    def entry(key, size, modified, tag):
        name = escape(quote_plus(key, safe="/") if encoded else key)
        return (
            f"<Contents><Key>ns/{name}</Key><LastModified>{modified}</LastModified>"
            f"<ETag>{escape(tag, {chr(34): quote})}</ETag>{extra}<Size>{size}</Size>"
            "<StorageClass>STANDARD</StorageClass></Contents>"
        )

    encoding = "<EncodingType>url</EncodingType>" if encoded else ""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{before}'
        f"<Name>bucket</Name>{encoding}<IsTruncated>false"
        f"</IsTruncated>{''.join(entry(*row) for row in objects)}{prefix_after}"
        "</ListBucketResult>"
    ).encode()


def read(body, *, quick):
    """Read a page by the quick way or by the client's parser alone."""
    response, more = {"status_code": 200, "headers": {}, "body": body}, {}
    if quick:
        read_before_parser(
            operation_model=LISTING, response_dict=response, customized_response_dict=more
        )
    answer = create_parser("rest-xml").parse(response, LISTING.output_shape) | more
    return answer, page_batch(answer, Listed("s3://bucket/ns/", "ns/", "", "S3"))


def both(body):
    return [read(body, quick=quick) for quick in (True, False)]


@pytest.mark.slow
@settings(deadline=None)
@given(
    objects=st.lists(entries, max_size=6),
    encoded=st.booleans(),
    quote=st.sampled_from(["&quot;", '"', "&#34;"]),
)
def test_both_ways_of_reading_a_page_agree(objects, encoded, quote):
    (quick, one), (_, other) = both(page(objects, encoded=encoded, quote=quote))
    assert one == other
    assert one["key"].to_pylist() == [key for key, *_ in objects]
    assert one["size_bytes"].to_pylist() == [size for _, size, _, _ in objects]
    assert one["checksum"].to_pylist() == [checksum_of(tag) for *_, tag in objects]
    assert one["storage_class"].to_pylist() == ["STANDARD"] * len(objects)
    assert (COLUMNS in quick) == bool(objects) or not encoded
    assert quick["IsTruncated"] is False


@pytest.mark.parametrize("named", [["STANDARD", "STANDARD"], ["STANDARD", "GLACIER_IR"]])
def test_each_object_has_its_class(named):
    body = page([(key, 1, "2026-11-21T09:11:07.000Z", f'"{MD5}"') for key in "ab"])
    last = f"{named[1]}</StorageClass></Contents></ListBucketResult>".encode()
    body = body.replace(b"STANDARD</StorageClass></Contents></ListBucketResult>", last)
    (quick, one), (_, other) = both(body)
    assert COLUMNS in quick
    assert one == other
    assert one["storage_class"].to_pylist() == named


def test_a_store_that_names_no_classes_is_read_without():
    body = page([("a", 1, "2026-11-21T09:11:07.000Z", f'"{MD5}"')])
    body = body.replace(b"<StorageClass>STANDARD</StorageClass>", b"")
    (quick, one), (_, other) = both(body)
    assert COLUMNS in quick
    assert one == other
    assert one["storage_class"].to_pylist() == [None]


@pytest.mark.parametrize(
    "changes",
    [
        {"extra": "<ETag>second</ETag>"},
        {"extra": "<Owner><ID>x</ID><Size>9</Size></Owner>"},
        {"before": "<!-- <Contents><Key>ns/ghost</Key></Contents> -->"},
        {"prefix_after": "<CommonPrefixes><Prefix>ns/p/</Prefix></CommonPrefixes>"},
    ],
)
def test_a_page_that_is_not_as_s3_writes_it_is_left_to_the_clients_parser(changes):
    objects = [("a", 1, "2026-11-21T09:11:07.000Z", f'"{MD5}"')] * 2
    response, more = {"status_code": 200, "headers": {}, "body": page(objects, **changes)}, {}
    read_before_parser(
        operation_model=LISTING, response_dict=response, customized_response_dict=more
    )
    assert COLUMNS not in more
    assert response["body"] == page(objects, **changes)


@pytest.mark.parametrize(
    "missing",
    [
        "<Size>1</Size>",
        f'<ETag>"{MD5}"</ETag>',
        "<LastModified>2026-11-21T09:11:07.000Z</LastModified>",
    ],
)
def test_columns_of_unequal_length_are_left_to_the_clients_parser(missing):
    objects = [
        ("a", 1, "2026-11-21T09:11:07.000Z", f'"{MD5}"'),
        ("b", 2, "2026-11-21T09:11:08.000Z", f'"{MD5[::-1]}"'),
    ]
    body = page(objects).replace(missing.encode(), b"", 1)
    more = {}
    read_before_parser(
        operation_model=LISTING,
        response_dict={"status_code": 200, "body": body},
        customized_response_dict=more,
    )
    assert COLUMNS not in more


def test_an_answer_that_is_no_success_is_left_alone():
    response, more = (
        {"status_code": 500, "body": page([("a", 1, "2026-11-21T09:11:07.000Z", "x")])},
        {},
    )
    read_before_parser(
        operation_model=LISTING, response_dict=response, customized_response_dict=more
    )
    assert COLUMNS not in more


def test_an_answer_to_another_question_is_left_alone():
    response, more = (
        {"status_code": 200, "body": page([("a", 1, "2026-11-21T09:11:07.000Z", "x")])},
        {},
    )
    other = botocore.session.get_session().get_service_model("s3").operation_model("ListParts")
    read_before_parser(operation_model=other, response_dict=response, customized_response_dict=more)
    assert COLUMNS not in more


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize(
    ("modified", "text"),
    [
        ("2026-11-21T09:11:07", "readable key, size or time"),
        ("2026-11-21", "readable key, size or time"),
        ("1970-01-01T00:00:00.000Z", "before there was S3"),
        ("0001-01-01T00:00:00.000Z", "before there was S3"),
        ("1999-12-31T23:59:59.999Z", "before there was S3"),
    ],
)
def test_a_time_that_says_nothing_sure_is_refused(modified, text, quick):
    good = ("a", 1, "2026-11-21T09:11:07.000Z", f'"{MD5}"')
    with pytest.raises(IncompleteReadError, match=text):
        read(page([good, ("b", 1, modified, f'"{MD5}"')]), quick=quick)


@pytest.mark.parametrize("quick", [True, False])
def test_a_time_of_another_zone_is_moved_to_utc(quick):
    _, batch = read(page([("a", 1, "2026-11-21T01:11:07.5-08:00", f'"{MD5}"')]), quick=quick)
    assert batch["last_modified"].to_pylist() == [
        datetime(2026, 11, 21, 9, 11, 7, 500_000, tzinfo=UTC)
    ]


@pytest.mark.parametrize("digits", ["1234567", "12345678", "123456789"])
def test_digits_beyond_the_microsecond_are_cut(digits):
    (quick, one), (_, other) = both(page([("a", 1, f"2026-11-21T09:11:07.{digits}Z", f'"{MD5}"')]))
    assert COLUMNS in quick
    assert one == other
    assert one["last_modified"].to_pylist() == [
        datetime(2026, 11, 21, 9, 11, 7, 123_456, tzinfo=UTC)
    ]


@pytest.mark.parametrize("quick", [True, False])
def test_a_size_below_zero_is_refused_with_the_name_of_the_object(quick):
    good = ("a", 1, "2026-11-21T09:11:07.000Z", f'"{MD5}"')
    body = page([good, ("b", -4, "2026-11-21T09:11:07.000Z", f'"{MD5}"')])
    with pytest.raises(IncompleteReadError, match="answered 'b' with a size of -4 bytes"):
        read(body, quick=quick)


def test_an_object_without_a_time_is_refused():
    body = page([("a", 1, "", f'"{MD5}"')])
    with pytest.raises(IncompleteReadError, match="without a readable key, size or time"):
        read(body, quick=True)
