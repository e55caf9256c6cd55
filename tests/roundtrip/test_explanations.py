"""What a mark says of an object that may go, and what `explain` says, as the story tells it."""

import re
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from lakegc_dagster.sandbox import gc, history, objects, refs, repositories
from spark_core import holds, mark, schemas
from spark_core.addresses.namespace import slice_of
from spark_core.certificate.issue import certificate
from spark_core.checks import confirming
from spark_core.errors import AddressError, NotFoundError, SettingsError
from spark_core.explain import (
    address_of,
    addresses_of_path,
    deleted_addresses,
    explain,
    explain_each,
    instant_in_words,
    let_go_under,
    what_if,
)
from spark_core.fates import WhyMayGo
from spark_core.index.choosing import slice_seconds
from spark_core.mark import group_sums
from spark_core.records import tables
from spark_core.records.figures import ExpiredFigures, ListedFigures
from spark_core.records.writing import Draft
from spark_core.run.chain import Mark
from spark_core.spark import placement
from spark_core.undo import restore
from tests.support.pipeline import mark_and_conclude, mark_only, sweep_only
from tests.support.sandbox_runs import open_sandbox_run
from tests.support.stored_rows import rows_of

pytestmark = pytest.mark.spark

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)


@pytest.fixture
def story(sandbox):
    told = history.documents_history(sandbox, "repo", now=NOW)
    sandbox.clock.set(NOW + timedelta(seconds=1))
    return told


@pytest.fixture
def marked(made_once, spark):
    """The story, and a run that has marked it."""

    def mark_it(sandbox):
        told = history.documents_history(sandbox, "repo", now=NOW)
        mark_and_conclude(open_sandbox_run(sandbox, "repo", spark, NOW))
        return told

    with made_once.begun("marked-documents", mark_it) as (sandbox, told):
        sandbox.clock.set(NOW + timedelta(seconds=1))
        yield told, open_sandbox_run(sandbox, "repo", spark, NOW)


def _explanations(run):
    rows = run.load(tables.EXPLANATIONS).batches()
    return {row["address"]: row for batch in rows for row in batch.to_pylist()}


@pytest.mark.parametrize(
    "is_small",
    [
        pytest.param(True, id="on the driver"),
        pytest.param(False, id="by tasks", marks=pytest.mark.deep),
    ],
)
def test_each_object_is_explained_by_the_last_commit_that_had_it(
    sandbox, spark, story, monkeypatch, is_small
):
    if not is_small:
        monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 0)
    run = open_sandbox_run(sandbox, "repo", spark, NOW)
    marked = mark_only(run)
    found = _explanations(run)
    committed = [file for file in story.deleted if file.ref is not None]
    labels = {commit.label: commit.id for commit in story.commits}
    # The story names the first commit that had an object, and these were in a later one, too.
    later = {
        "d_0316": labels["d: 2022-03-20"],
        "d_deleted": labels["d: 2022-03-16"],
        "d_overwritten": labels["d: 2022-03-16"],
    }
    assert {address: (row["path"], row["commit_id"]) for address, row in found.items()} == {
        file.address: (file.path, later.get(file.path, file.ref)) for file in committed
    }
    assert marked.expired.manifest.facts["explained_objects"] == len(committed)
    days = {
        file.address: re.search(r"(?:overwritten|deleted) on (\w+) (\d+) days ago", file.reason)
        for file in committed
    }
    dated = {address: match for address, match in days.items() if match}
    assert len(dated) > 20
    for address, match in dated.items():
        gone = f"replaced or removed on {match[1]} {match[2]} days before the mark"
        wanted = f"{gone}, and {match[1]} keeps"
        assert wanted in found[address]["explanation"]
    trials = [row for row in found.values() if row["path"].startswith("trials/")]
    assert trials
    assert all("which no branch leads to" in row["explanation"] for row in trials)
    named = {row[1]: row[3] for row in marked.expired.manifest.facts["largest"]}
    explained = {address for address in named if address in found}
    assert explained
    assert all(named[address] == found[address]["explanation"] for address in explained)
    parts = marked.expired.batches(["address", "size_bytes"])
    sizes = {row["address"]: row["size_bytes"] for part in parts for row in part.to_pylist()}
    for figure, name_of in (
        ("explained_by_prefix", lambda row: re.match("([^/]*/)?", row["path"])[0] or "(no folder)"),
        ("explained_by_branch", lambda row: row["branch"] or "(no branch)"),
    ):
        wanted = defaultdict(list)
        for address, row in found.items():
            wanted[name_of(row)].append(sizes[address])
        groups = marked.expired.manifest.facts[figure]
        assert sum(objects for _, objects, _ in groups) == len(found)
        named = [tuple(group) for group in groups if group[0] != group_sums.OTHERS]
        assert named == [(name, len(wanted[name]), sum(wanted[name])) for name, *_ in named]
        assert len(named) == min(len(wanted), group_sums.TOP)


