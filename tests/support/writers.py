"""Writers beside a collection: a repository with something to move and something to revive, and the
moments at which they act.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from lakegc_dagster.sandbox import Sandbox
from tests.support.live_server import LiveError
from tests.support.sandbox_repository import SandboxRepository, SandboxServer

DAYS = 7
# Of a `Mover`, between two rounds.
_PAUSE_SECONDS = 1.0
# Calls of the driver to the store that are moments, too.
_STORE_CALLS = {"list", "read", "head", "exists", "put", "put_if_absent", "delete", "read_range"}
# Those that are heard, and at which nobody acts: moments are told by their numbers.
_NO_MOMENTS = {"children"}


class WatchedStore:
    """A store whose calls on the driver are told to somebody first; executors get the store itself.

    Args:
        store: The store.
        told: Gets the name of each call that is a moment.
        heard: Gets the method and the arguments after that; what it returns is called once there
            was an answer.
    """

    def __init__(
        self,
        store: Any,
        told: Callable[[str], None],
        heard: Callable[[str, Sequence[Any]], Callable[[], None] | None] = lambda *_: None,
    ) -> None:
        self._store, self._told, self._heard = store, told, heard

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in _STORE_CALLS | _NO_MOMENTS:
            return found

        def call(*arguments: Any, **named: Any) -> Any:
            if name in _STORE_CALLS:
                self._told(f"store.{name}")
            answered = self._heard(name, arguments)
            answer = found(*arguments, **named)
            if answered is not None:
                answered()
            return answer

        return call

    def __reduce__(self) -> Any:
        return _itself, (self._store,)


def _itself(store: Any) -> Any:
    return store


class RememberedRepository(SandboxRepository):
    """A repository of which nobody but its own methods changes a branch: what one shows is asked
    for once.
    """

    def __init__(self, *arguments: Any, **creation: Any) -> None:
        self._shown: dict[str, dict[str, str]] = {}
        super().__init__(*arguments, **creation)

    def call(self, method: str, path: str, **what: Any) -> Any:
        if method != "GET":
            for named in set(path.split("/")) & set(self._shown):
                del self._shown[named]
        return super().call(method, path, **what)

    def entries(self, ref: str) -> dict[str, str]:
        if ref not in self._shown:
            self._shown[ref] = super().entries(ref)
        return self._shown[ref]


class Scene:
    """A repository of which each writer has something of its own.

    What is to be *moved* is referred to by one ref or staged entry only, and old enough to be
    collected; what is to be *revived* is referred to by nothing any more, but a commit that
    expired.

    Args:
        sandbox: Where it is made; its clock stands at `now` afterwards.
        now: The instant of the collection.
        repository: Of which kind it is.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        now: datetime,
        repository: type[SandboxRepository] = SandboxRepository,
    ) -> None:
        self._clock, self._now = sandbox.clock, now
        self._at(70)
        self.repository = repository(SandboxServer.of(sandbox))
        self.repository.rules(DAYS)
        self.addresses: dict[str, str] = {}
        self.commits: dict[str, str] = {}
        self._upload("main", "base")
        self.repository.commit("main")
        for name in ("branched", "tagged", "reset to", "picked", "staged again", "merged"):
            self._lose(name)
        self._undo()
        for name in ("renamed", "tagged head", "unstaged", "only head"):
            self._head(name)
        self._at(3)
        for name in ("work", "feature", "z-staged", "doomed", "z-tree"):
            self.repository.branch(name)
            self._upload(name, name)
        self._upload("main", "garbage")
        self.repository.reset("main")
        for name in ("a-staged", "a-staged-2", "picker", "resetter", "stager", "merger", "fresh"):
            self.repository.branch(name)
        sandbox.clock.set(now)

    def _at(self, days_ago: float) -> None:
        self._clock.set(self._now - timedelta(days=days_ago))

    def _upload(self, branch: str, name: str) -> None:
        self.addresses[name] = self.repository.upload(
            branch, f"of/{name}", f"content of {name}".encode()
        )

    def _branch_of(self, name: str) -> str:
        return name.replace(" ", "-")

    def _lose(self, name: str) -> None:
        """Leave a commit that no ref leads to any more."""
        self._at(50)
        branch = self._branch_of(name)
        self.repository.branch(branch)
        self._upload(branch, name)
        self.commits[name] = self.repository.commit(branch)
        self.repository.drop_branch(branch)

    def old_head(self, name: str) -> None:
        """Add a branch whose head alone keeps its object; the clock returns to `now`."""
        self._head(name)
        self._clock.set(self._now)

    def staged(self, name: str) -> None:
        """Leave another branch with an entry that was staged three days ago; the clock returns to
        `now`.
        """
        self._at(3)
        self.repository.branch(name, "main")
        self._upload(name, name)
        self._clock.set(self._now)

    def _undo(self) -> None:
        """Leave a commit that took something away, longer ago than the rules look back."""
        self.repository.branch("reverter")
        for days, name in ((50, "reverted"), (45, None), (40, "later"), (30, "last")):
            self._at(days)
            if name is None:
                self.repository.delete("reverter", "of/reverted")
            else:
                self._upload("reverter", name)
            made = self.repository.commit("reverter")
            if name is None:
                self.commits["reverted"] = made

    def _head(self, name: str) -> None:
        """Leave a branch whose head is all that keeps its object."""
        self._at(45)
        branch = self._branch_of(name)
        self.repository.branch(branch)
        self._upload(branch, name)
        self.commits[name] = self.repository.commit(branch)

    def _stage(self, branch: str, name: str, *, absolute: bool) -> None:
        address = self.addresses[name]
        place = self.repository.store
        spelt = (
            f"local://{place.folder}/{address}"
            if absolute
            else f"{self.repository.namespace}/{address}"
        )
        answer = self.repository.stage(
            branch, f"again/{name}", spelt, size_bytes=len(f"content of {name}")
        )
        assert answer.status == 201, answer.body

    # What moves a reference: the object is referred to all the time.

    def commit_what_is_staged(self) -> None:
        self.repository.commit("work")

    def commit_and_merge_and_drop(self) -> None:
        self.repository.commit("feature")
        self.repository.merge("feature", "merger")
        self.repository.drop_branch("feature")

    def rename_a_branch(self) -> None:
        self.repository.branch("after-renaming", "renamed")
        self.repository.drop_branch("renamed")

    def tag_a_head_and_drop_its_branch(self) -> None:
        self.repository.tag("kept", "tagged-head")
        self.repository.drop_branch("tagged-head")

    def stage_elsewhere_and_reset(self) -> None:
        self._stage("a-staged", "z-staged", absolute=True)
        self.repository.reset("z-staged")

    def stage_what_was_committed_and_drop_the_branch(self) -> None:
        self._stage("a-staged-2", "unstaged", absolute=False)
        self.repository.drop_branch("unstaged")

    def commit_and_rename(self) -> None:
        self.repository.commit("z-tree")
        self.repository.branch("a-tree", "z-tree")
        self.repository.drop_branch("z-tree")

    # What comes back to life.

    def branch_from_an_expired_commit(self) -> None:
        self.repository.branch("branched-again", self.commits["branched"])

    def tag_an_expired_commit(self) -> None:
        self.repository.tag("tagged-again", self.commits["tagged"])

    def reset_to_an_expired_commit(self) -> None:
        self.repository.hard_reset("resetter", self.commits["reset to"])

    def revert_an_expired_commit(self) -> None:
        self.repository.revert("reverter", self.commits["reverted"])

    def pick_an_expired_commit(self) -> None:
        self.repository.cherry_pick("picker", self.commits["picked"])

    def merge_an_expired_commit(self) -> None:
        self.repository.merge(self.commits["merged"], "fresh")

    def stage_an_expired_object(self) -> None:
        self._stage("stager", "staged again", absolute=True)

    def lengthen_the_rules(self) -> None:
        self.repository.rules(60)

    # What only writes, or lets go.

    def upload_and_commit(self) -> None:
        self._upload("fresh", "new")
        self.repository.commit("fresh")

    def upload_the_same(self) -> None:
        self.repository.upload("main", "of/base", b"content of base")

    def drop_a_branch_with_staged_entries(self) -> None:
        self.repository.drop_branch("doomed")

    @property
    def actions(self) -> dict[str, Callable[[], None]]:
        """Everything that writers do, by name; each is done once."""
        return {name: getattr(self, name) for name in ACTIONS}


