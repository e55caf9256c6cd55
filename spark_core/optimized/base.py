"""From which run an optimized one may begin, and why a run is a full one.

What a base knows is only as good as its verdict. So a base passed all checks, is of the same
repository, decided by the same options, and is the newest such run. Whatever is in doubt makes the
run a full one, which says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa

from spark_core import lakegc_keys
from spark_core.addresses import candidates as rule
from spark_core.addresses.xids import xid_seconds
from spark_core.errors import (
    ChainError,
    CorruptTableError,
    LakegcError,
    NotFoundError,
)
from spark_core.model import RunKey
from spark_core.optimized import saved as saved_information
from spark_core.optimized.saved import Saved
from spark_core.plain_text import span_text
from spark_core.records import confirmation, reading, tables
from spark_core.records.figures import (
    WALK,
    BaseFigures,
    CommitsFigures,
    DeletionFigures,
    ListedFigures,
)
from spark_core.records.manifest import Part, Parts
from spark_core.records.reading import StoredTable
from spark_core.records.tables import TableSpec
from spark_core.records.verdict_document import Verdict
from spark_core.run import Run, chain
from spark_core.storage import ObjectStore
from spark_core.storage.small_files import LARGEST, LARGEST_READ_AGAIN

# The check of a full run that compares the optimized ones before it with what it finds.
AUDIT = "optimized_runs_were_right"

# A server process names a new slice after this time at the latest.
ROTATION = timedelta(hours=1)

# The time of a slice falls: it counts the seconds that are left until 4000-01-01.
_LAST_INSTANT = 64_060_588_800
_SECONDS = 2**32

# The standings that end as time passes.
WAITING = pa.array([rule.YOUNG, rule.UPLOAD])

# Slices that a manifest names one by one.
MOST_OPEN = 10_000


@dataclass(frozen=True)
class Base:
    """The run that an optimized one begins from.

    Attributes:
        key: Its key.
        figures: What the optimized run's first table says of it.
        saved: What it saved.
        run: The optimized run.
    """

    key: RunKey
    figures: BaseFigures
    saved: Saved
    run: Run

    def table(self, spec: TableSpec) -> StoredTable:
        """Read one of its tables that it saved for this.

        Raises:
            ChainError: If it is another one than it saved, or was pruned.
        """
        return _table(self.run, self.key, self.saved, spec)

    def deletions(self) -> StoredTable:
        """Read what its sweep did; once it was read, what came of a later sweep does not matter.

        Raises:
            ChainError: If it was not swept.
        """
        return _load(self.run, tables.DELETION_REPORT, self.key)

    @property
    def compared_checksums(self) -> bool:
        """Whether it knew of each entry of a head that its checksum is its object's."""
        return self.saved.checksums_agree

    def has(self, spec: TableSpec) -> bool:
        """Say whether it saved such a table."""
        return spec.name in self.saved.tables

    def lists(self, slice_: str) -> bool:
        """Say whether an optimized run lists a slice whole."""
        return is_listed(self.figures, slice_)

    def listed(self, slices: pa.StringArray) -> pa.BooleanArray:
        """Say of each of a column of slices whether an optimized run lists it."""
        names = slices.dictionary_encode()
        known = pa.array([self.lists(name) for name in names.dictionary.to_pylist()], pa.bool_())
        return known.take(names.indices)


@contextmanager
def needed(why: str) -> Iterator[None]:
    """Say what to do where a file cannot be read that a full run does not need.

    Args:
        why: Why an optimized run needs it, as the end of a sentence.

    Raises:
        ChainError: In the place of the error.
    """
    try:
        yield
    except (NotFoundError, CorruptTableError) as lost:
        raise ChainError(f"{lost.found}; {why}", MARK_FULL) from lost


def of_base(base: Base) -> AbstractContextManager[None]:
    """Say so of a file that a base saved."""
    return needed(f"run {base.run.key} begins from run {base.key}, which saved it")


MARK_FULL = "Mark again under a new run key with `--full`."


@dataclass(frozen=True)
class Full:
    """The decision for a full run, and why no base could be used.

    Attributes:
        why: In words; empty where nobody asked for an optimized run.
        blocked_by: As in `Saved`.
    """

    why: str
    blocked_by: tuple[str, ...] = ()


def is_listed(base: BaseFigures, slice_: str) -> bool:
    """Say whether an optimized run lists a slice whole.

    Slices whose names tell no time are always listed: those of sharded and of legacy names, and
    what lies directly below `data/`.
    """
    since = slice_seconds(slice_)
    return since is None or since >= base.listed_since or slice_ in base.open_slices