@pytest.mark.parametrize("words", ["off", pytest.param("short", marks=pytest.mark.deep)])
def test_shorter_words_change_reasons_and_no_object(sandbox, spark, story, words):
    run = open_sandbox_run(sandbox, "repo", spark, NOW, explain=words)
    expired = mark_only(run).expired
    reasons = {row.address: row.reason for row in rows_of(expired)}
    assert set(reasons) == {file.address for file in story.deleted}
    assert not run.store.exists(tables.manifest_key(tables.EXPLANATIONS, run.key))
    assert (WhyMayGo.ONLY_EXPIRED_COMMITS in reasons.values()) == (words == "short")
    assert (WhyMayGo.NEVER_COMMITTED in reasons.values()) == (words == "short")


def test_an_object_of_several_paths_is_told_once_with_its_last_commit(sandbox, spark):
    core = sandbox.core
    with core.lock, sandbox.clock.at(NOW - timedelta(days=40)):
        repositories.create(core, "repo", "local://repo")
        gc.set_rules(core, "repo", gc.Rules(3, {}))
        shared = objects.upload(core, "repo", "main", "one", b"shared")
        refs.commit(core, "repo", "main", message="first")
    with core.lock, sandbox.clock.at(NOW - timedelta(days=30)):
        objects.stage(
            core,
            "repo",
            "main",
            "two",
            physical_address=f"local://repo/{shared.address}",
            checksum=shared.checksum,
            size_bytes=shared.size_bytes,
            link=False,
        )
        last = refs.commit(core, "repo", "main", message="second")
    with core.lock, sandbox.clock.at(NOW - timedelta(days=20)):
        objects.delete(core, "repo", "main", ["one", "two"])
        objects.upload(core, "repo", "main", "three", b"other")
        refs.commit(core, "repo", "main", message="third")
    with core.lock, sandbox.clock.at(NOW - timedelta(days=10)):
        objects.upload(core, "repo", "main", "four", b"newer")
        refs.commit(core, "repo", "main", message="fourth")
    run = open_sandbox_run(sandbox, "repo", spark, NOW, max_expired_share=1)
    marked = mark_only(run)
    assert marked.addresses(run) == [shared.address]
    (row,) = _explanations(run).values()
    assert row["address"] == shared.address
    assert (row["path"], row["other_paths"], row["commit_id"]) == ("one", 1, last.id)
    assert row["replaced_at"] == NOW - timedelta(days=20)
    assert (row["branch"], row["retention_days"]) == ("main", 3)


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_is_held")
def test_explain_tells_why_each_object_of_the_story_is_kept_or_went(
    sandbox, spark, story, monkeypatch
):
    run = open_sandbox_run(sandbox, "repo", spark, NOW)
    by_path = {(file.path, file.deleted): file for file in story.files}
    held = by_path["d_deleted", True]
    holds.add(run, "one", "address", held.address, who="ann", why="")
    mark_and_conclude(run)
    may_go = explain(run, by_path["d_0316", True].address)
    assert (may_go.state, may_go.reasons[1].text) == ("may go", "every check of the mark passed")
    sweep_only(run)

    readme = explain(run, address_of(run, "lakefs://repo/main/keep/readme"))
    assert readme.state == "kept"
    assert "head of" in readme.sentence
    assert {reason.kind for reason in readme.reasons} == {"commit"}
    listed = explain(run, by_path["f_0312", False].address)
    assert all(reason.until for reason in listed.reasons), "only commits within main's 21 days"
    latest = instant_in_words(max(one.until for one in listed.reasons))
    assert f"under the rules of that run it cannot go before {latest}" in listed.sentence
    assert [one.kind for one in explain(run, held.address).reasons] == ["held"]
    draft = explain(run, address_of(run, "lakefs://repo/main/inbox/draft"))
    assert [one.kind for one in draft.reasons] == ["staged"]
    young = explain(run, by_path["inbox/young", False].address)
    assert [one.kind for one in young.reasons] == ["young"]
    gone = explain(run, by_path["d_0316", True].address)
    assert gone.state == "deleted"
    assert f"run {run.key} deleted it" in gone.sentence
    assert "d_0316: replaced or removed on dev 8 days before the mark" in gone.sentence

    swept = {file.address for file in story.deleted} - {held.address}
    other_rules = what_if(run, [7])
    assert other_rules.swept[0] == len(swept), "what the sweep deleted is free already"
    assert other_rules.answers[1].objects < 5

    later = open_sandbox_run(sandbox, "repo", spark, NOW + timedelta(hours=1))
    mark_and_conclude(later)
    earlier = explain(later, by_path["d_0316", True].address)
    assert (earlier.state, earlier.run) == ("deleted", str(run.key))
    assert "d_0316: replaced or removed on dev 8 days before the mark" in earlier.sentence
    uncommitted = next(file.address for file in story.deleted if file.ref is None)
    assert "; in no commit, and not staged: " in explain(later, uncommitted).sentence
    assert explain(later, "data/never/was").state == "unknown"

    # A path that its branch has no longer is known to the run that let the object go.
    assert addresses_of_path(later, "lakefs://repo/main/d_0316") == ([gone.address], "")
    (now, before), _ = addresses_of_path(later, "lakefs://repo/main/features/00")
    assert (explain(run, now).state, explain(run, before).state) == ("kept", "deleted")
    experiment = [file.address for file in story.deleted if file.path.startswith("trials/")]
    assert sorted(let_go_under(run, "trials/")) == sorted(experiment)
    assert let_go_under(run, "trials") == []
    with pytest.raises(NotFoundError, match="no stored run let an object with that path go"):
        addresses_of_path(later, "lakefs://repo/main/never/was")

    # Executors read large explanations, and meet as the driver does that they were pruned.
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 0)
    assert sorted(let_go_under(run, "trials/")) == sorted(experiment)
    run.store.delete([part.key for part in run.load(tables.EXPLANATIONS).manifest.parts])
    pruned = explain(later, by_path["d_0316", True].address)
    assert pruned.sentence.endswith("; only in commits past their retention")
    with pytest.raises(NotFoundError, match="the explanations of 1 runs are pruned or damaged"):
        addresses_of_path(later, "lakefs://repo/main/d_0316")


