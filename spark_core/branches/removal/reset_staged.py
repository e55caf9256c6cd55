"""Reset the staged entries that a removal rule names; they cannot come back.

The differences of the branch are listed a thousand in a call. Each staged entry under the prefix
takes a call to the server, one to the store, and one more if it is reset.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from spark_core.addresses.namespace import AddressType
from spark_core.branches.removal.look import NamedByRule, are_held, lots
from spark_core.branches.removal.removal_rules import RemovalRule, is_old, old_enough
from spark_core.branches.removal.writes import Writes
from spark_core.errors import NotFoundError
from spark_core.holds import Holds
from spark_core.lakefs import DatedEntry
from spark_core.lakefs.side_by_side import side_by_side
from spark_core.run import Run

_REMOVED = "removed"
_UNREADABLE = "\ufffd"


@dataclass(frozen=True)
class _StagedAnswer:
    """One staged path: the entry if it is old enough, else why it stays."""

    entry: DatedEntry | None
    kept: str = ""


class StagedLook:
    """The look of one rule at what is staged on its branch.

    Args:
        run: The run; ages count until its instant.
        rule: The rule; it has a period for staged entries.
        holds: What people hold.
        found: Counts what is found; also what was reset before an error.
    """

    def __init__(self, run: Run, rule: RemovalRule, holds: Holds, found: NamedByRule) -> None:
        if rule.staged is None:
            raise ValueError(f"{rule.words} names no staged entries")
        self._run = run
        self._rule = rule
        self._holds = holds
        self._old = old_enough(run, rule.staged)
        self._found = found

    def go(self, *, resets: bool) -> None:
        """Count the entries that the rule names, and reset them if that is asked for.

        Each entry is looked at once more right before it is reset: somebody may have staged another
        one at its path.

        Raises:
            WriteRefusedError: If a branch protection rule refuses.
        """
        writes = Writes(self._run.server)

        def ask(path: str) -> Iterator[_StagedAnswer]:
            answer = self._ask(path)
            if resets and answer.entry is not None:
                writes.reset_entry(self._run.repository.id, self._rule.branch, path)
            yield answer

        changes = self._run.server.diff_branch(
            self._run.repository.id, self._rule.branch, prefix=self._rule.path
        )
        # A staged deletion is no entry. To reset it would bring an entry back.
        for lot in lots(path for path, kind in changes if kind != _REMOVED):
            at_once = self._run.options.branches_at_once
            for _, answer in side_by_side(lot, ask, at_once=at_once):
                if answer.entry is None:
                    self._found.kept[answer.kept] += 1
                else:
                    self._found.add([answer.entry])

    def _ask(self, path: str) -> _StagedAnswer:
        """Look at one staged path."""
        if _UNREADABLE in path:
            return _StagedAnswer(None, "unnamed")
        listed = self._run.server.entries_under(
            self._run.repository.id, self._rule.branch, path, first_page=1
        )
        entry = next(listed, None)
        if entry is None or entry.path != path or not is_old(entry.modified, self._old):
            return _StagedAnswer(None, "young")
        if are_held(self._run, self._holds, [entry])[0]:
            return _StagedAnswer(None, "held")
        try:
            written = self._written(entry)
        except NotFoundError:
            return _StagedAnswer(None, "missing")
        if written is not None and not is_old(written, self._old):
            return _StagedAnswer(None, "young")
        return _StagedAnswer(entry)

    def _written(self, entry: DatedEntry) -> datetime | None:
        """Return the date of an entry's object in the store; None if it lies outside."""
        address = self._run.namespace.relative(entry.physical_address, AddressType.FULL)
        return None if address is None else self._run.store.head(address).last_modified
