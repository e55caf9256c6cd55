"""Which commits keep their objects, as of now: by the server's reading and by lakegc's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import pyarrow as pa

from spark_core import holds, retention
from spark_core.clocks import MAX_CLOCK_SKEW
from spark_core.errors import IncompleteReadError
from spark_core.holds import Holds
from spark_core.lakefs import PreparedCommits, RefsDump, read_retained
from spark_core.model import Refs, RetentionRules
from spark_core.records import tables
from spark_core.records.figures import EARLIER_DUMP, WALK, ListedFigures
from spark_core.references import heads
from spark_core.references.commits_from_dump_or_log import read_on, read_refs
from spark_core.references.compacted import compacted_metaranges, may_compact
from spark_core.references.earlier_dump import Earlier
from spark_core.references.heads import Heads
from spark_core.references.metaranges_written import metaranges_written_at
from spark_core.retention import Expiry
from spark_core.run import Run


def tables_prefix(run: Run) -> str:
    """Return the prefix of the server's tables, as the run's first table recorded it."""
    return ListedFigures.of(run.load(tables.NAMESPACE_SLICES).manifest).table_prefix


@dataclass(frozen=True)
class ReadCommits:
    """What was read to decide which commits keep their objects, and the decision.

    Attributes:
        rules: The repository's rules; None if it has none.
        refs: The commit graph.
        dump: The dump that the graph was read from; None if the graph was walked.
        dump_made_at: An instant before that dump was made.
        read_by: `DUMP`, `EARLIER_DUMP` or `WALK`.
        prepared: The server's list; None without rules.
        server_rows: Rows of the server's list.
        table: Columns of `schemas.RETAINED_COMMITS`, the union of both readings and of the holds.
        holds: Holds: what people keep by name.
        expired: The commits that are no longer retained, by lakegc's own reading.
        dumped: Files and bytes of a new dump, which the server never removes.
        beside_dump: Commits that landed while, or since, the dump was made, and were read from the
            log.
        compacted: Rows of `table` that are metaranges which no retained commit names.
        server_lists: Ids of the lists that the server was asked for.
    """

    rules: RetentionRules | None
    refs: Refs
    dump: RefsDump | None
    dump_made_at: datetime | None
    read_by: str
    prepared: PreparedCommits | None
    server_rows: pa.Table | None
    table: pa.Table
    holds: Holds = holds.NONE
    expired: Sequence[Expiry] = ()
    dumped: tuple[int, int] = (0, 0)
    beside_dump: int = 0
    compacted: int = 0
    server_lists: tuple[str, ...] = ()


def read_commits(run: Run, prefix: str, earlier: Earlier | None = None) -> ReadCommits:
    """Read rules, refs and the server's list as they are now; see `retained_commits`.

    Args:
        run: The run. Days are counted back from its key, even if the commits are read later; that
            can only keep more.
        prefix: Where the server keeps its tables.
        earlier: What an earlier run read, if that may do; None for a dump of now.

    Returns:
        What was read, and the commits that keep their objects.
    """
    held = holds.load(run.store)
    rules = run.server.retention_rules(run.repository.id)
    read = None
    if earlier is not None and rules is not None:
        read = read_on(run, prefix, earlier, rules, held)
    prepared = _server_list(run, rules)
    lists = [prepared] if prepared is not None else []
    rows = None
    if read is not None:
        rows = _rows_of(run, lists, prefix)
        if rows is None or retention.unknown_commits(rows, read.refs):
            read = None
    if read is None:
        read = read_refs(run, prefix, has_rules=rules is not None, held=held)
    if read.dump is None:
        # A branch may get a commit and be deleted after the list was made; then neither list nor
        # walk has the commit. A list made after the walk has it, as a commit that nothing leads to.
        prepared = _server_list(run, rules)
        # The first list stays. What only the server knows then stands in two files, and losing one
        # of them is noticed.
        lists += [prepared] if prepared is not None else []
    if rows is None or len(lists) > 1:
        rows = _rows_of(run, lists, prefix)
    table, expired = _decided(run, read.refs, rules, held, rows)
    return ReadCommits(
        rules,
        **vars(read),
        prepared=prepared,
        server_rows=rows,
        table=table,
        holds=held,
        expired=expired,
        server_lists=tuple(one.run_id for one in lists),
    )


def _decided(
    run: Run, refs: Refs, rules: RetentionRules | None, held: Holds, rows: pa.Table | None
) -> tuple[pa.Table, Sequence[Expiry]]:
    """Decide which commits keep their objects: the union of all readings, and what has expired."""
    ours, expired = retention.decide(
        refs,
        rules,
        run.key.instant,
        clock_margin=run.options.clock_margin,
        tags_protect=run.options.tags_protect,
        keep_last=run.options.keep_last,
    )
    return retention.merge(retention.with_holds(ours, held.commits(refs)), rows, refs), expired


def _rows_of(run: Run, lists: Sequence[PreparedCommits], prefix: str) -> pa.Table | None:
    """Read the server's lists: each commit with its metarange, once; None without any list."""
    tables_read = [read_retained(run.store, prepared.run_id, prefix) for prepared in lists]
    if len(tables_read) < 2:
        return tables_read[0] if tables_read else None
    return pa.concat_tables(tables_read).group_by(["commit_id", "metarange_id"]).aggregate([])


def _server_list(run: Run, rules: RetentionRules | None) -> PreparedCommits | None:
    """Let the server list the commits that it retains; None without rules: there is no list."""
    if rules is None:
        return None
    prepared = run.server.prepare_commits(run.repository.id)
    if prepared is None:
        raise IncompleteReadError(
            f"retention rules of repository {run.repository.id}: the server showed rules, and a "
            "moment later listed no commits because there are none; which commits keep their "
            "objects is unknown",
            "Somebody changed the rules meanwhile: run again.",
        )
    return prepared


def heads_now(run: Run, found: ReadCommits, previous: Heads | None, *, read_at: datetime) -> Heads:
    """Find since when each branch stands on its head; see `heads.heads_of`.

    The result also records what the last run saw of each branch.

    Args:
        run: The run.
        found: The refs that were read.
        previous: The heads that the last run recorded.
        read_at: An instant before the refs were read.
    """
    return heads.heads_of(
        found.refs,
        previous,
        metaranges_written_at(run, tables_prefix(run)),
        read_at=read_at,
        skew=MAX_CLOCK_SKEW,
        is_walked=found.read_by == WALK,
        is_dump_earlier=found.read_by == EARLIER_DUMP,
    )


def and_compacted(
    run: Run, prefix: str, found: ReadCommits, heads: Callable[[], Heads]
) -> ReadCommits:
    """Add what branches may have compacted; see `compacted.compacted_metaranges`.

    Args:
        run: The run.
        prefix: Where the server keeps its tables.
        found: The commits; they were read after what is staged.
        heads: Gives the heads of all branches; asked for only where the server may compact.
    """
    if not may_compact(run):
        return found
    retained = set(found.table["metarange_id"].to_pylist())
    expired = dict[str, datetime]()
    for commit in found.refs.commits.values():
        id_, date = commit.metarange_id, commit.creation_date
        if id_ not in retained:
            expired[id_] = max(date, expired.get(id_, date))
    # Whoever vouches for no times vouches for none here.
    since = None if run.options.hidden_entries == "ask_all" else heads().all_since
    ids = compacted_metaranges(run, prefix, retained, expired, since=since)
    table = retention.with_compacted(found.table, ids)
    return replace(found, table=table, compacted=len(ids))