@pytest.mark.slow
def test_an_optimized_run_explains_each_object_as_the_clean_one_before_it(sandbox, spark, story):
    first = open_sandbox_run(sandbox, "repo", spark, NOW, optimized=True)
    mark_and_conclude(first)
    sweep_only(first)
    sandbox.clock.set(NOW + timedelta(hours=1))
    later = open_sandbox_run(sandbox, "repo", spark, NOW + timedelta(hours=1), optimized=True)
    marked, _, _ = mark_and_conclude(later)
    index = ListedFigures.of(marked.tables.slices.manifest).index
    assert index.run == str(first.key)
    assert index.slices
    there = [file.address for file in story.files if not file.deleted]
    before = {one.address: one for one in explain_each(first, there)}
    for found in explain_each(later, there):
        assert found == replace(before[found.address], run=str(later.key))
    told = explain(later, story.deleted[0].address)
    assert (told.state, told.run) == ("deleted", str(first.key))
    assert explain(later, "data/never/was").state == "unknown"
    answers = [
        [(one.name, one.objects, one.size_bytes) for one in what_if(run, [7]).answers]
        for run in (first, later)
    ]
    assert answers[0] == answers[1]


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_is_held")
def test_an_object_that_an_optimized_run_let_go_is_explained_by_it(sandbox, spark, story):
    first = open_sandbox_run(sandbox, "repo", spark, NOW, optimized=True)
    mark_and_conclude(first)
    # Nobody swept it.
    sandbox.clock.set(NOW + timedelta(hours=1))
    later = open_sandbox_run(sandbox, "repo", spark, NOW + timedelta(hours=1), optimized=True)
    marked, _, _ = mark_and_conclude(later)
    listed = ListedFigures.of(marked.tables.slices.manifest)
    assert listed.index is not None, listed.why_full
    going = [file.address for file in story.deleted]
    assert {(one.state, one.run) for one in explain_each(later, going)} == {
        ("may go", str(later.key))
    }
    committed = {file.address: file.path for file in story.deleted if file.ref is not None}
    for found in explain_each(later, list(committed)):
        assert found.path == committed[found.address]
    sweep_only(later)
    saved = listed.index.saved
    assert certificate(later)["mark"] == {
        "kind": "optimized",
        "index": str(first.key),
        "saved": saved,
    }
    a_file = next(iter(committed))
    assert deleted_addresses(later, f"lakefs://repo/main/{committed[a_file]}") == [a_file]
    trials = {address for address, path in committed.items() if path.startswith("trials/")}
    assert set(deleted_addresses(later, "lakefs://repo/main/trials/")) == trials
    assert {(one.state, one.run) for one in explain_each(later, going)} == {
        ("deleted", str(later.key))
    }


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_is_held")
def test_what_the_index_has_and_the_store_has_not_is_said_to_be_gone(sandbox, spark, story):
    first = open_sandbox_run(sandbox, "repo", spark, NOW, optimized=True)
    mark_and_conclude(first)
    lost = min(story.deleted, key=lambda file: slice_seconds(slice_of(file.address))).address
    first.store.delete([lost])
    sandbox.clock.set(NOW + timedelta(hours=1))
    later = open_sandbox_run(sandbox, "repo", spark, NOW + timedelta(hours=1), optimized=True)
    mark_and_conclude(later)
    figures = ExpiredFigures.of(later.load(tables.EXPIRED_ADDRESSES).manifest)
    assert figures.vanished.objects == 1
    found = explain(later, lost)
    assert found.state == "gone"
    assert f"run {later.key} knew it from the index" in found.sentence


