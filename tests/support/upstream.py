"""lakeFS's own end-to-end scenario of garbage collection, with each file's fate written by hand."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from lakegc_dagster.sandbox import objects, refs, repositories
from lakegc_dagster.sandbox.server import Sandbox
from lakegc_dagster.sandbox.story import Story, Teller, ToldFile


def upstream_scenario(sandbox: Sandbox, repository_id: str, *, now: datetime) -> Story:
    """Build lakeFS's own end-to-end scenario of garbage collection, file by file.

    Args:
        sandbox: A running sandbox in this process.
        repository_id: Name of the repository to make; its namespace has the same name.
        now: The instant of the collection, aware.

    Returns:
        The fate of every object and commit.

    References:
        `lakefs-facts` 8 (esti/unified_gc_test.go).
    """
    teller = Teller(sandbox, repository_id, now)
    core = teller.core
    # lakeFS's own test makes the repository a moment before. Here it is older than its commits,
    # because objects older than their repository are not collected.
    with teller.ago(days=15):
        repositories.create(core, repository_id, teller.namespace)
        teller.branch("dev", "main")
        teller.branch("dev2", "main")
    files: dict[str, ToldFile] = {}
    expired = "only in commits of 14 days ago, which expired"

    def change(branch: str, days: int, label: str, *, retained: bool, reason: str) -> str:
        action, name = label.split()
        with teller.ago(days=days):
            if action == "create":
                files[name] = teller.upload(branch, name)
            else:
                teller.remove(branch, name)
            return teller.commit(branch, label, retained=retained, reason=reason).id

    expire = partial(
        change, retained=False, reason="beyond the rule, and not the first commit beyond it"
    )
    expire("main", 14, "create file_1")
    only_2 = expire("main", 14, "create file_2")
    expire("dev", 14, "create file_5")
    only_5 = expire("dev", 14, "create file_6")
    expire("dev2", 14, "create file_8")
    only_9 = expire("dev2", 14, "create file_9")
    with_1 = change(
        "main", 12, "delete file_2", retained=True, reason="the first commit beyond main's 10 days"
    )
    change("main", 8, "delete file_1", retained=True, reason="main's head")
    with_6 = change(
        "dev", 8, "delete file_5", retained=True, reason="the first commit beyond dev's 7 days"
    )
    with_8 = change(
        "dev2",
        8,
        "delete file_9",
        retained=True,
        reason="the first commit beyond the default 7 days",
    )
    change(
        "dev2",
        6,
        "delete file_8",
        retained=True,
        reason="its branch is gone, but it is within the default 7 days",
    )
    change("dev", 4, "delete file_6", retained=True, reason="dev's head")
    with teller.ago(days=3):
        files["file_3"] = teller.upload("main", "file_3")
        files["file_4"] = teller.upload("main", "file_4")
        files["file_7"] = teller.upload("dev", "file_7")
        files["file_10"] = teller.upload("dev2", "file_10")
        teller.remove("main", "file_4")
        refs.delete_branch(core, repository_id, "dev2")
        objects.reset(core, repository_id, "dev", "reset")
    files["file_1"].keep("in main's first commit beyond 10 days", with_1)
    files["file_2"].delete_committed(expired, only_2)
    files["file_3"].keep("staged on main", "main")
    files["file_4"].delete_uncommitted("staged and deleted again before any commit")
    files["file_5"].delete_committed(expired, only_5)
    files["file_6"].keep("in dev's first commit beyond 7 days", with_6)
    files["file_7"].delete_uncommitted("staged on dev, which was reset")
    files["file_8"].keep("in the parent of a deleted branch's recent tip", with_8)
    files["file_9"].delete_committed(expired, only_9)
    files["file_10"].delete_uncommitted("staged on a branch that was deleted")
    return teller.story(7, {"main": 10, "dev": 7})
