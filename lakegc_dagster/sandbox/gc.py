"""The server's half of garbage collection: rules, and the two prepare calls.

This is the only collection logic in the sandbox. It copies the real server with its quirks: tags,
for example, do not count.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import re
import secrets
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq

from lakegc_dagster.sandbox.blockstore import RELATIVE
from lakegc_dagster.sandbox.core import Core
from lakegc_dagster.sandbox.errors import ApiError, bad_request, not_found
from lakegc_dagster.sandbox.listing import uncommitted
from lakegc_dagster.sandbox.records import BranchRecord, RepositoryRecord, Task
from lakegc_dagster.sandbox.times import rfc3339, to_nanoseconds, to_seconds
from spark_core.graveler import CommitRecord

RULES_KEY = "_lakefs/retention/gc/rules/config.json"
PREPARE_COMMITS = "GCPC"
_COMMITS_KEY = "_lakefs/retention/gc/commits/run_id={run_id}/commits.csv"
_ADDRESSES_KEY = "_lakefs/retention/gc/addresses"
_UNCOMMITTED_KEY = "_lakefs/retention/gc/uncommitted/{run_id}/uncommitted"
_RUN_ID = re.compile(r"[\w-]+")
_TASK_ALPHABET = string.ascii_letters + string.digits + "_-"
_DAY_MICROSECONDS = 24 * 3600 * 1_000_000
_UNCOMMITTED = pa.schema(
    [
        pa.field("physical_address", pa.string(), nullable=False),
        pa.field("creation_date", pa.int64(), nullable=False),
    ]
)


@dataclass(frozen=True)
class Rules:
    """Garbage-collection rules."""

    default_days: int
    branch_days: Mapping[str, int]


@dataclass(frozen=True)
class PreparedCommits:
    """The location of a prepared list of commits."""

    run_id: str
    commits_location: str
    addresses_location: str


@dataclass(frozen=True)
class UncommittedPage:
    """One page of prepare_uncommitted.

    Attributes:
        location: The run's directory; empty if this page has no rows.
        token: Token of the next page; None after the last.
    """

    run_id: str
    location: str
    token: str | None


def rules(core: Core, repository: RepositoryRecord) -> Rules | None:
    """Return the rules in the namespace; None when the file is missing or empty."""
    data = core.blockstore.read_key(repository.storage_namespace, RULES_KEY)
    return Rules(**json.loads(data)) if data else None


def set_rules(core: Core, repository_id: str, new: Rules | None) -> None:
    """Store rules; None stores the empty file that means "no rules".

    Rules of 0 days and no branch are such a file too, as on the real server (`lakefs-facts` 11.17).

    Raises:
        ApiError: 404, 403 for a read-only repository.
    """
    repository = core.writable(repository_id)
    stored = b""
    if new is not None and (new.default_days or new.branch_days):
        # Out-of-range days wrap silently, as on the real server (`lakefs-facts` 11.17).
        wrapped = {branch: _signed_32(days) for branch, days in new.branch_days.items()}
        stored = json.dumps(asdict(Rules(_signed_32(new.default_days), wrapped))).encode()
    core.blockstore.write(repository.storage_namespace, RULES_KEY, stored)


def _signed_32(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def main_parent(commit: CommitRecord) -> str | None:
    """Return the branch's previous head: the first parent, or the last in version 0."""
    if not commit.parents:
        return None
    return commit.parents[0] if commit.version >= 1 else commit.parents[-1]


def _starts(
    commits: Mapping[str, CommitRecord], branches: Sequence[BranchRecord]
) -> list[tuple[str, str | None]]:
    """Return where the server's walk starts, in its order: heads and dangling commits."""
    heads = {branch.commit_id for branch in branches}
    followed = {main_parent(commit) for commit in commits.values()}
    starts: list[tuple[str, str | None]] = [(branch.commit_id, branch.id) for branch in branches]
    starts += [
        (identifier, None)
        for identifier in commits
        if identifier not in heads and identifier not in followed
    ]
    return sorted(starts, key=lambda start: (start[0], start[1] or ""))


