"""Objects: what a person uploads, lists, reads, copies and deletes."""

from __future__ import annotations

import hashlib

import lakefs_sdk
import pytest
from lakefs_sdk.exceptions import ApiException, NotFoundException


@pytest.fixture
def repository(sdk):
    sdk.create("demo")
    return "demo"


def _paths(listing):
    return [row.path for row in listing.results]


def test_an_upload_lies_in_a_slice_under_data_and_reads_back(sdk, sandbox, repository):
    stat = sdk.upload(repository, "main", "a/b", b"hello")
    prefix, _, key = stat.physical_address.partition("/demo/")
    assert prefix == f"local://{sandbox.blockstore}"
    kind, slice_id, name = key.split("/")
    assert (kind, len(slice_id), len(name)) == ("data", 20, 20)
    assert (sandbox.blockstore / "demo" / key).read_bytes() == b"hello"
    assert stat.checksum == hashlib.md5(b"hello").hexdigest()
    assert sdk.objects.get_object(repository, "main", "a/b") == b"hello"


def test_an_empty_object_is_an_object(sdk, repository):
    sdk.upload(repository, "main", "empty", b"")
    assert sdk.objects.stat_object(repository, "main", "empty").size_bytes == 0
    assert sdk.objects.get_object(repository, "main", "empty") == b""


def test_a_staged_change_shows_on_the_branch_and_not_in_its_commit(sdk, repository):
    sdk.upload(repository, "main", "a", b"1")
    sdk.commit(repository, "main")
    sdk.upload(repository, "main", "a", b"2")
    sdk.upload(repository, "main", "b", b"3")
    assert sdk.objects.get_object(repository, "main", "a") == b"2"
    assert sdk.objects.get_object(repository, "main@", "a") == b"1"
    assert _paths(sdk.objects.list_objects(repository, "main")) == ["a", "b"]
    assert _paths(sdk.objects.list_objects(repository, "main@")) == ["a"]
    diff = sdk.branches.diff_branch(repository, "main").results
    assert [(row.type, row.path) for row in diff] == [("changed", "a"), ("added", "b")]


def test_a_deleted_path_is_gone_and_its_object_stays(sdk, sandbox, repository):
    stat = sdk.upload(repository, "main", "a", b"1")
    sdk.commit(repository, "main")
    sdk.objects.delete_object(repository, "main", "a")
    with pytest.raises(NotFoundException, match="not found"):
        sdk.objects.get_object(repository, "main", "a")
    sdk.commit(repository, "main")
    file = sandbox.blockstore / "demo" / stat.physical_address.partition("/demo/")[2]
    assert file.read_bytes() == b"1"
    assert sdk.objects.get_object(repository, "main~1", "a") == b"1"


def test_an_object_gone_from_the_store_answers_410_while_stat_still_answers(
    sdk, sandbox, repository
):
    stat = sdk.upload(repository, "main", "a", b"1")
    (sandbox.blockstore / "demo" / stat.physical_address.partition("/demo/")[2]).unlink()
    with pytest.raises(ApiException) as gone:
        sdk.objects.get_object(repository, "main", "a")
    assert gone.value.status == 410
    assert '{"message":"No data"}' in str(gone.value.body)
    assert sdk.objects.stat_object(repository, "main", "a").path == "a"


def test_a_listing_goes_on_after_a_path(sdk, repository):
    for path in ["a", "b/1", "b0", "d"]:
        sdk.upload(repository, "main", path, b"x")
    sdk.commit(repository, "main")
    first = sdk.objects.list_objects(repository, "main", amount=2)
    assert (_paths(first), first.pagination.has_more, first.pagination.next_offset) == (
        ["a", "b/1"],
        True,
        "b/1",
    )
    rest = sdk.objects.list_objects(repository, "main", amount=5, after="b/1")
    assert (_paths(rest), rest.pagination.has_more) == (["b0", "d"], False)


def test_a_copy_is_a_new_object(sdk, repository):
    source = sdk.upload(repository, "main", "a", b"1")
    copied = sdk.objects.copy_object(
        repository, "main", "b", lakefs_sdk.ObjectCopyCreation(src_path="a")
    )
    assert copied.physical_address != source.physical_address
    assert sdk.objects.get_object(repository, "main", "b") == b"1"


def test_deleting_an_absent_path_is_no_error(sdk, repository):
    sdk.upload(repository, "main", "b", b"x")
    sdk.objects.delete_object(repository, "main", "none")
    assert _paths(sdk.objects.list_objects(repository, "main")) == ["b"]


@pytest.mark.parametrize(
    "path",
    [
        "a//b",
        "dir/",
        "../up",
        "..",
        "/leading",
        "nul\0byte",
        "new\nline",
        "caf\u00e9",
        "\U0001f600",
    ],
)
def test_an_odd_path_is_kept_as_it_is(sdk, repository, path):
    sdk.upload(repository, "main", path, path.encode())
    sdk.commit(repository, "main")
    assert _paths(sdk.objects.list_objects(repository, "main")) == [path]
    assert sdk.objects.get_object(repository, "main", path) == path.encode()


def test_a_path_of_1025_characters_is_refused(sdk, repository):
    sdk.upload(repository, "main", "p" * 1024, b"x")
    with pytest.raises(ApiException, match="1025 is above maximum length"):
        sdk.upload(repository, "main", "p" * 1025, b"x")
