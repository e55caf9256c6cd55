"""Table 3: which commits keep their objects, by the server's reading and by our own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import retention
from spark_core.errors import IncompleteReadError, PermissionDeniedError
from spark_core.lakefs import (
    NoSuchCallError,
    PreparedCommits,
    RefsDump,
    complete_refs,
    read_refs_dump,
    read_retained,
    walk_refs,
)
from spark_core.mark import heads, holds
from spark_core.mark.heads import Heads
from spark_core.mark.holds import Holds
from spark_core.model import Refs, RetentionRules
from spark_core.records import tables
from spark_core.records.tables import Draft, StoredTable
from spark_core.run import Run, chain

# Dumps that are made before one that cannot be completed refuses.
DUMP_TRIES = 3

DUMP, WALK = "dump", "walk"


def retained_commits(run: Run, uncommitted: StoredTable) -> Draft:
    """Decide which commits keep their objects: the union of the server's list and ours.

    Ours is computed from a dump of all commits, branches and tags, an hour more
    generous than the rules, in an order-independent way, and with tags; the
    server's is a second opinion that can only add. Without rules every commit
    keeps its objects.

    A user who may not dump (or whose server is too old for it) can still
    collect under rules: the graph is then walked from every branch and tag, and commits that nothing leads to any more
    are taken from the server's list as they stand there. Without rules there is
    no such list, so the dump is required (safety 28).

    Args:
        run: The run.
        uncommitted: The staged entries, completely read.

    Returns:
        Columns of `schemas.RETAINED_COMMITS`, key commit_id.

    Raises:
        RepositoryStateError: If the server lists no commit at all.
        IncompleteReadError: If the dump lacks a head or a parent that no log tells of, tried several times, or the
            server knows no rules when it lists the commits, although it showed some.
        PermissionDeniedError: If there are no rules and the user may not dump.
        NoSuchCallError: If there are no rules and the server cannot dump.
        ChainError: If the mark was begun under other options.
    """
    began = run.begin(tables.RETAINED_COMMITS)
    run.require_same_instance(uncommitted.manifest)
    chain.require_same_options(run, run.load(tables.NAMESPACE_SLICES).manifest)
    found = read_commits(run, tables_prefix(run))
    rules, refs, dump, table = found.rules, found.refs, found.dump, found.table
    prepared, server_rows = found.prepared, found.server_rows
    unknown = retention.unknown_commits(server_rows, refs) if server_rows is not None else []
    facts = {
        "rules": None
        if rules is None
        else {"default_retention_days": rules.default_retention_days, "branches": dict(rules.branches)},
        "server_run": None if prepared is None else prepared.run_id,
        "refs_read_by": WALK if dump is None else DUMP,
        "dump": None if dump is None else vars(dump),
        "dump_files": found.dumped[0],
        "dump_bytes": found.dumped[1],
        "commits_beside_dump": found.beside_dump,
        "commits": len(refs.commits),
        "branches": len(refs.branches),
        "heads": len({branch.commit_id for branch in refs.branches}),
        "heads_retained": pc.sum(table.column("is_head")).as_py() or 0,
        "metaranges": len(set(table.column("metarange_id").to_pylist()) - {""}),
        "tags": len(refs.tags),
        **heads_now(run, found, heads.last_stored(run), read_at=began).facts,
        "holds": found.holds.facts,
        "retained_by_server": 0 if server_rows is None else server_rows.num_rows,
        # A walk finds no commit that nothing leads to, so only a dump can contradict the server's list.
        "unknown_to_dump": [] if dump is None else unknown,
        "unknown_to_walk": len(unknown) if dump is None else 0,
        "rules_without_branch": sorted(set(rules.branches) - {branch.id for branch in refs.branches}) if rules else [],
        "expired_metaranges": _expired_metaranges(
            refs, set(table.column("metarange_id").to_pylist()), run.options.explain_ranges
        ),
        "expired_commits": len(refs.commits)
        - sum(commit in refs.commits for commit in table.column("commit_id").to_pylist()),
    }
    return Draft(tables.RETAINED_COMMITS, table, began, parents=(uncommitted.manifest,), facts=lambda _: facts)


def heads_now(run: Run, found: ReadCommits, previous: Heads | None, *, read_at: datetime) -> Heads:
    """Tell since when each branch stands on its head, and note what the last run saw of it; see `heads.heads_of`.

    Args:
        run: The run.
        found: What was read.
        previous: What was noted before.
        read_at: Before it was read.
    """
    return heads.heads_of(
        found.refs,
        previous,
        heads.metaranges_written_at(run, tables_prefix(run)),
        read_at=read_at,
        skew=run.options.max_clock_skew,
        is_walked=found.dump is None,
    )


@dataclass(frozen=True)
class ReadCommits:
    """What was read to tell which commits keep their objects, and which do.

    Attributes:
        rules: The repository's rules; None for none.
        refs: The commit graph.
        dump: What the graph was read from; None where it was walked.
        prepared: The server's list; None without rules.
        server_rows: Its rows.
        table: Columns of `schemas.RETAINED_COMMITS`, the union of both readings and of what is held.
        holds: What is kept by name.
        dumped: Files and bytes of the dump, which the server never takes away.
        beside_dump: Commits that landed while it was made, and were read from the log.
    """

    rules: RetentionRules | None
    refs: Refs
    dump: RefsDump | None
    prepared: PreparedCommits | None
    server_rows: pa.Table | None
    table: pa.Table
    holds: Holds = holds.NONE
    dumped: tuple[int, int] = (0, 0)
    beside_dump: int = 0


def read_commits(run: Run, prefix: str) -> ReadCommits:
    """Read rules, refs and the server's list as they are now; see `retained_commits`.

    Args:
        run: The run. Days are counted back from its key, also when it is read later: that can only keep more.
        prefix: Where the server keeps its tables.

    Returns:
        What was read, and the commits that keep their objects.
    """
    held = holds.load(run.store)
    rules = run.server.retention_rules(run.repository.id)
    prepared = _server_list(run, rules)
    lists = [prepared] if prepared is not None else []
    sizes: list[int] = []
    read = _read_refs(run, prefix, has_rules=rules is not None, held=held, sizes=sizes)
    refs, dump = read.refs, read.dump
    if dump is None:
        # A branch that got a commit and was deleted since the list was made is in neither it nor the walk: a list made
        # after the walk has the commit, as one that nothing leads to.
        prepared = _server_list(run, rules)
        # The first one stays: what only the server knows of stands in two files, so that neither can lose it unnoticed.
        lists += [prepared] if prepared is not None else []
    ours = retention.retained_commits(
        refs, rules, run.key.instant, clock_margin=run.options.clock_margin, tags_protect=run.options.tags_protect
    )
    server_rows = _rows_of(run, lists, prefix)
    table = retention.merge(retention.with_holds(ours, held.commits(refs)), server_rows, refs)
    return ReadCommits(
        rules, refs, dump, prepared, server_rows, table, held, (len(sizes), sum(sizes)), read.beside_dump
    )


def _rows_of(run: Run, lists: Sequence[PreparedCommits], prefix: str) -> pa.Table | None:
    """Read the server's lists: each commit with its metarange once, however many lists have it; None without any list."""
    tables_read = [read_retained(run.store, prepared.run_id, prefix) for prepared in lists]
    if len(tables_read) < 2:
        return tables_read[0] if tables_read else None
    return pa.concat_tables(tables_read).group_by(["commit_id", "metarange_id"]).aggregate([])


