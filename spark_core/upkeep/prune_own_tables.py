"""House-keeping: delete lakegc's own tables of old runs; count what the server leaves behind."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from spark_core import lakegc_keys, report, sweep
from spark_core.checks import confirming, sweepable, verdict
from spark_core.errors import (
    ChainError,
    CorruptTableError,
    LakegcError,
    LeaseHeldError,
    LeaseLostError,
    sentences,
)
from spark_core.index import saved
from spark_core.lock import lease
from spark_core.lock.held_lease import Lease
from spark_core.model import RunKey
from spark_core.phases import keeping_house, phase
from spark_core.records import tables
from spark_core.records.figures import CommitsFigures, ListedFigures
from spark_core.records.reading import load_table
from spark_core.records.tables import (
    DELETION_REPORT,
    EXPIRED_ADDRESSES,
    NAMESPACE_SLICES,
    RETAINED_COMMITS,
    TAKEN_RANGES,
)
from spark_core.records.verdict_document import Verdict
from spark_core.report.values import bytes_text
from spark_core.run import Run
from spark_core.spark.session import SPARK_FAILURES
from spark_core.storage import ObjectStore
from spark_core.storage.listings import listed_together
from spark_core.sweep import quarantine
from spark_core.upkeep import purge_quarantine, quarantine_days_over, server_files
from spark_core.upkeep.server_files import Left, ServerFiles, left_by_server

_RUN = r"run_id=(?P<run>\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2}Z)"
# The tables of a mark, and the tables beside it. The deletion report stays: it is the record of
# what is gone.
PRUNED_TABLES = (*tables.MARK_TABLES, *tables.OPTIONAL_TABLES)
# Exactly what `storing.store_table`, the journal and a killed reading of diffs (`mark.uncommitted`)
# write, and what a mark saves of them. Of the other names that begin with an underscore, manifests,
# verdicts and reports stay.
_PARTS = re.compile(
    rf"{re.escape(lakegc_keys.ROOT)}(?:"
    rf"(?:{'|'.join(spec.folder for spec in PRUNED_TABLES)})/{_RUN}/{lakegc_keys.PART}"
    rf"|{tables.UNCOMMITTED_ADDRESSES.folder}/{_RUN.replace('run>', 'diffs>')}/"
    rf"(?:{lakegc_keys.DIFFS}|{lakegc_keys.SAVED})"
    rf"|{lakegc_keys.JOURNAL}/{_RUN.replace('run>', 'journal>')}/(?:intent|outcome)-"
    rf"[0-9a-f]+(?:\.\d+){{4}}-\d+-[0-9a-f]{{64}}\.parquet)"
)
# Exactly what a mark writes of the index.
_INDEXED = re.compile(rf"{re.escape(lakegc_keys.INDEX)}{lakegc_keys.INDEXED}")
_INDEX_FOLDER = lakegc_keys.INDEX.removeprefix(lakegc_keys.ROOT).rstrip("/")
# A mark that is at work has not named yet what it writes of the index.
_INDEX_AGE = timedelta(days=1)
# Marks hold no lease, so another one may have begun with the index of the run before the last.
_SAVED_RUNS = 2
_FOR_READERS = re.compile(rf"/{lakegc_keys.FOR_READERS}\Z")
_FOLDERS = (*(spec.folder for spec in PRUNED_TABLES), DELETION_REPORT.folder, lakegc_keys.JOURNAL)
_OTHER_FOLDERS = (_INDEX_FOLDER, lakegc_keys.SERVER_FILES)


@dataclass
class Pruned:
    """What one prune deleted; it counts as it goes, so an error leaves the counts of what was done.

    Attributes:
        runs: The runs whose tables are gone now.
        objects: Files of theirs that were deleted ...
        size_bytes: ... and their bytes.
        index_objects: Files of the index that nobody reads any more ...
        index_bytes: ... and their bytes.
        server_objects: Lists and scans of old runs that were deleted ...
        server_bytes: ... and their bytes.
        server_kept: Why none of them was, although some are old; None if they were, or none is.
        left: Files that the store did not delete; the next time tries them again.
        kept: Why runs older than those that are kept stay, by run key.
        index_kept: Why nothing of the index was deleted, although something is old; None if it was,
            or nothing is.
        begun: Whether anything may have been deleted.
        not_now: Why nothing was done at all; None if it was.
        purged: What the end of quarantine deleted; None if nothing was due, or it was not begun.
        not_purged: Why nothing in quarantine was deleted although it was due; None if it was, or
            nothing was due.
    """

    runs: list[RunKey] = field(default_factory=list)
    objects: int = 0
    size_bytes: int = 0
    index_objects: int = 0
    index_bytes: int = 0
    server_objects: int = 0
    server_bytes: int = 0
    server_kept: str | None = None
    left: int = 0
    kept: dict[str, str] = field(default_factory=dict)
    index_kept: str | None = None
    begun: bool = False
    not_now: str | None = None
    purged: purge_quarantine.Purged | None = None
    not_purged: str | None = None

    @property
    def gone(self) -> int | None:
        """Objects known to be gone, the quarantine's among them; None before deletion began."""
        if not self.begun:
            return None
        purged = 0 if self.purged is None else self.purged.objects
        return self.objects + self.index_objects + self.server_objects + purged


