"""The algebra's laws, on generated addresses of every scheme and type."""

from __future__ import annotations

from itertools import product
from posixpath import normpath
from urllib.parse import unquote

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spark_core.addresses.namespace import AddressType, Namespace
from spark_core.errors import AddressError

SERVER = "/srv/bs"
NAMESPACES = [
    Namespace.parse(uri, server_path=SERVER if uri.startswith("local") else None)
    for uri in (
        "s3://bucket",
        "s3://bucket/ns",
        "s3://bucket/a/ns/",
        "s3://bucket/team@corp/ns",
        "gs://bucket/ns",
        "https://Acc.blob.core.windows.net/c/ns",
        "http://127.0.0.1:10000/acc/c/",
        "local://ns",
        "local://srv/bs/ns",
    )
]
namespaces = st.sampled_from(NAMESPACES)
XID = "ce8co454fd2o8m3menag"
segments = st.sampled_from(
    ["data", "ns", "ns2", "srv", "bs", "bucket", "c", "acc", "_lakefs", XID, f"{XID},s", "a b", "",
     ".", "..", "%20", "%", "x?y", "u@v", "é", "\n", "#1", "😀", "a\0", "a\\b", "x."]
)  # fmt: skip
paths = st.lists(segments, min_size=1, max_size=6).map("/".join)
names = st.lists(
    st.text(
        st.characters(exclude_characters="/\0?%@\\", exclude_categories=["Cs"]), min_size=1
    ).filter(lambda segment: not segment.endswith(".")),
    min_size=1,
    max_size=4,
).map("/".join)
befores = st.sampled_from(
    ["", "s3://", "S3://", "gs://", "mem://", "memory://", "local://", "local:///", "http://",
     "https://", "ftp://", "s3:/", "s3://bucket/", "s3://bucket/ns/", "s3://u@bucket/ns/",
     "s3://bucket/team@corp/ns/", "s3://u@bucket/team@corp/ns/",
     "gs://bucket/ns/", "https://acc.blob.core.windows.net/c/ns/",
     "https://ACC.blob.core.windows.net/c/ns/", "https://acc.blob.core.windows.net//c/ns/",
     "https://acc.elsewhere/c/ns/", "http://acc.dfs.core.windows.net:80/c/ns/",
     "http://127.0.0.1:10000/acc/c/", "local://ns/", "local:///srv/bs/ns/",
     "local:///srv/bs/srv/bs/ns/", "local:///srv/bs/srv/bs/srv/bs/ns/", "local:///x/ns/"]
)  # fmt: skip
addresses = st.one_of(st.builds("{}{}".format, befores, paths), paths, names, st.text())
types = st.sampled_from([0, 1, 2])


def told(namespace: Namespace, address: str, kind: int) -> str | None:
    try:
        return namespace.relative(address, kind)
    except AddressError:
        return "refused"


@settings(deadline=None)
@given(namespace=namespaces, relative=names)
def test_a_relative_address_comes_back_from_its_absolute_form(namespace, relative):
    assert namespace.relative(namespace.absolute(relative), AddressType.FULL) == relative
    assert namespace.relative(namespace.absolute(relative), AddressType.BY_PREFIX) == relative
    assert namespace.relative(relative, AddressType.RELATIVE) == relative
    assert namespace.relative_absolute(namespace.absolute(relative)) == relative


@settings(deadline=None)
@given(namespace=namespaces, relative=paths)
def test_an_absolute_form_is_never_taken_for_outside_or_for_another_object(namespace, relative):
    assert told(namespace, namespace.absolute(relative), AddressType.FULL) in (relative, "refused")


@settings(deadline=None)
@given(relative=names, doubled=st.integers(min_value=0, max_value=2))
def test_every_absolute_form_of_a_local_object_is_that_object(relative, doubled):
    namespace = Namespace.parse("local://ns", server_path=SERVER)
    before = SERVER * doubled + ("/" if doubled else "")
    assert namespace.relative(f"local://{before}ns/{relative}", AddressType.FULL) == relative


@settings(deadline=None)
@given(
    namespace=namespaces,
    tail=st.text(min_size=1).filter(lambda text: not set(text) & set("/\0?%@#:")),
    relative=names,
)
def test_a_sibling_whose_name_only_begins_alike_is_outside(namespace, tail, relative):
    sibling = f"{namespace.root.rstrip('/')}{tail}/{relative}"
    assert told(namespace, sibling, AddressType.FULL) is None


escaped = st.lists(
    st.sampled_from(
        ["data", "%64ata", "%2564ata", "exports", "x", "ns", "..", "%2e%2e", "%252e.", "/", "/",
         "/", "%2F", "%2f", "?", "#", ".", "\\", "%5C"]
    ),
    min_size=1,
    max_size=9,
).map("".join)  # fmt: skip


def readings(path: str) -> set[str]:
    """Every way in which a path can be decoded, cut at its query or folded, one after the other."""
    found: set[str] = set()
    left = [path]
    while left:
        if (one := left.pop()) not in found:
            found.add(one)
            left += [
                unquote(one),
                one.partition("?")[0],
                one.partition("#")[0],
                normpath(f"/{one}").lstrip("/"),
            ]
    return found


