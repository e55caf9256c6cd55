"""Table 3: the commits that keep their objects, and those that did so last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_core import retention, schemas
from spark_core.errors import ChainError, CorruptTableError
from spark_core.index import choosing
from spark_core.model import RetentionRules, RunKey
from spark_core.records import tables
from spark_core.records.figures import CommitsFigures, ExpiredMetarangesFigures, RulesFigures
from spark_core.records.manifest import Manifest
from spark_core.records.reading import StoredTable
from spark_core.records.writing import Draft
from spark_core.references import recorded_heads
from spark_core.references.commits import (
    ReadCommits,
    and_compacted,
    heads_now,
    read_commits,
    tables_prefix,
)
from spark_core.references.earlier_dump import Earlier
from spark_core.references.expired_entries import METARANGES
from spark_core.references.heads import Heads
from spark_core.run import Run, chain


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
        ChainError: If the mark was begun under other options, or by another lakegc.
    """
    began = run.begin(tables.RETAINED_COMMITS)
    run.require_same_instance(uncommitted.manifest)
    slices = run.load(tables.NAMESPACE_SLICES).manifest
    chain.require_same_options(run, slices)
    chain.require_same_lakegc(run, slices)
    found = read_commits(run, tables_prefix(run), _earlier(run))
    _require_known(run, found)
    noted = heads_now(run, found, recorded_heads.last_stored(run), read_at=began)
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
        rules=_figures_of_rules(rules),
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


def _figures_of_rules(rules: RetentionRules | None) -> RulesFigures | None:
    if rules is None:
        return None
    return RulesFigures(
        default_retention_days=rules.default_retention_days, branches=rules.branches
    )


def _earlier(run: Run) -> Earlier | None:
    """Return what the last run read of refs; None if a dump must be made."""
    try:
        manifest = recorded_heads.last_manifest(run)
        return None if manifest is None else Earlier.of(manifest)
    except CorruptTableError:
        return None


def _require_known(run: Run, found: ReadCommits) -> None:
    """Refuse an optimized run if commits are gone that were heads at the mark before (safety 51).

    Where refs could only be walked, nobody knows.

    Raises:
        ChainError: If refs were restored, or if it cannot be read which heads there were.
    """
    index = choosing.index_of_mark(run)
    if index is None or found.dump is None:
        return
    then = recorded_heads.manifest_of(run, RunKey.parse(index.saved.run))
    known = {head.commit_id for head in Heads.of(then).branches.values()}
    gone = sorted(known - found.refs.commits.keys())
    if gone:
        raise ChainError(
            f"{len(gone)} commits that run {index.saved.run} saw are gone, {gone[0][:12]} among "
            "them: refs were restored",
            choosing.MARK_CLEAN,
        )


def _keep_expired(
    run: Run, found: ReadCommits, began: datetime, uncommitted: StoredTable
) -> tuple[ExpiredMetarangesFigures, Sequence[Manifest]]:
    """Store the commit that was kept last of each metarange that no retained one has, to a limit.

    There is no limit where holds by path are to read them all (`held_paths`).

    Returns:
        Whether these are all of them, and the table's manifest, so that the verdict names it; and
        the manifests to enclose.
    """
    table = _last_kept(found)
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


def _last_kept(found: ReadCommits) -> pa.Table:
    """Return, of each metarange that no retained commit has, the commit that was kept last.

    Its rule is the one that let go what the metarange names: a younger commit of another branch may
    have expired long before.

    Returns:
        Columns of `schemas.EXPIRED_COMMITS`, key metarange_id; what was kept last comes first.
    """
    retained = set(found.table.column("metarange_id").to_pylist())
    commits = found.refs.commits
    last_first = sorted(
        found.expired,
        key=lambda expiry: (expiry.kept_until, commits[expiry.commit_id].creation_date),
        reverse=True,
    )
    rows: dict[str, dict[str, Any]] = {}
    for expiry in last_first:
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