@dataclass
class _Files:
    """The files of one run, by key."""

    sizes: dict[str, int] = field(default_factory=dict)
    modified: dict[str, datetime] = field(default_factory=dict)

    def add(self, key: str, size: int, modified: datetime) -> None:
        self.sizes[key], self.modified[key] = size, modified

    @property
    def newest(self) -> datetime | None:
        """When the newest file was written, except files that are made anew for readers."""
        written = (at for key, at in self.modified.items() if not _FOR_READERS.search(key))
        return max(written, default=None)

    def ended(self, report: str) -> bool:
        """Say whether the last sweep ended: nothing was journaled after the report was stored."""
        journaled = [self.modified[key] for key in self.parts if f"/{lakegc_keys.JOURNAL}/" in key]
        return not journaled or (
            report in self.modified and max(journaled) <= self.modified[report]
        )

    @property
    def parts(self) -> list[str]:
        """What may be pruned."""
        return [key for key in self.sizes if _PARTS.fullmatch(key)]


def prune(run: Run, done: Pruned) -> None:
    """Delete the tables of old runs, and the objects whose quarantine days are over.

    The tables and journals of the newest `keep_runs` runs stay. Verdicts, manifests, deletion
    reports and the reports for people always stay. Everything also stays of a run:

    - that has a file written within `max_mark_age`, because it may still be at work or be swept;
      reports and answers of `what-if`, which are made anew for readers, do not count;
    - whose sweep did not end;
    - that has objects in quarantine;
    - whose report cannot be made before its tables go.

    Of the index, what was written within a day stays, what the tables of a run name that stays, and
    what the documents of the two newest runs name that saved one. Where either of these cannot be
    read, all of it stays.

    Of what the server wrote, lists and scans of runs whose tables may go are deleted; see
    `server_files`.

    A namespace that somebody else collects is left for the next time.

    Args:
        run: The run that has just ended; its own tables stay.
        done: Counts what is done.

    Raises:
        LakegcError: If the store cannot be listed or written.
    """
    files, index, server = _by_run(run.store)
    quarantined = _quarantined(run.store)
    newest = sorted(files, reverse=True)
    old = newest[run.options.keep_runs :]
    kept = {
        key: why for key in old if (why := _why_kept(run, key, files[key], quarantined)) is not None
    }
    chosen = [key for key in old if key not in kept and files[key].parts]
    done.kept.update((str(key), why) for key, why in kept.items() if files[key].parts)
    for key in list(chosen):
        try:
            _keep_report(run, key, files[key])
        except (LakegcError, *SPARK_FAILURES) as problem:
            chosen.remove(key)
            kept[key] = done.kept[str(key)] = f"its report cannot be made: {_cause(problem)}"
    has_saved = [key for key in newest if lakegc_keys.saved_key(key) in files[key].sizes]
    staying = [key for key in newest if key not in chosen and files[key].parts]
    unneeded = _unneeded(run, index, has_saved, staying, done)
    going = _of_server(run.store, files, [key for key in old if key not in kept], server, done)
    is_over, done.not_purged = _is_over(run) if quarantined else (False, None)
    if not (chosen or unneeded or is_over or any(one.files for one in going)):
        return
    try:
        with lease.held(run, "prune") as held:
            done.begun = True
            for key in chosen:
                for size in _remove(run.store, files[key], files[key].parts, held, done):
                    done.objects, done.size_bytes = done.objects + 1, done.size_bytes + size
                done.runs.append(key)
            for one in going:
                _remove_of_server(run, one, held, done)
            for size in _remove(run.store, index, unneeded, held, done):
                done.index_objects += 1
                done.index_bytes += size
            if is_over:
                done.purged = purge_quarantine.Purged()
                done.not_purged = _purge(run, held, done.purged)
    except LeaseHeldError as busy:
        done.not_now = busy.found


