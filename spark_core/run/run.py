"""One run over one repository: what it may do, and its tables as they are stored and read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from spark_core.addresses.candidates import Limits
from spark_core.addresses.namespace import Namespace
from spark_core.clocks import MAX_CLOCK_SKEW
from spark_core.errors import ChainError
from spark_core.model import Repository, RunKey
from spark_core.records import storing, tables
from spark_core.records.figures import PreflightFigures
from spark_core.records.manifest import Manifest
from spark_core.records.reading import StoredTable, load_table
from spark_core.records.tables import TableSpec
from spark_core.records.writing import Draft
from spark_core.run.cutoff import cutoff_of, uploads_cutoff_of
from spark_core.run.environment import Environment
from spark_core.run.options_and_defaults import RunOptions
from spark_core.spark.session import Session
from spark_core.spark.tasks import reading_tasks
from spark_core.storage import ObjectStore
from spark_core.who_acts import who

if TYPE_CHECKING:
    # Code that only shows what a run is need not import how the server is asked.
    from spark_core.lakefs import LakeFSServer


@dataclass(frozen=True)
class Run:
    """A run in progress.

    Attributes:
        key: The instant it stands for.
        repository: As the server described it when the run was opened.
        namespace: The repository's address algebra.
        store: Rooted at the namespace.
        options: What it may do.
        environment: Server, Spark, time.
        cutoff: Objects written at or after this instant are left alone.
        reference_mark: Id of a mark of lakeFS's own job: only what it names and this run finds
            expired may go.
        take_over: Key of the dead run whose lease this one may take over.
        full: Whether everything is read, although the settings allow an optimized run.
        known: Tables that this process has stored, and tables of marks that it has read, by the key
            of their manifests.
        documents: Documents of earlier runs that this process has read, and those of this run that
            it has stored, by their keys.
        unused: Folders of tables that were empty when this process began the run -> whether it has
            begun the table. A folder leaves this mapping when its table is begun again, or stored.
        first: Keys of the manifests of tables that this process was the first to store, and that it
            has not stored again.
        earlier: The runs that had begun a mark when this process began this one, newest first.
        restores: When the restores began that had begun by then, and when they ended.
        marked: The runs that may have expired addresses, as this process knew them when it checked
            the mark, newest first.
        metaranges_by_id: Tables of the server that this process looked into, because no retained
            commit names them -> whether they are metaranges of objects.

    Examples:
        >>> run.repository.id, str(run.key), run.cutoff.isoformat()
        ('lake', '2026-11-20T02-00-00Z', '2026-11-19T01:55:00+00:00')
    """

    key: RunKey
    repository: Repository
    namespace: Namespace
    store: ObjectStore
    options: RunOptions
    environment: Environment
    cutoff: datetime
    reference_mark: str | None = None
    take_over: str | None = None
    full: bool = False
    known: dict[str, StoredTable] = field(default_factory=dict, compare=False, repr=False)
    documents: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    unused: dict[str, bool] = field(default_factory=dict, compare=False, repr=False)
    first: set[str] = field(default_factory=set, compare=False, repr=False)
    earlier: list[RunKey] = field(default_factory=list, compare=False, repr=False)
    restores: list[datetime] = field(default_factory=list, compare=False, repr=False)
    marked: list[RunKey] = field(default_factory=list, compare=False, repr=False)
    metaranges_by_id: dict[str, bool] = field(default_factory=dict, compare=False, repr=False)

    @property
    def server(self) -> LakeFSServer:
        """The lakeFS server."""
        return self.environment.server

    @property
    def spark(self) -> Session:
        """The Spark session, started when first asked for."""
        return self.environment.spark()

    @property
    def instance(self) -> str:
        """Name, birth and place of the repository: a new one of that name is another instance."""
        repository = self.repository
        return (
            f"{repository.id} created {repository.creation_date.isoformat()} in "
            f"{repository.storage_namespace}"
        )

    @property
    def limits(self) -> Limits:
        """The limits that the name and the age of each object are compared with."""
        options = self.options
        return Limits(
            cutoff=self.cutoff,
            uploads_cutoff=min(self.cutoff, uploads_cutoff_of(options, self.key)),
            created=self.repository.creation_date - MAX_CLOCK_SKEW,
            flat=options.flat,
            strangers=options.strangers,
            inherited=options.inherited,
        )

    @property
    def deciding_options(self) -> Mapping[str, Any]:
        """The options that decide what may go, as in the first table's manifest and the verdict."""
        return self.options.deciding

    def as_decided(self, asked: PreflightFigures) -> Run:
        """Return this run with the cutoff and the options that decided its mark.

        Settings change. A later statement about a mark must use what was true of it.

        Args:
            asked: Figures of the run's first table, where `preflight` leaves them.
        """
        options = self.options.as_decided(asked.options)
        return replace(self, cutoff=datetime.fromisoformat(asked.cutoff), options=options)

    def at(self, key: RunKey) -> Run:
        """Return the run of another key: its own cutoff, and nothing that this process knows."""
        if key == self.key:
            return self
        return Run(
            key=key,
            repository=self.repository,
            namespace=self.namespace,
            store=self.store,
            options=self.options,
            environment=self.environment,
            cutoff=cutoff_of(self.options, key),
            reference_mark=self.reference_mark,
            take_over=self.take_over,
            full=self.full,
        )

    def reading_tasks(self, wanted: int) -> int:
        """Return how many tasks reading is dealt out to; see `tasks.reading_tasks`."""
        return reading_tasks(wanted, lambda: self.spark)

    def now(self) -> datetime:
        """Tell the time."""
        return self.environment.clock.now()

    def begin(self, spec: TableSpec) -> datetime:
        """Note that the sources of a table are about to be read.

        The verdict is looked up, so that nobody reads in vain. It is not looked up if this process
        knows that there is none, unless another process marked the same run meanwhile. `keep` looks
        it up in any case.

        Raises:
            ClosedPartitionError: If the run has a verdict.
        """
        if spec is tables.NAMESPACE_SLICES:
            self.store.small_files.begin()
            self._look_for_runs()
        where = tables.folder(spec, self.key)
        if self.unused.pop(where, True):
            # What an earlier try left of the tables on the way is found by listing.
            for other in tables.ON_THE_WAY:
                self.unused.pop(tables.folder(other, self.key), None)
            storing.require_open(self.store, spec, self.key)
        else:
            self.unused[where] = True
        return self.now()

    def _look_for_runs(self) -> None:
        """List the runs; all tables of a mark are made from the first one.

        If there is no folder of that one, none of them was begun.
        """
        self.earlier[:], self.restores[:] = tables.runs_and_restores(self.store)
        self.unused.clear()
        if self.key not in self.earlier:
            of_a_mark = (*tables.MARK_TABLES, *tables.ON_THE_WAY)
            self.unused.update((tables.folder(spec, self.key), False) for spec in of_a_mark)

    def keep(self, draft: Draft) -> StoredTable:
        """Store a table of this run and return it as stored."""
        key = tables.manifest_key(draft.spec, self.key)
        self.known.pop(key, None)
        self.first.discard(key)
        try:
            before = self._lying(draft.spec)
            manifest, is_first = storing.store_table(
                self.store,
                draft,
                repository=self.repository.id,
                instance=self.instance,
                run=self.key,
                now=self.now,
                by=f"{who()}, {self.environment.origin}",
                before=before,
            )
        finally:
            draft.close()
        self.known[key] = StoredTable(manifest, self.store)
        if is_first:
            self.first.add(key)
        return self.known[key]

    @property
    def is_of_this_process(self) -> bool:
        """Whether this process was the first to store each table of the mark, and alone in that."""
        keys = {tables.manifest_key(spec, self.key) for spec in tables.MARK_TABLES}
        return keys <= self.first and keys <= self.known.keys()

    def _lying(self, spec: TableSpec) -> set[str] | None:
        """List the folder of a table about to be written; None for a known unused folder."""
        begun = self.unused.pop(tables.folder(spec, self.key), None)
        if begun or (begun is not None and spec in tables.ON_THE_WAY):
            return None
        return storing.keys_of_table(self.store, spec, self.key)

    def forget(self) -> None:
        """Forget what a mark remembers, so that the store is asked for everything again.

        Manifests of tables are remembered on; `load` reads them anew where it is asked to.
        """
        self.store.small_files.end()
        self.documents.clear()

    def load(self, spec: TableSpec, *, anew: bool = False) -> StoredTable:
        """Read back a table of this run; a process reads the manifest of a mark's table once.

        Args:
            spec: The table.
            anew: Read what is stored now, whatever was read before. A caller that stores a verdict
                or opens its lock sets this.

        Raises:
            ChainError: If it was not made, or was made of another instance of the repository.
        """
        key = tables.manifest_key(spec, self.key)
        stored = None if anew else self.known.get(key)
        if stored is None:
            around = tables.ENCLOSED_IN.get(spec.name)
            outer = None if around is None or anew else self._known(around)
            stored = load_table(self.store, spec, self.key, around=outer)
            if spec in tables.MARK_TABLES:
                self.known[key] = stored
        self.require_same_instance(stored.manifest)
        return stored

    def _known(self, spec: TableSpec) -> StoredTable | None:
        return self.known.get(tables.manifest_key(spec, self.key))

    def require_same_instance(self, manifest: Manifest) -> None:
        """Refuse a table of another repository, or of an earlier one under the same name.

        Raises:
            ChainError: If the manifest names another instance.
        """
        if manifest.repository != self.repository.id or manifest.instance != self.instance:
            raise ChainError(
                f"{manifest.table} of run {self.key} was made of {manifest.instance!r}, the "
                f"server now has {self.instance!r}",
                "Mark again under a new run key.",
            )
