"""What is inside a namespace, form by form."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from spark_core.addresses.namespace import AddressType, Namespace
from spark_core.addresses.readings import overlap
from spark_core.errors import AddressError, SettingsError
from tests.support import golden

BY_PREFIX, RELATIVE, FULL = AddressType.BY_PREFIX, AddressType.RELATIVE, AddressType.FULL
KEY = "data/gqv3epl4fd2o8m3men70/ce8co454fd2o8m3menag"
SERVER = "/srv/lakefs/state/local/bs"

S3 = Namespace.parse("s3://bucket/ns")
BUCKET = Namespace.parse("s3://bucket")
AT = Namespace.parse("s3://bucket/team@corp/x")
GS = Namespace.parse("gs://bucket/a/ns/")
AZURE = Namespace.parse("https://Account.blob.core.windows.net/container/ns")
LOCAL = Namespace.parse("local://obs/45461", server_path=SERVER)
EVERY = [S3, BUCKET, AT, GS, AZURE, LOCAL]


@pytest.mark.parametrize(
    ("uri", "root"),
    [
        ("s3://bucket", "s3://bucket/"),
        ("s3://bucket/", "s3://bucket/"),
        ("s3://bucket/ns", "s3://bucket/ns/"),
        ("S3://bucket/ns", "s3://bucket/ns/"),
        ("s3://bucket/team@corp/x", "s3://bucket/team@corp/x/"),
        ("gs://bucket/a b/#1", "gs://bucket/a b/#1/"),
        (
            "https://ACCOUNT.blob.core.windows.net/c/ns",
            "https://account.blob.core.windows.net/c/ns/",
        ),
        ("https://account.dfs.core.windows.net:443/c", "https://account.blob.core.windows.net/c/"),
        ("http://127.0.0.1:10000/devstoreaccount1/c", "http://127.0.0.1:10000/devstoreaccount1/c/"),
        ("local://repo", "local://repo/"),
        ("local://a/repo/", "local://a/repo/"),
    ],
)
def test_the_root_ends_in_one_slash_and_a_host_has_no_case(uri, root):
    namespace = Namespace.parse(uri, server_path="/srv/bs" if uri.startswith("local") else None)
    assert namespace.root == root
    assert namespace.uri == uri


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("ftp://bucket/ns", "has no scheme that can be collected"),
        ("s3a://bucket/ns", "has no scheme that can be collected"),
        ("mem://ns", "has no scheme that can be collected"),
        ("bucket/ns", "has no scheme that can be collected"),
        ("", "has no scheme that can be collected"),
        ("s3:///ns", "names no bucket or account"),
        ("https://account.blob.core.windows.net", "names no directory or container"),
        ("local://", "names no directory or container"),
        ("s3://bucket/my%20ns", "holds a query, an escape"),
        ("https://account.blob.core.windows.net/c?sig=SECRET", "holds a query, an escape"),
        ("s3://user:SECRET@bucket/ns", "holds a query, an escape"),
        ("s3://u@bucket/team@corp", "holds a query, an escape"),
        ("s3://bucket/n\ns", "control character"),
        ("s3://bucket/ns//", "holds an empty, `.` or `..` segment"),
        ("s3://bucket/a//b", "holds an empty, `.` or `..` segment"),
        ("s3://bucket/a/../b", "holds an empty, `.` or `..` segment"),
        ("local:///srv/bs/repo", "holds an empty, `.` or `..` segment"),
        ("local://../repo", "holds an empty, `.` or `..` segment"),
    ],
)
def test_a_namespace_of_an_unknown_form_is_refused(uri, text):
    with pytest.raises(AddressError, match=text) as refusal:
        Namespace.parse(uri, server_path="/srv/bs")
    assert refusal.value.next_step
    assert "SECRET" not in str(refusal.value)


def test_a_local_namespace_needs_the_path_that_the_server_names():
    with pytest.raises(SettingsError, match="blockstore's path on the server is not set"):
        Namespace.parse("local://repo")


@pytest.mark.parametrize(
    "path", ["bs", "./bs", "/srv/../bs", "/srv//bs", "/srv/./bs", "", "/", "//"]
)
def test_a_server_path_that_is_not_plain_and_absolute_is_refused(path):
    with pytest.raises(SettingsError, match="is not an absolute path"):
        Namespace.parse("local://repo", server_path=path)


@pytest.mark.parametrize("namespace", EVERY, ids=lambda namespace: namespace.root)
def test_a_relative_address_is_inside_and_absolute_takes_it_there_and_back(namespace):
    assert namespace.relative(KEY, RELATIVE) == KEY
    assert namespace.relative(KEY, BY_PREFIX) == KEY
    for kind in (FULL, BY_PREFIX):
        assert namespace.relative(namespace.absolute(KEY), kind) == KEY
    assert namespace.relative_absolute(namespace.absolute("_lakefs/dummy")) == "_lakefs/dummy"


@pytest.mark.parametrize(
    ("namespace", "address"),
    [
        (S3, f"s3://bucket/ns2/{KEY}"),
        (S3, f"s3://bucket/n/{KEY}"),
        (S3, f"s3://bucket2/ns/{KEY}"),
        (S3, f"s3://bucket/NS/{KEY}"),
        (S3, "s3://bucket/ns"),
        (S3, "s3://bucket"),
        (S3, f"s3://BUCKET/other/{KEY}"),
        (S3, f"s3://bucket//other/{KEY}"),
        (S3, f"s3://bucket:443/ns/{KEY}"),
        (S3, f"gs://bucket/ns/{KEY}"),
        (S3, f"https://bucket.s3.amazonaws.com/ns/{KEY}"),
        (S3, "s3://other/100%/two%20x?y"),
        (BUCKET, f"s3://bucket2/{KEY}"),
        (AZURE, f"https://account2.blob.core.windows.net/container/ns/{KEY}"),
        (AZURE, f"https://account.blob.core.windows.net/container2/ns/{KEY}"),
        (AZURE, f"https://account.blob.core.windows.net/CONTAINER/ns/{KEY}"),
        (LOCAL, f"local://obs/454611/{KEY}"),
        (LOCAL, f"local://{SERVER}/obs/other/{KEY}"),
        (LOCAL, f"local://{SERVER}{SERVER}/other/{KEY}"),
        (LOCAL, "local:///srv/import/one"),
        (LOCAL, "local:///srv/import//x/../one/"),
        (LOCAL, f"s3://bucket/obs/45461/{KEY}"),
    ],
)
def test_a_sibling_or_another_store_is_outside(namespace, address):
    assert namespace.relative(address, FULL) is None
    assert namespace.relative(address, BY_PREFIX) is None


@pytest.mark.parametrize(
    "host",
    [
        "https://account.blob.core.windows.net",
        "https://ACCOUNT.Blob.Core.Windows.Net",
        "http://account.blob.core.windows.net",
        "HTTPS://account.blob.core.windows.net:443",
        "https://account.dfs.core.windows.net",
        "https://account.adls.core.windows.net",
    ],
)
def test_every_name_of_an_azure_account_is_the_same_account(host):
    assert AZURE.relative(f"{host}/container/ns/{KEY}", FULL) == KEY


@pytest.mark.parametrize(
    "before", ["obs/45461", f"{SERVER}/obs/45461", f"{SERVER}{SERVER}/obs/45461"]
)
@pytest.mark.parametrize("server_path", [SERVER, f"{SERVER}/"])
def test_the_three_forms_of_a_local_address_are_one(before, server_path):
    namespace = Namespace.parse("local://obs/45461/", server_path=server_path)
    assert namespace.relative(f"local://{before}/{KEY},sig", FULL) == f"{KEY},sig"
    assert namespace.relative_absolute(f"local://{before}/{KEY},sig") == f"{KEY},sig"


@pytest.mark.parametrize(
    "form",
    [
        "/srv/elsewhere/obs/45461/{key}",
        "/obs/45461/data/!ab/c/{tail}",
        "/x/obs/45461/{key},s",
        "{server}/backup/obs/45461/{key}",
        "/srv/obs/45461/data/plain/file",
        "/mnt/seen/here/obs/45461/data/by-hand/part-0.parquet",
        "/mnt/obs/45461//data/x",
        "/mnt/obs/45461/0123456789abcdef0123456789abcdef",
        "blockstore/obs/45461/{key}",
        "./obs/../blockstore/obs/45461/{key}",
    ],
)
@pytest.mark.parametrize("kind", [FULL, BY_PREFIX])
def test_what_may_be_an_own_object_below_another_blockstore_path_is_never_outside(form, kind):
    address = "local://" + form.format(key=KEY, tail=KEY.removeprefix("data/"), server=SERVER)
    with pytest.raises(
        AddressError, match=r"looks like an object of local://obs/45461/.*correct that setting"
    ):
        LOCAL.relative(address, kind)
    with pytest.raises(AddressError, match="looks like an object of"):
        LOCAL.relative_batch(pa.array([address]), pa.array([kind], pa.int32()))


@pytest.mark.parametrize(
    "form", ["/srv/ext/{key}", "{server}/other/{key}", "{server}/obs/454611/{key}", "/obs/45461/x"]
)
def test_imports_from_elsewhere_and_other_repositories_are_outside(form):
    assert LOCAL.relative("local://" + form.format(key=KEY, server=SERVER), FULL) is None


def test_an_own_object_is_told_in_a_namespace_whose_name_has_signs_of_patterns():
    namespace = Namespace.parse("local://a$b.c+", server_path=SERVER)
    with pytest.raises(AddressError, match="looks like an object of"):
        namespace.relative(f"local:///elsewhere/a$b.c+/{KEY}", FULL)
    assert namespace.relative(f"local:///elsewhere/a$bxc+/{KEY}", FULL) is None


@pytest.mark.parametrize("namespace", EVERY, ids=lambda namespace: namespace.root)
@pytest.mark.parametrize(
    ("address", "kind", "text"),
    [
        ("", RELATIVE, "is empty or holds a NUL"),
        ("", FULL, "is empty or holds a NUL"),
        ("data/a\0b", BY_PREFIX, "is empty or holds a NUL"),
        ("/data/a", RELATIVE, "is relative and begins with a slash"),
        ("/data/a", BY_PREFIX, "is relative and begins with a slash"),
        (KEY, FULL, "is FULL and does not begin with a known scheme"),
        ("s3a://bucket/ns/data/x", FULL, "is FULL and does not begin with a known scheme"),
        ("s3:/bucket/ns/data/x", FULL, "is FULL and does not begin with a known scheme"),
        (KEY, 3, "address type 3"),
        (KEY, -1, "address type -1"),
    ],
)
def test_an_address_of_an_unknown_form_is_refused(namespace, address, kind, text):
    with pytest.raises(AddressError, match=text) as refusal:
        namespace.relative(address, kind)
    assert refusal.value.next_step


@pytest.mark.parametrize("namespace", EVERY, ids=lambda namespace: namespace.root)
def test_the_namespace_itself_is_no_object(namespace):
    with pytest.raises(AddressError, match=r"names the namespace itself|could be read as"):
        namespace.relative(namespace.root, FULL)


@pytest.mark.parametrize(
    "address",
    [
        "s3://bucket/ns/data/a%20b",
        "s3://bucket/n%73/data/x",
        "s3://bucket/ns/data/x?versionId=1",
        "s3://key:SECRET@bucket/ns/data/x",
        "s3://bucket/ns?x",
    ],
)
def test_an_inside_address_with_two_readings_is_refused(address):
    if address == "s3://bucket/ns?x":
        assert S3.relative(address, FULL) is None  # both readings name a key beside the namespace
        return
    with pytest.raises(AddressError, match="could be read as") as refusal:
        S3.relative(address, FULL)
    assert "SECRET" not in str(refusal.value)


def test_a_signature_in_an_address_does_not_reach_the_message():
    with pytest.raises(AddressError, match=r"x\?\.\.\.") as refusal:
        AZURE.relative("https://account.blob.core.windows.net/container/ns/data/x?sig=SECRET", FULL)
    assert "SECRET" not in str(refusal.value)


HIVE = "exports/hour=2026-01-01 00%3A00%3A00/part-00000.parquet"


@pytest.mark.parametrize("namespace", [S3, BUCKET, GS, AZURE], ids=lambda namespace: namespace.root)
@pytest.mark.parametrize(
    "relative", [HIVE, "exports/a?b", "exports/100%25", "database%2Fx", "datas/%2e%2e/x", "data?x"]
)
def test_what_lies_beside_data_is_itself_however_it_could_be_read(namespace, relative):
    address = namespace.absolute(relative)
    for kind in (FULL, BY_PREFIX):
        assert namespace.relative(address, kind) == relative
    found = namespace.relative_batch(
        pa.array([KEY, address]), pa.array([RELATIVE, FULL], pa.int32())
    )
    assert found.to_pylist() == [KEY, relative]


@pytest.mark.parametrize("namespace", [S3, BUCKET, GS, AZURE], ids=lambda namespace: namespace.root)
@pytest.mark.parametrize(
    "relative",
    [
        "data%2Fx",
        "%64ata/x",
        "%2564ata/x",
        "exports/..%2Fdata/x",
        "exports/%2e%2e/data/x",
        "exports/%252e%252e/data/x",
        "%2Fdata/x",
        "./data/%78",
        "exports?/../data/x",
        "data/../exports/%78",
        "data/%2e%2e/exports/x",
        "%30123456789abcdef0123456789abcdef",
        "0123456789abcdef0123456789abcdef?versionId=1",
    ],
)
def test_what_lies_beside_data_is_refused_where_one_of_its_readings_could_be_collected(
    namespace, relative
):
    address = namespace.absolute(relative)
    for kind in (FULL, BY_PREFIX):
        with pytest.raises(AddressError, match="could be read as"):
            namespace.relative(address, kind)
    with pytest.raises(AddressError, match="could be read as"):
        namespace.relative_batch(pa.array([KEY, address]), pa.array([RELATIVE, FULL], pa.int32()))


def test_a_way_out_of_the_namespace_and_back_into_data_is_refused():
    for detour in ("exports/%2e%2e/%2e%2e/ns/data/x", "%2e%2e/ns/data/x", "..%2Fns%2Fdata%2Fx"):
        with pytest.raises(AddressError, match="could be read as"):
            S3.relative(f"s3://bucket/ns/{detour}", FULL)


def test_an_address_that_could_be_decoded_for_ever_is_refused():
    with pytest.raises(AddressError, match="could be read as"):
        S3.relative(f"s3://bucket/ns/exports/%{'25' * 2_000}41", FULL)


def test_a_percent_sign_that_is_no_escape_has_one_reading():
    assert S3.relative("s3://bucket/ns/data/100%", FULL) == "data/100%"
    assert S3.relative("data/a%20b?c", RELATIVE) == "data/a%20b?c"


@pytest.mark.parametrize(
    "relative", ["data//x", "data/./x", "data/../x", "./data/x", "data/x/", "data/x/.", "..", "."]
)
def test_a_file_system_folds_segments_so_they_are_refused_there(relative):
    with pytest.raises(AddressError, match="which a file system folds away"):
        LOCAL.relative(relative, RELATIVE)
    for before in LOCAL.local_forms:
        with pytest.raises(AddressError, match="could be read as"):
            LOCAL.relative(f"local://{before}{relative}", FULL)


@pytest.mark.parametrize(
    "relative", ["data//x", "data/./x", "data/../x", "data/x/", "a b", "data/\n", "x#1", "a\\b"]
)
def test_an_object_store_takes_keys_literally(relative):
    for namespace in (S3, BUCKET, GS):
        assert namespace.relative(relative, RELATIVE) == relative
        assert namespace.relative(namespace.absolute(relative), FULL) == relative


@pytest.mark.parametrize(
    "address",
    [
        f"s3://x@bucket/ns/{KEY}",
        f"s3://user:word@bucket/ns/{KEY}",
        f"s3://bucket/ns/{KEY}?versionId=1",
        f"s3://bucket/n%73/{KEY}",
        f"s3://b%75cket/ns/{KEY}",
        f"s3://BUCKET/ns/{KEY}",
        f"s3://Bucket//ns/{KEY}",
        f"s3://bucket//ns/{KEY}",
        f"s3://bucket//other/../ns/./{KEY}",
        f"s3://bucket///ns//{KEY}",
    ],
)
def test_what_some_server_or_store_takes_for_an_own_object_is_refused_one_by_one_and_as_a_column(
    address,
):
    for found in (address, f"S3{address[2:]}"):
        for kind in (FULL, BY_PREFIX):
            with pytest.raises(AddressError, match="could be read as"):
                S3.relative(found, kind)
        with pytest.raises(AddressError, match="could be read as"):
            S3.relative_batch(pa.array([KEY, found]), pa.array([RELATIVE, FULL], pa.int32()))
    with pytest.raises(AddressError, match="could be read as"):
        BUCKET.relative_batch(pa.array([f"s3://bucket//{KEY}"]), pa.array([FULL], pa.int32()))


def test_a_scheme_has_no_case_and_s3a_is_none_that_the_server_knows():
    spelt = f"S3://bucket/ns/{KEY}"
    assert S3.relative(spelt, FULL) == KEY
    assert S3.relative_batch(pa.array([spelt]), pa.array([FULL], pa.int32())).to_pylist() == [KEY]
    with pytest.raises(AddressError, match="does not begin with a known scheme"):
        S3.relative(f"s3a://bucket/ns/{KEY}", FULL)


@pytest.mark.parametrize("relative", ["data//x", "a b", "data/\n", "x#1", ".hidden", "a..b/c"])
def test_azure_takes_most_keys_literally(relative):
    assert AZURE.relative(relative, RELATIVE) == relative
    assert AZURE.relative(AZURE.absolute(relative), FULL) == relative


@pytest.mark.parametrize(
    "relative",
    ["data\\x", "data/a\\b", "data/x.", "data/x./y", "data/...", "data/./x", "data/../x"],
)
def test_a_name_that_azure_takes_for_another_is_refused_in_every_form(relative):
    for address, kind in ((relative, RELATIVE), (relative, BY_PREFIX)):
        with pytest.raises(AddressError, match="which Azure takes for another name"):
            AZURE.relative(address, kind)
    with pytest.raises(AddressError, match="could be read as"):
        AZURE.relative(AZURE.absolute(relative), FULL)
    with pytest.raises(AddressError, match="Azure takes for another name"):
        AZURE.relative_batch(pa.array([KEY, relative]), pa.array([RELATIVE, RELATIVE], pa.int32()))


@pytest.mark.parametrize(
    "address",
    [
        f"https://account.blob.core.windows.net/container/ns/{KEY}/",
        f"https://account.blob.core.windows.net//container/ns/{KEY}",
        f"https://account.blob.core.windows.net/container\\ns/{KEY}",
        f"https://account.blob.core.windows.net/container/ns./{KEY}",
        f"https://account.blob.core.chinacloudapi.cn/container/ns/{KEY}",
        f"https://account.privatelink.blob.core.windows.net/container/ns/{KEY}",
        f"https://ACCOUNT.other.domain/container/ns/{KEY}",
        f"https://account.blob.core.windows.net/container/other/../ns/{KEY}",
        f"https://account.blob.core.windows.net/container/./ns/{KEY}",
        f"https://account-secondary.blob.core.windows.net/container/ns/{KEY}",
        f"https://account-microsoftrouting.dfs.core.windows.net/container/ns/{KEY}",
    ],
)
@pytest.mark.parametrize("kind", [FULL, BY_PREFIX])
def test_what_the_server_would_read_as_an_own_object_of_an_azure_account_is_never_outside(
    address, kind
):
    with pytest.raises(AddressError, match="could be read as"):
        AZURE.relative(address, kind)
    with pytest.raises(AddressError, match="could be read as"):
        AZURE.relative_batch(pa.array([address]), pa.array([kind], pa.int32()))


@pytest.mark.parametrize("path", ["c/n\\s", "c/ns.", "c./ns", "c/a./b"])
def test_a_namespace_that_azure_takes_for_another_is_refused(path):
    with pytest.raises(AddressError, match="can be read in two ways"):
        Namespace.parse(f"https://account.blob.core.windows.net/{path}")


def test_a_local_address_that_leads_inside_by_a_detour_is_refused():
    for address in (
        f"local://{SERVER}/other/../obs/45461/data/x",
        f"local://{SERVER}//obs/45461/data/x",
    ):
        with pytest.raises(AddressError, match="could be read as"):
            LOCAL.relative(address, FULL)


def test_by_prefix_is_a_uri_only_when_the_server_knows_the_scheme():
    assert S3.relative("data/repo-main:0c3e/name", BY_PREFIX) == "data/repo-main:0c3e/name"
    assert S3.relative("ftp://x/y", BY_PREFIX) == "ftp://x/y"
    assert S3.relative("s3:x", BY_PREFIX) == "s3:x"
    assert (
        S3.relative("0123456789abcdef0123456789abcdef", BY_PREFIX)
        == "0123456789abcdef0123456789abcdef"
    )
    assert S3.relative("S3://bucket/ns/data/x", BY_PREFIX) == "data/x"
    assert S3.relative("memory://x/y", BY_PREFIX) is None


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        ("s3://bucket/ns", "s3://bucket/ns/", True),
        ("s3://bucket/ns", "s3://bucket/ns/data/inner", True),
        ("s3://bucket", "s3://bucket/ns", True),
        ("s3://bucket/ns", "s3://bucket/ns2", False),
        ("s3://bucket/ns", "s3://bucket2/ns", False),
        ("s3://bucket/ns", "gs://bucket/ns", False),
        ("s3://bucket/team@corp/x", "s3://bucket/team@corp", True),
        ("s3://bucket/team@corp/x", "s3://bucket/x", False),
        ("https://A.blob.core.windows.net/c/ns", "http://a.dfs.core.windows.net/c/ns/x", True),
        (
            "https://a.blob.core.windows.net/c/ns",
            "https://a.privatelink.blob.core.windows.net/c/ns",
            True,
        ),
        (
            "https://a.blob.core.windows.net/c/ns",
            "https://a-internetrouting.blob.core.windows.net/c/ns",
            True,
        ),
        ("https://a.blob.core.windows.net/c/ns", "https://b.blob.core.windows.net/c/ns", False),
        ("local://a", "local://a/b/", True),
        ("local://a", "local://ab", False),
    ],
)
def test_namespaces_that_share_objects_are_seen(one, other, shared):
    first, second = (Namespace.parse(uri, server_path="/srv/bs") for uri in (one, other))
    expected = "share a storage namespace" if shared else None
    assert overlap(first, second.uri) == expected
    assert overlap(second, first.uri) == expected


@pytest.mark.parametrize(
    ("ours", "odd", "reading"),
    [
        # Decoded, also more than once, and where the slash itself is escaped.
        ("s3://b/docs", "s3://b/d%6Fcs", "s3://b/docs"),
        ("s3://b/docs", "s3://b/d%256Fcs/inner", "s3://b/docs/inner"),
        ("s3://b/docs", "s3://b%2Fdocs", "s3://b/docs"),
        ("s3://b/docs", "s3://b/other%2F..%2Fdocs", "s3://b/docs"),
        # Cut at what may begin a query or a fragment.
        ("s3://b/docs", "s3://b/docs?versioned", "s3://b/docs"),
        ("s3://b/docs", "s3://b?x/other", "s3://b"),
        # Folded.
        ("s3://b/team/docs", "s3://b/team//docs", "s3://b/team/docs"),
        ("s3://b/docs", "s3://b/./docs", "s3://b/docs"),
        ("s3://b/docs", "s3://b//docs", "s3://b/docs"),
        ("local://docs", "local:///docs", "local://docs"),
        ("local://docs", "local:///srv/bs/docs", "local:///srv/bs/docs"),
        ("local://docs", "local://x/../docs", "local://docs"),
        ("local://p q", "local://p%20q", "local://p q"),
        ("https://a.blob.core.windows.net/c/ns", r"https://a.blob.core.windows.net/c\ns", "c/ns"),
        ("https://a.blob.core.windows.net/c/ns", "https://a.blob.core.windows.net/c/ns.", "c/ns"),
        # Without case, where a host or a file system has none.
        ("s3://b/docs", "s3://B/docs", "s3://b/docs"),
        ("local://Docs", "local://docs/inner", "local://Docs/inner"),
        ("local://caf\u00e9", "local://cafe\u0301", "local://caf\u00e9"),
        # Without what a client drops, and by a scheme that nobody knows.
        ("s3://b/docs", "s3://user:SECRET@b/docs", "s3://b/docs"),
        ("s3://b/docs", "s3://b/do\ncs", "s3://b/docs"),
        ("s3://b/docs", "s3a://b/docs", "s3://b/docs"),
        ("s3://b/docs", "b/docs", "s3://b/docs"),
        # No bucket at all may be anybody's.
        ("s3://b/docs", "s3://", "s3://b"),
        ("s3://b/docs", "s3:///docs", "s3://b/docs"),
        ("s3://b/docs", "s3:///b/docs", "s3://b/docs"),
        # More readings than anybody means.
        ("s3://b/docs", f"s3://b/%{'25' * 1_100}", "s3://b/docs/data/"),
    ],
)
def test_one_reading_of_an_odd_namespace_that_overlaps_is_told_as_no_more_than_that(
    ours, odd, reading
):
    found = overlap(Namespace.parse(ours, server_path="/srv/bs"), odd)
    assert found.startswith("may share a storage namespace, as one reading of the second is ")
    assert reading in found
    assert "SECRET" not in found


@pytest.mark.parametrize(
    ("ours", "odd"),
    [
        ("s3://b/docs", "s3://my.dotted.bucket/team//x"),
        ("s3://b/docs", "s3://b/team//x"),
        ("s3://b/docs", "s3://other/docs?x"),
        ("s3://b/docs", "s3://other/d%6Fcs"),
        ("s3://b/docs", "s3://b/d%256Fcs-2"),
        ("s3://b/docs", "s3://b/DOCS"),
        ("s3://b/docs", "s3://b/docs-2?x"),
        ("s3://b/docs", "s3://b/docs#1"),
        ("s3://b/docs", "s3://b@other/docs"),
        # Two buckets, however often somebody may decode what follows.
        ("s3://b/docs", f"s3://other/%{'25' * 1_100}"),
        ("s3://b/docs", f"s3://other?%{'25' * 1_100}"),
        ("https://a.blob.core.windows.net/c", f"https://b.blob.core.windows.net/c?%{'25' * 1_100}"),
        ("s3://b/docs", "s3:///other/docs"),
        ("s3://b/docs", "local://../docs"),
        ("local://docs", "local://p%20q/x"),
        ("local://docs", "local:///srv/bs2"),
        ("https://a.blob.core.windows.net/c/ns", "https://b.blob.core.windows.net/c/ns."),
    ],
)
def test_an_odd_namespace_of_which_no_reading_overlaps_lies_apart(ours, odd):
    assert overlap(Namespace.parse(ours, server_path="/srv/bs"), odd) is None


def test_a_namespace_travels_to_executors():
    assert LOCAL.root
    copy = pickle.loads(pickle.dumps(LOCAL))
    assert copy == LOCAL
    assert copy.relative(f"local://{SERVER}/obs/45461/{KEY}", FULL) == KEY


@pytest.mark.parametrize("name", golden.REPOSITORIES)
def test_the_recorded_servers_absolute_addresses_resolve_as_recorded(name):
    record, server = golden.expected(name), golden.server(name)
    namespace = Namespace.parse(
        server["repository"]["storage_namespace"], server_path="/<BLOCKSTORE>"
    )
    seen = 0
    for row in record["entry_table"]:
        address, stored = row[1], row[7] if len(row) > 7 else None
        outside = "://" in address
        if stored is None and outside:
            stored = address
        if stored is None:
            assert namespace.relative(address, RELATIVE) == address
            continue
        seen += 1
        stored = stored.replace("<BLOCKSTORE>", "/<BLOCKSTORE>").replace(
            "<EXTERNAL>", "/<EXTERNAL>"
        )
        assert namespace.relative(stored, FULL) == (None if outside else address)
    assert seen > 0 or name not in ("merges", "s3-features")