# Those that make or delete a branch do not come one after the other: a scan beside which branches
# always come and go gives up. The last one revives most of what the others do, so it is done in
# some interleavings only.
ACTIONS = (
    "rename_a_branch",
    "commit_what_is_staged",
    "tag_an_expired_commit",
    "commit_and_merge_and_drop",
    "stage_elsewhere_and_reset",
    "tag_a_head_and_drop_its_branch",
    "stage_an_expired_object",
    "reset_to_an_expired_commit",
    "stage_what_was_committed_and_drop_the_branch",
    "revert_an_expired_commit",
    "commit_and_rename",
    "pick_an_expired_commit",
    "merge_an_expired_commit",
    "branch_from_an_expired_commit",
    "upload_and_commit",
    "drop_a_branch_with_staged_entries",
    "upload_the_same",
    "lengthen_the_rules",
)


@dataclass
class Schedule:
    """Lets writers act just before certain calls of a collection.

    Attributes:
        actions: What is done, by name.
        moments: Number of a call -> names of the actions done before it.
        seen: Told after each action, and before the first; returns what is referred to then.
        heard: Gets the name of each call after what was done before it.
        calls: The calls so far.
        done: Action -> number of the call before which it was done.
        snapshots: What was referred to after each action: number of the call, addresses.
        failures: Actions that could not be done.
    """

    actions: Mapping[str, Callable[[], None]]
    moments: Mapping[int, Sequence[str]]
    seen: Callable[[], set[str]]
    heard: Callable[[str], None] = lambda _: None
    calls: list[str] = field(default_factory=list)
    done: dict[str, int] = field(default_factory=dict)
    snapshots: list[tuple[int, set[str]]] = field(default_factory=list)
    failures: list[tuple[str, Exception]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._acting = False
        self._lock = threading.Lock()
        self.snapshots.append((0, self.seen()))

    def told(self, call: str) -> None:
        """Take note of a call, and let the writers act that wait for it; their own calls are no
        moments.
        """
        if self._acting:
            return
        with self._lock:
            number = len(self.calls)
            self.calls.append(call)
            for name in self.moments.get(number, ()):
                self._acting = True
                try:
                    self.actions[name]()
                    self.done[name] = number
                    self.snapshots.append((number, self.seen()))
                except (LiveError, AssertionError) as failure:
                    # In the server's thread it would only be an answer of the server.
                    self.failures.append((name, failure))
                finally:
                    self._acting = False
            self.heard(call)

    def referred_to_since(self, number: int) -> set[str]:
        """Return what was referred to at a call, and ever since."""
        before = [at for at, (when, _) in enumerate(self.snapshots) if when <= number]
        return set.intersection(*(addresses for _, addresses in self.snapshots[before[-1] :]))

    def ever_referred_to(self) -> set[str]:
        """Return what was referred to at any moment."""
        return set().union(*(addresses for _, addresses in self.snapshots))


def spread(calls: int, offset: int) -> dict[int, list[str]]:
    """Give each action a moment among so many calls: over all offsets, each action comes before
    each call.
    """
    actions = ACTIONS if offset % 2 else ACTIONS[:-1]
    moments: dict[int, list[str]] = {}
    stride = max(1, calls // len(actions))
    for position, name in enumerate(actions):
        moments.setdefault((offset + position * stride) % calls, []).append(name)
    return moments


class Mover(threading.Thread):
    """A writer who hardly rests: all that it began with stays referred to, only each time by
    something else.

    Args:
        scene: Where; the mover's own things are added to it.
        name: Of its branches and tags.

    Attributes:
        act: Does one thing of a round after the other.
    """

    def __init__(self, scene: Scene, name: str) -> None:
        super().__init__(name=f"mover-{name}", daemon=True)
        self._repository, self._named = scene.repository, name
        self._rest = threading.Event()
        self.act: Callable[[Callable[[], object]], object] = lambda does: does()
        self.rounds = 0
        self.failure: Exception | None = None
        scene.old_head(f"{name}-0")
        scene.staged(f"{name}-staged-0")

    def run(self) -> None:
        """Move everything on until told to rest."""
        try:
            while not self._rest.is_set():
                for does in self._moves(self.rounds):
                    self.act(does)
                self.rounds += 1
                # Beside branches that come and go all the time no scan comes to its end.
                self._rest.wait(_PAUSE_SECONDS)
        except (LiveError, AssertionError) as failure:
            self.failure = failure

    def rest(self) -> None:
        """End after the present round."""
        self._rest.set()
        self.join(60)
        assert not self.is_alive(), "a writer hangs"

    def _moves(self, number: int) -> Iterator[Callable[[], object]]:
        repository, name, following = self._repository, self._named, number + 1
        # A head: by a tag while the branch is renamed.
        yield lambda: repository.tag(f"{name}-{number}", f"{name}-{number}")
        yield lambda: repository.drop_branch(f"{name}-{number}")
        yield lambda: repository.branch(
            f"{name}-{following}", f"{name}-{number}", hidden=bool(number % 2)
        )
        yield lambda: repository.drop_tag(f"{name}-{number}")
        # What is staged: committed, merged elsewhere, and the branch dropped.
        staged, onward = f"{name}-staged-{number}", f"{name}-staged-{following}"
        path, text = f"of/{name}/{number}", f"{name} {number}"
        yield lambda: repository.upload(staged, path, text.encode())
        yield lambda: repository.commit(staged)
        yield lambda: repository.branch(onward, "main")
        yield lambda: repository.merge(staged, onward)
        yield lambda: repository.drop_branch(staged)
        yield lambda: repository.upload(onward, path, f"{text} again".encode())
