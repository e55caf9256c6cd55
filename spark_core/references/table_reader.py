"""What an executor needs to read the server's tables, metaranges and ranges."""

from __future__ import annotations

from dataclasses import dataclass

from spark_core.addresses.namespace import Namespace
from spark_core.run import Run
from spark_core.storage import ObjectStore


@dataclass(frozen=True)
class TableReader:
    """What an executor needs to read the server's tables.

    Attributes:
        store: Rooted at the namespace.
        namespace: Resolves addresses.
        prefix: Where the server keeps its tables.
        threads: Files that are read at once.
        with_paths: Whether paths of expired commits are wanted.
        remembers: Whether small tables are remembered, as they are few and read several times.
    """

    store: ObjectStore
    namespace: Namespace
    prefix: str
    threads: int
    with_paths: bool
    remembers: bool = False

    @classmethod
    def of(cls, run: Run, prefix: str, *, remembers: bool = False) -> TableReader:
        """Make the part of a run that travels to the executors."""
        options = run.options
        return cls(
            run.store,
            run.namespace,
            prefix,
            options.read_threads,
            options.explain == "full",
            remembers,
        )

    def name(self, table_id: str) -> str:
        """Return the key of a content-addressed table."""
        return f"{self.prefix}/{table_id}"

    def read(self, table_id: str) -> bytes:
        """Read a table file whole."""
        name = self.name(table_id)
        if self.remembers:
            # Its name is a hash of its content, and whoever reads it compares that.
            return self.store.read_unchanging(name)
        known = self.store.small_files.get(name)
        return self.store.read(name) if known is None else known
