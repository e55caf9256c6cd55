"""What is learned of a store by trying, and that trying leaves nothing behind and touches nobody's
object.
"""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from spark_core.addresses.namespace import Namespace
from spark_core.clocks import MAX_CLOCK_SKEW
from spark_core.errors import PermissionDeniedError, TransientError
from spark_core.storage import DeleteOutcome, StoreOptions, open_store, probes
from spark_core.storage.local import LocalStore
from tests.support.scripted_s3 import Answer, error, scripted_s3

NOBODY = 65_534
DELETED = '<?xml version="1.0"?><DeleteResult><Deleted><Key>{}</Key>{}</Deleted></DeleteResult>'
DENIED = (
    "<DeleteResult><Error><Key>{}</Key><Code>AccessDenied</Code><Message>no</Message></Error>"
    "</DeleteResult>"
)


@pytest.fixture
def local(tmp_path):
    (tmp_path / "repo").mkdir()
    namespace = Namespace.parse("local://repo", server_path=str(tmp_path))
    store = open_store(namespace, StoreOptions(local_path=str(tmp_path)))
    store.put("data/s1/x", b"x")
    store.put("data/s2/y", b"y")
    return store


def held(store):
    return sorted(key for batch in store.list("") for key in batch.column("key").to_pylist())


@contextmanager
def without_privileges():
    """Be nobody for a moment: the system lets root through every permission."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


class _Versioned:
    """A scripted S3 bucket that keeps versions: a deletion without one leaves a delete marker."""

    def __init__(
        self,
        *,
        knows_conditions: str | None = "NoSuchKey",
        may_delete=True,
        may_delete_versions=True,
    ):
        self.knows_conditions = knows_conditions
        self.may_delete = may_delete
        self.may_delete_versions = may_delete_versions
        self.markers: list[str] = []
        self.asked: list[str] = []

    def __call__(self, request):
        assert "delete" in request.query, "nothing but bulk deletions is asked for"
        text = request.body.decode()
        (key,) = re.findall(r"<Key>(.*?)</Key>", text)
        version = re.search(r"<VersionId>(.*?)</VersionId>", text)
        conditional = "<ETag>*</ETag>" in text
        self.asked.append("take away" if version else "conditional" if conditional else "plain")
        if version:
            if not self.may_delete_versions:
                return Answer(200, DENIED.format(key).encode())
            self.markers.remove(version[1])
            return Answer(200, DELETED.format(key, "").encode())
        if not self.may_delete:
            return Answer(200, DENIED.format(key).encode())
        if conditional and self.knows_conditions == "refused":
            return error(400, "MalformedXML")
        if conditional and self.knows_conditions:
            return Answer(
                200, DENIED.replace("AccessDenied", self.knows_conditions).format(key).encode()
            )
        return self._marked(key)

    def _marked(self, key):
        self.markers.append(f"v{len(self.asked)}")
        more = (
            f"<DeleteMarker>true</DeleteMarker><DeleteMarkerVersionId>{self.markers[-1]}"
            "</DeleteMarkerVersionId>"
        )
        return Answer(200, DELETED.format(key, more).encode())


@contextmanager
def bucket(answer):
    with scripted_s3(answer) as endpoint:
        options = StoreOptions(
            s3_endpoint=endpoint,
            s3_region="us-east-1",
            s3_access_key_id="AKIASCRIPTEDKEY00000",
            s3_secret_access_key="scripted-SECRET-access-key",
            allow_http=True,
            max_retries=0,
            connect_timeout=timedelta(seconds=1),
            read_timeout=timedelta(seconds=1),
        )
        yield open_store(Namespace.parse("s3://bucket/ns"), options)


@pytest.mark.parametrize("knows", ["NoSuchKey", "PreconditionFailed", "404"])
def test_a_bucket_that_knows_conditions_is_asked_without_leaving_a_marker(knows):
    versioned = _Versioned(knows_conditions=knows)
    with bucket(versioned) as store:
        probes.require_deletable(store)
    assert versioned.asked == ["conditional"]
    assert versioned.markers == []


@pytest.mark.parametrize(
    ("knows", "asked"),
    [(None, ["conditional", "take away"]), ("refused", ["conditional", "plain", "take away"])],
)
def test_the_marker_that_the_question_left_is_taken_away_again(knows, asked):
    versioned = _Versioned(knows_conditions=knows)
    with bucket(versioned) as store:
        probes.require_deletable(store)
    assert versioned.asked == asked
    assert versioned.markers == []


def test_a_marker_that_may_not_be_taken_away_does_not_turn_the_answer():
    versioned = _Versioned(knows_conditions=None, may_delete_versions=False)
    with bucket(versioned) as store:
        probes.require_deletable(store)
    assert len(versioned.markers) == 1


@pytest.mark.parametrize("knows", ["NoSuchKey", None])
def test_a_bucket_that_may_be_listed_but_not_deleted_in_is_refused_before_anything(knows):
    denying, text = (
        _Versioned(knows_conditions=knows, may_delete=False),
        r"may list but not delete",
    )
    with bucket(denying) as store, pytest.raises(PermissionDeniedError, match=text) as refusal:
        probes.require_deletable(store)
    text = str(refusal.value)
    assert "refuses (AccessDenied)" in text
    assert "Allow s3:DeleteObject for them on s3://bucket/ns/data/" in text


def test_a_bucket_that_does_not_answer_the_question_is_no_refusal_and_no_consent():
    text = r"did not say whether it is allowed \(HTTP 500 InternalError\)"
    with (
        bucket(lambda _: error(500, "InternalError")) as store,
        pytest.raises(TransientError, match=text),
    ):
        probes.require_deletable(store)


def test_a_bulk_answer_without_the_name_is_no_consent():
    with (
        bucket(lambda _: Answer(200, b"<DeleteResult/>")) as store,
        pytest.raises(TransientError, match="does not mention the key"),
    ):
        probes.require_deletable(store)


def test_local_folders_are_asked_for_and_nothing_is_touched(local, tmp_path):
    before = held(local)
    probes.require_deletable(local)
    assert held(local) == before


def test_a_local_namespace_without_data_yet_may_be_deleted_in(tmp_path):
    (tmp_path / "new").mkdir()
    namespace = Namespace.parse("local://new", server_path=str(tmp_path))
    probes.require_deletable(open_store(namespace, StoreOptions(local_path=str(tmp_path))))


def test_a_local_folder_that_this_user_may_not_change_is_named():
    # Not below pytest's own directory, into which nobody else may look.
    with tempfile.TemporaryDirectory() as blockstore:
        (Path(blockstore) / "repo").mkdir()
        namespace = Namespace.parse("local://repo", server_path=blockstore)
        store = open_store(namespace, StoreOptions(local_path=blockstore))
        for key in ("data/s1/x", "data/s2/y"):
            store.put(key, b"x")
        for path in (Path(blockstore), *Path(blockstore).rglob("*")):
            path.chmod(0o777)
        (Path(blockstore) / "repo/data/s2").chmod(0o555)
        with (
            without_privileges(),
            pytest.raises(PermissionDeniedError, match=r"denied in data/s2/, one of 1") as refusal,
        ):
            probes.require_deletable(store)
        assert "Allow changing its folders (w and x) for them on local://repo/data/" in str(
            refusal.value
        )
        assert held(store) == ["data/s1/x", "data/s2/y"]


def test_the_name_that_is_asked_for_is_another_one_each_time_and_below_data():
    names = {probes.unused_name() for _ in range(100)}
    assert len(names) == 100
    assert all(re.fullmatch(r"data/lakegc-probe-[0-9a-f]{16}/[0-9a-f]{16}", name) for name in names)


def test_an_object_is_written_read_and_taken_away_again(local):
    before = held(local)
    probes.write_read_delete(local)
    assert held(local) == before


class _Keeping(LocalStore):
    def delete(self, keys):
        return [DeleteOutcome(key, "refused", "AccessDenied") for key in keys]


class _Caching(LocalStore):
    def read(self, key):
        return b"what was there before"


def test_a_store_that_does_not_let_lakegc_delete_its_own_objects_is_told(local):
    with pytest.raises(
        PermissionDeniedError,
        match=r"was written and read, and the store does not delete it \(AccessD",
    ):
        probes.write_read_delete(_Keeping(local.namespace, local.options))


def test_a_store_that_shows_something_else_than_was_written_is_told(local):
    with pytest.raises(TransientError, match="reading it gave something else"):
        probes.write_read_delete(_Caching(local.namespace, local.options))


class _Late(LocalStore):
    """A store whose clock stands two hours back."""

    def head(self, key):
        found = super().head(key)
        return type(found)(
            found.key, found.size_bytes, datetime.now(UTC) - timedelta(hours=2), found.checksum
        )


def test_the_clock_of_a_store_is_read_off_one_object_of_lakegcs_own(local):
    assert probes.read_clock(local).skew == timedelta(0)
    probes.read_clock(local)
    assert held(local) == ["_lakefs/retention/gc/probe/clock", "data/s1/x", "data/s2/y"]


def test_a_store_whose_clock_is_late_is_told_so(local):
    reading = probes.read_clock(_Late(local.namespace, local.options))
    assert reading.further_than(MAX_CLOCK_SKEW)
    assert re.fullmatch(r"is (1:59:5\d|2:00:0\d) behind this machine's", str(reading))


def test_a_bucket_with_versions_holds_no_more_of_them_after_it_was_asked(s3_server):
    bucket, client = s3_server.bucket(), s3_server.client()
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    client.put_object(Bucket=bucket, Key="ns/data/s/x", Body=b"x")
    before = client.list_object_versions(Bucket=bucket)
    probes.require_deletable(open_store(Namespace.parse(f"s3://{bucket}/ns"), s3_server.options()))
    after = client.list_object_versions(Bucket=bucket)
    assert after.get("DeleteMarkers", []) == []
    assert after["Versions"] == before["Versions"]
