"""A random history of a live repository, made by a seed: everything a user can do, in any order."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from botocore.exceptions import ClientError

from tests.support.live_repository import LiveRepository, short
from tests.support.live_server import LiveError

DEFAULT = 7
RULES = {"main": 10, "dev": 4}
# Ages in days on both sides of every rule, never within two hours of one.
AGES = (0, 0.5, 2, 3.8, 4.3, 6.5, 7.5, 9.7, 10.4, 14, 40)

_DIRECTORIES = ("", "dir/", "dir//", "od d/", "ünï/", "a%2Fb/", "q?x=1&y#z/", "../")


class LiveHistory:
    """Acts on a repository as a seed says.

    Attributes:
        done: How often each action went through.
        refused: How often the server said no: a conflict, nothing to commit, a branch that is not
            clean.
        beyond_the_bound: A branch was reset hard, so time alone does not tell what hides
            (docs/safety.md, guarantee 1).
    """

    def __init__(self, repository: LiveRepository, seed: int) -> None:
        self.repository = repository
        self.random = Random(seed)
        self.done: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.beyond_the_bound = False
        self.presigns = bool(
            repository.server.call("GET", "/config")["storage_config"].get(
                "pre_sign_multipart_upload", False
            )
        )

    def begin(self) -> None:
        """Set the rules, and make the branches that they name."""
        self.repository.rules(DEFAULT, **RULES)
        for path in ("dir/0", "dir/1"):
            self.repository.upload("main", path, self._bytes())
        self.repository.commit("main", days_ago=max(AGES))
        self.repository.branch("dev")

    def play(self, steps: int) -> None:
        """Do so many things."""
        actions = {
            self._upload: 22,
            self._upload_by_gateway: 4,
            self._upload_in_parts: 2,
            self._link: 4,
            self._write_unlinked: 2,
            self._identical: 8,
            self._copy: 5,
            self._remove: 8,
            self._commit: 24,
            self._branch: 5,
            self._drop_branch: 4,
            self._tag: 3,
            self._drop_tag: 1,
            self._merge: 6,
            self._revert: 4,
            self._cherry_pick: 4,
            self._reset: 3,
            self._hard_reset: 3,
        }
        if self.presigns:
            actions[self._upload_in_presigned_parts] = 2
        for action in self.random.choices(list(actions), weights=list(actions.values()), k=steps):
            name = action.__name__.strip("_")
            try:
                action()
            except (LiveError, ClientError):
                self.refused[name] += 1
            else:
                self.done[name] += 1

    # What an action works on

    def _bytes(self) -> bytes:
        # Few sizes: many objects are then of the size of some entry, and may be its twin.
        return self.random.randbytes(8).hex().encode()[: self.random.randrange(3, 9)]

    def _any_branch(self) -> str:
        return self.random.choice(sorted(self.repository.branches()))

    def _any_commit(self) -> str:
        return short(self.random.choice(sorted(self.repository.commits)))

    def _path(self) -> str:
        return f"{self.random.choice(_DIRECTORIES)}{self.random.randrange(4)}"

    def _there(self) -> tuple[str, str]:
        """Choose a branch and a path that is on it, if there is one."""
        branch = self._any_branch()
        paths = sorted(self.repository.entries(branch))
        return branch, self.random.choice(paths) if paths else self._path()

    # Objects

    def _upload(self) -> None:
        self.repository.upload(self._any_branch(), self._path(), self._bytes())

    def _upload_by_gateway(self) -> None:
        self.repository.upload_by_gateway(
            self._any_branch(), f"gateway/{self.random.randrange(3)}", self._bytes()
        )

    def _upload_in_parts(self) -> None:
        self.repository.upload_in_parts(
            self._any_branch(), f"parts/{self.random.randrange(3)}", [self._bytes()]
        )

    def _upload_in_presigned_parts(self) -> None:
        self.repository.upload_in_presigned_parts(self._any_branch(), self._path(), [self._bytes()])

    def _link(self) -> None:
        self.repository.link(self._any_branch(), self._path(), self._bytes())

    def _write_unlinked(self) -> None:
        self.repository.write_unlinked(self._any_branch(), self._path(), self._bytes())

    def _identical(self) -> None:
        branch, path = self._there()
        self.repository.upload(branch, path, self.repository.get(branch, path))

    def _copy(self) -> None:
        source, path = self._there()
        self.repository.copy(self._any_branch(), self._path(), source, path)

    def _remove(self) -> None:
        self.repository.delete(*self._there())

    # Commits and refs

    def _commit(self) -> None:
        self.repository.commit(self._any_branch(), days_ago=self.random.choice(AGES))

    def _branch(self) -> None:
        source = self.random.choice([self._any_branch(), self._any_commit()])
        name = self.random.choice(["dev", f"b{self.random.randrange(100)}"])
        self.repository.branch(name, source, hidden=self.random.random() < 0.2)

    def _drop_branch(self) -> None:
        branch = self._any_branch()
        if branch != "main":
            self.repository.drop_branch(branch)

    def _tag(self) -> None:
        self.repository.tag(f"t{self.random.randrange(20)}", self._any_commit())

    def _drop_tag(self) -> None:
        tags = sorted(self.repository.tags())
        if tags:
            self.repository.drop_tag(self.random.choice(tags))

    def _merge(self) -> None:
        source, destination = self._any_branch(), self._any_branch()
        # A branch that is not clean takes no merge.
        self.repository.reset(destination)
        # Where both sides changed a path, one of them is told to win now and then.
        options: dict[str, Any] = self.random.choice(
            [{}, {"strategy": "source-wins"}, {"strategy": "dest-wins"}]
        )
        self.repository.merge(
            source, destination, **options, squash_merge=self.random.random() < 0.2
        )

    def _parent_number(self, commit: str) -> int:
        (whole,) = [known for known in self.repository.commits if known.startswith(commit)]
        return 1 if len(self.repository.commits[whole]["parents"]) > 1 else 0

    def _revert(self) -> None:
        commit = self._any_commit()
        self.repository.revert(
            self._any_branch(), commit, parent_number=self._parent_number(commit)
        )

    def _cherry_pick(self) -> None:
        commit = self._any_commit()
        number = self._parent_number(commit)
        self.repository.cherry_pick(
            self._any_branch(), commit, **({"parent_number": number} if number else {})
        )

    def _reset(self) -> None:
        branch, path = self._there()
        self.repository.reset(branch, **self.random.choice([{}, {"type": "object", "path": path}]))

    def _hard_reset(self) -> None:
        self.repository.hard_reset(self._any_branch(), self._any_commit())
        self.beyond_the_bound = True

    @property
    def options(self) -> dict[str, Any]:
        """What a collection must be told to find all that hides."""
        return {"hidden_entries": "ask_all"} if self.beyond_the_bound else {}
