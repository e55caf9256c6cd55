"""What the retention policy says now of the objects of a plan that go by it.

Commits reach what goes by a retention policy, so that decides nothing there. Such an object is kept
if it is staged, held or hidden like any other, and if the policy does not name it any more. What
goes by a rule for staged objects is kept if a commit has it by now, or unless such rules take it
under every name under which it is staged now. Where nobody can tell what the policy says, it stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa

from spark_core.addresses.address_hashes import ADDRESS_HASH
from spark_core.errors import POLICY_UNREADABLE
from spark_core.holds import Holds
from spark_core.records.reading import StoredTable
from spark_core.references.commits import ReadCommits
from spark_core.references.parts_of_look import NAMES, LookParts
from spark_core.references.policies import staged_names, versions
from spark_core.references.policies.confirmed import is_confirmed
from spark_core.references.policies.document import Policy
from spark_core.references.policies.every_name import instant_of
from spark_core.references.policies.named_now import NamedNow, named_now
from spark_core.references.policies.staged_due import StagedJudge, are_asked_for, held_branches
from spark_core.retention import compacted_in
from spark_core.run import Run
from spark_core.spark.exchange import AnySource, no_rows
from spark_core.sweep.plan_compared import ADDRESSES, by_hash
from spark_core.sweep.why_kept import KeptRules

_NAMES = pa.schema([ADDRESS_HASH, *staged_names.TAKEN])


@dataclass(frozen=True)
class ByPolicy:
    """What goes by a retention policy, although entries lead to it.

    Attributes:
        objects: Columns of `twins.OBJECTS`, key address. Where nobody knows when they were
            written, they are as old as can be: each was due by its own date when a sweep took it.
        count: Their number.
        digest: Digest of the document that the plan was made by; None where any confirmed one
            counts.
        any_staged: Whether any of them may go although it is staged.
    """

    objects: AnySource
    count: int
    digest: str | None = None
    any_staged: bool = True


@dataclass(frozen=True)
class _KnownNames:
    """What the retention policy names of a plan, and the document, refs and so on that say so."""

    state: tuple[object, ...]
    named: NamedNow


@dataclass(frozen=True)
class StagedNamesNow:
    """What rules take of a plan under every name under which it is staged.

    Attributes:
        digest: Digest of the document.
        taken: Columns of `staged_names.TAKEN`; None if nobody knows.
        problem: Why nobody knows.
    """

    digest: str
    taken: AnySource | None
    problem: str


@dataclass
class PolicyNow:
    """What the policy says in one look; it is asked anew only where that may have changed.

    Attributes:
        run: The run.
        marked: Commits of the mark: table 3.
        named: What it names; None if nothing was asked.
        names: What it takes although it is staged; None if nothing was asked.
    """

    run: Run
    marked: StoredTable
    named: _KnownNames | None = None
    names: StagedNamesNow | None = None

    def go_on_from(self, last: PolicyNow) -> None:
        """Take what an earlier look of the same sweep knows."""
        self.named, self.names = last.named, last.names

    def read_names(self, own: ByPolicy, parts: LookParts, budget: timedelta | None) -> None:
        """Read the staged names, if a rule asks for them and they are due to be read.

        They are read behind the branches, so that a name that those show is among them. They are
        read before what is committed, as a commit takes an entry out of the staging area. Where
        they are not read, or cannot be, their objects are kept.

        Args:
            own: Objects that go by the policy.
            parts: When each staged part was read.
            budget: For how long to begin parts that were read before; None for no limit.
        """
        run = self.run
        policy, _ = _that_may_take(run, own.digest)
        if policy is None or not are_asked_for(policy):
            self.names = None
            return
        parts.turn(budget)
        if not parts.begin(NAMES):
            late = "reading them takes too long to do it at each look"
            self.names = StagedNamesNow(policy.digest, None, late)
            return
        # Holds are read later, and compared then.
        judge = StagedJudge.of(policy, Holds(()), instant_of(run))
        with staged_names.read_names(run) as names:
            taken = None
            if names.rows is not None:
                taken = staged_names.taken_now(run, judge, names.rows, own.objects)
            self.names = StagedNamesNow(policy.digest, taken, names.problem)
        parts.end(NAMES)

    def rules(
        self, own: ByPolicy | None, commits: ReadCommits, *, readings: int
    ) -> tuple[KeptRules, dict[str, AnySource]]:
        """Find what the policy says of its objects.

        Args:
            own: Objects that go by it; None for none.
            commits: The commits that keep their objects now.
            readings: How often each staged entry was read.

        Returns:
            What counts for all objects; and of what `why_kept` reads: `own`, `named`,
            `in_no_commit` and `names`.
        """
        holds, names = commits.holds, self.names
        found = dict.fromkeys(("own", "named", "in_no_commit"), no_rows(ADDRESSES))
        found["names"] = no_rows(_NAMES)
        if own is None:
            return KeptRules(holds), found
        found["own"] = by_hash(own.objects, ADDRESSES)
        named, why = self._named(commits, own)
        if named is not None:
            found["named"] = by_hash(named.committed, ADDRESSES)
        if named is not None and named.in_no_commit is not None:
            found["in_no_commit"] = by_hash(named.in_no_commit, ADDRESSES)
        if names is not None and names.taken is not None:
            found["names"] = by_hash(names.taken, _NAMES)
        return KeptRules(
            holds,
            held_branches=held_branches(holds),
            not_named=why,
            readings=readings,
            # The document may have changed since the names were read.
            may_be_staged=names is not None
            and self.named is not None
            and self.named.state[0] == names.digest,
        ), found

    def _named(self, commits: ReadCommits, own: ByPolicy) -> tuple[NamedNow | None, str]:
        """Find what the policy names now of its objects; and why the others are kept."""
        if commits.dump is None:
            return None, "refs could only be walked, which does not show every name"
        policy, why = _that_may_take(self.run, own.digest)
        if policy is None:
            return None, why
        compacted = compacted_in(commits.table)
        state = (policy.digest, commits.refs, commits.holds, compacted)
        if self.named is None or self.named.state != state:
            named = named_now(self.run, policy, self.marked, commits, own.objects)
            self.named = _KnownNames(state, named)
        problem = "" if self.names is None else self.names.problem
        why = f"; the names of what is staged could not be read ({problem})" if problem else ""
        return self.named.named, f"the retention policy does not name it{why}"


def _that_may_take(run: Run, digest: str | None) -> tuple[Policy | None, str]:
    """Return the policy that may take objects now; None and why if none may.

    Args:
        run: The run.
        digest: Digest of the only document that may; None where any confirmed one may.
    """
    if not run.options.policies_let_go:
        return None, 'the settings do not say `policies = "sweep"`'
    try:
        version = versions.newest(run)
        policy = None if version is None else version.policy
        confirmed = version is not None and is_confirmed(run, version)
    except POLICY_UNREADABLE as unknown:
        return None, f"the retention policy cannot be read ({unknown.found})"
    if version is None or policy is None:
        return None, "the retention policy was ended"
    if digest not in (None, version.policy_digest):
        return None, "another document was set since the mark"
    if not confirmed:
        return None, f"version {version.number} of the retention policy is not confirmed"
    return policy, ""
