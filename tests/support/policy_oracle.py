"""What a retention policy may take, and what it must take, in plain sets from what the API shows.

The truth about which branch a commit was made on is the test's own record: lakeFS keeps none. What
may go is judged by that record, and what must go by the words of docs/object-retention.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from spark_core.references.policies.document import Policy, Rule
from tests.support.live_repository import short
from tests.support.sandbox_repository import SandboxRepository
from tests.support.search_oracle import Held

DEFAULT_BRANCH = "main"
# A run reads the heads so soon after its key.
NEAR = timedelta(minutes=1)


@dataclass(frozen=True)
class Move:
    """A branch that was made, or reset, onto a commit.

    Attributes:
        branch: Its name.
        onto: The commit.
        seen: Heads at which stored runs had seen a branch of that name before.
    """

    branch: str
    onto: str
    seen: frozenset[str]


class RecordedRepository(SandboxRepository):
    """A repository that knows on which branch each commit was made.

    Attributes:
        made_on: Commit -> branches; two branches can make one commit, since its content names it.
        moves: Every branch that was made or reset.
        noted: Heads that runs saw, by their keys; the test adds to it.
    """

    def __init__(self, *arguments: Any, **creation: Any) -> None:
        self.made_on: dict[str, set[str]] = defaultdict(set)
        self.moves: list[Move] = []
        self.noted: Mapping[datetime, Mapping[str, str]] = {}
        self._dated: dict[str, dict[str, tuple[str, datetime]]] = {}
        self._ancestors: dict[str, frozenset[str]] = {}
        super().__init__(*arguments, **creation)

    def note_head(self, branch: str) -> str:
        return self._made(super().note_head(branch), branch)

    def commit(self, branch: str, **data: Any) -> str:
        return self._made(super().commit(branch, **data), branch)

    def cherry_pick(self, branch: str, ref: str, **data: Any) -> str:
        return self._made(super().cherry_pick(branch, ref, **data), branch)

    def _made(self, commit: str, branch: str) -> str:
        self.made_on[commit].add(branch)
        return commit

    def branch(self, name: str, source: str = "main", *, hidden: bool = False) -> None:
        super().branch(name, source, hidden=hidden)
        self._moved(name)

    def hard_reset(self, branch: str, ref: str) -> None:
        super().hard_reset(branch, ref)
        self._moved(branch)

    def _moved(self, branch: str) -> None:
        seen = {heads[branch] for heads in self.noted.values() if branch in heads}
        self.moves.append(Move(branch, self.branches()[branch], frozenset(seen)))

    def dated(self, ref: str) -> dict[str, tuple[str, datetime]]:
        """Path -> relative address and date of every entry of a ref that lies in the namespace."""
        found = {}
        for entry in self.server.listed(f"/repositories/{self.name}/refs/{ref}/objects/ls"):
            address = self.store.relative(entry["physical_address"])
            if address is not None:
                found[entry["path"]] = address, datetime.fromtimestamp(entry["mtime"], UTC)
        return found

    def committed(self, commit: str) -> dict[str, tuple[str, datetime]]:
        """As `dated`, of a commit: it never changes, and is asked for once."""
        if commit not in self._dated:
            self._dated[commit] = self.dated(short(commit))
        return self._dated[commit]

    def line(self, commit: str) -> list[str]:
        """Return a commit and those before it on the main line."""
        found, at = [commit], self.commits[commit]["parents"]
        while at:
            found.append(at[0])
            at = self.commits[at[0]]["parents"]
        return found

    def ancestors(self, commit: str) -> frozenset[str]:
        """Return the commits that another one descends from, by all parents."""
        if commit not in self._ancestors:
            parents = self.commits[commit]["parents"]
            self._ancestors[commit] = frozenset(parents).union(*map(self.ancestors, parents))
        return self._ancestors[commit]


@dataclass
class Names:
    """Every name that any commit gives to an object, and whose commits they are, at one instant.

    Attributes:
        repository: Whose objects.
        order: The document's `branch_order`.
        heads_before: Heads at an earlier instant, which a search for twins looks at as well.
        heads: Heads of the branches.
        lines: The main line of each branch.
        entries: Address -> path -> commits that have it there, with the entry's date.
        staged: Addresses that are staged where the head has something else.
        staged_at: Address -> branch and path of each of those entries, with its date.
        at_head: Addresses that heads have.
        shared: Addresses that a head has at a path where another head has, or had before,
            something else.
        limit_used: Commits that only the documented limit gives to a branch.
    """

    repository: RecordedRepository
    order: Sequence[str]
    heads_before: Iterable[str] = ()
    heads: dict[str, str] = field(init=False)
    lines: dict[str, list[str]] = field(init=False)
    entries: dict[str, dict[str, dict[str, datetime]]] = field(init=False)
    staged: set[str] = field(init=False, default_factory=set)
    staged_at: dict[str, dict[tuple[str, str], datetime]] = field(init=False)
    at_head: set[str] = field(init=False, default_factory=set)
    shared: set[str] = field(init=False, default_factory=set)
    limit_used: set[tuple[str, str]] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        repository = self.repository
        self.heads = repository.branches()
        self.lines = {branch: repository.line(head) for branch, head in self.heads.items()}
        self.entries = defaultdict(lambda: defaultdict(dict))
        for commit in repository.commits:
            for path, (address, date) in repository.committed(commit).items():
                self.entries[address][path][commit] = date
        self.staged_at = defaultdict(dict)
        at_path: dict[str, set[str]] = defaultdict(set)
        for head in self.heads_before:
            for path, (address, _) in repository.committed(head).items():
                at_path[path].add(address)
        for branch, head in self.heads.items():
            committed = repository.committed(head)
            for path, (address, _) in committed.items():
                self.at_head.add(address)
                at_path[path].add(address)
            for path, (address, date) in repository.dated(branch).items():
                if committed.get(path, ("",))[0] != address:
                    self.staged.add(address)
                    self.staged_at[address][branch, path] = date
        self.shared = {one for some in at_path.values() if len(some) > 1 for one in some}
        # An object that is staged in the place of another one could be its twin. Of several names
        # a mark tells the search for twins only one.
        self.shared |= {
            address
            for address, names in self.staged_at.items()
            if len(names) > 1 or any(path in at_path for _, path in names)
        }

    def introductions(self, address: str) -> Iterator[tuple[str, str]]:
        """Yield each path and commit that has an object there and no ancestor of which has it."""
        for path, commits in self.entries.get(address, {}).items():
            for commit in commits:
                if not self.repository.ancestors(commit) & set(commits):
                    yield path, commit

    def vouched(self, commit: str) -> str | None:
        """Return the branch to which the operator's order gives a commit."""
        before = () if DEFAULT_BRANCH in self.order else (DEFAULT_BRANCH,)
        for branch in (*before, *self.order):
            if commit in self.lines.get(branch, ()):
                return branch
        return None

    def may_be_of(self, commit: str) -> set[str]:
        """Return the branches whose rules may take what a commit introduced.

        Without the operator's word these are the branches on which it was made, if it is still on
        the main line of that one alone.

        The documented limit of the second case (`docs/decisions/words-of-policies.md`) is
        allowed, and no more: a branch was reset, or made anew, onto a commit that was made on
        another one; a run had seen it before at an ancestor of that commit; and no other branch has
        the commit any more.
        """
        vouched = self.vouched(commit)
        if vouched is not None:
            return {vouched}
        on = [branch for branch, line in self.lines.items() if commit in line]
        if len(on) != 1:
            return set()
        if on[0] in self.repository.made_on[commit]:
            return set(on)
        below = set(self.repository.line(commit)[1:])
        for move in self.repository.moves:
            if (
                move.branch == on[0]
                and commit in self.repository.line(move.onto)
                and move.seen & below
            ):
                self.limit_used.add((commit, on[0]))
                return set(on)
        return set()

    def clearly_of(self, commit: str) -> str | None:
        """Return the branch that the docs give to a commit; None: undecided."""
        vouched = self.vouched(commit)
        if vouched is not None:
            return vouched
        on = [branch for branch, line in self.lines.items() if commit in line]
        if len(on) != 1:
            return None
        for heads in self.repository.noted.values():
            seen = heads.get(on[0])
            if seen is None or seen not in self.repository.line(commit)[1:]:
                continue
            then = {branch for branch, head in heads.items() if seen in self.repository.line(head)}
            now = {branch for branch, line in self.lines.items() if seen in line}
            if then == now == {on[0]}:
                return on[0]
        return None

    def gone_since(self, address: str, *, clearly: bool) -> datetime | None:
        """Tell since when no branch shows an object; None if no run saw that.

        This is the first run of those that saw it on no branch any more, and that began after the
        last commit that had or dropped it. A run reads the heads within a minute after its key.

        Args:
            address: The object.
            clearly: Whether to tell the latest moment; else the earliest.
        """
        commits, found = self.repository.commits, None
        have = {id_ for of_path in self.entries[address].values() for id_ in of_path}
        touched = {id_ for id_, made in commits.items() if have & {id_, *made["parents"][:1]}}
        last = max(map(self.repository.created, touched))
        for key, heads in sorted(self.repository.noted.items()):
            if have & set(heads.values()):
                found = None
            elif found is None and (key if clearly else key + NEAR) >= last:
                found = key + NEAR if clearly else max(key, last)
        return found


