"""One document of each kind that lakegc stores under a format: as this code writes it, and as
releases wrote it.

`python -m tests.support.stored_formats` records those of a new format. What is
recorded already stays as it is: namespaces hold such documents.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from spark_core import holds, lakegc_keys
from spark_core.branches.removal import record, work_branch_record
from spark_core.branches.stale import deletion_steps, marked
from spark_core.index import saved
from spark_core.lock import lease_log
from spark_core.model import RunKey
from spark_core.records import confirmation, journal
from spark_core.records.manifest import Manifest, Part
from spark_core.records.verdict_document import Verdict
from spark_core.references.policies import confirmed, versions
from spark_core.references.policies.document import Period, Policy, Rule
from spark_core.report import Check, Group, Report, values
from tests.support.memory_store import MemoryStore

FOLDER = Path(__file__).parents[1] / "data" / "stored-formats"
AT = datetime(2026, 11, 20, 2, tzinfo=UTC)
RUN = RunKey.at(AT)
PLAN = "5" * 64
INSTANCE = "repo created 2026-01-01T00:00:00+00:00 in local://repo"

OWNER = lease_log.Owner("a" * 32, str(RUN), "repo", "sweep", "gone", 7)
LEASE = lease_log.LeaseRecord(3, 0, "held", OWNER, AT, AT, AT + timedelta(minutes=5))
HOLD = holds.Hold("audit", "prefix", "data/s1/", None, "ann", AT, "an audit")
CONFIRMED = confirmation.Confirmation(
    "repo", str(RUN), "a_check", "6" * 64, "what was found", "ann@host", AT
)
POLICY = Policy((Rule("main", "logs/", {"all": Period(weeks=2)}),), ("main",))
VERSION = versions.Version(1, INSTANCE, POLICY.content(), POLICY.digest, "ann@host", AT)
CONFIRMED_POLICY = confirmed.ConfirmedPolicy(POLICY.digest, 1, INSTANCE, "ann@host", AT)
PLANNED = record.Planned(1, "main", "a" * 64, f"lakegc-remove-{RUN}-1")
BEGUN = record.Begun(str(RUN), INSTANCE, 1, POLICY.digest, "ann@host", AT, (PLANNED,))
OUTCOME = record.Outcome(
    run=str(RUN),
    rule=1,
    branch="main",
    prefix="main/logs/",
    state="removed",
    found="",
    entries=2,
    size_bytes=200,
    reset_entries=0,
    reset_bytes=0,
    commit="b" * 64,
    work_commit="c" * 64,
    ended=AT,
    undo_until=AT + timedelta(days=7),
    left=None,
)
WORK_BRANCH = work_branch_record.WorkBranch(str(RUN), 1, PLANNED.work_branch, "a" * 64, AT)
UNDONE = record.Undone(str(RUN), 1, "main", "b" * 64, "ann@host", AT)
STALE = marked.MarkedBranch(
    "dev", "a" * 64, goes=True, why="policy 1 (dev)", policy=1, is_hidden=False, staged=""
)
KEPT = marked.MarkedBranch(
    "main",
    "b" * 64,
    goes=False,
    why="it is the default branch",
    policy=None,
    is_hidden=False,
    staged="",
)
BRANCH_MARK = marked.BranchMark(str(RUN), INSTANCE, 1, POLICY.digest, "ann@host", AT, (STALE, KEPT))
BRANCH_CONFIRMATION = marked.BranchConfirmation(
    str(RUN), BRANCH_MARK.digest, ("dev",), "ann@host", AT
)
JOURNAL_END = journal.JournalEnd(
    run=str(RUN),
    ended_by="2026-11-21T02-00-00Z",
    ended_at=AT + timedelta(days=1),
    objects=2,
    size_bytes=200,
    kept_seconds=30 * 86_400,
    first_until=AT + timedelta(days=30),
    until=AT + timedelta(days=31),
)
BRANCH_STEP = deletion_steps.new_step(BRANCH_MARK, 1, "going", days=30, who="ann@host", now=AT)
MANIFEST = Manifest(
    table="expired_addresses",
    repository="repo",
    instance=INSTANCE,
    run=str(RUN),
    attempt="7" * 32,
    reading_began=AT,
    reading_ended=AT + timedelta(minutes=1),
    parents={"namespace_slices": "8" * 64},
    parts=(Part("_lakefs/retention/gc/addresses/part", 2, 200, "9" * 64),),
    facts={"expired_objects": 2},
)
SAVED = saved.Saved(
    repository="repo",
    instance=INSTANCE,
    endpoint="https://s3.example.com",
    run=str(RUN),
    started=AT,
    last_slice="gqv3epl4fd2o8m3men70",
    open_slices=("gqv3epl4fd2o8m3men70",),
    clean="2026-11-18T02-00-00Z",
    optimized_since=("2026-11-19T02-00-00Z", str(RUN)),
    options={"flat": False},
    blocked_by=(),
    closed_before=1_763_000_000,
    slices=(
        Part(
            f"{lakegc_keys.INDEX}slices",
            2,
            200,
            "9" * 64,
            without=Part(f"{lakegc_keys.INDEX}gone", 1, 100, "a" * 64),
        ),
    ),
    trees=(Part(f"{lakegc_keys.INDEX}trees", 1, 100, "b" * 64),),
    ranges=(Part(f"{lakegc_keys.INDEX}ranges", 1, 100, "c" * 64),),
    entries=(Part(f"{lakegc_keys.INDEX}entries", 3, 300, "d" * 64),),
)
CHECK = {
    "name": "a_check",
    "passed": True,
    "summary": "found",
    "limit": "none",
    "lifted_by": "nothing",
}
STANDING = {"listed_objects": 9, "live_objects": 7, "retained_commits": 3, "expired_objects": 2}
GROUP = Group("old", 2, 200)
REPORT = Report(
    *(
        "repo",
        str(RUN),
        "local://repo/",
        AT,
        PLAN,
        GROUP,
        GROUP,
        (GROUP,),
        (GROUP,),
        (GROUP,),
        (GROUP,),
    ),
    commits={"head": 3},
    largest=(values.Named("data/s/x", 100, AT, "never committed"),),
    passed=True,
    refused={},
    checks=(Check("a_check", True, "found", "none", "nothing"),),
)


def _verdict() -> bytes:
    return Verdict(
        repository="repo",
        instance=INSTANCE,
        namespace="local://repo",
        run=str(RUN),
        passed=True,
        concluded_at=AT,
        cutoff=AT.isoformat(),
        min_age_seconds=86_400,
        rules=None,
        options={},
        tables={},
        addresses={},
        expired_objects=2,
        standing=STANDING,
        checks=[CHECK],
        versions={},
    ).to_json()


def _journal() -> bytes:
    store = MemoryStore()
    journal.Journal(store, str(RUN), PLAN).bind(INSTANCE)
    ((_, data),) = store.objects.items()
    return bytes(data)


def _figures(data: bytes) -> Any:
    found = Verdict.from_json(data, name="_verdict.json")
    return found.instance, found.standing, found.checks


def _bound(data: bytes) -> bool:
    store = MemoryStore()
    bound = journal.Journal(store, str(RUN), PLAN)
    store.objects[f"{bound.folder}_plan.json"] = data
    return bound.bind(INSTANCE)


@dataclass(frozen=True)
class Kind:
    """A kind of stored document.

    Attributes:
        model: What it is read as; names its formats.
        write: Writes the example.
        read: Reads one, as those do who may meet an old one.
        meaning: What reading the example gives.
    """

    model: type[Any]
    write: Callable[[], bytes]
    read: Callable[[bytes], Any]
    meaning: Any

    @property
    def format(self) -> int:
        """The format that is written."""
        return int(self.model.FORMAT)

    @property
    def formats(self) -> tuple[int, ...]:
        """Those that are read."""
        return (self.format, *getattr(self.model, "ALSO_READ", ()))


KINDS = {
    "lease": Kind(
        lease_log.LeaseRecord,
        LEASE.to_json,
        lambda data: lease_log.LeaseRecord.from_json(data, name=LEASE.key),
        LEASE,
    ),
    "hold": Kind(
        holds.Hold,
        HOLD.to_json,
        lambda data: holds.Hold.from_json(data, name=lakegc_keys.hold_key("audit")),
        HOLD,
    ),
    "confirmation": Kind(
        confirmation.Confirmation,
        CONFIRMED.to_json,
        lambda data: confirmation.Confirmation.from_json(data, name="_confirmed.a_check.json"),
        CONFIRMED,
    ),
    "policy": Kind(
        versions.Version,
        VERSION.to_json,
        lambda data: versions.Version.from_json(data, name=lakegc_keys.policy_key(1)),
        VERSION,
    ),
    "confirmed-policy": Kind(
        confirmed.ConfirmedPolicy,
        CONFIRMED_POLICY.to_json,
        lambda data: confirmed.ConfirmedPolicy.from_json(data, name="confirmed"),
        CONFIRMED_POLICY,
    ),
    "removal": Kind(
        record.Begun,
        BEGUN.to_json,
        lambda data: record.Begun.from_json(data, name="begun.json"),
        BEGUN,
    ),
    "removal-outcome": Kind(
        record.Outcome,
        OUTCOME.to_json,
        lambda data: record.Outcome.from_json(data, name="rule-0001.json"),
        OUTCOME,
    ),
    "removal-undone": Kind(
        record.Undone,
        UNDONE.to_json,
        lambda data: record.Undone.from_json(data, name="undone-0001.json"),
        UNDONE,
    ),
    "removal-branch": Kind(
        work_branch_record.WorkBranch,
        WORK_BRANCH.to_json,
        lambda data: work_branch_record.WorkBranch.from_json(data, name="branch-NAME.json"),
        WORK_BRANCH,
    ),
    "branch-mark": Kind(
        marked.BranchMark,
        BRANCH_MARK.to_json,
        lambda data: marked.BranchMark.from_json(data, name="_marked.json"),
        BRANCH_MARK,
    ),
    "branch-confirmation": Kind(
        marked.BranchConfirmation,
        BRANCH_CONFIRMATION.to_json,
        lambda data: marked.BranchConfirmation.from_json(data, name="_confirmed.json"),
        BRANCH_CONFIRMATION,
    ),
    "branch-step": Kind(
        deletion_steps.BranchStep,
        BRANCH_STEP.to_json,
        lambda data: deletion_steps.BranchStep.from_json(data, name="000001.going.json"),
        BRANCH_STEP,
    ),
    "manifest": Kind(
        Manifest,
        MANIFEST.to_json,
        lambda data: Manifest.from_json(data, name="_manifest.json"),
        MANIFEST,
    ),
    "journal": Kind(journal.JournalPlan, _journal, _bound, True),
    "journal-end": Kind(
        journal.JournalEnd,
        JOURNAL_END.to_json,
        lambda data: journal.JournalEnd.from_json(data, name="_ended.json"),
        JOURNAL_END,
    ),
    "saved": Kind(
        saved.Saved,
        SAVED.to_json,
        lambda data: saved.Saved.from_json(data, name="_saved.json"),
        SAVED,
    ),
    # A sweep takes only the format that this code writes; later runs are compared with all.
    "verdict": Kind(Verdict, _verdict, _figures, (INSTANCE, STANDING, [CHECK])),
    "report": Kind(
        Report,
        REPORT.to_json,
        lambda data: Report.from_json(data, name="_report.json"),
        REPORT,
    ),
}


def recorded(kind: str, number: int) -> Path:
    """Say where the document of a format lies."""
    return FOLDER / f"{kind}-{number}.json"


def main() -> None:
    """Record what has no document yet."""
    for name, kind in KINDS.items():
        file = recorded(name, kind.format)
        if not file.exists():
            file.write_bytes(kind.write())
            sys.stdout.write(f"{file}\n")


if __name__ == "__main__":
    main()