@settings(deadline=None)
@given(
    namespace=st.sampled_from(NAMESPACES[:4]),
    relative=escaped.filter(lambda path: "%" in path or "?" in path),
)
@example(namespace=NAMESPACES[1], relative="exports/%2e%2e/%2e%2e/ns/data/x")
@example(namespace=NAMESPACES[0], relative="/%64ata/")
@example(namespace=NAMESPACES[0], relative="data%2F")
def test_an_address_that_is_taken_for_itself_has_no_other_reading_below_data(namespace, relative):
    answer = told(namespace, namespace.absolute(relative), AddressType.FULL)
    folder = f"{namespace.path}/data/".lstrip("/")
    found = readings(f"{namespace.path}/{relative}".lstrip("/"))
    below = {path for path in found if path.startswith(folder)}
    if below == {folder}:
        # The folder itself is the name of no object that could be collected: either is right.
        assert answer in ("refused", relative)
    else:
        assert answer == ("refused" if below else relative)


@settings(deadline=None)
@given(namespace=namespaces, address=addresses)
def test_by_prefix_is_full_for_a_known_scheme_and_relative_otherwise(namespace, address):
    known = (
        address.partition("://")[0].lower()
        in ("s3", "gs", "mem", "memory", "local", "http", "https")
        and "://" in address
    )
    same = AddressType.FULL if known else AddressType.RELATIVE
    assert told(namespace, address, AddressType.BY_PREFIX) == told(namespace, address, same)


@pytest.mark.slow
@settings(deadline=None)
@given(namespace=namespaces, rows=st.lists(st.tuples(addresses, types), max_size=12))
@example(namespace=NAMESPACES[6], rows=[("local:///srv/bs/ns/data/x\n", 2), ("data/x\n/.\n", 1)])
def test_a_batch_equals_its_rows(namespace, rows):
    answers = [told(namespace, address, kind) for address, kind in rows]
    kept = [(row, answer) for row, answer in zip(rows, answers, strict=True) if answer != "refused"]
    table = namespace.relative_batch(
        pa.array([address for (address, _), _ in kept], pa.string()),
        pa.array([kind for (_, kind), _ in kept], pa.int32()),
    )
    assert table.type == pa.string()
    assert table.to_pylist() == [answer for _, answer in kept]
    for (address, kind), answer in zip(rows, answers, strict=True):
        if answer == "refused":
            with pytest.raises(AddressError):
                namespace.relative_batch(
                    pa.array(["data/x", address]), pa.array([1, kind], pa.int32())
                )


PLAIN = ["data/a-b/_9Z", "xy", "data/g/c"]
ODD = [
    "",
    "/a",
    "a/",
    "a//b",
    "..",
    "../b",
    "a/..",
    "a/./b",
    "a.",
    "a./b",
    "a%2Fb",
    "a?b",
    "a\\b",
    "é",
]


@pytest.mark.parametrize("namespace", NAMESPACES, ids=lambda namespace: namespace.uri)
def test_plain_full_addresses_are_read_at_once_as_one_by_one(namespace):
    begins = [namespace.root, f"{namespace.root[:-1]}2/", "s3://bucket/", "https://other/"]
    if namespace.kind == "local":
        begins += [f"local://{form}" for form in namespace.local_forms]
    for begin, odd in product(begins, [*PLAIN, *ODD]):
        addresses = [begin + name for name in (*PLAIN, odd)]
        answers = [told(namespace, address, AddressType.FULL) for address in addresses]
        columns = pa.array(addresses, pa.string()), pa.array([2] * len(addresses), pa.int32())
        if "refused" in answers:
            with pytest.raises(AddressError):
                namespace.relative_batch(*columns)
        else:
            assert namespace.relative_batch(*columns).to_pylist() == answers, addresses


@settings(deadline=None)
@given(one=namespaces, other=namespaces, relative=names)
def test_what_is_inside_an_inner_namespace_is_inside_the_outer_one(one, other, relative):
    inner, outer = f"{other.path}/".lstrip("/"), f"{one.path}/".lstrip("/")
    if (one.kind, one.account) == (other.kind, other.account) and inner.startswith(outer):
        assert told(one, other.absolute(relative), AddressType.FULL) not in (None, "refused")


@pytest.mark.parametrize(
    ("addresses", "types"),
    [(["data/x", None], [1, 1]), (["data/x"], [None]), (["data/x"], [1, 1])],
)
def test_a_column_with_nulls_or_of_another_length_is_refused(addresses, types):
    with pytest.raises(AddressError, match="has nulls, or its types do not match it"):
        NAMESPACES[0].relative_batch(pa.array(addresses, pa.string()), pa.array(types, pa.int32()))


def test_a_batch_with_an_unknown_type_is_refused():
    with pytest.raises(AddressError, match="address type 7"):
        NAMESPACES[0].relative_batch(pa.array(["data/x", "data/y"]), pa.array([1, 7], pa.int32()))


def test_a_slice_of_a_batch_is_read_at_its_offset():
    addresses = pa.array(["data/x", "s3://bucket/ns/data/y", "s3://other/z", "data/w"]).slice(1)
    found = NAMESPACES[1].relative_batch(addresses, pa.array([1, 2, 2, 1], pa.int32()).slice(1))
    assert found.to_pylist() == ["data/y", None, "data/w"]
