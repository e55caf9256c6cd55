"""What is committed now, or held by name: commits that keep their objects, and holds by path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from spark_core.errors import RepositoryStateError
from spark_core.records import tables
from spark_core.records.figures import ReachedFigures
from spark_core.records.reading import StoredTable
from spark_core.references import held_paths
from spark_core.references.commits import ReadCommits, and_compacted, heads_now, read_commits
from spark_core.references.earlier_dump import Earlier
from spark_core.references.heads import Heads
from spark_core.references.metaranges import Metarange
from spark_core.references.needed_tables import telling_who_needs
from spark_core.retention import COMPACTED
from spark_core.run import Run
from spark_core.sweep.reached_now import TablesRead, read_new_tables


@dataclass(frozen=True)
class Committed:
    """What is committed now, or held by name.

    Attributes:
        began: Before the first byte of it was read.
        commits: The commits that keep their objects.
        known: Tables that the commits reach and that the mark's commits did not.
        figures: What was read of them.
    """

    began: datetime
    commits: ReadCommits
    known: TablesRead
    figures: ReachedFigures

    @classmethod
    def read(
        cls,
        run: Run,
        prefix: str,
        mark: Mapping[str, StoredTable],
        known: TablesRead,
        *,
        all_names: bool,
    ) -> Committed:
        """Read holds, rules, refs, the server's list, and the tables they name that are unknown.

        Args:
            run: The run.
            prefix: Where the server keeps its tables.
            mark: The mark's tables by name.
            known: Tables that were read before.
            all_names: Whether every commit of now must be known, because a retention policy decides
                by all names of an object. Else the mark's dump of refs may do.
        """
        began = run.now()
        manifest = mark[tables.RETAINED_COMMITS.name].manifest
        commits = read_commits(run, prefix, None if all_names else Earlier.of(manifest))
        marked = Heads.of(manifest)
        noted = partial(heads_now, run, commits, marked, read_at=began)
        commits = and_compacted(run, prefix, commits, noted)
        _require_commits(run, commits)
        with telling_who_needs(run, lambda: commits.table):
            marked_commits = mark[tables.RETAINED_COMMITS.name]
            reached, figures = read_new_tables(
                run, prefix, marked_commits, _retained(commits), known
            )
        held = held_paths.of_now(run, prefix, commits, known.held)
        known = reached if held is known.held else replace(reached, held=held)
        return cls(began, commits, known, figures)


def _require_commits(run: Run, commits: ReadCommits) -> None:
    retained = commits.table.num_rows - commits.compacted
    if not commits.refs.branches or not retained:
        raise RepositoryStateError(
            f"repository {run.repository.id} shows {len(commits.refs.branches)} branches and "
            f"{retained} commits that keep their objects, read again just before "
            "deleting: it was deleted, or emptied, since the mark",
            "Look at it with `lakectl repo list`; if it lives, mark again under a new run key.",
        )


def _retained(commits: ReadCommits) -> dict[str, Metarange]:
    """Return the metaranges whose objects are kept, each with one commit that has it.

    The key is the metarange's id. The commit is a head, if a head has the metarange.
    """
    found: dict[str, Metarange] = {}
    for row in commits.table.select(["commit_id", "metarange_id", "reason", "is_head"]).to_pylist():
        id_, known = row["metarange_id"], found.get(row["metarange_id"])
        if id_ and (known is None or (row["is_head"] and not known.is_head)):
            reason = row["reason"]
            why = (
                reason
                if reason.startswith("hold ") or reason == COMPACTED
                else f"commit {row['commit_id'][:12]} ({reason})"
            )
            found[id_] = Metarange(id_, is_head=row["is_head"], is_retained=True, why=why)
    return found
