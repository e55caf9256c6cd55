"""One run over one repository: what it was asked, what it holds, and the questions settled before anything is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import SparkSession

from spark_core.addresses.candidates import Limits
from spark_core.addresses.namespace import Namespace
from spark_core.clocks import (
    MAX_CLOCK_SKEW,
    Clock,
    ClockReading,
    SystemClock,
    require_begun,
    require_near,
    require_not_set_back,
)
from spark_core.errors import ChainError, UnsafePlanError
from spark_core.model import Repository, RunKey
from spark_core.records import tables
from spark_core.records.tables import Draft, Manifest, StoredTable, TableSpec
from spark_core.reference_job import reference
from spark_core.run.preconditions import (
    require_branches,
    require_in_list,
    require_kind_of_store,
    require_old_enough,
    require_own_namespace,
    require_tables_apart,
    require_writable,
)
from spark_core.storage import ObjectStore, StoreOptions, open_store
from spark_core.storage.probes import read_clock

if TYPE_CHECKING:
    # Whoever only shows what a run is need not import how the server is asked.
    from spark_core.lakefs import LakeFSServer

# Below the time that a server usually lets an upload wait for its reference, a minimum age is an unsafe one.
_USUAL_GRACE = timedelta(hours=24)


@dataclass(frozen=True)
class RunOptions:
    """What a run may do and how far it goes; each value's default is the careful one.

    Attributes:
        may_sweep: Deleting is allowed.
        min_age: An object younger than this, and what clocks may differ by, is never considered; see `cutoff`.
        allow_unsafe_min_age: Accept a `min_age` below the server's grace period (throw-away repositories, tests).
        flat: Also consider the flat 32-hex names of old lakeFS versions at the namespace's root.
        tags_protect: Every tag keeps the commit it names.
        clock_margin: How much more generous than the rules our own retention is, for time zones and clocks.
        twin_calls: Calls to the server that looking for hidden entries may take; None means 1000 or ten for each branch.
        hidden_entries: `by_time` asks a branch only about objects that can have been staged since its head was made;
            `ask_all` asks every branch about all.
        longest_upload: How long an upload through the server may take: its object's name and date are of its beginning.
        branches_at_once: Branches that the server is asked about side by side.
        strangers: What becomes of objects below `data/` whose names lakeFS did not give.
        inherited: What becomes of objects that are older than the repository.
        explain_ranges: Ranges of expired commits read to tell why an object may go; only words depend on it.
        max_expired_share: Refuse when more than this share (0 to 1) of the objects would go ...
        max_missing_share: ... or when more than this share (0 to 1) of what heads and staged entries reach is not in the store ...
        share_from_objects: ... but only from this many objects on.
        max_sudden_drop: Refuse when listed or live objects, or retained commits, are fewer by more than this share (0 to 1) than
            at the last run that passed ...
        max_expired_rise: ... or when this much more of the objects would go than then, as shares (0 to 1) of what was listed.
        max_clock_skew: Refuse when the clock of the server or of the store is further from this machine's.
        max_mark_age: A mark whose reading began longer ago than this is not swept.
        max_deletes_per_second: Objects that a sweep deletes in a second at most, all tasks together; None means as fast as
            the store takes it.
        reread_every: How old the second look at what is referenced may be when a batch is deleted; what is staged may be
            older where reading it takes longer than a quarter of that (see `renewal`).
        quarantine: A sweep moves objects to lakegc's own folder instead of deleting them, from where they can be brought back.
        quarantine_days: How many days after the end of its sweep an object in quarantine is deleted for good.
        repository_cache: How long the server may answer from a cache for a repository that was just deleted.
        range_partitions: Spark partitions for reading metaranges and ranges.
        read_threads: Reads that one Spark task keeps under way.
        write_reference_mark: After the verdict passed, also write the mark as lakeFS's own job does, so that the job can sweep it.
        exclusive: Nobody else ever collects this namespace: sweep on a store that does not honour create-if-absent, too.
        lease_ttl: How long the lease of a sweep is good for without a heartbeat; it is renewed three times in that time.
        keep_runs: Runs whose tables are kept; of older ones only verdicts, manifests and reports stay.
    """

    may_sweep: bool = False
    min_age: timedelta = timedelta(hours=24)
    allow_unsafe_min_age: bool = False
    flat: bool = False
    tags_protect: bool = True
    clock_margin: timedelta = timedelta(hours=1)
    twin_calls: int | None = None
    hidden_entries: Literal["by_time", "ask_all"] = "by_time"
    longest_upload: timedelta = timedelta(days=7)
    branches_at_once: int = 16
    strangers: Literal["keep", "collect"] = "keep"
    inherited: Literal["keep", "collect"] = "keep"
    explain_ranges: int = 1_000
    max_expired_share: float = 0.5
    max_missing_share: float = 0.01
    share_from_objects: int = 1_000
    max_sudden_drop: float = 0.5
    max_expired_rise: float = 0.25
    max_clock_skew: timedelta = MAX_CLOCK_SKEW
    max_mark_age: timedelta = timedelta(days=7)
    max_deletes_per_second: float | None = None
    reread_every: timedelta = timedelta(minutes=10)
    quarantine: bool = False
    quarantine_days: float = 30
    repository_cache: timedelta = timedelta(seconds=8)
    range_partitions: int = 50
    read_threads: int = 8
    write_reference_mark: bool = False
    exclusive: bool = False
    lease_ttl: timedelta = timedelta(minutes=5)
    keep_runs: int = 14

    @property
    def accepted_skew(self) -> timedelta:
        """How far two clocks may differ without a refusal."""
        return min(self.max_clock_skew, MAX_CLOCK_SKEW)

    def cutoff(self, key: RunKey) -> datetime:
        """Return the instant before which an object must have been written to be considered.

        The minimum age is counted by this machine's clock, and the validity of a link by the server's: an upload that is
        a moment older than 24 hours here may be minutes younger there, and its link still be taken. So what the clocks
        may differ by comes on top. An unsafe minimum age, of a throw-away repository, is meant as it is said.
        """
        return key.cutoff(self.min_age + self._allowance)

    def uploads_cutoff(self, key: RunKey) -> datetime:
        """Do `cutoff` for what an upload in parts keeps beside its address: the upload may go on for long."""
        return key.cutoff(max(self.min_age, self.longest_upload) + self._allowance)

    @property
    def _allowance(self) -> timedelta:
        is_unsafe = self.allow_unsafe_min_age and self.min_age < _USUAL_GRACE
        return timedelta(0) if is_unsafe else self.accepted_skew


@dataclass(frozen=True)
class Storage:
    """One of a server's storages, as this machine reaches it.

    Attributes:
        store_options: How to reach it.
        server_path: As in `Environment`.
    """

    store_options: StoreOptions
    server_path: str | None = None


@dataclass(frozen=True)
class Environment:
    """The outside world of a run: server, store, Spark and time.

    Attributes:
        server: The lakeFS server.
        store_options: How to reach the object store.
        spark: Gives the session; called when it is first needed.
        clock: Tells the time; injected so that tests can move it.
        server_path: The local blockstore's path as the server names it, when it differs from where this machine sees it.
        storages: Those of a server with several that are reached otherwise than by `store_options`, by storage id.
    """

    server: LakeFSServer
    store_options: StoreOptions
    spark: Callable[[], SparkSession]
    clock: Clock = field(default_factory=SystemClock)
    server_path: str | None = None
    storages: Mapping[str, Storage] = field(default_factory=dict)

    def storage_of(self, repository: Repository) -> Storage:
        """Tell how the storage of a repository is reached."""
        return self.storages.get(repository.storage_id) or Storage(self.store_options, self.server_path)

    def endpoint_of(self, repository: Repository) -> str | None:
        """Tell the S3 endpoint of a repository's storage; see `known_endpoint`."""
        return known_endpoint(repository, self.store_options, self.storages)