def _server_list(run: Run, rules: RetentionRules | None) -> PreparedCommits | None:
    """Let the server list the commits that it retains; None without rules, when there is no such list."""
    if rules is None:
        return None
    prepared = run.server.prepare_commits(run.repository.id)
    if prepared is None:
        raise IncompleteReadError(
            f"retention rules of repository {run.repository.id}: the server showed rules, and a moment later listed no "
            "commits because there are none; which commits keep their objects is unknown",
            "Somebody changed the rules meanwhile: run again.",
        )
    return prepared


def tables_prefix(run: Run) -> str:
    """Return the prefix under which the server keeps its tables, as the run's first table noted it."""
    prefix: str = run.load(tables.NAMESPACE_SLICES).manifest.facts["table_prefix"]
    return prefix


@dataclass(frozen=True)
class _ReadRefs:
    """The commit graph, the dump that it was read from (None: walked), and how many commits are not in that."""

    refs: Refs
    dump: RefsDump | None = None
    beside_dump: int = 0


def _read_refs(run: Run, prefix: str, *, has_rules: bool, held: Holds, sizes: list[int]) -> _ReadRefs:
    """Read the commit graph from a dump and what landed meanwhile, or by walking it where there can be no dump."""
    for attempt in range(1, DUMP_TRIES + 1):
        try:
            dump = run.server.dump_refs(run.repository.id)
        except (PermissionDeniedError, NoSuchCallError) as refusal:
            return _ReadRefs(_walk(run, refusal, has_rules=has_rules, held=held))
        try:
            sizes.clear()
            dumped = read_refs_dump(run.store, dump, prefix, sizes=sizes)
            refs = _completed(run, dumped)
            retention.require_whole(refs)
        except IncompleteReadError:
            if attempt == DUMP_TRIES:
                raise
        else:
            return _ReadRefs(refs, dump, len(refs.commits) - len(dumped.commits))
    raise AssertionError  # the last try above either returned or raised


