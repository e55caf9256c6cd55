"""Staged changes in all their forms: twins, linked addresses, resets."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import lakefs_sdk
import pytest
from lakefs_sdk.exceptions import ApiException, BadRequestException, ForbiddenException


@pytest.fixture
def repository(sdk):
    sdk.create("demo")
    sdk.upload("demo", "main", "p", b"same")
    sdk.commit("demo", "main")
    return "demo"


def _diff(sdk, repository, branch="main"):
    return [(row.type, row.path) for row in sdk.branches.diff_branch(repository, branch).results]


def _file(stat):
    return Path(stat.physical_address.removeprefix("local://"))


def _location(page):
    return page.gc_uncommitted_location


def test_a_twin_is_in_no_diff_and_in_no_page_and_yet_the_branch_reads_it(sdk, repository):
    committed = sdk.objects.stat_object(repository, "main", "p")
    twin = sdk.upload(repository, "main", "p", b"same")
    assert twin.physical_address != committed.physical_address
    assert _diff(sdk, repository) == []
    assert _location(sdk.internal.prepare_garbage_collection_uncommitted(repository)) == ""
    with pytest.raises(BadRequestException, match="commit: no changes"):
        sdk.commit(repository, "main")
    assert (
        sdk.objects.stat_object(repository, "main", "p").physical_address == twin.physical_address
    )
    assert (
        sdk.objects.stat_object(repository, "main@", "p").physical_address
        == committed.physical_address
    )
    _file(twin).unlink()
    with pytest.raises(ApiException) as gone:
        sdk.objects.get_object(repository, "main", "p")
    assert gone.value.status == 410
    assert sdk.objects.get_object(repository, "main@", "p") == b"same"
    sdk.upload(repository, "main", "other", b"change")
    sdk.commit(repository, "main")
    assert sdk.objects.get_object(repository, "main", "p") == b"same"
    assert (
        sdk.objects.stat_object(repository, "main", "p").physical_address
        == committed.physical_address
    )


def test_the_same_bytes_of_another_type_are_a_change(sdk, repository):
    sdk.raw(
        "POST",
        f"/repositories/{repository}/branches/main/objects?path=p",
        body=b"same",
        headers={"Content-Type": "text/plain"},
    )
    assert _diff(sdk, repository) == [("changed", "p")]


def test_a_linked_object_is_stored_whole_left_out_of_the_pages_and_readable(
    sdk, sandbox, repository
):
    staging = sdk.staging.get_physical_address(repository, "main", "linked")
    address = staging.physical_address.removeprefix("local://")
    name, _, signature = address.rpartition("/")[2].partition(",")
    assert (len(name), len(signature)) == (20, 43)
    Path(address).write_bytes(b"linked")
    body = lakefs_sdk.StagingMetadata(staging=staging, checksum='"abc"', size_bytes=6)
    linked = sdk.staging.link_physical_address(repository, "main", "linked", body)
    assert (linked.checksum, linked.physical_address) == ("abc", staging.physical_address)
    assert sdk.objects.get_object(repository, "main", "linked") == b"linked"
    shown = sdk.objects.stat_object(repository, "main", "linked").physical_address
    assert shown == f"local://{sandbox.blockstore}{address}"
    assert _location(sdk.internal.prepare_garbage_collection_uncommitted(repository)) == ""
    assert _diff(sdk, repository) == [("added", "linked")]
    commit = sdk.commit(repository, "main")
    core = sandbox.core
    entry = core.trees.get("local://demo", commit.meta_range_id, b"linked")
    assert (entry.address, entry.address_type) == (staging.physical_address, 2)
    assert sdk.objects.get_object(repository, "main@", "linked") == b"linked"


def test_an_address_in_the_namespaces_own_form_is_relative_and_must_be_signed(
    sdk, sandbox, repository
):
    signed = sdk.staging.get_physical_address(repository, "main", "x").physical_address
    own_form = "local://demo/" + signed.partition("/demo/")[2]

    def link(address, path="x", branch="main"):
        staging = lakefs_sdk.StagingLocation(physical_address=address)
        body = lakefs_sdk.StagingMetadata(staging=staging, checksum="c", size_bytes=1)
        return sdk.staging.link_physical_address(repository, branch, path, body)

    with pytest.raises(BadRequestException, match="invalid address signature"):
        link(own_form, path="another")
    with pytest.raises(BadRequestException, match="address is not signed"):
        link(own_form.partition(",")[0])
    link(own_form)
    assert (
        sandbox.core.state.staged(
            sandbox.core.repository("demo").number, "main", b"x"
        ).entry.address_type
        == 1
    )
    sandbox.clock.advance(timedelta(hours=24, seconds=2))
    with pytest.raises(BadRequestException, match="link address expired"):
        link(own_form)


@pytest.mark.parametrize(
    ("address", "status", "message"),
    [
        ("s3://bucket/key", 400, "physical address is not valid for block adapter: local"),
        ("data/relative", 500, "could not parse URI"),
    ],
)
def test_an_address_of_another_store_is_refused(sdk, repository, address, status, message):
    body = lakefs_sdk.ObjectStageCreation(physical_address=address, checksum="c", size_bytes=1)
    with pytest.raises(ApiException, match=message) as refused:
        sdk.internal.stage_object(repository, "main", "x", body)
    assert refused.value.status == status


def test_an_object_outside_the_blockstore_is_never_read(sdk, sandbox, repository, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"not for you")
    for address in (f"local://{secret}", "local://demo/../../secret"):
        body = lakefs_sdk.ObjectStageCreation(physical_address=address, checksum="c", size_bytes=1)
        sdk.internal.stage_object(repository, "main", "x", body)
        with pytest.raises(ForbiddenException, match="forbidden"):
            sdk.objects.get_object(repository, "main", "x")


@pytest.mark.parametrize(
    ("kind", "path", "left"),
    [
        ("reset", None, []),
        ("object", "d/1", [("added", "d/2"), ("added", "e"), ("removed", "p")]),
        ("common_prefix", "d/", [("added", "e"), ("removed", "p")]),
    ],
)
def test_a_reset_forgets_staged_changes_and_leaves_their_objects(sdk, repository, kind, path, left):
    stats = [sdk.upload(repository, "main", name, b"x") for name in ("d/1", "d/2", "e")]
    sdk.objects.delete_object(repository, "main", "p")
    sdk.branches.reset_branch(repository, "main", lakefs_sdk.ResetCreation(type=kind, path=path))
    assert _diff(sdk, repository) == left
    assert all(_file(stat).exists() for stat in stats)


@pytest.mark.parametrize(("kind", "path"), [("object", "p"), ("common_prefix", "p")])
def test_a_reset_of_a_path_leaves_identical_content_and_stages_the_committed_entry_over_another_one(
    sdk, repository, kind, path
):
    """As the server's `resetKey`: a twin does not differ, and what differs is overwritten with the
    old address.
    """
    committed = sdk.objects.stat_object(repository, "main", "p")
    content = sdk.objects.get_object(repository, "main", "p")
    twin = sdk.upload(repository, "main", "p", content)
    reset = lakefs_sdk.ResetCreation(type=kind, path=path)
    sdk.branches.reset_branch(repository, "main", reset)
    assert (
        sdk.objects.stat_object(repository, "main", "p").physical_address == twin.physical_address
    )
    sdk.upload(repository, "main", "p", b"another content")
    sdk.branches.reset_branch(repository, "main", reset)
    assert (
        sdk.objects.stat_object(repository, "main", "p").physical_address
        == committed.physical_address
    )
    assert _diff(sdk, repository) == []
    # It is still staged: it stays when the head moves to a commit with another entry.
    first = sdk.commits.commit(
        repository, "main", lakefs_sdk.CommitCreation(message="empty", allow_empty=True)
    )
    assert first.id


def test_a_table_of_equal_content_is_put_again_with_a_new_date(sdk, sandbox, repository):
    """A metarange's date is that of its last writing, by any branch."""
    head = (
        sdk.repositories.get_repository(repository)
        and sdk.refs.log_commits(repository, "main").results[0]
    )
    file = next(sandbox.blockstore.glob(f"**/_lakefs/{head.meta_range_id}"))
    before = file.stat().st_mtime
    sandbox.clock.advance(timedelta(days=3))
    sdk.commits.commit(
        repository, "main", lakefs_sdk.CommitCreation(message="empty", allow_empty=True)
    )
    assert file.stat().st_mtime == pytest.approx(before + 3 * 86_400, abs=60)


def test_a_page_of_differences_goes_on_after_a_path(sdk, repository):
    for path in ("d/1", "d/2", "e", "f"):
        sdk.upload(repository, "main", path, b"x")
    first = sdk.branches.diff_branch(repository, "main", amount=3)
    rest = sdk.branches.diff_branch(repository, "main", after=first.pagination.next_offset)
    assert [row.path for row in first.results + rest.results] == ["d/1", "d/2", "e", "f"]
