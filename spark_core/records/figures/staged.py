"""The figures of the staged entries."""

from __future__ import annotations

from dataclasses import dataclass

from spark_core.records.figures.base import Figures


@dataclass(frozen=True, kw_only=True)
class StagedReadFigures(Figures):
    """How the staged entries were read.

    Attributes:
        server_runs: Ids of the server's scans.
        pages: Pages of the scans.
        pages_with_data: Pages that claimed rows.
        files: Files that the scans named.
        files_read: Files that were read to their ends.
        file_rows: Rows read from them.
        from_diffs: Rows of the branches' diffs.
        branches_read: Branches whose diff was read.
        branches_gone: Branches that were deleted before their diff was read to its end.
        branches_appeared: Branches that appeared in the last round and were not read.
    """

    server_runs: tuple[str, ...]
    pages: int
    pages_with_data: int
    files: int
    files_read: int
    file_rows: int
    from_diffs: int
    branches_read: int
    branches_gone: int = 0
    branches_appeared: int = 0


@dataclass(frozen=True, kw_only=True)
class StagedFigures(StagedReadFigures):
    """Figures of `uncommitted_addresses`.

    Attributes:
        staged: Rows stored.
        staged_in_data: Rows whose address lies below `data/`.
    """

    staged: int = 0
    staged_in_data: int = 0