def _completed(run: Run, dumped: Refs) -> Refs:
    try:
        return complete_refs(run.server, run.repository.id, dumped)
    except PermissionDeniedError as denied:
        # A dump in whose time nothing lands needs no log: whoever may make dumps only gets as many tries as ever.
        raise IncompleteReadError(
            f"refs dump of repository {run.repository.id}: it lacks a commit that landed while it was made, which was then to be "
            f"read from a log ({denied.found}). Give the user fs:ReadBranch on "
            f"arn:lakefs:fs:::repository/{run.repository.id}/branch/*, or run again when nobody commits."
        ) from denied


def _walk(run: Run, refusal: PermissionDeniedError | NoSuchCallError, *, has_rules: bool, held: Holds) -> Refs:
    # Keys that are no longer good are refused everywhere, and this says so; only a lacking permission is for one call.
    run.server.repository(run.repository.id)
    if not has_rules:
        denied = isinstance(refusal, PermissionDeniedError)
        raise type(refusal)(
            f"refs dump of repository {run.repository.id}: {'the user may not make one' if denied else 'the server has no such call'}, "
            "and the repository has no rules. Then every commit keeps its objects, and only a dump names those that no branch "
            "or tag leads to. "
            + (
                "Give the user fs:ListTags, fs:ListBranches and fs:ListCommits on "
                f"arn:lakefs:fs:::repository/{run.repository.id}, and run again."
                if denied
                else "Give the repository rules, or upgrade the server, and run again."
            )
        ) from refusal
    try:
        refs = walk_refs(run.server, run.repository.id, also=held.starting_commits)
    except PermissionDeniedError as denied:
        raise PermissionDeniedError(
            denied.found,
            f"{denied.next_step} The commits are walked because a refs dump was not possible, which would do without "
            f"({refusal.found}; a dump needs fs:ListTags, fs:ListBranches and fs:ListCommits).",
        ) from refusal
    retention.require_whole(refs)
    return refs


def _expired_metaranges(refs: Refs, retained: set[str], limit: int) -> Mapping[str, Any]:
    """Return the metaranges that only expired commits have, newest commit first, at most `limit`."""
    newest_first = sorted(refs.commits.values(), key=lambda commit: commit.creation_date, reverse=True)
    ids = list(dict.fromkeys(c.metarange_id for c in newest_first if c.metarange_id and c.metarange_id not in retained))
    return {"ids": ids[:limit], "all": len(ids) <= limit}