def test_objects_explained_together_are_explained_as_each_by_itself(marked):
    story, run = marked
    every = {file.address: file for file in story.files}
    found = dict(zip(every, explain_each(run, list(every)), strict=True))
    assert {address for address, one in found.items() if one.state == "may go"} == {
        file.address for file in story.deleted
    }
    for address, file in every.items():
        one = found[address]
        assert one.sentence.startswith(f"{one.state}: ")
        if one.path is not None:
            assert (one.path, bool(one.commit_id)) == (file.path, True)
            assert file.path not in one.rule
    several = [story.kept[0], story.deleted[0], story.deleted[-1]]
    assert [explain(run, file.address) for file in several] == [
        found[file.address] for file in several
    ]


def test_what_an_earlier_mark_found_staged_is_said_to_have_been_dropped_since(sandbox, spark):
    core = sandbox.core
    with core.lock, sandbox.clock.at(NOW - timedelta(days=9)):
        repositories.create(core, "repo", "local://repo")
        objects.upload(core, "repo", "main", "kept", b"kept")
        refs.commit(core, "repo", "main", message="first")
        dropped = objects.upload(core, "repo", "main", "dropped", b"dropped").address
    first = open_sandbox_run(sandbox, "repo", spark, NOW - timedelta(days=1))
    mark_only(first)
    with core.lock:
        objects.delete(core, "repo", "main", ["dropped"])
    second = open_sandbox_run(sandbox, "repo", spark, NOW)
    mark_only(second)
    assert f"run {first.key} found it staged, and since then no branch has it" in (
        explain(second, dropped).sentence
    )


