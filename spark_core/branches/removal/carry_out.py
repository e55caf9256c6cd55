"""Carry out one removal rule: delete entries on a branch of its own, commit, compare, merge.

The branch that the rule names changes in one step, the merge. Whatever ends the work before leaves
it as it was, and the branch of the work is deleted in any case.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain

from spark_core.branches.removal import compare, look, work_branch
from spark_core.branches.removal.look import Look, NamedByRule, read_line
from spark_core.branches.removal.merges import (
    RULE,
    RUN,
    find_merge,
    leads_to,
    merged_above,
    reverted_at_once,
    was_moved,
)
from spark_core.branches.removal.promise import Promise, Removed, Taking, promise
from spark_core.branches.removal.record import Outcome, Planned, State
from spark_core.branches.removal.refused import WriteRefusedError
from spark_core.branches.removal.removal_rules import RemovalRule
from spark_core.branches.removal.reset_staged import StagedLook
from spark_core.branches.removal.stopped import StoppedError, became_of, words_of_staged
from spark_core.branches.removal.work_branch import AtWork
from spark_core.branches.removal.writes import Writes
from spark_core.errors import (
    IncompleteReadError,
    LakegcError,
    NotFoundError,
    TransientError,
    sentences,
)
from spark_core.holds import Holds
from spark_core.lakefs.refs import no_such_ref
from spark_core.model import Commit
from spark_core.run import Run


@dataclass(frozen=True)
class RemovalOrders:
    """What the rules of one removal have in common.

    Attributes:
        run: The run.
        holds: What people hold.
        policy_digest: Digest of the policy.
        taking: By what marks let objects go from now on.
        changes: Whether anything is changed; else the rules are only looked at.
        resets: Whether staged entries may be reset.
    """

    run: Run
    holds: Holds
    policy_digest: str
    taking: Taking
    changes: bool
    resets: bool


@dataclass
class RuleWork:
    """The work of one rule; it grows while it is done.

    Attributes:
        orders: What the rules of the removal have in common.
        rule: The rule.
        planned: Its branches.
        found: The committed entries that it names.
        staged: The staged entries that it names.
        work_commit: The commit with the deletions.
        merge_id: Id of the merge on the branch.
        merge: That commit.
        left: Why the work branch is still there, in sentences; empty if it is not.
        notes: What else is to be said, in sentences.
    """

    orders: RemovalOrders
    rule: RemovalRule
    planned: Planned
    found: NamedByRule = field(default_factory=NamedByRule)
    staged: NamedByRule = field(default_factory=NamedByRule)
    work_commit: str | None = None
    merge_id: str | None = None
    merge: Commit | None = None
    left: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def carry_out(self) -> Outcome:
        """Carry out the rule, or look at it; a failure becomes part of the outcome."""
        state, found = self._tried()
        promised = self._promised()
        if promised.until is not None and promised.by:
            words = (
                f"From {promised.until:%Y-%m-%d %H:%M} UTC on {promised.by} may take its objects"
            )
            self.notes.append(words)
        return Outcome(
            run=str(self.orders.run.key),
            rule=self.rule.number,
            branch=self.rule.branch,
            prefix=self.rule.prefix,
            state=state,
            found=sentences(found, *self.notes, *self.left),
            entries=self.found.entries,
            size_bytes=self.found.size_bytes,
            reset_entries=self.staged.entries,
            reset_bytes=self.staged.size_bytes,
            commit=self.merge_id,
            work_commit=self.work_commit,
            ended=self.orders.run.now(),
            undo_until=promised.until,
            left=self.planned.work_branch if self.left else None,
        )

    def _tried(self) -> tuple[State, str]:
        try:
            return self._done(), ""
        except StoppedError as stopped:
            return stopped.became, stopped.message
        except WriteRefusedError as refused:
            return became_of(refused), refused.message
        except LakegcError as error:
            return "failed", error.message

    def _done(self) -> State:
        """Do the work; return what became of the rule."""
        hold = look.hold_on(self.orders.holds, self.rule.branch)
        if hold is not None:
            raise StoppedError.of(
                "held",
                f"{hold} keeps branch {self.rule.branch} as it is",
                "Remove the hold (`lakegc hold remove`), or take the rule out of the policy.",
            )
        try:
            line = read_line(self.orders.run, self.rule.branch)
        except NotFoundError:
            absent = no_such_ref(
                self.orders.run.server, self._repository_id, self.rule.branch, "branch"
            )
            raise StoppedError.of("no_branch", absent.message, "Correct the rule.") from None
        if self.rule.staged is not None:
            self._reset()
        if self.rule.committed is not None:
            self._remove(line)
        if not self.found.entries and not self.staged.entries:
            return "nothing"
        return "removed" if self.orders.changes else "named"

    def _reset(self) -> None:
        resets = self.orders.changes and self.orders.resets
        found = self.staged if resets or not self.orders.changes else NamedByRule()
        StagedLook(self.orders.run, self.rule, self.orders.holds, found).go(resets=resets)
        if found is not self.staged and found.entries:
            self.notes.append(
                f"{found.entries:,} staged entries were not reset: they cannot come back, and "
                f"nobody confirmed that (`lakegc confirm {self._repository_id} removal "
                f"--digest {self.orders.policy_digest[:12]} --resets`)."
            )

    @property
    def _repository_id(self) -> str:
        return self.orders.run.repository.id

    def _remove(self, line: tuple[Commit, ...]) -> None:
        """Remove the entries that the rule names at the head of a branch."""
        run = self.orders.run
        looked = Look(run, self.rule, line, self.orders.holds, self.found)
        if not self.orders.changes:
            for _ in looked.due():
                pass
            staged = self._staged() if self.found.entries else None
            if staged is not None:
                self.notes.append(f"{words_of_staged(self.rule.branch, staged)}.")
            return
        staged = self._staged()
        if staged is not None:
            raise StoppedError.of(
                "staged",
                words_of_staged(self.rule.branch, staged),
                "Commit or reset it; the next removal tries again.",
            )
        head, name = line[0].id, self.planned.work_branch
        due = looked.due()
        first = next(due, None)
        if first is None:
            return
        with work_branch.at_work(run, self.rule.number, name, head, self.left) as work:
            for lot in chain([first], due):
                paths = [entry.path for entry in lot]
                Writes(run.server).delete_entries(run.repository.id, name, paths)
            self._merge(work, head)

    def _staged(self) -> str | None:
        """Return a path at which something is staged on the branch, which then takes no merge."""
        run = self.orders.run
        changes = run.server.diff_branch(run.repository.id, self.rule.branch, first_page=1)
        return next((path for path, _ in changes), None)

    def _merge(self, work: AtWork, head: str) -> None:
        """Commit the deletions, compare with the branch as it is now, and merge."""
        run, rule = self.orders.run, self.rule
        repository_id, writes = run.repository.id, Writes(run.server)
        message = (
            f"lakegc: remove {self.found.entries:,} entries under {rule.prefix} by policy rule "
            f"{rule.number} (run {run.key})"
        )
        self.work_commit = work.commit(message, self._metadata)
        try:
            self._compare(head, self.work_commit)
        except IncompleteReadError as strange:
            work.doubt = strange.found
            raise
        self._require_on_line(head)
        try:
            self.merge_id = writes.merge(
                repository_id, self.work_commit, rule.branch, message, self._metadata
            )
        except TransientError as lost:
            merge = find_merge(run, rule.branch, head, str(run.key), rule.number)
            if merge is None:
                raise StoppedError.of(
                    "unknown",
                    f"{lost.found}; the branch shows no such merge yet, which may still come",
                    f"Look at the branch; `lakegc retention restore` finds it by run {run.key}.",
                ) from lost
            self.merge_id, self.merge = merge.id, merge
        else:
            self.merge = self._merged(self.merge_id, head)

    @property
    def _metadata(self) -> dict[str, str]:
        return {
            RUN: str(self.orders.run.key),
            RULE: str(self.rule.number),
            "lakegc.prefix": self.rule.prefix,
            "lakegc.policy": self.orders.policy_digest,
            "lakegc.entries": str(self.found.entries),
            "lakegc.bytes": str(self.found.size_bytes),
        }

    def _compare(self, head: str, work_commit: str) -> None:
        """Stop if entries of the commit were written again since they were found."""
        changed = compare.removed(
            self.orders.run, self.rule, head, work_commit, entries=self.found.entries
        )
        if changed:
            raise StoppedError.of(
                "changed",
                f"{len(changed):,} entries of branch {self.rule.branch} were written again since "
                f"they were looked at, for instance {changed[0][:200]!r}",
                "The next removal looks again.",
            )

    def _require_on_line(self, head: str) -> None:
        """Refuse a branch that was reset meanwhile: a merge would bring back what it left."""
        if not leads_to(self.orders.run, self.rule.branch, head):
            raise StoppedError.of(
                "moved", was_moved(self.rule.branch, head), "The next removal looks again."
            )

    def _merged(self, merge_id: str, head: str) -> Commit:
        """Return the merge, unless the branch was reset in the last moment."""
        branch = self.rule.branch
        merge = merged_above(self.orders.run, branch, merge_id, head)
        if merge is None:
            self.merge_id = None
            raise StoppedError.of(
                "moved", reverted_at_once(branch, merge_id), "Look at the branch."
            )
        return merge

    def _promised(self) -> Promise:
        """Tell until when the removed entries can come back with their objects."""
        if self.merge is None:
            return Promise(None)
        since = self.merge.creation_date
        oldest = self.found.oldest or since
        removed = Removed(self.rule.branch, self.rule.path, since, oldest)
        return promise(removed, self.orders.taking)
