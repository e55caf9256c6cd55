"""One run over one repository: its options, its tables, and the checks before anything is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from spark_core.addresses.candidates import Limits
from spark_core.addresses.namespace import Namespace
from spark_core.clocks import (
    Clock,
    ClockReading,
    SystemClock,
    require_begun,
    require_near,
    require_not_set_back,
)
from spark_core.errors import ChainError, UnsafePlanError
from spark_core.model import Repository, RunKey
from spark_core.records import storing, tables
from spark_core.records.figures import PreflightFigures
from spark_core.records.manifest import Manifest
from spark_core.records.reading import StoredTable, load_table
from spark_core.records.tables import TableSpec
from spark_core.records.writing import Draft
from spark_core.reference_job import marks
from spark_core.run.cutoff import cutoff_of, uploads_cutoff_of
from spark_core.run.options_and_defaults import RunOptions
from spark_core.run.preconditions import (
    SERVER_CLOCK,
    ask_branches,
    ask_grace_period,
    ask_kind_of_store,
    ask_neighbours,
    ask_store_clock,
    ask_table_prefix,
    require_writable,
    store_clock,
)
from spark_core.spark.session import Session
from spark_core.storage import ObjectStore, StoreOptions, open_store

if TYPE_CHECKING:
    # Code that only shows what a run is need not import how the server is asked.
    from spark_core.lakefs import LakeFSServer


@dataclass(frozen=True)
class Storage:
    """One of a server's storages, as this machine reaches it.

    Attributes:
        store_options: How to reach it.
        server_path: As in `Environment`.
    """

    store_options: StoreOptions
    server_path: str | None = None

    def namespace_of(self, repository: Repository) -> Namespace:
        """Read the storage namespace of a repository that lies in this storage.

        Raises:
            AddressError: If its form is not known.
        """
        return Namespace.parse(
            repository.storage_namespace,
            server_path=self.server_path or self.store_options.local_path,
        )


@dataclass(frozen=True)
class Environment:
    """The outside world of a run: server, store, Spark and time.

    Attributes:
        server: The lakeFS server.
        store_options: How to reach the object store.
        spark: Gives the session; called when it is first needed.
        start_spark: Begins to start the session in the background.
        clock: Tells the time; injected so that tests can move it.
        server_path: The local blockstore's path as the server names it, when this machine sees it
            elsewhere.
        storages: The storages of a server with several that are not reached by `store_options`, by
            storage id.
        pages_url: What answers with the pages of runs; None if nothing does.
        signed_links_live: How long a link to a page is good that the store signs; zero for none.

    Examples:
        >>> from spark_core.lakefs import LakeFSServer, ServerOptions
        >>> from spark_core.storage import StoreOptions
        >>> server = LakeFSServer(ServerOptions("http://127.0.0.1:8000", "key", "secret"))
        >>> Environment(server, StoreOptions(local_path="/blocks"), spark=lambda: None).server.url
        'http://127.0.0.1:8000'
    """

    server: LakeFSServer
    store_options: StoreOptions
    spark: Callable[[], Session]
    clock: Clock = field(default_factory=SystemClock)
    server_path: str | None = None
    storages: Mapping[str, Storage] = field(default_factory=dict)
    start_spark: Callable[[], None] = lambda: None
    pages_url: str | None = None
    signed_links_live: timedelta = timedelta(0)

    def storage_of(self, repository: Repository) -> Storage:
        """Return how the storage of a repository is reached."""
        return self.storages.get(repository.storage_id) or Storage(
            self.store_options, self.server_path
        )

    def endpoint_of(self, repository: Repository) -> str | None:
        """Return the S3 endpoint of a repository's storage; see `known_endpoint`."""
        return known_endpoint(repository, self.store_options, self.storages)


def known_endpoint(
    repository: Repository, usual: StoreOptions, storages: Mapping[str, Storage]
) -> str | None:
    """Return the S3 endpoint that the settings give for a repository's storage.

    Args:
        repository: As the server describes it.
        usual: How the store of a server with a single storage is reached.
        storages: How each of several is reached.

    Returns:
        None if the settings give none: AWS, the endpoint of the AWS environment, or a storage that
        the settings do not know.
    """
    own = storages.get(repository.storage_id)
    if own is not None:
        return own.store_options.s3_endpoint
    return None if repository.storage_id else usual.s3_endpoint


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
            created=self.repository.creation_date - options.accepted_skew,
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


def require_past(key: RunKey, now: datetime) -> None:
    """Refuse a run key in the future.

    Raises:
        UnsafePlanError: If it lies there.
    """
    if key.instant > now:
        raise UnsafePlanError(
            f"run key {key} lies in the future (it is {RunKey.at(now)}): objects that are still "
            "being uploaded would look old",
            "Use the present instant or an earlier one.",
        )