def _of_server(
    store: ObjectStore,
    files: Mapping[RunKey, _Files],
    old: Sequence[RunKey],
    server: ServerFiles,
    done: Pruned,
) -> list[server_files.Going]:
    """Find the lists and scans that go; note why none does if nobody knows what others need."""
    try:
        return server_files.going(
            store, {key: found.sizes.keys() for key, found in files.items()}, old, server
        )
    except LakegcError as unreadable:
        done.server_kept = f"which of them are needed is not known: {unreadable.found}"
        return []


def _remove_of_server(run: Run, going: server_files.Going, held: Lease, done: Pruned) -> None:
    for size, is_gone in server_files.remove(run.store, going, held, run.now()):
        done.server_objects += is_gone
        done.server_bytes += size if is_gone else 0
        done.left += not is_gone


def _is_over(run: Run) -> tuple[bool, str | None]:
    """Say whether something may be purged; if its days are over but it may not, say why."""
    try:
        over = quarantine_days_over.runs_due(run)
    except LakegcError as unknown:
        return False, unknown.found
    if over and not run.options.may_sweep:
        return (
            False,
            f"the days of {len(over)} runs are over, but mode is `mark`, which deletes nothing",
        )
    return bool(over), None


def _purge(run: Run, held: Lease, done: purge_quarantine.Purged) -> str | None:
    """Purge; return why it ended early.

    The run has done its work, so only a lost lease ends house-keeping.
    """
    try:
        purge_quarantine.purge(run, held, done)
    except LeaseLostError:
        raise
    except LakegcError as unknown:
        return unknown.found
    except SPARK_FAILURES as failure:
        return f"Spark failed: {type(failure).__name__}"
    return None


@dataclass(frozen=True)
class House:
    """What house-keeping did after a run, and what it found.

    Attributes:
        pruned: What was deleted.
        left: What the server left; None if it could not be counted.
        problem: The error that ended house-keeping; the run has done its work all the same.
    """

    pruned: Pruned
    left: Left | None
    problem: str | None = None

    @property
    def facts(self) -> Mapping[str, Any]:
        """Both as figures; JSON values only."""
        pruned, left = self.pruned, self.left
        counted = (
            {
                "left_by_server_objects": left.objects,
                "left_by_server_bytes": left.size_bytes,
                "dump_files": left.dump_files,
                "dump_bytes": left.dump_bytes,
            }
            if left is not None
            else {}
        )
        return {
            "pruned_runs": [str(key) for key in pruned.runs],
            "pruned_objects": pruned.objects,
            "pruned_bytes": pruned.size_bytes,
            "pruned_of_index_objects": pruned.index_objects,
            "pruned_of_index_bytes": pruned.index_bytes,
            "pruned_of_server_objects": pruned.server_objects,
            "pruned_of_server_bytes": pruned.server_bytes,
            "server_files_not_pruned": pruned.server_kept,
            "not_pruned": dict(pruned.kept),
            "index_not_pruned": pruned.index_kept,
            "not_now": pruned.not_now,
            "purged": None if pruned.purged is None else asdict(pruned.purged),
            "not_purged": pruned.not_purged,
            "problem": self.problem,
            **counted,
        }

    @property
    def words(self) -> str:
        """The line that a run shows."""
        clauses = (
            []
            if self.left is None
            else [f"the server keeps files of every collection: {self.left}"]
        )
        if self.left is not None and self.left.dump_files:
            clauses.append(
                f"and this one's dump of refs: {self.left.dump_files} files, "
                f"{bytes_text(self.left.dump_bytes)}"
            )
        if self.pruned.objects:
            clauses.append(
                f"tables of {len(self.pruned.runs)} old runs pruned ({self.pruned.objects:,} "
                f"files, {bytes_text(self.pruned.size_bytes)})"
            )
        if self.pruned.index_objects:
            clauses.append(
                f"files of the index pruned that no run needs any more "
                f"({self.pruned.index_objects:,} files, {bytes_text(self.pruned.index_bytes)})"
            )
        if self.pruned.server_objects:
            clauses.append(
                f"lists and scans of old runs pruned ({self.pruned.server_objects:,} files, "
                f"{bytes_text(self.pruned.server_bytes)})"
            )
        if self.pruned.server_kept is not None:
            clauses.append(f"no lists and scans pruned: {self.pruned.server_kept}")
        if self.pruned.index_kept is not None:
            clauses.append(f"nothing of the index pruned: {self.pruned.index_kept}")
        if self.pruned.left:
            clauses.append(f"{self.pruned.left} of their files are left for the next time")
        clauses += self._quarantine_words()
        if self.pruned.not_now is not None:
            clauses.append(f"nothing pruned now: {self.pruned.not_now}")
        if self.problem is not None:
            clauses.append(f"not finished: {self.problem}")
        return "; ".join(clauses)

    def _quarantine_words(self) -> Iterator[str]:
        purged = self.pruned.purged
        if purged is not None and purged.objects:
            where = (
                f"listed in {purged.record}"
                if purged.record is not None
                else "of which no record could be written"
            )
            yield (
                f"quarantine: {purged.objects:,} objects ({bytes_text(purged.size_bytes)}) "
                f"deleted for good, {where}"
            )
        if purged is not None and purged.in_use:
            yield (
                f"{purged.in_use:,} objects stay in quarantine because something refers to them "
                "or holds them, or may (`twin_calls`): `lakegc restore` brings back those that "
                "are needed"
            )
        if purged is not None and purged.left:
            yield f"{purged.left:,} of its objects are left for the next time"
        if purged is not None and purged.unknown:
            yield (
                f"{purged.unknown:,} may be gone: nobody answered for their deletion, nor "
                "whether they are there"
            )
        if purged is not None and purged.strangers:
            yield f"{purged.strangers:,} keys in its folders were not put there by a sweep and stay"
        if self.pruned.not_purged is not None:
            yield f"the end of quarantine was not reached: {self.pruned.not_purged}"


