"""Repositories with a history, and what a collection must do to each of their files.

The demo is checked against the fates stated here. So each fate is written by hand beside the step
that decides it, and never computed from the rules.
"""

from __future__ import annotations

from datetime import datetime

from lakegc_dagster.sandbox import merge, objects, refs, repositories
from lakegc_dagster.sandbox.server import Sandbox
from lakegc_dagster.sandbox.story import Story, Teller, ToldFile

# Parts of the table, of the features and so on: about 220 objects in all.
_PARTS = 24


def documents_history(sandbox: Sandbox, repository_id: str, *, now: datetime) -> Story:
    """Build the example of lakeFS's garbage-collection docs, with further cases for a collector.

    The commits are those of the picture in the docs (main 21 days, dev 7, default 14, collected on
    2022-03-31 at 12:00), moved so that this day is `now`. The further cases are uncommitted objects
    of every kind, deleted branches, a tag that the rules would let expire, linked objects, an
    identical re-upload and young objects.

    Args:
        sandbox: A running sandbox in this process.
        repository_id: Name of the repository to make; its namespace has the same name.
        now: The instant of the collection, aware.

    Returns:
        The fate of every object and commit.
    """
    teller = Teller(sandbox, repository_id, now)
    with teller.ago(days=33):
        repositories.create(teller.core, repository_id, teller.namespace)
    tables = _main_until_dev(teller)
    _dev(teller)
    _main_after_dev(teller, tables)
    _other_lines(teller)
    _uncommitted(teller)
    return teller.story(14, {"main": 21, "dev": 7})


def _table(teller: Teller) -> list[ToldFile]:
    """Write every part of the table again."""
    return [teller.upload("main", f"table/part-{part:02}") for part in range(_PARTS)]


def _delete_all(files: list[ToldFile], reason: str, ref: str) -> None:
    for file in files:
        file.delete_committed(reason, ref)


def _keep_all(files: list[ToldFile], reason: str, ref: str | None = None) -> None:
    for file in files:
        file.keep(reason, ref)


def _main_until_dev(teller: Teller) -> list[ToldFile]:
    """Make main's first three commits; return the table that is current after them."""
    expired = "older than main's 21 days, and a newer commit is main's state of 21 days ago"
    with teller.ago(days=32):
        teller.upload("main", "keep/readme").keep("on every commit, main's head too", "main")
        only = teller.upload("main", "only_0227")
        table = _table(teller)
        commit = teller.commit("main", "2022-02-27", retained=False, reason=expired)
        _delete_all([only, *table], "only in the commit of 2022-02-27, which expired", commit.id)
    with teller.ago(days=30):
        teller.remove("main", "only_0227")
        only = teller.upload("main", "only_0301")
        table = _table(teller)
        commit = teller.commit("main", "2022-03-01", retained=False, reason=expired)
        _delete_all([only, *table], "only in the commit of 2022-03-01, which expired", commit.id)
    with teller.ago(days=22):
        teller.remove("main", "only_0301")
        table = _table(teller)
        file = teller.upload("main", "f_0309")
        commit = teller.commit(
            "main",
            "2022-03-09",
            retained=True,
            reason="the first commit beyond main's 21 days: its state at that day",
        )
        file.keep("in main's state of 21 days ago", commit.id)
        teller.branch("dev", "main")
    return table


def _dev(teller: Teller) -> None:
    expired = "older than dev's 7 days, and so is dev's head"
    with teller.ago(days=17):
        teller.upload("dev", "d_0314").keep("on dev's head, and merged to main", "dev")
        overwritten = teller.upload("dev", "d_overwritten")
        removed = teller.upload("dev", "d_deleted")
        commit = teller.commit("dev", "d: 2022-03-14", retained=False, reason=expired)
        overwritten.delete_committed(
            "overwritten on dev 11 days ago, and dev keeps 7 days", commit.id
        )
        removed.delete_committed("deleted on dev 11 days ago, and dev keeps 7 days", commit.id)
    with teller.ago(days=15):
        removed = teller.upload("dev", "d_0316")
        features = [teller.upload("dev", f"features/{part:02}") for part in range(_PARTS)]
        commit = teller.commit("dev", "d: 2022-03-16", retained=False, reason=expired)
        removed.delete_committed(
            "deleted on dev 8 days ago; the commit that did it is dev's state of 7 days ago",
            commit.id,
        )
        _delete_all(features, "overwritten on dev 11 days ago, and dev keeps 7 days", commit.id)
    with teller.ago(days=11):
        teller.upload("dev", "d_overwritten").keep("on dev's head, and merged to main", "dev")
        teller.remove("dev", "d_deleted")
        features = [teller.upload("dev", f"features/{part:02}") for part in range(_PARTS)]
        _keep_all(features, "on dev's head, and merged to main", "dev")
        teller.commit("dev", "d: 2022-03-20", retained=False, reason=expired)
    with teller.ago(days=8):
        teller.remove("dev", "d_0316")
        teller.upload("dev", "d_0323").keep("on dev's head, and merged to main", "dev")
        teller.commit("dev", "d: 2022-03-23", retained=True, reason="dev's head, kept however old")