def is_due(
    names: Names,
    policy: Policy,
    address: str,
    *,
    instant: datetime,
    written: datetime | None,
    clearly: bool,
) -> bool:
    """Say whether rules of a policy take an object under every name that it has.

    Args:
        names: All names.
        policy: The document.
        address: The object.
        instant: The run's instant, less what clocks may be wrong by.
        written: When the store says that it was written; None in quarantine.
        clearly: Whether the docs must decide the branch; else by what the test knows, and a rule
            without a prefix may take it, and a run may have seen the heads a moment earlier.
    """
    found = list(names.introductions(address))
    gone = None
    if found and address not in names.at_head:
        gone = names.gone_since(address, clearly=clearly)
    for path, commit in found:
        dates = [names.repository.created(commit), *names.entries[address][path].values()]
        start = max([*dates, *([] if written is None else [written])])
        if clearly:
            owner = names.clearly_of(commit)
            owners: set[str | None] = {owner}
        else:
            owners = {*names.may_be_of(commit), None}
        ends = [
            end
            for rule in policy.rules
            for owner in owners
            for end in _ends(rule, owner, path, start, gone)
        ]
        if not any(end <= instant for end in ends):
            return False
    return bool(found)


def is_staged_due(
    names: Names,
    policy: Policy,
    address: str,
    *,
    instant: datetime,
    written: datetime | None,
    held: set[str],
    clearly: bool,
) -> bool:
    """Say whether rules take a staged object under every name that it has.

    Args:
        names: All names.
        policy: The document.
        address: The object; it is staged.
        instant: As for `is_due`.
        written: As for `is_due`.
        held: Branches that people hold.
        clearly: Whether the second counts by which the server cuts a date.
    """
    if address in names.entries:
        return False
    for (branch, path), date in names.staged_at[address].items():
        start = date + timedelta(seconds=clearly)
        start = start if written is None else max(start, written)
        ends = [
            start + rule.periods["uncommitted"].length
            for rule in policy.rules
            if rule.is_enabled
            and rule.effect != "remove"
            and "uncommitted" in rule.periods
            and rule.branch in (None, branch)
            and path.startswith(rule.path)
        ]
        if branch in held or not any(end <= instant for end in ends):
            return False
    return True