@pytest.mark.deep
def test_a_mark_whose_words_were_short_at_first_goes_on_without_explanations(sandbox, spark, story):
    short = open_sandbox_run(sandbox, "repo", spark, NOW, explain="short")
    tables_made = mark_only(short).tables
    full = replace(short, options=replace(short.options, explain="full"))
    expired = full.keep(mark.expired_addresses(full, tables_made))
    assert expired.manifest.rows == len(story.deleted)
    assert expired.manifest.facts["explained_objects"] == 0


@pytest.mark.parametrize(
    "harm", [pytest.param("another table", marks=pytest.mark.deep), "a part is gone"]
)
@pytest.mark.usefixtures("nothing_is_held")
def test_where_the_expired_commits_are_not_those_of_the_mark_nothing_is_explained(
    sandbox, spark, story, harm
):
    run = open_sandbox_run(sandbox, "repo", spark, NOW)
    made = mark_only(run).tables
    stored = run.load(tables.EXPIRED_COMMITS)
    if harm == "another table":
        rows = schemas.EXPIRED_COMMITS.empty_table()
        run.keep(Draft(tables.EXPIRED_COMMITS, rows, NOW, parents=(made.uncommitted.manifest,)))
    else:
        run.store.delete([part.key for part in stored.manifest.parts])
        # As another process: this one remembers what it wrote.
        run.store.small_files.end()
    committed = run.keep(mark.committed_addresses(run, made.commits))
    again = Mark(made.slices, made.uncommitted, made.commits, committed)
    expired = run.keep(mark.expired_addresses(run, again))
    assert expired.manifest.rows == len(story.deleted)
    assert not committed.manifest.facts["expired_ranges_all"]
    reasons = {row.reason for row in rows_of(expired)}
    assert reasons == {WhyMayGo.UNREACHABLE}, "nobody says that no commit had an object"


@pytest.mark.deep
def test_an_explanation_follows_what_was_confirmed_held_killed_and_restored_since(
    sandbox, spark, story
):
    run = open_sandbox_run(
        sandbox, "repo", spark, NOW, max_expired_share=0.1, share_from_objects=1, quarantine=True
    )
    mark_and_conclude(run)
    address = next(file.address for file in story.deleted if file.path == "d_0316")
    refused = explain(run, address)
    assert "refused by expired_share_is_plausible" in refused.reasons[-1].text
    confirming.confirm(run, "expired_share_is_plausible", who="ann")
    assert explain(run, address).reasons[-1].text == "what the checks found is confirmed"
    holds.add(run, "late", "address", address, who="ann", why="")
    assert [one.kind for one in explain(run, address).reasons] == ["rule", "hold", "sweep"]
    holds.remove(run, "late")
    sweep_only(run)
    assert explain(run, address).state == "deleted"
    restore.restore(run, [address])
    back = explain(run, address)
    assert (back.state, "it is in the store again" in back.sentence) == ("kept", True)


def test_an_object_that_is_gone_without_a_report_is_not_said_to_be_there(marked):
    story, run = marked
    address = next(file.address for file in story.deleted if file.path == "d_0316")
    run.store.delete([address])
    told = explain(run, address)
    assert told.state == "gone"
    assert "no report says who deleted it" in told.sentence


def test_what_is_asked_about_is_found_by_address_or_path_or_refused(marked):
    story, run = marked
    address = next(file.address for file in story.files if file.path == "keep/readme")
    assert address_of(run, address) == address
    assert address_of(run, f"{run.namespace.root}{address}") == address
    assert address_of(run, "lakefs://repo/main/keep/readme") == address
    with pytest.raises(NotFoundError, match="main has no such path"):
        address_of(run, "lakefs://repo/main/keep")
    with pytest.raises(AddressError, match="outside the storage namespace"):
        address_of(run, "s3://elsewhere/data/x")
    with pytest.raises(SettingsError, match="is not a path of repository repo"):
        address_of(run, "lakefs://other/main/keep/readme")