def open_run(
    environment: Environment,
    repository_id: str,
    key: RunKey,
    options: RunOptions,
    *,
    reference_mark: str | None = None,
    take_over: str | None = None,
    full: bool = False,
) -> Run:
    """Find a repository and the store that holds it; one call to the server.

    Args:
        environment: Server, store, Spark, time.
        repository_id: Repository name.
        key: The instant the run stands for.
        options: What the run may do.
        reference_mark: Id of a mark of lakeFS's own job to verify, and to stay within.
        take_over: Key of the dead run whose lease may be taken over.
        full: Whether to read everything, although the settings allow an optimized run.

    Raises:
        UnsafePlanError: If the key lies in the future, or this machine's clock was set back so far
            that this cannot be told.
        NotFoundError: If there is no such repository.
        SettingsError: If the store of this namespace is not configured.

    Examples:
        >>> run = open_run(environment, "lake", key, RunOptions(may_sweep=True))
        >>> run.repository.default_branch, run.namespace.uri
        ('main', 'local://lake')
    """
    clock = environment.clock
    if isinstance(clock, SystemClock):
        require_not_set_back(clock.ahead, at_most=options.max_clock_skew)
    require_past(key, clock.now())
    repository = environment.server.repository(repository_id)
    storage = environment.storage_of(repository)
    namespace = storage.namespace_of(repository)
    if options.quarantine is None and namespace.kind == "local":
        options = replace(options, quarantine=True)
    return Run(
        key=key,
        repository=repository,
        namespace=namespace,
        store=open_store(namespace, storage.store_options),
        options=options,
        environment=environment,
        cutoff=cutoff_of(options, key),
        reference_mark=reference_mark,
        take_over=take_over,
        full=full,
    )


def preflight(run: Run) -> PreflightFigures:
    """Check what must hold before anything is read, and refuse otherwise.

    The checks are made once per mark and kept in the first table's manifest, so the number of calls
    does not grow with anything.

    Returns:
        What the server said about itself and the repository.

    Raises:
        RepositoryStateError: If the repository is read-only or bare; if another one lives in its
            namespace, or may because the list of repositories is not whole; or if the server keeps
            it in another kind of store than its namespace says, or in none that it names.
        SettingsError: If `min_age` is below the server's grace period.
        UnsafePlanError: If the clock of the server or of the store is more than `max_clock_skew`
            from this machine's, or the run was begun by a clock that was so far ahead of theirs and
            was set right since.
        NotFoundError: If the run is to stay within a mark of lakeFS's own job that does not exist.
        UnsafePlanError: If that mark is of a failed run.
    """
    repository, server = run.repository, run.server
    if run.reference_mark is not None:
        # An error in that mark is shown before this run's own long mark, not after it.
        marks.load(run.store, run.reference_mark)
    require_writable(repository)
    config = ask_kind_of_store(server, repository, run.namespace)
    grace = ask_grace_period(server, repository, run.options)
    branches = ask_branches(server, repository)
    compared = require_alone(run)
    prefix = ask_table_prefix(server, repository)
    readings = _ask_clocks(run)
    return PreflightFigures(
        repository={**asdict(repository), "creation_date": repository.creation_date.isoformat()},
        instance=run.instance,
        cutoff=run.cutoff.isoformat(),
        options=run.deciding_options,
        min_age_seconds=int(run.options.min_age.total_seconds()),
        unsafe_min_age=run.options.min_age < grace,
        grace_period_seconds=int(grace.total_seconds()),
        branches=len(branches),
        repositories=compared,
        overlapping_repositories=(),
        table_prefix=prefix,
        may_compact=config.may_compact or None,
        blockstore_type=config.blockstore_type,
        clock_skew_seconds={
            whose: None if reading is None else reading.skew.total_seconds()
            for whose, reading in readings.items()
        },
        reference_mark=run.reference_mark,
    )


def _ask_clocks(run: Run) -> Mapping[str, ClockReading | None]:
    """Refuse if the clocks do not agree now, or did not when the run began.

    Readings are compared with what the machine shows now; the key and the cutoff are what it showed
    then.

    Returns:
        The readings of the clocks of `server` and `store`.
    """
    clock, limit = run.environment.clock, run.options.max_clock_skew
    of_server = run.server.clock_reading
    require_near(of_server, SERVER_CLOCK, at_most=limit)
    of_store = ask_store_clock(run.store, at_most=limit)
    # A clock that somebody moves by hand shows what it was told, and no reading is compared with
    # it.
    if isinstance(clock, SystemClock):
        require_not_set_back(clock.ahead, at_most=limit)
        readings = {SERVER_CLOCK: of_server, store_clock(run.store): of_store}
        require_begun(run.key.instant, clock.wall(), readings, at_most=limit)
    return {"server": of_server, "store": of_store}


def require_alone(run: Run) -> int:
    """Refuse if the server shows another repository in, around or inside the namespace (safety 11).

    The question is asked before a mark, and again before its sweep: a repository that was made in
    between would read objects that this repository no longer needs.

    Returns:
        With how many repositories it was compared, its own included.

    Raises:
        RepositoryStateError: Naming both, or that the list of repositories is not whole.
    """
    return ask_neighbours(run.server, run.repository, run.namespace, run.environment.endpoint_of)
