"""A run whose stored tables a test writes row by row."""

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from spark_core import lakegc_keys, schemas
from spark_core.addresses.address_hashes import hashed, sorted_once
from spark_core.addresses.candidates import Limits
from spark_core.addresses.namespace import Namespace, slice_of
from spark_core.errors import ChainError
from spark_core.fates import Fate
from spark_core.lakefs import LakeFSServer, ServerOptions
from spark_core.mark.expired_sums import SUMMED, Sums
from spark_core.model import Repository, RunKey
from spark_core.records import tables
from spark_core.records.figures import IndexFigures, TakenFigures
from spark_core.records.journal import Journal, begun, is_begun
from spark_core.records.verdict_document import Verdict
from spark_core.records.writing import Draft
from spark_core.run import Environment, Run, RunOptions
from spark_core.run.cutoff import cutoff_of
from spark_core.storage import StoreOptions, open_store
from spark_core.sweep.deletion_report import measure
from tests.support.clock import FakeClock
from tests.support.figures import given
from tests.support.standing import standing

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)
OLD = NOW - timedelta(days=10)
OPTIONS = RunOptions(strangers="collect", inherited="collect")
NO_TWINS = {"kept_objects": 0, "kept_bytes": 0, "unchecked_objects": 0, "unchecked_bytes": 0}


@dataclass
class Written:
    """A run and the means to store its tables."""

    run: Run

    def _keep(self, spec, rows, parents=(), measured=None, encloses=(), **facts):
        content = pa.Table.from_pylist(rows, schema=spec.schema)
        figures = given(spec, len(rows), **facts)
        draft = Draft(
            spec,
            content,
            self.run.now(),
            parents,
            figures=figures,
            measure=measured,
            is_enclosed=spec is tables.FATES,
            encloses=encloses,
        )
        return self.run.keep(draft).manifest

    def mark(
        self,
        listed,
        *,
        committed=(),
        staged=(),
        expired=(),
        commits=(),
        fates=(),
        twins=None,
        of_listing=None,
        of_committed=None,
        of_expired=None,
    ):
        """Store the five tables; `listed` is address -> (size, last modified), `expired` address ->
        reason, `fates` address -> fate and why it stays, of other objects. `of_listing`,
        `of_committed` and `of_expired` are further figures of those tables.
        """
        parents = [
            self._keep(
                tables.NAMESPACE_SLICES,
                [
                    {
                        "slice": slice_of(address),
                        "address": address,
                        "size_bytes": size,
                        "last_modified": modified,
                        "checksum": None,
                        "standing": standing(address, modified, self.run.limits),
                        "address_hash": hash_of(address),
                    }
                    for address, (size, modified) in listed.items()
                ],
                cutoff=self.run.cutoff.isoformat(),
                options=dict(self.run.deciding_options),
                **(of_listing or {}),
            ),
            self._keep(
                tables.UNCOMMITTED_ADDRESSES,
                [
                    {"address": address, "created_at": None, "address_hash": hash_of(address)}
                    for address in staged
                ],
            ),
            self._keep(
                tables.RETAINED_COMMITS,
                [
                    {
                        "commit_id": f"{number:064x}",
                        "metarange_id": "",
                        "created_at": OLD,
                        "reason": reason,
                        "retained_by": "lakegc",
                        "retained_until": None,
                        "is_head": False,
                    }
                    for number, reason in enumerate(commits)
                ],
                by_reason=dict(Counter(commits)),
            ),
            self._keep(
                tables.COMMITTED_ADDRESSES,
                [
                    {
                        "address": address,
                        "size_bytes": 1,
                        "head_path": None,
                        "checksum": None,
                        "is_live": False,
                        "address_hash": hash_of(address),
                    }
                    for address in committed
                ],
                **(of_committed or {}),
            ),
        ]
        rows = [
            {
                "address": address,
                "size_bytes": listed[address][0],
                "last_modified": listed[address][1],
                "slice": slice_of(address),
                "reason": reason,
            }
            for address, reason in dict(expired).items()
        ]
        sums = Sums()
        sums.add(
            pa.RecordBatch.from_pylist(rows, schema=SUMMED),
            self.run.key.instant,
            self.run.limits,
        )
        told, by_fate = [], {}
        for address, (size, modified) in listed.items():
            fate, why = _fate(
                address,
                standing(address, modified, self.run.limits),
                {
                    **{name: (Fate.UNREFERENCED, reason) for name, reason in dict(expired).items()},
                    **dict(fates),
                    **dict.fromkeys(staged, (Fate.STAGED, "")),
                    **dict.fromkeys(committed, (Fate.COMMITTED, "")),
                },
            )
            objects, size_bytes = by_fate.get(fate, (0, 0))
            by_fate[fate] = [objects + 1, size_bytes + size]
            if fate is not Fate.COMMITTED:
                told.append(
                    {
                        "address_hash": hash_of(address),
                        "fate": fate,
                        "why": why,
                        "until": None,
                        "size_bytes": size,
                        "address": address if fate.may_go else None,
                    }
                )
        return self._keep(
            tables.EXPIRED_ADDRESSES,
            rows,
            parents,
            encloses=(self._keep(tables.FATES, told, parents),),
            twins=twins or NO_TWINS,
            by_fate=by_fate,
            **(of_expired or {}),
            **sums.figures.facts(),
        )

    def conclude(self, **refused):
        """Store a verdict with these checks refused; name -> sentence."""
        run = self.run
        found = Verdict(
            repository=run.repository.id,
            instance=run.instance,
            namespace=run.repository.storage_namespace,
            run=str(run.key),
            passed=not refused,
            concluded_at=run.now(),
            cutoff=run.cutoff.isoformat(),
            options=run.deciding_options,
            min_age_seconds=86_400,
            rules=None,
            tables={},
            addresses={},
            expired_objects=0,
            standing={},
            checks=[
                {"name": name, "passed": False, "summary": why} for name, why in refused.items()
            ],
            versions={},
        )
        run.store.put(lakegc_keys.verdict_key(run.key), found.to_json())

    def journal(self, sizes, outcome="deleted", *, at=None):
        """Store a lot of a sweep with quarantine; address -> size. Without an outcome it died."""
        store, plan = self.run.store, "0" * 64
        if not is_begun(store, self.run.key):
            with suppress(ChainError):
                plan = self.run.load(tables.EXPIRED_ADDRESSES).manifest.sha256
            Journal(store, str(self.run.key), plan).bind(self.run.instance, quarantine=True)
        book = begun(store, self.run.key)
        told = {"size_bytes": pa.array(sizes.values(), pa.int64())}
        rows = journal_entries("intended", sizes, at=at or self.run.now(), **told)
        lot = f"ab12.0.0.0.{sum(part.kind == 'intent' for part in book.parts())}"
        book.intend(lot, rows)
        if outcome:
            book.conclude(lot, journal_entries(outcome, sizes, at=at or self.run.now(), **told))
        return book

    def sweep(self, outcomes, **figures):
        """Store a deletion report; address -> (size, outcome, error)."""
        return self._keep(
            tables.DELETION_REPORT,
            [
                {
                    "address": address,
                    "size_bytes": size,
                    "outcome": outcome,
                    "error": error,
                    "reason": "in no commit, and not staged",
                    "attempts": 1,
                    "deleted_at": self.run.key.instant if outcome == "deleted" else None,
                }
                for address, (size, outcome, error) in outcomes.items()
            ],
            measured=measure,
            planned_objects=len(outcomes),
            **figures,
        )


