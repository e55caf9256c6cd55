"""Delete lakegc's own tables of old runs, and with them what only they need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from spark_core import lakegc_keys, report
from spark_core.errors import LakegcError, LeaseHeldError, LeaseLostError
from spark_core.lock import lease
from spark_core.lock.held_lease import Lease
from spark_core.model import RunKey
from spark_core.records import journal, tables
from spark_core.records.tables import DELETION_REPORT, EXPIRED_ADDRESSES
from spark_core.run import Run
from spark_core.spark.failures import spark_failures
from spark_core.storage import ObjectStore
from spark_core.sweep.dead_sweeps import dead_sweeps, end_journal
from spark_core.sweep.plan import has_ended
from spark_core.upkeep import (
    index_files,
    own_files,
    purge_quarantine,
    quarantine_days_over,
    server_files,
)
from spark_core.upkeep.house_keeping_result import Pruned
from spark_core.upkeep.own_files import Files


@dataclass(frozen=True)
class _Going:
    """What one prune deletes.

    Attributes:
        runs: The files of the runs whose tables go.
        server: Lists and scans.
        index: Files of the index.
        sizes: Bytes of files of the index, by key.
        is_over: Whether the days of something in quarantine are over.
        is_dead: Whether a sweep may have died, whose journal nobody has ended.
    """

    runs: Mapping[RunKey, Files]
    server: Sequence[server_files.Going]
    index: Sequence[str]
    sizes: Mapping[str, int]
    is_over: bool
    is_dead: bool

    @property
    def is_anything(self) -> bool:
        """Whether there is anything to do."""
        is_over = self.is_over or self.is_dead
        return bool(self.runs or self.index or is_over or any(one.files for one in self.server))


def prune(run: Run, done: Pruned) -> None:
    """Delete the tables of old runs, and the objects whose quarantine days are over.

    Before that it ends the journals of sweeps that died, if the mode allows to sweep.

    The tables and journals of the newest `keep_runs` runs stay. Verdicts, manifests, deletion
    reports and the reports for people always stay. Everything also stays of a run:

    - that has a file written within `max_mark_age`, because it may still be at work or be swept;
      reports and answers of `what-if`, which are made anew for readers, do not count;
    - whose sweep died, until the next time after its journal is ended;
    - that has objects in quarantine;
    - whose report cannot be made before its tables go.

    Of the index, what was written within a day stays, what the tables of a run name that stays, and
    what the documents of the two newest runs name that saved one. Where what one of these names
    cannot be read, all of it stays.

    Of what the server wrote, lists and scans of runs whose tables may go are deleted; see
    `server_files`.

    A namespace that somebody else collects is left for the next time.

    Args:
        run: The run that has just ended; its own tables stay.
        done: Counts what is done.

    Raises:
        LakegcError: If the store cannot be listed or written.
    """
    files, index, server = own_files.by_run(run.store)
    going = _choose(run, files, index, server, done)
    if not going.is_anything:
        return
    try:
        with lease.hold_lease(run, "prune") as held:
            done.begun = True
            _delete(run, going, held, done)
    except LeaseHeldError as busy:
        done.not_now = busy.found


def _choose(
    run: Run,
    files: Mapping[RunKey, Files],
    index: Files,
    server: server_files.ServerFiles,
    done: Pruned,
) -> _Going:
    """Choose what goes; note what stays although it is old, and why."""
    quarantined = own_files.quarantined(run.store)
    begun = (key for key, of in files.items() if journal.is_open(key, of.modified))
    is_open = {key for key in begun if not has_ended(run.store, key)}
    newest = sorted(files, reverse=True)
    old = newest[run.options.keep_runs :]
    kept = {
        key: why
        for key in old
        if (why := _why_kept(run, key, files[key], is_open, quarantined)) is not None
    }
    chosen = [key for key in old if key not in kept and files[key].parts]
    done.kept.update((str(key), why) for key, why in kept.items() if files[key].parts)
    for key in list(chosen):
        try:
            _keep_report(run, key, files[key])
        except spark_failures(LakegcError) as problem:
            chosen.remove(key)
            kept[key] = done.kept[str(key)] = f"its report cannot be made: {_cause(problem)}"
    staying = [key for key in newest if key not in chosen and files[key].parts]
    unneeded = index_files.unneeded(run, index, files, staying, done)
    of_server = _of_server(run.store, files, [key for key in old if key not in kept], server, done)
    is_over, done.not_purged = _is_over(run) if quarantined else (False, None)
    is_dead = run.options.may_sweep and bool(is_open - {run.key})
    return _Going(
        {key: files[key] for key in chosen}, of_server, unneeded, index.sizes, is_over, is_dead
    )


def _delete(run: Run, going: _Going, held: Lease, done: Pruned) -> None:
    """Delete what was chosen, under the lease; count what is gone."""
    for dead in dead_sweeps(run) if going.is_dead else ():
        problem = _problem_of(partial(_end, run, held, dead, done))
        done.not_purged = problem or done.not_purged
    for key, files in going.runs.items():
        # Without its journal nobody could date what lies there, so its folder is asked itself.
        if own_files.has_quarantined(run.store, key):
            continue
        for size in _remove(run.store, files.sizes, files.parts, held, done):
            done.objects, done.size_bytes = done.objects + 1, done.size_bytes + size
        done.runs.append(key)
    for one in going.server:
        for size, is_gone in server_files.remove(run.store, one, held, run.now()):
            done.server_objects += is_gone
            done.server_bytes += size if is_gone else 0
            done.left += not is_gone
    for size in _remove(run.store, going.sizes, going.index, held, done):
        done.index_objects += 1
        done.index_bytes += size
    if going.is_over or done.ended:
        done.purged = purge_quarantine.Purged()
        problem = _problem_of(partial(purge_quarantine.purge, run, held, done.purged))
        done.not_purged = problem or done.not_purged


def _why_kept(
    run: Run, key: RunKey, files: Files, is_open: set[RunKey], quarantined: set[RunKey]
) -> str | None:
    """Say why an old run's tables stay; None if they may go."""
    if key == run.key:
        return "it is this run"
    if files.newest is None or run.now() - files.newest < run.options.max_mark_age:
        return f"something of it was written less than {run.options.max_mark_age} ago"
    if key in is_open:
        return "its sweep did not end"
    if key in quarantined:
        return "objects of it are in quarantine"
    return None


