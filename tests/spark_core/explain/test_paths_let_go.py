"""What a path names, by the explanations of stored runs; no Spark, no server."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest

from spark_core.errors import AddressError, NotFoundError
from spark_core.explain import addresses_of_path, deleted_addresses, not_on_record
from spark_core.lakefs.answer_types import EntriesPage
from spark_core.model import Branch, RunKey
from spark_core.records import tables
from tests.support.written_run import NOW, OLD, Written, written_run

PATH = "lakefs://repo/main/tables/one"


class Server(SimpleNamespace):
    """A server whose every ref has these entries: path -> physical address."""

    url = "http://127.0.0.1:9"

    def list_entries(self, _repository, ref, *, after):
        assert after
        if ref not in {"main", "feature-1"}:
            raise NotFoundError("HTTP 404", "Look.")
        return EntriesPage(tuple(self.entries.items()), has_more=False)

    def branches(self, _repository):
        return [Branch("main", "c"), Branch("feature-1", "c")]

    def tags(self, _repository):
        return []


@pytest.fixture
def server():
    return Server(entries={})


@pytest.fixture
def run(tmp_path, server):
    run = written_run(tmp_path, None).run
    return replace(run, environment=replace(run.environment, server=server))


def swept(run, days, explained, *, unexplained=()):
    """Let an earlier run have swept objects.

    `explained` is address -> path, or path and number of other paths; None for no explanations.
    """
    then = run.at(RunKey.at(NOW - timedelta(days=days)))
    written = Written(then)
    gone = [*(explained or {}), *unexplained]
    listed = dict.fromkeys(gone, (4, OLD))
    written.mark(listed, expired=dict.fromkeys(gone, "in no commit"))
    if explained is not None:
        rows = [
            {
                "address": address,
                "path": path,
                "other_paths": others,
                "commit_id": "c" * 64,
                "committed_at": OLD,
                "branch": "main",
                "replaced_at": OLD,
                "retention_days": 1,
                "explanation": "",
            }
            for address, (path, others) in explained.items()
        ]
        written._keep(tables.EXPLANATIONS, rows)
    written.sweep(dict.fromkeys(gone, (4, "deleted", None)))
    return replace(then, known={})


def prune(run, *specs):
    """Take the parts of tables away, as house-keeping does."""
    for spec in specs:
        run.store.delete([part.key for part in run.load(spec).manifest.parts])
    run.known.clear()


def damage(run):
    (part,) = run.load(tables.EXPLANATIONS).manifest.parts
    run.store.put(part.key, b"damaged")


@pytest.mark.parametrize("harm", [lambda run: prune(run, tables.EXPLANATIONS), damage])
def test_a_path_is_found_among_other_runs_where_one_has_no_explanations_left(run, server, harm):
    swept(run, 1, {"data/s/a": ("tables/one", 0)})
    harm(swept(run, 2, {"data/s/b": ("tables/one", 0)}))
    assert addresses_of_path(run, PATH) == (["data/s/a"], "")
    server.entries = {"tables/one": "local://repo/data/s/c"}
    assert addresses_of_path(run, PATH) == (["data/s/c", "data/s/a"], "")
    server.entries = {}
    with pytest.raises(
        NotFoundError, match="as far as is known: the explanations of 1 runs are pruned or damaged"
    ):
        addresses_of_path(run, "lakefs://repo/main/never")


def test_a_path_that_nobody_knows_is_refused_without_a_word_of_pruned_runs(run):
    swept(run, 1, {"data/s/a": ("tables/one", 0)})
    with pytest.raises(NotFoundError, match=r"no such path, and no stored run let .* go\. Ask by"):
        addresses_of_path(run, "lakefs://repo/main/never")


@pytest.mark.parametrize("wanted", [PATH, "lakefs://repo/main/tables/"])
def test_a_restore_by_path_from_a_pruned_run_says_so_and_the_way_on(run, wanted):
    then = swept(run, 1, {"data/s/a": ("tables/one", 0)})
    prune(then, tables.EXPLANATIONS, tables.EXPIRED_ADDRESSES)
    with pytest.raises(
        NotFoundError, match=rf"{then.key} are pruned \(`keep_runs`\).*reports/run_id={then.key}/"
    ):
        deleted_addresses(then, wanted)


def test_what_a_ref_has_is_found_in_the_deletion_report_of_a_pruned_run(run, server):
    then = swept(run, 1, {"data/s/a": ("tables/one", 0)})
    prune(then, tables.EXPLANATIONS, tables.EXPIRED_ADDRESSES)
    server.entries = {"tables/one": "local://repo/data/s/a"}
    assert deleted_addresses(then, PATH) == ["data/s/a"]


def test_a_restore_by_a_path_of_no_ref_names_the_ref_that_is_not_there(run):
    then = swept(run, 1, {"data/s/a": ("tables/one", 0)})
    assert deleted_addresses(then, "lakefs://repo/gone/tables/one") == ["data/s/a"]
    with pytest.raises(
        NotFoundError, match=r"has no branch, tag or commit mian\. Did you mean main"
    ):
        deleted_addresses(then, "lakefs://repo/mian/tables/two")


def test_a_run_without_explanations_does_not_claim_that_it_let_nothing_go(run):
    with pytest.raises(NotFoundError, match="was explained there") as unexplained:
        deleted_addresses(swept(run, 1, None, unexplained=["data/s/a"]), PATH)
    assert "let nothing go" not in str(unexplained.value)
    damaged = swept(run, 2, {"data/s/a": ("tables/one", 0)})
    damaged.store.put(tables.manifest_key(tables.EXPLANATIONS, damaged.key), b"{")
    with pytest.raises(NotFoundError, match=r"cannot be read \(.*_manifest.json"):
        deleted_addresses(damaged, PATH)


def test_an_import_in_its_place_does_not_hide_what_a_path_was(run, server):
    then = swept(run, 1, {"data/s/a": ("tables/one", 0)})
    server.entries = {
        "tables/one": "local://elsewhere/one",
        "tables/two": "local://elsewhere/two",
    }
    assert deleted_addresses(then, PATH) == ["data/s/a"]
    assert addresses_of_path(run, PATH) == (["data/s/a"], "")
    with pytest.raises(AddressError, match="it is imported or linked"):
        addresses_of_path(run, "lakefs://repo/main/tables/two")


def test_a_folder_tells_of_what_no_path_on_record_leads_to(run):
    explained = {
        "data/s/a": ("tables/one", 3),
        "data/s/b": ("other/two", 1),
        "data/s/c": ("other/three", 0),
    }
    then = swept(run, 1, explained, unexplained=["data/s/d", "data/s/e"])
    folder = "lakefs://repo/main/tables/"
    assert deleted_addresses(then, folder) == ["data/s/a"]
    assert not_on_record(then, folder) == (
        f"2 objects that run {then.key} let go have no path on record, and 1 object that it let go "
        "also had other paths, and its last one is in another folder; without --address "
        "everything that it deleted comes back"
    )
    for one in (PATH, "data/s/a"):
        assert not_on_record(then, one) == ""
    with pytest.raises(NotFoundError, match="below that folder; 2 objects that run"):
        deleted_addresses(then, "lakefs://repo/main/never/")
    known = swept(run, 2, {"data/s/a": ("tables/one", 0)})
    assert not_on_record(known, folder) == ""


MISTYPED = "lakefs://repo/mian/tables/one"


def test_a_mistyped_branch_is_told(run):
    with pytest.raises(NotFoundError, match="repo has no branch, tag or commit mian") as raised:
        addresses_of_path(run, MISTYPED)
    assert raised.value.next_step == "Did you mean main?"
    assert "no branch has such a path, and no stored run let" in raised.value.found
    with pytest.raises(NotFoundError, match=r"There are: feature-1, main\."):
        addresses_of_path(run, "lakefs://repo/zzz/tables/one")


def test_a_mistyped_branch_is_told_before_what_is_known_of_the_path_elsewhere(run, server):
    swept(run, 1, {"data/s/a": ("tables/one", 0)})
    said = "repo has no branch, tag or commit mian. Did you mean main? What follows is known of "
    assert addresses_of_path(run, MISTYPED) == (
        ["data/s/a"],
        f"{said}tables/one elsewhere; it is shown now by no branch.",
    )
    server.entries = {"tables/one": "local://repo/data/s/c"}
    assert addresses_of_path(run, MISTYPED) == (
        ["data/s/c", "data/s/a"],
        f"{said}tables/one elsewhere; it is shown now by main, feature-1.",
    )