def _ends(
    rule: Rule, owner: str | None, path: str, start: datetime, gone: datetime | None
) -> Iterator[datetime]:
    """Yield when a rule takes a name: a path, of a branch or of none."""
    # What a rule removes by a commit is no sweep's.
    if not rule.is_enabled or rule.effect == "remove":
        return
    if rule.branch is not None and (rule.branch != owner or not path.startswith(rule.path)):
        return
    for action, period in rule.periods.items():
        if action == "all":
            yield start + period.length
        elif action == "noncurrent" and gone is not None:
            yield max(start, gone) + period.length


def kept_by_commits(repository: RecordedRepository, held: Held, *, tags_protect: bool) -> set[str]:
    """Return the addresses that tags and holds keep through commits."""
    commits = held.held_commits(repository)
    if tags_protect:
        commits |= set(repository.tags().values())
    return {address for commit in commits for address, _ in repository.committed(commit).values()}


def takes(
    names: Names,
    policy: Policy,
    address: str,
    *,
    key: datetime,
    margin: timedelta,
    kept: set[str],
    written: datetime | None,
    held: set[str],
    clearly: bool,
) -> bool:
    """Say whether a policy may, or clearly must, take an object.

    Args:
        names: All names.
        policy: A document that is in force and confirmed.
        address: The object.
        key: The run's instant.
        margin: What clocks may be wrong by.
        kept: Addresses that a tag or a hold keeps.
        written: As for `is_due`.
        held: Branches that people hold.
        clearly: As for `is_due`.
    """
    if address in kept:
        return False
    instant = key - margin
    if address in names.staged:
        return is_staged_due(
            names,
            policy,
            address,
            instant=instant,
            written=written,
            held=held,
            clearly=clearly,
        )
    return is_due(names, policy, address, instant=instant, written=written, clearly=clearly)