def keep_house(run: Run) -> House:
    """Prune, and count what the server left, after a run has done its work; no error fails the run.

    Args:
        run: The run that has ended well.
    """
    left, pruned = None, Pruned()
    try:
        with phase(lambda: keeping_house(pruned.gone)):
            dumped = CommitsFigures.of(run.load(RETAINED_COMMITS).manifest)
            prefix = ListedFigures.of(run.load(NAMESPACE_SLICES).manifest).table_prefix
            of_dump = {"dump_files": dumped.dump_files, "dump_bytes": dumped.dump_bytes}
            left = replace(left_by_server(run.store, prefix), **of_dump)
            prune(run, pruned)
            if pruned.server_objects:
                left = replace(left_by_server(run.store, prefix), **of_dump)
    except LakegcError as problem:
        return House(pruned, left, str(problem))
    except SPARK_FAILURES as failure:
        return House(pruned, left, sentences(_cause(failure), keeping_house(pruned.gone)))
    return House(pruned, left)


def _cause(problem: Exception) -> str:
    return (
        problem.found
        if isinstance(problem, LakegcError)
        else f"Spark failed ({type(problem).__name__})"
    )


def after_run(run: Run) -> House:
    """Keep house if this run has done its work; else do nothing, and say why.

    The caller may have chosen only this step, for any run. A run whose mark did not pass knows
    nothing that may be acted on. A run that is still to be swept has not ended.

    Args:
        run: The run.
    """
    try:
        why = _why_not_yet(run, verdict.stored_here(run))
        if why is None and verdict.is_concluded(run):
            # To do nothing, what this process stored is enough. What deletes asks the store.
            run.forget()
            why = _why_not_yet(run, verdict.load(run))
    except LakegcError as unknown:
        why = unknown.found
    return keep_house(run) if why is None else House(Pruned(not_now=why), None)


def _why_not_yet(run: Run, found: Verdict) -> str | None:
    confirmed = confirming.confirmed_checks(run, found)
    if failed := [str(check["name"]) for check in found.failed if check["name"] not in confirmed]:
        return f"the mark of run {run.key} did not pass ({', '.join(failed)})"
    sweepable.require_recent(run, found)
    if not run.options.may_sweep:
        return None
    # A sweep by this process forgets that it stored the verdict.
    if verdict.is_concluded(run) or not run.store.exists(
        tables.manifest_key(DELETION_REPORT, run.key)
    ):
        return f"run {run.key} is not swept yet"
    sweep.require_complete(run.load(DELETION_REPORT))
    return None


def _listed(
    store: ObjectStore, parent: str, folders: Sequence[str]
) -> Iterator[tuple[str, int, datetime]]:
    for batch in listed_together(store, parent, folders):
        columns = (
            batch.column(name).to_pylist() for name in ("key", "size_bytes", "last_modified")
        )
        yield from zip(*columns, strict=True)