def _keep_report(run: Run, key: RunKey, files: Files) -> None:
    """Make the report of a run that has none yet, while its tables are still there."""
    if lakegc_keys.verdict_key(key) not in files.sizes:
        return  # never marked to its end: there is nothing to report
    swept = tables.manifest_key(DELETION_REPORT, key) in files.sizes
    if lakegc_keys.report_keys(key, swept=swept)["json"] in files.sizes:
        return
    report.load(run.at(key))


def _cause(problem: Exception) -> str:
    return (
        problem.found
        if isinstance(problem, LakegcError)
        else f"Spark failed ({type(problem).__name__})"
    )


def _of_server(
    store: ObjectStore,
    files: Mapping[RunKey, Files],
    old: Sequence[RunKey],
    server: server_files.ServerFiles,
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


def _is_over(run: Run) -> tuple[bool, str | None]:
    """Say whether something may be purged; if its days are over but it may not, say why."""
    over, problem = quarantine_days_over.runs_due(run)
    if over and not run.options.may_sweep:
        return (
            False,
            f"the days of {len(over)} runs are over, but mode is `mark`, which deletes nothing",
        )
    return bool(over), None if problem is None else problem.found


def _end(run: Run, held: Lease, dead: RunKey, done: Pruned) -> None:
    done.ended.append(end_journal(run, held, dead))


def _problem_of(work: Callable[[], None]) -> str | None:
    """Do some work on what is in quarantine; return why it ended early.

    The run has done its work, so only a lost lease ends house-keeping.
    """
    try:
        work()
    except LeaseLostError:
        raise
    except LakegcError as unknown:
        return unknown.found
    except spark_failures() as failure:
        return f"Spark failed: {type(failure).__name__}"
    return None


def _remove(
    store: ObjectStore,
    sizes: Mapping[str, int],
    keys: Sequence[str],
    held: Lease,
    done: Pruned,
) -> Iterator[int]:
    """Delete some files, and yield the size of each that is gone; count those that are left."""
    # The addresses go last: while they are there, the run counts as marked.
    going = sorted(keys, key=lambda key: (f"/{EXPIRED_ADDRESSES.folder}/" in key, key))
    for begin in range(0, len(going), store.delete_batch_size):
        held.beat()
        for outcome in store.delete(going[begin : begin + store.delete_batch_size]):
            if outcome.is_gone:
                yield sizes[outcome.key]
            else:
                done.left += 1