def slice_seconds(slice_: str) -> int | None:
    """Return when a server named a slice, in unix seconds; None if its name tells no time.

    References:
        lakeFS `pkg/upload/path_provider.go`.

    Examples:
        >>> slice_seconds("gqv3epl4fd2o8m3men70")
        1670433690
        >>> slice_seconds("!ab") is None
        True
    """
    falling = None if "," in slice_ else xid_seconds(slice_)
    return None if falling is None else (_LAST_INSTANT - falling) % _SECONDS


def tells_time(slice_: str) -> bool:
    """Say whether the name of a slice tells when a server gave it."""
    return slice_seconds(slice_) is not None


def choose(run: Run) -> Base | Full:
    """Find the run that a mark may begin from.

    It costs a request for each newer run that did not pass, and some ten for the base.

    Returns:
        The base, or why the mark reads everything.
    """
    if not run.options.optimized:
        return Full("")
    # Every mark has a listing, even if it did not end.
    keys = [key for key in run.earlier if key != run.key]
    last = _last_passed(run, [key for key in keys if key < run.key])
    blocked = tuple(sorted({*last.blocked_by, *_still_blocked(run, last.key)}))
    newer = f"run {keys[0]} is newer than this one" if keys[:1] > [run.key] else ""
    why = _why_not_optimized(run) or newer or last.why or _blocked(run, blocked)
    if why or last.key is None or last.verdict is None:
        return Full(why, blocked)
    try:
        base = _base(run, last.key, last.verdict)
    except (LakegcError, ValueError) as problem:
        words = problem.found if isinstance(problem, LakegcError) else str(problem)
        return Full(f"run {last.key} is nothing to begin from: {words}", blocked)
    why = _too_old(run, base) or _restored_since(run, base)
    return Full(why, blocked) if why else base


def of(run: Run) -> Base | None:
    """Return the base of a mark that was begun; None if it is a full one.

    Raises:
        ChainError: If the base saved something else since.
    """
    figures = ListedFigures.of(run.load(tables.NAMESPACE_SLICES).manifest).base
    if figures is None:
        return None
    key = RunKey.parse(figures.run)
    saved = _saved(run, key)
    if saved.digest != figures.saved:
        raise ChainError(
            f"what run {key} saved was changed since run {run.key} began from it", MARK_FULL
        )
    return Base(key, figures, saved, run)


def require_full(run: Run, what: str) -> None:
    """Refuse to read the tables of an optimized mark as those of a whole one.

    Args:
        run: A run with a mark.
        what: What the tables lack, in words.

    Raises:
        ChainError: If its mark is an optimized one.
    """
    if ListedFigures.of(run.load(tables.NAMESPACE_SLICES).manifest).base is not None:
        raise ChainError(
            f"run {run.key} is an optimized one: its mark did not {what}",
            "Name the last full run, or mark again under a new run key with `--full`.",
        )


def saves(run: Run) -> bool:
    """Say whether an optimized run may begin from a run of this kind."""
    return run.options.optimized and not _special(run)


def _why_not_optimized(run: Run) -> str:
    return "a full run was asked for" if run.full else _special(run)


def _special(run: Run) -> str:
    """Say why a run of this kind reads everything."""
    if run.reference_mark is not None:
        return "it stays within a mark of lakeFS's own job"
    if run.options.policies != "off" or run.options.collects != "all":
        return "a retention policy names objects by their age, whatever changed"
    if run.options.flat:
        return "flat = true: flat names are in no slice"
    if run.options.listing == "inventory":
        return "an inventory shows no slice whole: it lacks what was written since"
    return ""


def _blocked(run: Run, blocked: tuple[str, ...]) -> str:
    if not blocked:
        return ""
    return (
        f"run {blocked[-1]} found an object alive that an optimized run had deleted: confirm that "
        f"this is understood (`lakegc confirm {run.repository.id} {AUDIT} --run {blocked[-1]}`)"
    )


def _is_confirmed(run: Run, name: str) -> bool:
    return confirmation.load(run.store, RunKey.parse(name), AUDIT) is not None


@dataclass(frozen=True)
class _Last:
    """The last mark that passed, if any, and why it is no base.

    Attributes:
        key: Its key.
        verdict: Its verdict.
        why: Why no optimized run may begin from it; empty for nothing.
        blocked_by: Newer full runs whose audit found something that nobody has confirmed.
    """

    key: RunKey | None = None
    verdict: Verdict | None = None
    why: str = ""
    blocked_by: tuple[str, ...] = ()


