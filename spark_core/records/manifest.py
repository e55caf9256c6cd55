"""The manifest of a stored table: its files, its figures, and what it was made from."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar

from spark_core.records.documents import Count, Document, Instant, Parsed

# The fact under which a manifest has those of tables that were made on the way: name -> as stored.
ENCLOSED = "enclosed"
# The fact that says who ran the run: account, machine, and what started it.
BY = "by"


@dataclass(frozen=True)
class Part:
    """One Parquet file of a table.

    Attributes:
        key: Key in the store.
        rows: Rows in it that count.
        size_bytes: Its size.
        sha256: Hex digest of its bytes.
        content: Its bytes in base 64, if it lies here and not in the store: small files of tables
            that are made on the way, and small ones of expired commits. Empty for a file in the
            store.
        without: A file of `schemas.LEFT_OUT_ROWS`: numbers of rows of this one that do not count
            any more. None for no such rows.
    """

    LEFT_OUT_IF_EMPTY: ClassVar[tuple[str, ...]] = ("content", "without")

    key: str
    rows: Count
    size_bytes: Count
    sha256: str
    content: str = field(default="", repr=False)
    without: Part | None = None

    @property
    def held(self) -> bytes | None:
        """Its bytes, if it lies here; whoever reads them compares their hash."""
        return base64.b64decode(self.content) if self.content else None

    @property
    def whole(self) -> Part:
        """The file with all of its rows."""
        left_out = 0 if self.without is None else self.without.rows
        return replace(self, rows=self.rows + left_out, without=None)


Parts = Annotated[tuple[Part, ...], Parsed(list, "a list of files", tuple)]


@dataclass(frozen=True)
class Manifest(Document):
    """What a stored table consists of and how it came to be.

    Attributes:
        table: Name of the table.
        repository: Repository id.
        instance: Which instance of that repository (name, creation date, namespace).
        run: Run key.
        attempt: Unique id of the materialization.
        reading_began: Before the first byte of its sources was read.
        reading_ended: After the last byte was written.
        parents: Table name -> sha256 of the manifest it was made from.
        parts: Its files.
        facts: Figures recorded while it was made, as stored; `records.figures` reads them. Beside
            them may lie the manifests of tables that were made on the way; `records.reading` reads
            those.
        beside: Files beside the table, which only later steps of lakegc read.
    """

    CALLED: ClassVar[str] = "a manifest"
    LEFT_OUT_IF_EMPTY: ClassVar[tuple[str, ...]] = ("beside",)

    table: str
    repository: str
    instance: str
    run: str
    attempt: str
    reading_began: Instant
    reading_ended: Instant
    parents: Mapping[str, str]
    parts: Parts
    facts: Mapping[str, Any]
    beside: Parts = ()

    @property
    def rows(self) -> int:
        """Rows of all parts."""
        return sum(part.rows for part in self.parts)

    @property
    def size_bytes(self) -> int:
        """Bytes of all parts."""
        return sum(part.size_bytes for part in self.parts)

    @cached_property
    def sha256(self) -> str:
        """Hex digest of the manifest as stored; children name their parents by it."""
        return hashlib.sha256(self.to_json()).hexdigest()
