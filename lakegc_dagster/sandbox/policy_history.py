"""A repository with logs and scratch, a retention policy for it, and what each of its files faces.

As in `history`, each fate is written by hand beside the step that decides it.
"""

from __future__ import annotations

import hashlib
from datetime import datetime

from lakegc_dagster.sandbox import objects, refs, repositories
from lakegc_dagster.sandbox.server import Sandbox
from lakegc_dagster.sandbox.story import Story, Teller

# The document in lakeFS's old form, with the branches that its operator vouches for.
POLICY = """\
{"branch_order": ["main", "users"],
 "rules": [
  {"filter": {"prefix": "main/logs/"}, "status": "enabled",
   "expiration": {"all": {"weeks": 2, "days": 1}, "noncurrent": {"days": 7}}},
  {"filter": {"prefix": "users/"}, "expiration": {"all": {"days": 3}}},
  {"filter": {"prefix": "main/tmp/"}, "expiration": {"uncommitted": {"days": 3}}},
  {"filter": {"prefix": "reports/drafts/"}, "effect": "remove",
   "expiration": {"all": {"days": 3}}}],
 "branch_lifecycle": {"policies": [{"branches": ["trial-*"], "max_inactivity_days": 21}]}}
"""

_PARTS = 12
_DRAFTS = 4
# No rule of collection lets anything of this repository expire.
_DAYS = 90


def policy_history(sandbox: Sandbox, repository_id: str, *, now: datetime) -> Story:
    """Build a repository whose objects `POLICY` names, nearly names, or does not name.

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
    _old(teller)
    _removed(teller)
    _newer(teller)
    _uncommitted(teller)
    return teller.story(_DAYS, {})


def _old(teller: Teller) -> None:
    core, repository_id = teller.core, teller.repository_id
    within = f"within the {_DAYS} days"
    with teller.ago(days=32):
        teller.upload("main", "logs/release.log").keep("in the commit of tag v1.0", "v1.0")
        commit = teller.commit("main", "release 1.0", retained=True, reason="tag v1.0 keeps it")
        refs.create_tag(core, repository_id, "v1.0", commit.id)
    with teller.ago(days=30):
        for part in range(_PARTS):
            teller.upload("main", f"logs/day-{part:02}").delete_committed(
                "committed on main below logs/ 30 days ago: rule 1 keeps 15 days"
            )
            teller.upload("main", f"table/part-{part:02}").keep("no rule names table/")
        teller.upload("main", "logstash/pipeline.conf").keep(
            "the prefix main/logs/ ends in a slash, so it does not match logstash/"
        )
        _link_to_audited(teller)
        teller.commit("main", "30 days ago", retained=True, reason=within)
        for branch in ("users", "reports", "trial-bob"):
            teller.branch(branch, "main")
    with teller.ago(days=12):
        replaced = teller.upload("main", "logs/current.log")
        commit = teller.commit("main", "12 days ago", retained=True, reason=within)
        replaced.keep(
            "replaced on main 9 days ago: the 7 days of rule 1 begin with the first mark", commit.id
        )
    with teller.ago(days=10):
        for part in range(_PARTS):
            teller.upload("users", f"alice/scratch-{part:02}").delete_committed(
                "committed on users 10 days ago: rule 2 keeps 3 days"
            )
        teller.commit("users", "alice's scratch", retained=True, reason=within)


def _link_to_audited(teller: Teller) -> None:
    """Stage a second path for an object whose first one a rule names."""
    core, repository_id = teller.core, teller.repository_id
    audited = teller.upload("main", "logs/audited.log")
    audited.keep("it is also audit/audited.log, which no rule names")
    data = audited.data
    objects.stage(
        core,
        repository_id,
        "main",
        "audit/audited.log",
        physical_address=core.blockstore.location(teller.namespace, audited.address),
        checksum=hashlib.md5(data, usedforsecurity=False).hexdigest(),
        size_bytes=len(data),
        link=False,
    )


def _removed(teller: Teller) -> None:
    """Tell of entries that a rule removes by a commit, and of a branch that nobody works on."""
    within = f"within the {_DAYS} days"
    with teller.ago(days=25):
        tried = teller.upload("trial-bob", "trial/model")
        commit = teller.commit("trial-bob", "bob tries it", retained=True, reason=within)
        tried.keep("its branch may go, its commit stays and a hold keeps its object", commit.id)
    with teller.ago(days=10):
        drafts = [teller.upload("reports", f"drafts/{part}") for part in range(_DRAFTS)]
        teller.upload("reports", "final").keep("no rule names it")
        commit = teller.commit("reports", "drafts", retained=True, reason=within)
        for draft in drafts:
            draft.keep("rule 4 removes its entry by a commit, and no object", commit.id)


def _newer(teller: Teller) -> None:
    within = f"within the {_DAYS} days"
    with teller.ago(days=9):
        teller.upload("main", "logs/current.log").keep("9 days old: rule 1 keeps 15")
        teller.commit("main", "9 days ago", retained=True, reason=within)
    with teller.ago(days=1):
        teller.upload("users", "alice/today").keep("1 day old: rule 2 keeps 3 days")
        teller.commit("users", "today's scratch", retained=True, reason=within)
    with teller.ago(days=20):
        teller.stray().delete_uncommitted("no entry ever named it; no policy is needed for that")


def _uncommitted(teller: Teller) -> None:
    with teller.ago(days=20):
        teller.upload("main", "logs/staged.log").keep("staged on main: rule 1 names committed ones")
        teller.upload("main", "tmp/scratch").delete_committed(
            "staged on main below tmp/ for 20 days: rule 3 keeps 3 days"
        )