def active_commits(
    commits: Mapping[str, CommitRecord],
    branches: Sequence[BranchRecord],
    rules: Rules,
    now: datetime,
) -> list[str]:
    """Compute the active commits exactly as the server does.

    The walk stops before a parent that another line reached with an equal or longer retention. So
    the outcome can depend on the order of commit ids. The sandbox keeps this quirk of the server.

    Args:
        commits: Every commit by id.
        branches: Every branch, hidden ones too.
        rules: The rules.
        now: The instant from which the days count back.

    Returns:
        Ids of the active commits.

    References:
        `lakefs-facts` 4.2 and 4.4 (pkg/graveler/retention/active_commits.go,
        starting_point_iterator.go).
    """
    now_micros = to_nanoseconds(now) // 1000
    created = {
        identifier: commit.creation_date.seconds * 1_000_000 + commit.creation_date.nanos // 1000
        for identifier, commit in commits.items()
    }
    processed: dict[str, int] = {}
    active: dict[str, None] = {}
    for identifier, branch_id in _starts(commits, branches):
        days = (
            rules.default_days
            if branch_id is None
            else rules.branch_days.get(branch_id, rules.default_days)
        )
        threshold = now_micros - days * _DAY_MICROSECONDS
        child_created = created[identifier]
        if branch_id is None:
            # A dangling commit is treated as the parent of an imaginary child of its own age.
            parent: str | None = identifier
        else:
            active[identifier] = None
            processed[identifier] = threshold
            parent = main_parent(commits[identifier])
        while parent is not None:
            passed = processed.get(parent)
            if passed is not None and passed <= threshold:
                break
            if child_created > threshold:
                active[parent] = None
            processed[parent] = threshold
            child_created = created[parent]
            parent = main_parent(commits[parent])
    return list(active)


def prepare_commits(core: Core, repository_id: str) -> PreparedCommits:
    """Write the list of active commits.

    Raises:
        ApiError: 404 without repository or rules, 403 for a read-only repository.
    """
    repository = core.writable(repository_id)
    found = rules(core, repository)
    if found is None:
        raise not_found("get gc rules:")
    commits = core.state.commits(repository.number)
    active = active_commits(commits, core.state.branches(repository.number), found, core.now())
    lines = ["commit_id,expired,metarange_id"]
    lines += [f"{identifier},false,{commits[identifier].metarange_id}" for identifier in active]
    run_id = core.ids.descending()
    key = _COMMITS_KEY.format(run_id=run_id)
    core.blockstore.write(repository.storage_namespace, key, ("\n".join(lines) + "\n").encode())
    return PreparedCommits(
        run_id=run_id,
        commits_location=core.blockstore.location(repository.storage_namespace, key),
        addresses_location=core.blockstore.location(repository.storage_namespace, _ADDRESSES_KEY),
    )


def new_task(core: Core, repository: RepositoryRecord, kind: str, body: dict[str, object]) -> Task:
    """Store a finished task and return it; its id begins with its kind."""
    suffix = "".join(secrets.choice(_TASK_ALPHABET) for _ in range(20))
    made = Task(id=kind + suffix, kind=kind, update_time=rfc3339(core.now()), body=body)
    core.state.put_task(repository.number, made)
    return made


def task(core: Core, repository_id: str, kind: str, task_id: str) -> Task:
    """Return a task.

    Raises:
        ApiError: 404 if this repository has no such task of this kind.
    """
    found = core.state.task(core.repository(repository_id).number, kind, task_id)
    if found is None:
        raise not_found()
    return found


def submit_prepare_commits(core: Core, repository_id: str) -> Task:
    """Prepare commits as a task; without rules the task fails, but not its submission.

    Raises:
        ApiError: 404 without repository, 403 for a read-only one.
    """
    repository = core.writable(repository_id)
    body: dict[str, object]
    try:
        prepared = prepare_commits(core, repository_id)
        body = {
            "result": {
                "run_id": prepared.run_id,
                "gc_commits_location": prepared.commits_location,
                "gc_addresses_location": prepared.addresses_location,
            }
        }
    except ApiError as error:
        body = {"error": {"message": error.message}}
    return new_task(core, repository, PREPARE_COMMITS, body)


