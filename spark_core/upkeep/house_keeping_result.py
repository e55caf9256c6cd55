"""What house-keeping did after a run, in figures and in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from spark_core.model import RunKey
from spark_core.records.journal import JournalEnd
from spark_core.report.values import bytes_text
from spark_core.upkeep.purge_quarantine import Purged
from spark_core.upkeep.server_files import Left


@dataclass
class Pruned:
    """What one prune deleted; it counts as it goes, so an error leaves the counts of what was done.

    Attributes:
        runs: The runs whose tables are gone now.
        objects: Files of theirs that were deleted ...
        size_bytes: ... and their bytes.
        index_objects: Files of the index that nobody reads any more ...
        index_bytes: ... and their bytes.
        server_objects: Lists and scans of old runs that were deleted ...
        server_bytes: ... and their bytes.
        server_kept: Why none of them was, although some are old; None if they were, or none is.
        left: Files that the store did not delete; the next time tries them again.
        kept: Why runs older than those that are kept stay, by run key.
        index_kept: Why nothing of the index was deleted, although something is old; None if it was,
            or nothing is.
        begun: Whether anything may have been deleted.
        not_now: Why nothing was done at all; None if it was.
        purged: What the end of quarantine deleted; None if nothing was due, or it was not begun.
        not_purged: Why nothing in quarantine was deleted although it was due; None if it was, or
            nothing was due.
        ended: The ends of journals whose sweeps had died.
    """

    runs: list[RunKey] = field(default_factory=list)
    objects: int = 0
    size_bytes: int = 0
    index_objects: int = 0
    index_bytes: int = 0
    server_objects: int = 0
    server_bytes: int = 0
    server_kept: str | None = None
    left: int = 0
    kept: dict[str, str] = field(default_factory=dict)
    index_kept: str | None = None
    begun: bool = False
    not_now: str | None = None
    purged: Purged | None = None
    not_purged: str | None = None
    ended: list[JournalEnd] = field(default_factory=list)

    @property
    def gone(self) -> int | None:
        """Objects known to be gone, the quarantine's among them; None before deletion began."""
        if not self.begun:
            return None
        purged = 0 if self.purged is None else self.purged.objects
        return self.objects + self.index_objects + self.server_objects + purged


@dataclass(frozen=True)
class House:
    """What house-keeping did after a run, and what it found.

    Attributes:
        pruned: What was deleted.
        left: What the server left; None if it could not be counted.
        problem: The error that ended house-keeping; the run has done its work all the same.
    """

    pruned: Pruned
    left: Left | None
    problem: str | None = None

    @property
    def facts(self) -> Mapping[str, Any]:
        """Both as figures; JSON values only."""
        pruned, left = self.pruned, self.left
        counted = (
            {
                "left_by_server_objects": left.objects,
                "left_by_server_bytes": left.size_bytes,
                "dump_files": left.dump_files,
                "dump_bytes": left.dump_bytes,
            }
            if left is not None
            else {}
        )
        return {
            "pruned_runs": [str(key) for key in pruned.runs],
            "pruned_objects": pruned.objects,
            "pruned_bytes": pruned.size_bytes,
            "pruned_of_index_objects": pruned.index_objects,
            "pruned_of_index_bytes": pruned.index_bytes,
            "pruned_of_server_objects": pruned.server_objects,
            "pruned_of_server_bytes": pruned.server_bytes,
            "server_files_not_pruned": pruned.server_kept,
            "not_pruned": dict(pruned.kept),
            "index_not_pruned": pruned.index_kept,
            "not_now": pruned.not_now,
            "purged": None if pruned.purged is None else asdict(pruned.purged),
            "not_purged": pruned.not_purged,
            "ended_sweeps": {end.run: end.words for end in pruned.ended},
            "problem": self.problem,
            **counted,
        }

    @property
    def words(self) -> str:
        """The line that a run shows."""
        clauses = (
            []
            if self.left is None
            else [f"the server keeps files of every collection: {self.left}"]
        )
        if self.left is not None and self.left.dump_files:
            clauses.append(
                f"and this one's dump of refs: {self.left.dump_files} files, "
                f"{bytes_text(self.left.dump_bytes)}"
            )
        if self.pruned.objects:
            clauses.append(
                f"tables of {len(self.pruned.runs)} old runs pruned ({self.pruned.objects:,} "
                f"files, {bytes_text(self.pruned.size_bytes)})"
            )
        if self.pruned.index_objects:
            clauses.append(
                f"files of the index pruned that no run needs any more "
                f"({self.pruned.index_objects:,} files, {bytes_text(self.pruned.index_bytes)})"
            )
        if self.pruned.server_objects:
            clauses.append(
                f"lists and scans of old runs pruned ({self.pruned.server_objects:,} files, "
                f"{bytes_text(self.pruned.server_bytes)})"
            )
        if self.pruned.server_kept is not None:
            clauses.append(f"no lists and scans pruned: {self.pruned.server_kept}")
        if self.pruned.index_kept is not None:
            clauses.append(f"nothing of the index pruned: {self.pruned.index_kept}")
        if self.pruned.left:
            clauses.append(f"{self.pruned.left} of their files are left for the next time")
        clauses += self._quarantine_words()
        if self.pruned.not_now is not None:
            clauses.append(f"nothing pruned now: {self.pruned.not_now}")
        if self.problem is not None:
            clauses.append(f"not finished: {self.problem}")
        return "; ".join(clauses)

    def _quarantine_words(self) -> Iterator[str]:
        for end in self.pruned.ended:
            yield f"the sweep of run {end.run} left no report of its end and is ended: {end.words}"
        purged = self.pruned.purged
        if purged is not None and purged.objects:
            where = (
                f"listed in {purged.record}"
                if purged.record is not None
                else "of which no record could be written"
            )
            yield (
                f"quarantine: {purged.objects:,} objects ({bytes_text(purged.size_bytes)}) "
                f"deleted for good, {where}"
            )
        if purged is not None and purged.in_use:
            yield (
                f"{purged.in_use:,} objects stay in quarantine because something refers to them "
                "or holds them, or may (`twin_calls`): `lakegc restore` brings back those that "
                "are needed"
            )
        if purged is not None and purged.left:
            yield f"{purged.left:,} of its objects are left for the next time"
        if purged is not None and purged.unknown:
            yield (
                f"{purged.unknown:,} may be gone: nobody answered for their deletion, nor "
                "whether they are there"
            )
        if purged is not None and purged.strangers:
            yield f"{purged.strangers:,} keys in its folders were not put there by a sweep and stay"
        if self.pruned.not_purged is not None:
            yield f"the end of quarantine was not reached: {self.pruned.not_purged}"
