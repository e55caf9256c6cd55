"""The way to an erasure: what must happen until nothing under a prefix is left, and until when.

It only decides, from what the certificate's own reading of every commit found. What happens, people
start: the removal from branches, the runs, and the certificate at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from spark_core.certificate.issue import Holder
from spark_core.certificate.under_prefix import UnderPrefix
from spark_core.clocks import MAX_CLOCK_SKEW
from spark_core.model import RetentionRules
from spark_core.plain_text import counted
from spark_core.references.policies.document import REMOVE, UNCOMMITTED, Period, Policy, Rule
from spark_core.run import RunOptions

# The youngest entry that a removal rule takes.
_A_DAY = timedelta(days=1)
_SHOWN = 5


@dataclass(frozen=True)
class Step:
    """One step.

    Attributes:
        kind: `remove` entries from branches, take an `obstacle` away, `wait`, `run`, or `certify`.
        words: What must happen, or what is waited for.
        commands: The commands that do it; empty where time does.
        until: When it is over at the earliest; None where that depends on people.
    """

    kind: Literal["remove", "obstacle", "wait", "run", "certify"]
    words: str
    commands: tuple[str, ...] = ()
    until: datetime | None = None


@dataclass(frozen=True)
class Erasure:
    """The way to an erasure.

    Attributes:
        prefix: The prefix.
        objects: Objects that have or had a path there.
        left: Those of them of which something is left.
        steps: What must happen, in order; empty if nothing is left.
        true_on: When nothing will be left, if people do their part now and a run follows as soon as
            it can; None if an obstacle without an end is in the way.
    """

    prefix: str
    objects: int
    left: int
    steps: tuple[Step, ...]
    true_on: datetime | None

    @property
    def is_done(self) -> bool:
        """Whether nothing is left."""
        return not self.left


def way(
    repository_id: str,
    prefix: str,
    under: UnderPrefix,
    left: Mapping[str, Sequence[Holder]],
    options: RunOptions,
) -> Erasure:
    """Say what must happen until nothing under a prefix is left.

    Args:
        repository_id: Repository name.
        prefix: Beginning of the paths.
        under: What was found there, in commits and on branches.
        left: Of the objects, those of which something is left, with what holds them: as a
            certificate says.
        options: The options of the repository.
    """
    if not left:
        return Erasure(prefix, len(under.objects), 0, (), None)
    branches = sorted({name for once in under.objects.values() for name in once.branches})
    removal = _removal(repository_id, prefix, branches)
    holders = dict.fromkeys(holder for each in left.values() for holder in each)
    obstacles = list(_endless(repository_id, under, left, options))
    is_there = any(holder.kind == "place" for holder in holders)
    if is_there:
        obstacles += [
            *_kept_commits(repository_id, under),
            *_last_commits(repository_id, under, options.keep_last),
            *_left_to_others(repository_id, options),
        ]
    steps, over, command = [*removal, *obstacles], under.read_at, f"lakegc run {repository_id}"
    if is_there:
        over = _swept_from(under, left, branches, options)
        if over > under.read_at:
            words = "the rules keep commits that have it, and uploads have a minimum age"
            steps.append(Step("wait", words, until=over))
        steps.append(Step("run", "a mark and a sweep take the objects", (command,), over))
    aside = [holder.until or over for holder in holders if holder.kind == "quarantine"]
    if is_there and options.quarantine:
        aside.append(over + timedelta(days=options.quarantine_days))
    if aside:
        over = max(over, *aside)
        words = "the swept objects lie in quarantine; the next run after that deletes them for good"
        steps.append(Step("wait", words, (command,), over))
    quoted = _quoted(prefix)
    certify = f"lakegc certificate {repository_id} RUN --path {quoted}"
    words = "RUN is the run that swept them; the certificate says whether all of it is gone"
    steps.append(Step("certify", words, (certify,), over))
    return Erasure(prefix, len(under.objects), len(left), tuple(steps), None if obstacles else over)


def removal_policy(now: Policy | None, prefix: str, branches: Sequence[str]) -> Policy:
    """Return a policy that also removes what is under a prefix from branches.

    Args:
        now: The policy that counts; its rules stay, and none that it has is added.
        prefix: Beginning of the paths.
        branches: The branches.
    """
    day = Period(days=1)
    rules = tuple(
        Rule(branch, prefix, {"all": day, UNCOMMITTED: day}, effect=REMOVE) for branch in branches
    )
    if now is None:
        return Policy(rules)
    return replace(now, rules=(*now.rules, *(rule for rule in rules if rule not in now.rules)))


def _removal(repository_id: str, prefix: str, branches: Sequence[str]) -> Iterator[Step]:
    if not branches:
        return
    named = ", ".join(branches[:_SHOWN])
    more = f" and {len(branches) - _SHOWN} more" if len(branches) > _SHOWN else ""
    yield Step(
        "remove",
        f"branches show it: {named}{more}; a removal takes entries that are a day old, by a commit",
        (
            f"lakegc erase {repository_id} --path {_quoted(prefix)} --policy-out erase.json",
            f"lakegc retention set {repository_id} --policy-file erase.json",
            f"lakegc retention remove {repository_id} --dry-run",
            f"lakegc confirm {repository_id} removal --digest DIGEST",
            f"lakegc retention remove {repository_id}",
        ),
    )


def _endless(
    repository_id: str,
    under: UnderPrefix,
    left: Mapping[str, Sequence[Holder]],
    options: RunOptions,
) -> Iterator[Step]:
    """Name what holds it without an end: the mode, holds, a store that keeps it, a dead sweep."""
    if not options.may_sweep:
        yield Step("obstacle", f'runs delete nothing: set mode = "sweep" for {repository_id}')
    held = {row["reason"] for row in under.kept if row["reason"].startswith("hold ")}
    held |= {why for address in left if (why := under.objects[address].held_by)}
    for hold in sorted(held):
        name = hold.removeprefix("hold ").partition(":")[0]
        yield Step("obstacle", hold, (f"lakegc hold remove {repository_id} {name}",))
    if outside := sum(not under.objects[address].is_inside for address in left):
        words = f"{counted(outside, 'object')} outside the namespace, where lakegc deletes nothing"
        yield Step("obstacle", words)
    for holder in dict.fromkeys(one for holders in left.values() for one in holders):
        if holder.kind == "store":
            yield Step("obstacle", f"{holder.words}: what lakegc deletes may stay in the store")
        elif holder.kind == "quarantine" and holder.until is None:
            yield Step("obstacle", f"{holder.words}, of which no report says until when")


def _kept_commits(repository_id: str, under: UnderPrefix) -> Iterator[Step]:
    """Name what keeps commits that have it without an end: tags, no rules."""
    if under.rules is None:
        words = "the repository has no rules, so every commit keeps its objects"
        yield Step("obstacle", words, (f"lakegc rules set {repository_id} --default DAYS",))
    for row in under.kept:
        reason = str(row["reason"])
        if row["retained_until"] is not None or row["is_head"] or reason.startswith("hold "):
            continue
        if reason.startswith("tag "):
            tags = reason.removeprefix("tag ")
            words = f"commit {row['commit_id'][:12]} is kept by tag {tags}"
            yield Step("obstacle", words, (f"lakectl tag delete lakefs://{repository_id}/TAG",))
        elif under.rules is not None:
            words = f"commit {row['commit_id'][:12]} is kept, and its end is not known: {reason}"
            yield Step("obstacle", words)


def _last_commits(repository_id: str, under: UnderPrefix, keep_last: int) -> Iterator[Step]:
    """Name the branches whose heads have it, and stay among their last commits for a while."""
    heads = sorted(name for name, commit in under.heads.items() if commit in under.kept_ids)
    if keep_last > 1 and heads:
        named = ", ".join(heads[:_SHOWN])
        more = f" and {len(heads) - _SHOWN} more" if len(heads) > _SHOWN else ""
        yield Step(
            "obstacle",
            f"the last {keep_last} commits of each branch stay whatever their age (`keep_last`), "
            f"and the heads of {named}{more} have it: make as many commits without it, or set "
            f"keep_last = 1 for {repository_id}",
        )


def _left_to_others(repository_id: str, options: RunOptions) -> Iterator[Step]:
    """Name the setting under which a run leaves what nothing reaches."""
    if not options.collects_unreachable:
        words = "what nothing reaches is left to another run"
        yield Step("obstacle", f'{words}: set policies = "sweep" for {repository_id}')


def _swept_from(
    under: UnderPrefix,
    left: Mapping[str, Sequence[Holder]],
    branches: Sequence[str],
    options: RunOptions,
) -> datetime:
    """Return when the rules let go the last commit that has it, if branches lose it now."""
    rules = under.rules or RetentionRules(0)
    ends = [under.read_at]
    ends += [row["retained_until"] for row in under.kept if row["retained_until"] is not None]
    heads = {name for name, commit_id in under.heads.items() if commit_id in under.kept_ids}
    days = [rules.days_for(name) for name in heads.union(branches)]
    if days:
        # A commit that removes the entries keeps the one before it as long as its branch says.
        removed = under.read_at + (_A_DAY if branches else timedelta(0))
        ends.append(removed + timedelta(days=max(days)) + options.clock_margin)
    # A restore makes an object young again.
    written = [each.written for held in left.values() for each in held if each.written]
    return max(*ends, max(written) + options.min_age + MAX_CLOCK_SKEW)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
