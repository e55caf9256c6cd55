"""A repository on the sandbox, driven over HTTP like one on a live server; time is the sandbox's
own clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from lakegc_dagster.sandbox import Sandbox, refs
from lakegc_dagster.sandbox.clock import SandboxClock
from lakegc_dagster.sandbox.core import Core
from tests.support.live_repository import LiveRepository, short
from tests.support.live_server import LiveServer, LocalNamespace

# The most significant 32 of the 96 bits of an xid are its seconds; 20 characters of base32hex hold
# them.
_XID_ALPHABET = "0123456789abcdefghijklmnopqrstuv"


@dataclass(frozen=True)
class SandboxServer(LiveServer):
    """The sandbox, reached as a live server is.

    Attributes:
        clock: The sandbox's.
    """

    clock: SandboxClock | None = None

    @classmethod
    def of(cls, sandbox: Sandbox) -> SandboxServer:
        """Name a running sandbox."""
        return cls(
            endpoint=sandbox.endpoint,
            access_key_id=sandbox.access_key_id,
            secret_access_key=sandbox.secret_access_key,
            root="local://searched",
            local_path=sandbox.blockstore,
            clock=sandbox.clock,
        )

    def now(self) -> datetime:
        assert self.clock is not None
        return self.clock.now()

    def store(self, namespace: str) -> SandboxNamespace:
        return SandboxNamespace(self, namespace)


class SandboxNamespace(LocalNamespace):
    """A namespace on the sandbox's blockstore; what is written past the server is dated by its
    clock.
    """

    def put(self, key: str, data: bytes) -> str:
        address = super().put(key, data)
        self.date(key, self.server.now())
        return address

    def read(self, key: str) -> bytes:
        return (self.folder / key).read_bytes()


class SandboxRepository(LiveRepository):
    """A repository whose objects and commits have exact dates.

    Attributes:
        written: Relative address -> when its object was written.
    """

    server: SandboxServer
    store: SandboxNamespace

    def __init__(self, server: SandboxServer, **creation: Any) -> None:
        self.made = server.now()
        self.written: dict[str, datetime] = {}
        self._created: dict[str, datetime] = {}
        self._entries: dict[str, dict[str, str]] = {}
        # Metarange of a branch -> what it has, relative.
        self.compacted: dict[str, set[str]] = {}
        # Whether the server may compact what is staged.
        self.may_compact = False
        self.core: Core | None = None
        super().__init__(server, **creation)

    def wrote(self, physical_address: str, data: bytes) -> str:
        address = super().wrote(physical_address, data)
        self.written[address] = self.server.now()
        return address

    def born(self, address: str) -> datetime:
        """Tell how young an object is: when it was written, or its address given out, whichever was
        later.
        """
        return max(self._given_out(address), self.written[address])

    def is_older_than_itself(self, address: str) -> bool:
        """Say whether an object was there before its repository, by more than clocks may differ:
        the clock was set back.
        """
        began = self.made.replace(microsecond=0) - timedelta(minutes=5)
        return min(self._given_out(address), self.written[address]) < began

    def _given_out(self, address: str) -> datetime:
        name = address.rpartition("/")[2].partition(",")[0]
        bits = 0
        for character in name:
            bits = bits << 5 | _XID_ALPHABET.index(character)
        return datetime.fromtimestamp(bits >> 68, UTC)

    def note(self, commit: dict[str, Any]) -> str:
        """Remember a commit, and when it was made: the API tells whole seconds, the clock all of
        them.
        """
        now = self.server.now()
        told = datetime.fromtimestamp(commit["creation_date"], UTC)
        self._created.setdefault(commit["id"], now if told == now.replace(microsecond=0) else told)
        return super().note(commit)

    def commit(self, branch: str, *, days_ago: float = 0, message: str = "", **data: Any) -> str:
        made = super().commit(branch, days_ago=days_ago, message=message, **data)
        # A date that was asked for has whole seconds.
        self._created[made] = super().created(made)
        return made

    def created(self, commit_id: str) -> datetime:
        return self._created[commit_id]

    def entries(self, ref: str) -> dict[str, str]:
        """As `LiveRepository.entries`; what a commit holds never changes, and is asked for once."""
        if ref not in map(short, self.commits):
            return super().entries(ref)
        if ref not in self._entries:
            self._entries[ref] = super().entries(ref)
        return self._entries[ref]

    def compact(self, core: Core, branch: str) -> None:
        """Compact what is staged on a branch, and remember what it shows then: no call tells it
        later.
        """
        self.core = core
        with core.lock:
            made = refs.compact(core, self.name, branch)
        if made:
            shown = map(self.store.relative, self.entries(branch).values())
            self.compacted.setdefault(made, {address for address in shown if address is not None})

    def under_branches(self) -> set[str]:
        """Return what branches have compacted, be it below what is staged over it."""
        return set().union(*self.compacted_on().values())

    def compacted_on(self) -> dict[str, set[str]]:
        """Return what each branch has compacted, with what its head had then."""
        if self.core is None:
            return {}
        with self.core.lock:
            number = self.core.repository(self.name).number
            branches = self.core.state.branches(number)
        return {one.id: self.compacted.get(one.compacted, set()) for one in branches}

    def days(self) -> tuple[int | None, Mapping[str, int]]:
        """Return the rules as the server tells them: the default (None: no rules) and the days by
        branch.
        """
        answer = self.ask("GET", "/settings/gc_rules")
        if answer.status == 404:
            return None, {}
        found = answer.json
        return found["default_retention_days"], {
            rule["branch_id"]: rule["retention_days"] for rule in found["branches"] or ()
        }

    def objects(self) -> dict[str, bytes]:
        """Read every object below data/ from the store itself; relative address -> bytes."""
        return {key: self.store.read(key) for key in sorted(self.data())}
