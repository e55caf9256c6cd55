"""What the sandbox keeps of repositories, branches, staged changes, pull requests and tasks."""

from __future__ import annotations

from dataclasses import dataclass

from spark_core.graveler import Entry


@dataclass(frozen=True)
class RepositoryRecord:
    """A repository.

    Attributes:
        number: Distinguishes two repositories that had the same name.
        creation_date: Unix seconds.
    """

    number: int
    id: str
    storage_namespace: str
    default_branch: str
    creation_date: int
    read_only: bool


@dataclass(frozen=True)
class BranchRecord:
    """A branch and its head.

    Attributes:
        compacted: Metarange of the head with the staged changes that were compacted; empty if none
            were. No commit names it.
    """

    id: str
    commit_id: str
    hidden: bool
    compacted: str = ""


@dataclass(frozen=True)
class StagedChange:
    """A staged change of one path; `entry` is None for a deletion."""

    path: bytes
    entry: Entry | None


@dataclass(frozen=True)
class PullRecord:
    """A pull request.

    Attributes:
        status: `open` or `closed`.
        created: As the API shows it.
    """

    id: str
    title: str
    source: str
    destination: str
    status: str
    created: str


@dataclass(frozen=True)
class Task:
    """An asynchronous task; the sandbox does the work when it is submitted.

    Attributes:
        body: Fields of the finished task's answer besides its id and time.
    """

    id: str
    kind: str
    update_time: str
    body: dict[str, object]