def _main_after_dev(teller: Teller, tables: list[ToldFile]) -> None:
    within = "within main's 21 days"
    with teller.ago(days=19):
        file = teller.upload("main", "f_0312")
        commit = teller.commit("main", "2022-03-12", retained=True, reason=within)
        file.keep(f"in commits {within}", commit.id)
    with teller.ago(days=13):
        _keep_all(tables, "overwritten on main 13 days ago, and main keeps 21 days", commit.id)
        teller.remove("main", "f_0309")
        teller.upload("main", "f_0318").keep("on main's head", "main")
        _keep_all(_table(teller), "on main's head", "main")
        teller.commit("main", "2022-03-18", retained=True, reason=within)
    with teller.ago(days=7):
        merged = merge.merge(teller.core, teller.repository_id, "dev", "main", message="merge dev")
        teller.add_commit(merged, "main", retained=True, reason=within)
    with teller.ago(days=5):
        teller.remove("main", "f_0312")
        teller.upload("main", "f_0326").keep("on main's head", "main")
        teller.link("main", "linked/model").keep(
            "on main's head; linked, so its entry holds an absolute address", "main"
        )
        teller.commit("main", "2022-03-26", retained=True, reason="main's head")


def _other_lines(teller: Teller) -> None:
    """Make branches that are then deleted, and a release that only a tag refers to."""
    root = f"main~{sum(commit.line == 'main' for commit in teller.commits)}"
    _release(teller, root)
    _experiment(teller, root)
    _hotfix(teller)


def _release(teller: Teller, root: str) -> None:
    core, repository_id = teller.core, teller.repository_id
    with teller.ago(days=28):
        teller.branch("release", root)
        report = teller.upload("release", "release/report.csv")
        commit = teller.commit(
            "release",
            "release 1.0",
            retained=True,
            reason="tag v1.0 keeps it, although its branch is gone",
        )
        refs.create_tag(core, repository_id, "v1.0", commit.id)
        refs.delete_branch(core, repository_id, "release")
        report.keep("in the commit of tag v1.0; the rules alone would let it expire", "v1.0")


def _experiment(teller: Teller, root: str) -> None:
    with teller.ago(days=20):
        teller.branch("experiment", root)
        trials = [teller.upload("experiment", f"trials/{part:02}") for part in range(_PARTS)]
        commit = teller.commit(
            "experiment",
            "an experiment",
            retained=False,
            reason="its branch is gone, and it is older than the default 14 days",
        )
        _delete_all(
            trials, "only on a deleted branch, and older than the default 14 days", commit.id
        )
        refs.delete_branch(teller.core, teller.repository_id, "experiment")


def _hotfix(teller: Teller) -> None:
    with teller.ago(days=4):
        teller.branch("hotfix", "main")
        fix = teller.upload("hotfix", "fix.sql")
        commit = teller.commit(
            "hotfix",
            "a hotfix",
            retained=True,
            reason="its branch is gone, but it is within the default 14 days",
        )
        staged = teller.upload("hotfix", "fix-notes.txt")
        fix.keep("only on a deleted branch, but within the default 14 days", commit.id)
        refs.delete_branch(teller.core, teller.repository_id, "hotfix")
        staged.delete_uncommitted(
            "staged on a branch that was deleted; nothing leads to it any more"
        )


def _uncommitted(teller: Teller) -> None:
    core, repository_id = teller.core, teller.repository_id
    with teller.ago(days=10):
        teller.upload("main", "inbox/draft").keep("staged on main, however old", "main")
        dropped = teller.upload("main", "inbox/dropped")
        replaced = teller.upload("main", "inbox/replaced")
    with teller.ago(days=9):
        teller.remove("main", "inbox/dropped")
        dropped.delete_uncommitted("staged and deleted again before any commit")
        replaced.delete_uncommitted("staged and overwritten before any commit")
        teller.upload("main", "inbox/replaced").keep("staged on main, however old", "main")
    with teller.ago(days=6):
        experiments = [teller.upload("dev", f"scratch/{part:02}") for part in range(_PARTS)]
        objects.reset(core, repository_id, "dev", "reset")
        for file in experiments:
            file.delete_uncommitted("staged on dev, which was reset")
        teller.branch("_hidden-import", "main", hidden=True)
        teller.upload("_hidden-import", "import/batch").keep(
            "staged on a hidden branch", "_hidden-import"
        )
        teller.link("main", "linked/staged").keep(
            "staged on main; linked, so prepare_uncommitted leaves it out", "main"
        )
        teller.stray().delete_uncommitted("no entry ever named it: an upload that stopped half-way")
    with teller.ago(days=3):
        committed = next(file for file in teller.files if file.path == "f_0326")
        twin = teller.upload("main", "f_0326", committed.data)
        twin.keep("the same content uploaded again: no diff shows it, yet main reads it", "main")
        committed.keep("on main's head, under the same content uploaded again", "main@")
    with teller.ago(hours=2):
        young = teller.upload("main", "inbox/young")
        teller.remove("main", "inbox/young")
        young.ref = None
        young.keep("younger than the minimum age; the next collection takes it")
        teller.stray().keep("younger than the minimum age: an upload may be under way")