def known_endpoint(repository: Repository, usual: StoreOptions, storages: Mapping[str, Storage]) -> str | None:
    """Tell the S3 endpoint that the settings give for a repository's storage.

    Args:
        repository: As the server describes it.
        usual: How the store of a server with a single storage is reached.
        storages: How each of several is.

    Returns:
        None where they give none: AWS, what the AWS environment says, or a storage that the settings do not know.
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
        reference_mark: Id of a mark of lakeFS's own job: only what it names and this run finds expired may go.
        take_over: Key of the dead run whose lease this one may take over.
        known: Tables of marks that this process has stored or read, by the key of their manifests.
        unused: Folders of tables in which nothing lay when this process began the run -> whether it has begun the table; a
            folder goes when the table is begun again, or stored.
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
    known: dict[str, StoredTable] = field(default_factory=dict, compare=False, repr=False)
    unused: dict[str, bool] = field(default_factory=dict, compare=False, repr=False)

    @property
    def server(self) -> LakeFSServer:
        """The lakeFS server."""
        return self.environment.server

    @property
    def spark(self) -> SparkSession:
        """The Spark session, started when first asked for."""
        return self.environment.spark()

    @property
    def instance(self) -> str:
        """Name, birth and place of the repository: a new one under the old name is another instance."""
        repository = self.repository
        return f"{repository.id} created {repository.creation_date.isoformat()} in {repository.storage_namespace}"

    @property
    def limits(self) -> Limits:
        """What the name and the age of each object are compared with."""
        options = self.options
        return Limits(
            cutoff=self.cutoff,
            uploads_cutoff=min(self.cutoff, options.uploads_cutoff(self.key)),
            created=self.repository.creation_date - options.accepted_skew,
            flat=options.flat,
            strangers=options.strangers,
            inherited=options.inherited,
        )

    @property
    def deciding_options(self) -> Mapping[str, Any]:
        """The options that decide what may go, as kept in the first table's manifest and in the verdict."""
        options = self.options
        return {
            "min_age_seconds": options.min_age.total_seconds(),
            "allow_unsafe_min_age": options.allow_unsafe_min_age,
            "flat": options.flat,
            "tags_protect": options.tags_protect,
            "clock_margin_seconds": options.clock_margin.total_seconds(),
            "hidden_entries": options.hidden_entries,
            "longest_upload_seconds": options.longest_upload.total_seconds(),
            "strangers": options.strangers,
            "inherited": options.inherited,
        }

    def as_decided(self, asked: Mapping[str, Any]) -> Run:
        """Return this run with the cutoff and the options by which its mark was decided.

        Settings change; what is said of a mark later must be what was true of it.

        Args:
            asked: Facts of the run's first table, where `preflight` leaves them.
        """
        suffix, known = "_seconds", RunOptions.__dataclass_fields__
        decided: dict[str, Any] = {
            name.removesuffix(suffix): timedelta(seconds=value) if name.endswith(suffix) else value
            for name, value in asked["options"].items()
        }
        options = replace(self.options, **{name: value for name, value in decided.items() if name in known})
        return replace(self, cutoff=datetime.fromisoformat(asked["cutoff"]), options=options)

    def now(self) -> datetime:
        """Tell the time."""
        return self.environment.clock.now()

    def begin(self, spec: TableSpec) -> datetime:
        """Note that the sources of a table are about to be read.

        A verdict is asked for, so that nobody reads in vain; not where this process knows that it cannot be there, unless
        another one marked the same run meanwhile. `keep` asks in any case.

        Raises:
            ClosedPartitionError: If the run has a verdict.
        """
        where = tables.folder(spec, self.key)
        if self.unused.pop(where, True):
            tables.require_open(self.store, spec, self.key)
        else:
            self.unused[where] = True
        return self.now()

    def keep(self, draft: Draft) -> StoredTable:
        """Store a table of this run and return it as stored."""
        key = tables.manifest_key(draft.spec, self.key)
        self.known.pop(key, None)
        try:
            before = self._lying(draft.spec)
            manifest = tables.store_table(
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
        stored = StoredTable(manifest, self.store)
        if draft.spec in tables.MARK_TABLES:
            self.known[key] = stored
        return stored

    def _lying(self, spec: TableSpec) -> set[str]:
        """List what lies in the folder of a table that is about to be written; one that is known to be unused is not asked for.

        All other tables of a mark are made from the first one: where nothing lies in its folder, none of them was begun.
        """
        if self.unused.pop(tables.folder(spec, self.key), False):
            return set()
        found = tables.lying(self.store, spec, self.key)
        if spec is tables.NAMESPACE_SLICES and not found:
            others = (tables.folder(other, self.key) for other in tables.MARK_TABLES if other is not spec)
            self.unused.update(dict.fromkeys(others, False))
        return found

    def load(self, spec: TableSpec, *, anew: bool = False) -> StoredTable:
        """Read back a table of this run; the manifest of one of a mark is read once in a process.

        Args:
            spec: The table.
            anew: Read what is stored now, whatever was read before: whoever stores a verdict or opens its lock asks so.

        Raises:
            ChainError: If it was not made, or was made of another instance of the repository.
        """
        key = tables.manifest_key(spec, self.key)
        stored = None if anew else self.known.get(key)
        if stored is None:
            stored = tables.load_table(self.store, spec, self.key)
            if spec in tables.MARK_TABLES:
                self.known[key] = stored
        self.require_same_instance(stored.manifest)
        return stored

    def require_same_instance(self, manifest: Manifest) -> None:
        """Refuse a table of another repository, or of an earlier one under the same name.

        Raises:
            ChainError: If the manifest names another instance.
        """
        if manifest.repository != self.repository.id or manifest.instance != self.instance:
            raise ChainError(
                f"{manifest.table} of run {self.key} was made of {manifest.instance!r}, the server now has "
                f"{self.instance!r}",
                "Mark again under a new run key.",
            )


def open_run(
    environment: Environment,
    repository_id: str,
    key: RunKey,
    options: RunOptions,
    *,
    reference_mark: str | None = None,
    take_over: str | None = None,
) -> Run:
    """Find a repository and the store that holds it; one call to the server.

    Args:
        environment: Server, store, Spark, time.
        repository_id: Repository name.
        key: The instant the run stands for.
        options: What the run may do.
        reference_mark: Id of a mark of lakeFS's own job to verify, and to stay within.
        take_over: Key of the dead run whose lease may be taken over.

    Raises:
        UnsafePlanError: If the key lies in the future, or this machine's clock was set back so far that this cannot be told.
        NotFoundError: If there is no such repository.
        SettingsError: If the store of this namespace is not configured.
    """
    clock = environment.clock
    if isinstance(clock, SystemClock):
        require_not_set_back(clock.ahead, at_most=options.max_clock_skew)
    now = clock.now()
    if key.instant > now:
        raise UnsafePlanError(
            f"run key {key} lies in the future (it is {RunKey.at(now)}): objects that are still being uploaded would "
            "look old",
            "Use the present instant or an earlier one.",
        )
    repository = environment.server.repository(repository_id)
    storage = environment.storage_of(repository)
    namespace = Namespace.parse(
        repository.storage_namespace, server_path=storage.server_path or storage.store_options.local_path
    )
    return Run(
        key=key,
        repository=repository,
        namespace=namespace,
        store=open_store(namespace, storage.store_options),
        options=options,
        environment=environment,
        cutoff=options.cutoff(key),
        reference_mark=reference_mark,
        take_over=take_over,
    )


def preflight(run: Run) -> Mapping[str, Any]:
    """Settle what must hold before anything is read, and refuse otherwise.

    Asked once per mark and kept in the first table's manifest, so that the
    number of calls does not grow with anything.

    Returns:
        Facts about the server and the repository; JSON values only.

    Raises:
        RepositoryStateError: If the repository is read-only or bare, another one lives in its namespace or may (the list of
            repositories is not whole), or the server
            keeps it in another kind of store than its namespace says, or in none that it names.
        SettingsError: If `min_age` is below the server's grace period.
        UnsafePlanError: If the clock of the server or of the store is more than `max_clock_skew` from this machine's, or
            the run was begun by a clock that was so far ahead of theirs and was set right since.
        NotFoundError: If the run is to stay within a mark of lakeFS's own job that does not exist.
        UnsafePlanError: If that mark is of a failed run.
    """
    repository, server = run.repository, run.server
    if run.reference_mark is not None:
        # What is wrong with it should not wait for the end of a long mark to be said.
        reference.load(run.store, run.reference_mark)
    require_writable(repository)
    storage = server.storage_config(repository)
    require_kind_of_store(repository, run.namespace, storage.blockstore_type)
    grace = server.grace_period()
    require_old_enough(repository, run.options.min_age, grace, allow_unsafe=run.options.allow_unsafe_min_age)
    branches = server.branches(repository.id)
    require_branches(repository, branches)
    compared = require_alone(run)
    prefix = server.table_prefix(repository.id)
    require_tables_apart(repository, prefix)
    readings = {"server": server.clock_reading, "store": read_clock(run.store)}
    _require_clocks(run, {"the lakeFS server": readings["server"], f"the store of {run.store.root}": readings["store"]})
    return {
        "repository": {**asdict(repository), "creation_date": repository.creation_date.isoformat()},
        "instance": run.instance,
        "cutoff": run.cutoff.isoformat(),
        "options": dict(run.deciding_options),
        "min_age_seconds": int(run.options.min_age.total_seconds()),
        "unsafe_min_age": run.options.min_age < grace,
        "grace_period_seconds": int(grace.total_seconds()),
        "branches": len(branches),
        "repositories": compared,
        "overlapping_repositories": [],
        "table_prefix": prefix,
        "blockstore_type": storage.blockstore_type,
        "clock_skew_seconds": {whose: reading and reading.skew.total_seconds() for whose, reading in readings.items()},
        "reference_mark": run.reference_mark,
    }


def _require_clocks(run: Run, readings: Mapping[str, ClockReading | None]) -> None:
    """Refuse where the clocks do not agree now, or did not when the run began.

    Readings are compared with what the machine shows now; the key and the cutoff are what it showed then.
    """
    clock, limit = run.environment.clock, run.options.max_clock_skew
    for whose, reading in readings.items():
        require_near(reading, whose, at_most=limit)
    # A clock that somebody moves by hand shows what it was told, and no reading is compared with it.
    if isinstance(clock, SystemClock):
        require_not_set_back(clock.ahead, at_most=limit)
        require_begun(run.key.instant, clock.wall(), readings, at_most=limit)


def require_alone(run: Run) -> int:
    """Refuse where the server shows another repository in, around or inside the namespace (safety 11).

    Asked before a mark, and again before its sweep: one may have been made in
    between, and would read objects that this repository no longer needs.

    Returns:
        With how many repositories it was compared, its own included.

    Raises:
        RepositoryStateError: Naming both, or that the list of repositories is not whole.
    """
    repositories = run.server.repositories()
    require_in_list(run.repository, repositories)
    require_own_namespace(run.repository, run.namespace, repositories, endpoint_of=run.environment.endpoint_of)
    return len(repositories)