def _last_passed(run: Run, keys: list[RunKey]) -> _Last:
    """Find the last mark that passed, newest first.

    An optimized mark that did not end or did not pass, for whatever reason, makes the next one
    full. So what stops one of them does not stop the next night's.
    """
    blocked: list[str] = []
    why = ""
    for key in keys:
        where = lakegc_keys.verdict_key(key)
        try:
            verdict = Verdict.from_json(run.store.read(where), name=where)
            run.documents[where] = verdict
        except NotFoundError:
            if _was_optimized(run, key):
                why = why or f"run {key}, an optimized one, did not end"
            continue
        except LakegcError as damaged:
            return _Last(None, None, why or damaged.found, tuple(blocked))
        if verdict.instance != run.instance:
            why = why or f"run {key} is of another instance of the repository"
            return _Last(None, None, why, tuple(blocked))
        audited = any(check["name"] == AUDIT for check in verdict.failed)
        if audited and not _is_confirmed(run, str(key)):
            blocked.append(str(key))
        if verdict.passed:
            return _Last(key, verdict, why, tuple(blocked))
        if _was_optimized(run, key):
            why = why or f"run {key}, an optimized one, did not pass its checks"
    return _Last(None, None, why or "no mark of this repository has passed yet", tuple(blocked))


def _was_optimized(run: Run, key: RunKey) -> bool:
    try:
        slices = reading.load_table(run.store, tables.NAMESPACE_SLICES, key).manifest
        return ListedFigures.of(slices).base is not None
    except LakegcError:
        return False  # it did not come so far


def _still_blocked(run: Run, key: RunKey | None) -> set[str]:
    """Return the audits that the last mark that passed knew of, and that nobody has confirmed."""
    if key is None:
        return set()
    try:
        known = _saved(run, key).blocked_by
    except LakegcError:
        # What it saved is lost; its first table names them, too.
        slices = reading.load_table(run.store, tables.NAMESPACE_SLICES, key).manifest
        known = ListedFigures.of(slices).blocked_by or ()
    return {name for name in known if not _is_confirmed(run, name)}


def _base(run: Run, key: RunKey, verdict: Verdict) -> Base:
    """Read what the last mark saved, and compare it with its verdict.

    Raises:
        LakegcError: Why it cannot be a base.
        ValueError: The same, of what is no error by itself.
    """
    if run.base not in (None, key):
        raise ValueError(f"it is the last mark that passed, and run {run.base} was asked for")
    if run.now() < verdict.concluded_at:
        raise ValueError("it ended in the future: a clock was set back")
    differing = chain.other_options(run, verdict.options)
    if differing:
        raise ValueError(f"other options decided: {differing}")
    saved = _named(run, key, verdict)
    commits = _table(run, key, saved, tables.RETAINED_COMMITS)
    if CommitsFigures.of(commits.manifest).refs_read_by == WALK:
        raise ValueError("its refs could only be walked")
    deleted, deleted_bytes, left = _deleted(run, key, saved)
    base = Base(
        key,
        BaseFigures(
            run=str(key),
            verdict=verdict.digest,
            saved=saved.digest,
            listed_since=_listed_since(run, saved),
            open_slices=saved.open_slices,
            spared_slices=0,
            objects=max(0, saved.objects - deleted),
            bytes=max(0, saved.bytes - deleted_bytes),
            live_objects=saved.live_objects,
        ),
        saved,
        run,
    )
    parts = [*left, *saved.fates]
    for spec in (tables.UNCOMMITTED_ADDRESSES, tables.RETAINED_COMMITS, tables.RETAINED_RANGES):
        manifest = base.table(spec).manifest
        # Stored sketches lie where they were made. The first file of each run goes first.
        beside = [part for part in manifest.beside if not part.content]
        first = {lakegc_keys.run_of(part.key): part for part in reversed(beside)}
        parts += [*manifest.parts, *first.values()]
    needed = [part for part in parts if not part.content and part.key not in saved.files]
    # The driver reads all of them later if they are few bytes.
    is_little = sum(part.size_bytes for part in needed) <= LARGEST_READ_AGAIN
    largest = LARGEST_READ_AGAIN if is_little else LARGEST
    if not all(_is_there(run.store, part, largest) for part in needed):
        raise ValueError("its tables were pruned")
    return base


