"""Define the plain values that the server's answers are read into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import overload

from spark_core.model import Commit


@dataclass(frozen=True)
class StorageConfig:
    """The store behind a repository.

    Attributes:
        blockstore_type: s3, gs, azure, local or mem.
        blockstore_id: Which of several stores; empty for a single one.
        pre_sign_support: Whether the server can presign URLs.
        may_compact: Whether the server may write what is staged into metaranges that no commit
            names. The open server never does; it and those from before such servers say so, or
            say nothing of their edition.
    """

    blockstore_type: str
    blockstore_id: str
    pre_sign_support: bool
    may_compact: bool = False


@dataclass(frozen=True)
class PreparedCommits:
    """The server's list of retained commits.

    Attributes:
        run_id: Names the directory of the list.
    """

    run_id: str


@dataclass(frozen=True)
class PreparedUncommitted:
    """One complete scan of the staged entries by the server.

    Attributes:
        run_id: Names the directory of the scan.
        pages: Pages that the server answered.
        pages_with_data: Pages that said they wrote a file.
    """

    run_id: str
    pages: int
    pages_with_data: int


@dataclass(frozen=True)
class RefsDump:
    """The tables of a finished refs dump, by metarange id."""

    commits_metarange_id: str
    branches_metarange_id: str
    tags_metarange_id: str


class Instants(Sequence[datetime | None]):
    """Dates of many entries, each made when it is asked for: most readers ask for none.

    Args:
        seconds: Unix seconds that clients set; None for no date. A date beyond what `datetime`
            holds is clamped.
    """

    def __init__(self, seconds: Sequence[int | None]) -> None:
        self._seconds = seconds

    def __len__(self) -> int:
        return len(self._seconds)

    @overload
    def __getitem__(self, at: int) -> datetime | None: ...

    @overload
    def __getitem__(self, at: slice) -> Instants: ...

    def __getitem__(self, at: int | slice) -> datetime | Instants | None:
        if isinstance(at, slice):
            return Instants(self._seconds[at])
        seconds = self._seconds[at]
        from spark_core.graveler import Timestamp

        return None if seconds is None else Timestamp(seconds).instant()


@dataclass(frozen=True)
class EntriesPage:
    """Some entries of a ref, in order of path.

    Attributes:
        entries: Path and absolute physical address of each.
        has_more: Whether entries follow after the last one.
        dates: Date of each entry, cut to whole seconds by the server; None where it says none.
    """

    entries: Sequence[tuple[str, str]]
    has_more: bool
    dates: Sequence[datetime | None] = ()


@dataclass(frozen=True)
class DatedEntry:
    """An entry of a ref with what a listing says of it.

    Attributes:
        path: The path; the server shows bytes that are no UTF-8 as U+FFFD.
        physical_address: Absolute physical address.
        size_bytes: As the entry says.
        modified: The entry's date, cut to whole seconds by the server.
    """

    path: str
    physical_address: str
    size_bytes: int
    modified: datetime


@dataclass(frozen=True)
class LoggedCommit:
    """A commit of a log, with its metadata."""

    commit: Commit
    metadata: Mapping[str, str]