def _by_run(store: ObjectStore) -> tuple[dict[RunKey, _Files], _Files, ServerFiles]:
    """Return the files of each run, those of the index, and what the server wrote."""
    found, index, server = dict[RunKey, _Files](), _Files(), ServerFiles()
    for key, size, modified in _listed(store, lakegc_keys.ROOT, (*_FOLDERS, *_OTHER_FOLDERS)):
        server.add(key, size)
        run = lakegc_keys.run_of(key)
        if run is not None and lakegc_keys.SERVER_FILES not in key.split("/"):
            found.setdefault(run, _Files()).add(key, size, modified)
        elif _INDEXED.fullmatch(key):
            index.add(key, size, modified)
    return found, index, server


def _quarantined(store: ObjectStore) -> set[RunKey]:
    """Return the runs with objects in quarantine; a file system keeps empty folders."""
    return {
        key
        for key in quarantine.runs(store)
        if any(batch.num_rows for batch in store.list(lakegc_keys.in_quarantine(key)))
    }


def _unneeded(
    run: Run,
    index: _Files,
    has_saved: Sequence[RunKey],
    staying: Sequence[RunKey],
    done: Pruned,
) -> list[str]:
    """Return the files of the index that nobody reads any more.

    It costs a small read or two for each run that stays, where anything may go.

    Args:
        run: The run.
        index: The files of the index.
        has_saved: The runs that saved a document, newest first.
        staying: The runs whose tables stay.
        done: Notes why nothing may go.
    """
    since = run.now() - _INDEX_AGE - run.options.accepted_skew
    old = [key for key, at in index.modified.items() if at < since]
    named: set[str] = set()
    for key in has_saved[:_SAVED_RUNS] if old else ():
        try:
            found = saved.load(run.store, key)
        except LakegcError as unreadable:
            done.index_kept = f"which of its files run {key} names is not known: {unreadable.found}"
            return []
        named.update(part.key for part in found.files)
    for key in staying if not named.issuperset(old) else ():
        named.update(_named_by_tables(run.store, key))
    return [key for key in old if key not in named]


def _named_by_tables(store: ObjectStore, key: RunKey) -> Iterator[str]:
    """Yield the files that tables 1 and 4 of a run name.

    Files are merged while a mark is saved, so its tables may name others than its document. A table
    that cannot be read needs none.
    """
    for spec in (NAMESPACE_SLICES, TAKEN_RANGES):
        with suppress(ChainError, CorruptTableError):
            manifest = load_table(store, spec, key).manifest
            for part in (*manifest.parts, *manifest.beside):
                yield part.key
                if part.without is not None:
                    yield part.without.key


def _why_kept(run: Run, key: RunKey, files: _Files, quarantined: set[RunKey]) -> str | None:
    """Say why an old run's tables stay; None if they may go."""
    if key == run.key:
        return "it is this run"
    if files.newest is None or run.now() - files.newest < run.options.max_mark_age:
        return f"something of it was written less than {run.options.max_mark_age} ago"
    if not files.ended(tables.manifest_key(DELETION_REPORT, key)):
        return "its sweep did not end"
    if key in quarantined:
        return "objects of it are in quarantine"
    return None


def _keep_report(run: Run, key: RunKey, files: _Files) -> None:
    """Make the report of a run that has none yet, while its tables are still there."""
    if lakegc_keys.verdict_key(key) not in files.sizes:
        return  # never marked to its end: there is nothing to report
    swept = tables.manifest_key(DELETION_REPORT, key) in files.sizes
    if lakegc_keys.report_keys(key, swept=swept)["json"] in files.sizes:
        return
    report.load(replace(run, key=key, known={}))


def _remove(
    store: ObjectStore, files: _Files, keys: Sequence[str], held: Lease, done: Pruned
) -> Iterator[int]:
    """Delete some files, and yield the size of each that is gone; count those that are left."""
    # The addresses go last: while they are there, the run counts as marked.
    going = sorted(keys, key=lambda key: (f"/{EXPIRED_ADDRESSES.folder}/" in key, key))
    for begin in range(0, len(going), store.delete_batch_size):
        held.beat()
        for outcome in store.delete(going[begin : begin + store.delete_batch_size]):
            if outcome.outcome in ("deleted", "already_gone"):
                yield files.sizes[outcome.key]
            else:
                done.left += 1