def _named(run: Run, key: RunKey, verdict: Verdict) -> Saved:
    """Read what a run saved, and compare it with the verdict.

    Raises:
        LakegcError: If it cannot be read.
        ValueError: If the verdict names something else, or nothing.
    """
    named = verdict.tables[tables.EXPIRED_ADDRESSES.name].get("saved", "")
    if named is None:
        raise ValueError("it saved nothing")
    saved = _saved(run, key)
    if saved.digest != named:
        raise ValueError("what it saved is not what its verdict names")
    same = [
        saved.tables.get(spec.name) == verdict.tables[spec.name]["manifest"]
        for spec in (tables.UNCOMMITTED_ADDRESSES, tables.RETAINED_COMMITS)
    ]
    files = {part.key: part.sha256 for part in saved.expired}
    if not all(same) or files != dict(verdict.addresses):
        raise ValueError("it saved other tables than its verdict names")
    saved.unpack(run.store)
    return saved


def _is_there(store: ObjectStore, part: Part, largest: int) -> bool:
    """Say whether a file is there; a small one is read, as the driver needs it later."""
    if part.size_bytes > largest:
        return store.exists(part.key)
    try:
        store.read_unchanging(part.key, again=True)
    except NotFoundError:
        return False
    return True


def _load(run: Run, spec: TableSpec, key: RunKey) -> StoredTable:
    """Read the manifest of a base's table; a process reads it once, and the caller compares it."""
    where = tables.manifest_key(spec, key)
    if where not in run.documents:
        run.documents[where] = reading.load_table(run.store, spec, key)
    found: StoredTable = run.documents[where]
    return found


def _saved(run: Run, key: RunKey) -> Saved:
    """Read what a base saved; a process reads it once, and the caller compares it."""
    where = lakegc_keys.saved_key(key)
    if where not in run.documents:
        run.documents[where] = saved_information.load(run.store, key)
    found: Saved = run.documents[where]
    return found


def _table(run: Run, key: RunKey, saved: Saved, spec: TableSpec) -> StoredTable:
    """Read a table that a base saved; a process reads it once.

    Raises:
        ChainError: As for `Base.table`.
    """
    where = tables.manifest_key(spec, key)
    if where not in run.documents:
        packed = saved.table(run.store, spec)
        if packed is not None:
            run.documents[where] = packed
    found = _load(run, spec, key)
    if found.manifest.sha256 != saved.tables.get(spec.name):
        raise ChainError(
            f"{spec.name} of run {key} was made again since run {run.key} was begun from it",
            MARK_FULL,
        )
    return found


def _listed_since(run: Run, saved: Saved) -> int:
    """Return the instant since which slices are listed again.

    An address that was given out before the base's listing is linked within the grace period or
    not at all, and a slice is written to for no longer than `ROTATION`.
    """
    before = max(run.options.min_age, timedelta(hours=24)) + ROTATION + run.options.accepted_skew
    return int((saved.started - before).timestamp())


def _deleted(run: Run, key: RunKey, saved: Saved) -> tuple[int, int, Parts]:
    """Return how many objects, and bytes, the sweep of a run took.

    And the files of its expired addresses, unless all of them went.
    """
    try:
        report = _load(run, tables.DELETION_REPORT, key)
    except ChainError:
        return 0, 0, saved.expired
    figures = DeletionFigures.of(report.manifest)
    gone = (figures.deleted_objects or 0) + figures.already_gone_objects
    return (
        gone,
        figures.deleted_bytes + figures.already_gone_bytes,
        () if went_whole(report) else saved.expired,
    )


def _restored_since(run: Run, base: Base) -> str:
    """Say that objects came back which the base counts as gone, and whose slices it had closed."""
    since = base.saved.started - run.options.accepted_skew
    later = [at for at in run.restores if at >= since]
    if not later:
        return ""
    return (
        f"deleted objects were brought back since run {base.key}, the last time at "
        f"{later[-1].isoformat(timespec='seconds')}: no optimized run lists their slices"
    )


def went_whole(report: StoredTable) -> bool:
    """Say whether a sweep left no object of its mark."""
    figures = DeletionFigures.of(report.manifest)
    gone = (figures.deleted_objects or 0) + figures.already_gone_objects
    return gone == report.manifest.rows == figures.planned_objects


def _too_old(run: Run, base: Base) -> str:
    age = run.key.instant - base.key.instant
    if age > run.options.max_base_age:
        return (
            f"the last mark that passed, {base.key}, is {span_text(age)} old (max_base_age_days "
            f"allows {span_text(run.options.max_base_age)})"
        )
    if len(base.saved.optimized_since) + 1 >= run.options.full_every:
        return f"each of {run.options.full_every} marks reads everything (full_every)"
    return ""