def _fate(address, named, fates):
    """Return an object's fate and why: what is told of it, else what its name and age say."""
    by_name = {"protected": Fate.UNSAFE_NAME, "young": Fate.YOUNG, "upload": Fate.UPLOADING}
    return fates.get(address) or (by_name.get(named, Fate.MAY_HIDE), "")


def with_index(run, *, slices=0, objects=0, size_bytes=0, ranges=0, entries=0):
    """Make the figures by which a mark is an optimized one, as arguments of `Written.mark`.

    Args:
        run: Key of the run that saved the index.
        slices: Slices that were not listed ...
        objects: ... and the objects taken instead ...
        size_bytes: ... with their bytes.
        ranges: Ranges that were taken ...
        entries: ... with their entries.
    """
    index = IndexFigures(
        run=str(run),
        saved="0" * 64,
        listed_since=0,
        open_slices=(),
        slices=slices,
        objects=objects,
        bytes=size_bytes,
    )
    taken = TakenFigures(ranges=ranges, entries=entries)
    return {"of_listing": {"index": index.facts()}, "of_committed": {"taken": taken.facts()}}


def hashes_of(*addresses):
    """Return the hashes of addresses, sorted."""
    return sorted_once(hashed(pa.array(addresses, pa.string())).to_numpy())


def hash_of(address):
    """Hash one address as the tables have it."""
    return hashed(pa.array([address]))[0].as_py()


def any_name(cutoff, *, flat=False):
    """Make limits by which objects of any name below data/ may go that are older than a cutoff."""
    return Limits(
        cutoff, cutoff, NOW - timedelta(days=36_500), flat, strangers="collect", inherited="collect"
    )


def written_run(folder, spark):
    """Open a run over an empty local namespace, at `NOW`, minimum age a day; its tests give objects
    short names.
    """
    (folder / "repo/data").mkdir(parents=True, exist_ok=True)
    namespace = Namespace.parse("local://repo", server_path=str(folder))
    store_options = StoreOptions(local_path=str(folder))
    clock = FakeClock(NOW)
    environment = Environment(
        # Nobody answers there: a report that asked the server would fail.
        server=LakeFSServer(ServerOptions("http://127.0.0.1:9", "key", "secret"), clock=clock),
        store_options=store_options,
        spark=lambda: spark,
        clock=clock,
    )
    key = RunKey.at(NOW)
    return Written(
        Run(
            key=key,
            repository=Repository("repo", "local://repo", "main", OLD),
            namespace=namespace,
            store=open_store(namespace, store_options),
            options=OPTIONS,
            environment=environment,
            cutoff=cutoff_of(OPTIONS, key),
        )
    )


def journal_entries(outcome, addresses, *, at=NOW, size_bytes=None):
    """Return rows of a journal: objects of 4 bytes, or of other sizes, with one outcome."""
    rows = [
        {"address": address, "size_bytes": 4, "outcome": outcome, "error": None, "at": at}
        for address in addresses
    ]
    table = pa.Table.from_pylist(rows, schema=schemas.JOURNAL)
    if size_bytes is not None:
        table = table.set_column(1, schemas.JOURNAL.field("size_bytes"), size_bytes)
    return table.combine_chunks().to_batches()[0]
