"""Table 3: the commits that keep their objects, by the server's reading and by lakegc's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import holds, retention, schemas
from spark_core.errors import (
    ChainError,
    CorruptTableError,
    IncompleteReadError,
    PermissionDeniedError,
)
from spark_core.holds import Holds
from spark_core.index import choosing
from spark_core.lakefs import (
    NoSuchCallError,
    PreparedCommits,
    RefsDump,
    complete_refs,
    read_refs_dump,
    read_retained,
    walk_refs,
)
from spark_core.model import Refs, RetentionRules, RunKey
from spark_core.records import tables
from spark_core.records.figures import (
    DUMP,
    EARLIER_DUMP,
    WALK,
    CommitsFigures,
    ExpiredMetarangesFigures,
    ListedFigures,
    RulesFigures,
)
from spark_core.records.manifest import Manifest
from spark_core.records.reading import StoredTable
from spark_core.records.writing import Draft
from spark_core.references import heads
from spark_core.references.compacted import compacted_metaranges, may_compact
from spark_core.references.earlier_dump import Earlier, refs_since
from spark_core.references.expired_entries import METARANGES
from spark_core.references.heads import Heads
from spark_core.retention import Expiry
from spark_core.run import Run, chain

# Number of dumps before the mark refuses because none could be completed.
DUMP_TRIES = 3


def retained_commits(run: Run, uncommitted: StoredTable) -> Draft:
    """Decide which commits keep their objects: the union of the server's list and lakegc's.

    lakegc's own list is computed from a dump of all commits, branches and tags, or of an earlier
    one and the log since, where that says as much (see `earlier_dump`). It is an hour more
    generous than the rules, does not depend on the order, and counts tags. The server's list is a
    second opinion that can only add commits. Without rules every commit keeps its objects.

    A user who may not dump (or whose server is too old for it) can still collect under rules. The
    graph is then walked from every branch and tag. Commits that nothing leads to any more are taken
    from the server's list as they stand there. Without rules there is no such list, so the dump is
    required (safety 28).

    Args:
        run: The run.
        uncommitted: The staged entries, completely read.

    Returns:
        Columns of `schemas.RETAINED_COMMITS`, key commit_id.

    Raises:
        RepositoryStateError: If the server lists no commit at all.
        IncompleteReadError: If several dumps lack a head or a parent that no log has. If the server
            knows no rules when it lists the commits, although it showed some.
        PermissionDeniedError: If there are no rules and the user may not dump.
        NoSuchCallError: If there are no rules and the server cannot dump.
        ChainError: If the mark was begun under other options.
    """
    began = run.begin(tables.RETAINED_COMMITS)
    run.require_same_instance(uncommitted.manifest)
    chain.require_same_options(run, run.load(tables.NAMESPACE_SLICES).manifest)
    found = read_commits(run, tables_prefix(run), _earlier(run))
    _require_known(run, found)
    noted = heads_now(run, found, heads.last_stored(run), read_at=began)
    found = and_compacted(run, tables_prefix(run), found, lambda: noted)
    words, enclosed = _keep_expired(run, found, began, uncommitted)
    figures = _figures(found, noted, words)
    return Draft(
        tables.RETAINED_COMMITS,
        found.table,
        began,
        parents=(uncommitted.manifest,),
        figures=lambda _, __: figures,
        encloses=enclosed,
    )


def _figures(
    found: ReadCommits, noted: Heads, expired_metaranges: ExpiredMetarangesFigures
) -> CommitsFigures:
    """Say what was read, and what was decided."""
    rules, refs, dump, table = found.rules, found.refs, found.dump, found.table
    prepared, server_rows = found.prepared, found.server_rows
    unknown = retention.unknown_commits(server_rows, refs) if server_rows is not None else []
    return CommitsFigures(
        rules=None
        if rules is None
        else RulesFigures(
            default_retention_days=rules.default_retention_days, branches=rules.branches
        ),
        server_run=None if prepared is None else prepared.run_id,
        server_lists=found.server_lists,
        refs_read_by=found.read_by,
        dump=None if dump is None else vars(dump),
        dump_made_at=None if found.dump_made_at is None else found.dump_made_at.isoformat(),
        dump_files=found.dumped[0],
        dump_bytes=found.dumped[1],
        commits_beside_dump=found.beside_dump,
        commits=len(refs.commits),
        branches=len(refs.branches),
        heads=len({branch.commit_id for branch in refs.branches}),
        heads_retained=pc.sum(table.column("is_head")).as_py() or 0,
        metaranges=len(set(table.column("metarange_id").to_pylist()) - {""}),
        compacted=found.compacted or None,
        tags=len(refs.tags),
        branch_heads=noted.figures,
        holds=found.holds.figures,
        retained_by_server=0 if server_rows is None else server_rows.num_rows,
        # A walk finds no commit that nothing leads to, so only a dump can contradict the server's
        # list.
        unknown_to_dump=() if dump is None else tuple(unknown),
        unknown_to_walk=len(unknown) if dump is None else 0,
        rules_without_branch=tuple(
            sorted(set(rules.branches) - {branch.id for branch in refs.branches})
        )
        if rules
        else (),
        expired_metaranges=expired_metaranges,
        expired_commits=len(refs.commits)
        - sum(commit in refs.commits for commit in table.column("commit_id").to_pylist()),
        by_reason=Counter(table.column("reason").to_pylist()),
    )


def _earlier(run: Run) -> Earlier | None:
    """Return what the last run read of refs; None if a dump must be made."""
    try:
        manifest = heads.last_manifest(run)
        return None if manifest is None else Earlier.of(manifest)
    except CorruptTableError:
        return None


def _require_known(run: Run, found: ReadCommits) -> None:
    """Refuse an optimized run if commits are gone that were heads at the mark before (safety 51).

    Where refs could only be walked, nobody knows.

    Raises:
        ChainError: If refs were restored, or if it cannot be read which heads there were.
    """
    index = choosing.of(run)
    if index is None or found.dump is None:
        return
    then = heads.manifest_of(run, RunKey.parse(index.saved.run))
    known = {head.commit_id for head in Heads.of(then).branches.values()}
    gone = sorted(known - found.refs.commits.keys())
    if gone:
        raise ChainError(
            f"{len(gone)} commits that run {index.saved.run} saw are gone, {gone[0][:12]} among "
            "them: refs were restored",
            choosing.MARK_CLEAN,
        )


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
        heads.metaranges_written_at(run, tables_prefix(run)),
        read_at=read_at,
        skew=run.options.max_clock_skew,
        is_walked=found.read_by == WALK,
        is_dump_earlier=found.read_by == EARLIER_DUMP,
    )


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
        read = _read_on(run, prefix, earlier, rules, held)
    prepared = _server_list(run, rules)
    lists = [prepared] if prepared is not None else []
    rows = None
    if read is not None:
        rows = _rows_of(run, lists, prefix)
        if rows is None or retention.unknown_commits(rows, read.refs):
            read = None
    if read is None:
        read = _read_refs(run, prefix, has_rules=rules is not None, held=held)
    if read.dump is None:
        # A branch may get a commit and be deleted after the list was made; then neither list nor
        # walk has the commit. A list made after the walk has it, as a commit that nothing leads to.
        prepared = _server_list(run, rules)
        # The first list stays. What only the server knows then stands in two files, and losing one
        # of them is noticed.
        lists += [prepared] if prepared is not None else []
    if rows is None or len(lists) > 1:
        rows = _rows_of(run, lists, prefix)
    ours, expired = retention.decide(
        read.refs,
        rules,
        run.key.instant,
        clock_margin=run.options.clock_margin,
        tags_protect=run.options.tags_protect,
        keep_last=run.options.keep_last,
    )
    table = retention.merge(retention.with_holds(ours, held.commits(read.refs)), rows, read.refs)
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


def tables_prefix(run: Run) -> str:
    """Return the prefix of the server's tables, as the run's first table recorded it."""
    return ListedFigures.of(run.load(tables.NAMESPACE_SLICES).manifest).table_prefix


@dataclass(frozen=True)
class _ReadRefs:
    """The commit graph and how it was read; attributes as those of `ReadCommits`."""

    refs: Refs
    read_by: str
    dump: RefsDump | None = None
    dump_made_at: datetime | None = None
    dumped: tuple[int, int] = (0, 0)
    beside_dump: int = 0


def _read_on(
    run: Run, prefix: str, earlier: Earlier, rules: RetentionRules, held: Holds
) -> _ReadRefs | None:
    """Read the commit graph from an earlier dump and the logs since; None if that does not do."""
    found = refs_since(run, prefix, earlier, rules, held)
    if found is None:
        return None
    refs, beside = found
    return _ReadRefs(refs, EARLIER_DUMP, earlier.dump, earlier.made_at, beside_dump=beside)


def _read_refs(run: Run, prefix: str, *, has_rules: bool, held: Holds) -> _ReadRefs:
    """Read the commit graph from a dump and the logs, or walk it where no dump is possible.

    The logs have the commits that landed while the dump was made.
    """
    for attempt in range(1, DUMP_TRIES + 1):
        made_at, sizes = run.now(), list[int]()
        try:
            dump = run.server.dump_refs(run.repository.id)
        except (PermissionDeniedError, NoSuchCallError) as refusal:
            return _ReadRefs(_walk(run, refusal, has_rules=has_rules, held=held), WALK)
        try:
            dumped = read_refs_dump(run.store, dump, prefix, sizes=sizes)
            refs = _completed(run, dumped)
            retention.require_whole(refs)
        except IncompleteReadError:
            if attempt == DUMP_TRIES:
                raise
        else:
            beside = len(refs.commits) - len(dumped.commits)
            return _ReadRefs(refs, DUMP, dump, made_at, (len(sizes), sum(sizes)), beside)
    raise AssertionError  # the last try above either returned or raised


def _completed(run: Run, dumped: Refs) -> Refs:
    try:
        return complete_refs(run.server, run.repository.id, dumped)
    except PermissionDeniedError as denied:
        # If nothing lands during a dump, no log is needed. A user who may only make dumps has as
        # many tries as before.
        raise IncompleteReadError(
            f"refs dump of repository {run.repository.id}: it lacks a commit that landed while it "
            f"was made, and a log that shows it cannot be read ({denied.found}). Give the user "
            f"fs:ReadBranch on arn:lakefs:fs:::repository/{run.repository.id}/branch/*, or run "
            "again when nobody commits."
        ) from denied


def _walk(
    run: Run, refusal: PermissionDeniedError | NoSuchCallError, *, has_rules: bool, held: Holds
) -> Refs:
    # Expired keys are refused for every call, and this call says so. A lacking permission concerns
    # one call only.
    run.server.repository(run.repository.id)
    if not has_rules:
        denied = isinstance(refusal, PermissionDeniedError)
        raise type(refusal)(
            f"refs dump of repository {run.repository.id}: "
            f"{'the user may not make one' if denied else 'the server has no such call'}, and the "
            "repository has no rules. Then every commit keeps its objects, and only a dump names "
            "those that no branch or tag leads to. "
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
            f"{denied.next_step} The commits are walked because a refs dump was not possible "
            f"({refusal.found}). A dump does not need that permission; it needs fs:ListTags, "
            "fs:ListBranches and fs:ListCommits.",
        ) from refusal
    retention.require_whole(refs)
    return refs


def _keep_expired(
    run: Run, found: ReadCommits, began: datetime, uncommitted: StoredTable
) -> tuple[ExpiredMetarangesFigures, Sequence[Manifest]]:
    """Store the newest commit of each metarange that no retained commit has, up to a limit.

    There is no limit where holds by path are to read them all (`held_paths`).

    Returns:
        Whether these are all of them, and the table's manifest, so that the verdict names it; and
        the manifests to enclose.
    """
    table = newest_expired(found)
    limit = table.num_rows if found.holds.of_paths else METARANGES[run.options.explain]
    made = list[Manifest]()
    if table.num_rows and limit:
        draft = Draft(
            tables.EXPIRED_COMMITS,
            table.slice(0, limit),
            began,
            parents=(uncommitted.manifest,),
            is_enclosed=True,
        )
        made.append(run.keep(draft).manifest)
    named = made[0].sha256 if made else None
    return ExpiredMetarangesFigures(all=table.num_rows <= limit, manifest=named), made


def newest_expired(found: ReadCommits) -> pa.Table:
    """Return the newest expired commit of each metarange that no retained commit has.

    Returns:
        Columns of `schemas.EXPIRED_COMMITS`, key metarange_id, newest first.
    """
    retained = set(found.table.column("metarange_id").to_pylist())
    commits = found.refs.commits
    newest_first = sorted(
        found.expired, key=lambda expiry: commits[expiry.commit_id].creation_date, reverse=True
    )
    rows: dict[str, dict[str, Any]] = {}
    for expiry in newest_first:
        commit = commits[expiry.commit_id]
        if commit.metarange_id and not (
            commit.metarange_id in retained or commit.metarange_id in rows
        ):
            rows[commit.metarange_id] = {
                "commit_id": commit.id,
                "metarange_id": commit.metarange_id,
                "created_at": commit.creation_date,
                "branch": expiry.branch,
                "replaced_at": expiry.replaced_at,
                "retention_days": expiry.days,
            }
    return pa.Table.from_pylist(list(rows.values()), schema=schemas.EXPIRED_COMMITS)
