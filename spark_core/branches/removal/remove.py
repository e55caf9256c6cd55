"""Carry out the removal rules of a repository's policy, or show what they name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from spark_core import holds
from spark_core.branches.removal import record, work_branch
from spark_core.branches.removal.carry_out import RemovalOrders, RuleWork
from spark_core.branches.removal.look import NamedByRule
from spark_core.branches.removal.promise import taking_now
from spark_core.branches.removal.record import Begun, Outcome, Planned
from spark_core.branches.removal.removal_rules import RemovalRule, removal_rules
from spark_core.clocks import require_near
from spark_core.errors import NotFoundError, SettingsError, VerdictError
from spark_core.lakefs.side_by_side import side_by_side
from spark_core.model import Branch
from spark_core.phases import phase
from spark_core.references.policies import confirmed, versions
from spark_core.references.policies.document import Policy
from spark_core.references.policies.versions import Version
from spark_core.run import Run
from spark_core.run.preconditions import SERVER_CLOCK, require_writable


@dataclass(frozen=True)
class Named:
    """What one rule names, and what became of it.

    Attributes:
        outcome: What became of it.
        found: Committed entries that it names.
        staged: Staged entries that it names.
    """

    outcome: Outcome
    found: NamedByRule
    staged: NamedByRule


@dataclass(frozen=True)
class Removal:
    """What a removal did, or would do.

    Attributes:
        version: The version of the policy.
        named: The rules, by number.
        left: Name of each work branch of others that is still there -> why.
    """

    version: Version
    named: tuple[Named, ...]
    left: Mapping[str, str]

    @property
    def is_as_wanted(self) -> bool:
        """Whether every rule was carried out."""
        return not self.left and all(each.outcome.is_as_wanted for each in self.named)


def remove(run: Run, *, who: str, dry_run: bool = False) -> Removal:
    """Remove what the rules of the repository's policy name at their branches' heads.

    A rule that cannot be carried out holds up no other one. The rules of a branch are carried out
    one after the other, in the document's order, and branches side by side. The cost grows with the
    entries under the prefixes, and with what young commits changed there.

    Args:
        run: The repository, opened; its key names the removal.
        who: Who starts it.
        dry_run: Only say what would be removed.

    Returns:
        What became of each rule.

    Raises:
        NotFoundError: If the repository has no policy, or none that removes.
        SettingsError: If the settings do not allow it.
        VerdictError: If nobody confirmed the policy.
        UnsafePlanError: If the server's clock differs too much.
    """
    if not run.options.policies_let_go and not dry_run:
        raise SettingsError(
            f"repository {run.repository.id}: policies is {run.options.policies!r}, which lets "
            "a policy change nothing",
            'Set policies = "sweep" for the repository, or look with --dry-run.',
        )
    version, rules = _rules_of(run)
    require_writable(run.repository)
    if not dry_run and not confirmed.is_confirmed(run, version):
        name, digest = run.repository.id, version.policy_digest
        raise VerdictError(
            f"version {version.number} of the retention policy of {name} was not confirmed "
            f"(digest {digest})",
            f"Look at what it names (`lakegc retention remove {name} --dry-run`), then confirm it "
            f"(`lakegc confirm {name} removal --digest {digest[:12]}`).",
        )
    resets = confirmed.may_reset(run, version)
    orders = _orders(run, version.policy_digest, changes=not dry_run, resets=resets)
    branches = run.server.branches(run.repository.id)
    require_near(run.server.clock_reading, SERVER_CLOCK)
    planned = _planned(run, rules, branches)
    if dry_run:
        return Removal(version, _carried_out(orders, rules, planned), {})
    record.begin(run, _begun(run, version, who, planned))
    with phase(
        "No object was deleted. Merges that were made stand; `lakegc retention restore "
        f"{run.repository.id} {run.key}` reverts them."
    ):
        left = work_branch.clear_left(run, branches)
        return Removal(version, _carried_out(orders, rules, planned), left)


def look_at(run: Run, policy: Policy) -> tuple[Named, ...]:
    """Find what the removal rules of a document name at their branches' heads; changes nothing.

    Args:
        run: The repository, opened.
        policy: The document; it need not be set.
    """
    rules = removal_rules(policy)
    if not rules:
        return ()
    orders = _orders(run, policy.digest, changes=False, resets=False)
    planned = _planned(run, rules, run.server.branches(run.repository.id))
    return _carried_out(orders, rules, planned)


def newest(run: Run) -> Version:
    """Return the version of the policy that counts.

    Raises:
        NotFoundError: If the repository has no policy.
    """
    version = versions.newest(run)
    if version is None:
        raise NotFoundError(
            f"repository {run.repository.id} has no retention policy", "Set one first."
        )
    return version


def _rules_of(run: Run) -> tuple[Version, tuple[RemovalRule, ...]]:
    version = newest(run)
    policy = version.policy
    rules = () if policy is None else removal_rules(policy)
    if not rules:
        raise NotFoundError(
            f"version {version.number} of the retention policy of {run.repository.id} has no "
            "enabled rule with `effect: remove`"
        )
    return version, rules


def _orders(run: Run, policy_digest: str, *, changes: bool, resets: bool) -> RemovalOrders:
    return RemovalOrders(
        run=run,
        holds=holds.load(run.store),
        policy_digest=policy_digest,
        taking=taking_now(run),
        changes=changes,
        resets=resets,
    )


def _planned(
    run: Run, rules: Sequence[RemovalRule], branches: Sequence[Branch]
) -> Mapping[int, Planned]:
    heads = {branch.id: branch.commit_id for branch in branches}
    return {
        rule.number: Planned(
            rule=rule.number,
            branch=rule.branch,
            head=heads.get(rule.branch, ""),
            work_branch=work_branch.name_of(run, rule.number),
        )
        for rule in rules
    }


def _begun(run: Run, version: Version, who: str, planned: Mapping[int, Planned]) -> Begun:
    return Begun(
        run=str(run.key),
        instance=run.instance,
        policy_version=version.number,
        policy_digest=version.policy_digest,
        who=who,
        since=run.now(),
        rules=tuple(planned.values()),
    )


def _carried_out(
    orders: RemovalOrders, rules: Sequence[RemovalRule], planned: Mapping[int, Planned]
) -> tuple[Named, ...]:
    of_branch: dict[str, list[RemovalRule]] = {}
    for rule in rules:
        of_branch.setdefault(rule.branch, []).append(rule)

    def ask(branch: str) -> Iterator[Named]:
        for rule in of_branch[branch]:
            work = RuleWork(orders, rule, planned[rule.number])
            outcome = work.carry_out()
            if orders.changes:
                record.store_outcome(orders.run, outcome)
            yield Named(outcome, work.found, work.staged)

    at_once = orders.run.options.branches_at_once
    done = [named for _, named in side_by_side(list(of_branch), ask, at_once=at_once)]
    return tuple(sorted(done, key=lambda named: named.outcome.rule))