@dataclass(frozen=True)
class _PagePosition:
    """The position at which a page continues."""

    branch: str
    path: bytes
    run_id: str

    def token(self) -> str:
        path = self.path.decode(errors="surrogateescape")
        body = json.dumps(
            {"branch": self.branch, "path": path, "run_id": self.run_id, "key": ""},
            separators=(",", ":"),
        )
        return base64.b64encode(body.encode()).decode()

    @classmethod
    def parse(cls, token: str) -> _PagePosition:
        try:
            body = json.loads(base64.b64decode(token, validate=True))
            branch, path, run_id = (
                str(body.get(name, "")) for name in ("branch", "path", "run_id")
            )
        except (binascii.Error, ValueError, AttributeError):
            raise bad_request("invalid continuation token") from None
        # The run id becomes a directory. The real server accepts any id. Here it must stay inside
        # the directory of runs.
        if not _RUN_ID.fullmatch(run_id):
            raise bad_request("invalid continuation token")
        return cls(branch, path.encode(errors="surrogateescape"), run_id)


def _staged_rows(
    core: Core, repository: RepositoryRecord, branch: BranchRecord, start: bytes
) -> Iterator[tuple[bytes, str, int]]:
    prefix = repository.storage_namespace.rstrip("/") + "/"
    for row in uncommitted(core, repository, branch, start):
        if row.type == "removed":
            continue
        address = row.entry.address
        if row.entry.address_type != RELATIVE:
            if not address.startswith(prefix):
                continue
            address = address.removeprefix(prefix)
        yield row.path, address, to_seconds(row.entry.last_modified)


def prepare_uncommitted(core: Core, repository_id: str, token: str = "") -> UncommittedPage:
    """Write one page of what is staged on all branches, hidden branches included.

    A page ends after `uncommitted_page_rows` steps, where a row or a finished branch is a step. So
    clean branches make pages without rows, as on the real server, whose pages end by time.

    Raises:
        ApiError: 404 without repository, 403 for a read-only one, 400 for an invalid token.
    """
    repository = core.writable(repository_id)
    mark = _PagePosition.parse(token) if token else None
    run_id = mark.run_id if mark else core.ids.descending()
    limit = core.behaviour.uncommitted_page_rows
    branches = [
        branch
        for branch in core.state.branches(repository.number)
        if mark is None or branch.id >= mark.branch
    ]
    rows: list[tuple[str, int]] = []
    steps = 0
    following: _PagePosition | None = None
    for position, branch in enumerate(branches):
        start = mark.path if mark and mark.branch == branch.id else b""
        for path, address, created in _staged_rows(core, repository, branch, start):
            if limit is not None and steps >= limit:
                following = _PagePosition(branch.id, path, run_id)
                break
            rows.append((address, created))
            steps += 1
        steps += 1
        if (
            following is None
            and limit is not None
            and steps >= limit
            and position + 1 < len(branches)
        ):
            following = _PagePosition(branches[position + 1].id, b"", run_id)
        if following is not None:
            break
    directory = _UNCOMMITTED_KEY.format(run_id=run_id)
    if rows:
        name = f"{directory}/{core.ids.ascending()}"
        core.blockstore.write(repository.storage_namespace, name, _uncommitted_parquet(rows))
    location = core.blockstore.location(repository.storage_namespace, directory) if rows else ""
    return UncommittedPage(run_id, location, following.token() if following else None)


def _uncommitted_parquet(rows: Sequence[tuple[str, int]]) -> bytes:
    table = pa.Table.from_arrays(
        [
            pa.array([address for address, _ in rows], pa.string()),
            pa.array([created for _, created in rows], pa.int64()),
        ],
        schema=_UNCOMMITTED,
    )
    buffer = io.BytesIO()
    pq.write_table(
        table, buffer, compression="GZIP", use_dictionary=["physical_address"], version="1.0"
    )
    return buffer.getvalue()
