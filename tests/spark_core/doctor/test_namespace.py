"""A storage namespace by itself: whose it was, what lies there, and who collects it."""

import pytest

from spark_core.doctor import ExaminedNamespace, examine_namespace
from spark_core.errors import SettingsError
from spark_core.run import Storage
from spark_core.storage import StoreOptions
from tests.support.passing_mark import passing_mark
from tests.support.small_lakefs import SmallLakeFS
from tests.support.written_run import written_run


@pytest.fixture
def lakefs():
    with SmallLakeFS({"other": "local://other"}) as server:
        server.blockstore_type = "local"
        yield server


@pytest.fixture
def old(tmp_path):
    """The storage of a repository that lakegc marked, and that is gone."""
    run = written_run(tmp_path, spark=None).run
    passing_mark(run)
    run.store.put("data/s/x", b"1234")
    run.store.put("data/s/y", b"1234")
    run.store.put("_lakefs/" + "0" * 64, b"1")
    run.store.put("stray", b"12")
    return run


def _found(lakefs, folder, uri="local://repo"):
    place = ExaminedNamespace(uri, lakefs.options, Storage(StoreOptions(local_path=str(folder))))
    return {finding.name: finding for finding in examine_namespace(place)}


def test_storage_of_a_deleted_repository_is_collected_by_nobody(old, lakefs, tmp_path):
    before = {key for batch in old.store.list("") for key in batch["key"].to_pylist()}
    found = _found(lakefs, tmp_path)
    assert found["repositories there"].figures == {"repositories": [], "seen": 1}
    assert found["whose it was"].figures["repository"] == "repo"
    lies = found["what lies there"]
    assert lies.figures["data/"] == [2, 8]
    assert lies.figures["other"] == [1, 2]
    assert "2 objects of data/ (8 bytes); " in lies.found
    assert "1 table of lakeFS (1 byte" in lies.found
    assert found["collected"].passed is False
    assert "by nobody" in found["collected"].found
    assert "delete it with the store's own tools" in found["collected"].next_step
    assert before == {key for batch in old.store.list("") for key in batch["key"].to_pylist()}


@pytest.mark.parametrize("is_there", [True, False])
def test_of_an_empty_or_misspelt_place_nobody_is_told_to_delete_it(lakefs, tmp_path, is_there):
    if is_there:
        (tmp_path / "rpeo").mkdir()
    found = _found(lakefs, tmp_path, "local://rpeo")["collected"]
    assert found.passed is None
    assert found.found.startswith("nothing is known to lie there")
    assert "delete it" not in found.next_step


@pytest.mark.parametrize("uri", ["local://other", "local://other/inner"])
def test_where_a_repository_lives_it_is_named(lakefs, tmp_path, uri):
    (tmp_path / uri.removeprefix("local://")).mkdir(parents=True)
    found = _found(lakefs, tmp_path, uri)
    assert found["repositories there"].figures["repositories"] == ["other"]
    assert found["collected"].passed
    assert found["what lies there"].found == "nothing"
    assert found["repositories there"].found == (
        "it and other (local://other) share a storage namespace"
    )


def test_a_repository_whose_namespace_can_be_read_in_two_ways_was_taken_for_nobody(
    old, lakefs, tmp_path
):
    lakefs.namespaces["odd"] = "local://re%70o"
    found = _found(lakefs, tmp_path)
    assert found["repositories there"].figures == {"repositories": ["odd"], "seen": 2}
    assert found["repositories there"].found == (
        "it and odd (local://re%70o) may share a storage namespace, as one reading of the second "
        "is 'local://repo'"
    )
    assert found["collected"].passed
    assert "delete it" not in (found["collected"].next_step or "")


def test_a_repository_that_lakegc_never_marked_is_told_by_its_marker(lakefs, tmp_path):
    (tmp_path / "repo/_lakefs").mkdir(parents=True)
    (tmp_path / "repo/_lakefs/dummy").write_bytes(b"")
    assert "its name stands nowhere" in _found(lakefs, tmp_path)["whose it was"].found


def test_without_the_server_nobody_says_that_nothing_collects_it(old, tmp_path):
    def no_keys():
        raise SettingsError("no keys", "Set some.")

    place = ExaminedNamespace(
        "local://repo", no_keys, Storage(StoreOptions(local_path=str(tmp_path)))
    )
    found = {finding.name: finding for finding in examine_namespace(place)}
    assert found["repositories there"].passed is False
    assert found["collected"].passed is None
    assert found["whose it was"].figures["run"] == str(old.key)


@pytest.mark.parametrize("uri", ["ftp://host/path", "s3a://bucket/other", "other"])
def test_of_a_form_that_is_not_known_nobody_says_that_nothing_lives_there(lakefs, tmp_path, uri):
    found = _found(lakefs, tmp_path, uri)
    assert found["repositories there"].passed is False
    assert found["what lies there"].passed is False
    assert found["collected"].passed is None
    assert not found["collected"].next_step
