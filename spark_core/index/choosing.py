"""From which index an optimized run takes, and why a run is a clean one.

An index is only as good as the verdict of the mark that saved it. So that mark passed all checks,
is of the same repository, was made by the same version and decided by the same options, and is the
newest such one. Whatever is in doubt makes the run a clean one, which says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from spark_core import __version__, lakegc_keys
from spark_core.addresses.xids import xid_seconds
from spark_core.clocks import MAX_CLOCK_SKEW
from spark_core.errors import OF_A_RUN, ChainError, CorruptTableError, LakegcError
from spark_core.index.last_mark import AUDIT, as_stored, last_passed, saved_by, still_blocked
from spark_core.index.saved import Saved, endpoint_of
from spark_core.model import RunKey
from spark_core.records import tables
from spark_core.records.figures import ListedFigures
from spark_core.records.verdict_document import Verdict
from spark_core.run import Run, chain
from spark_core.storage import ObjectStore

# A server process names a new slice after this time at the latest.
ROTATION = timedelta(hours=1)

# An address that was given out before a listing is linked within this time or not at all.
_LINKED_WITHIN = timedelta(hours=24)

# The time of a slice falls: it counts the seconds that are left until 4000-01-01.
_LAST_INSTANT = 64_060_588_800
_SECONDS = 2**32

# Open slices that are named one by one.
MOST_OPEN = 10_000

MARK_CLEAN = "Mark again under a new run key with `--full`."


@dataclass(frozen=True)
class Index:
    """What an optimized run takes from.

    Attributes:
        saved: What the last mark that passed saved.
        listed_since: Slices named at or after this instant are listed, in unix seconds.
    """

    saved: Saved
    listed_since: int

    def lists(self, slice_: str) -> bool:
        """Say whether an optimized run lists a slice.

        Slices whose names tell no time are always listed: those of sharded and of legacy names, and
        what lies directly below `data/`.
        """
        since = slice_seconds(slice_)
        return since is None or since >= self.listed_since or slice_ in self._open

    @cached_property
    def _open(self) -> frozenset[str]:
        return frozenset(self.saved.open_slices)


@dataclass(frozen=True)
class Clean:
    """The decision for a clean run.

    Attributes:
        why: Why nothing is taken from an index, in words; empty where nobody asked for an optimized
            run.
        blocked_by: As in `Saved`.
    """

    why: str
    blocked_by: tuple[str, ...] = ()


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


def is_before(slice_: str, instant: int) -> bool:
    """Say whether a slice was named before an instant in unix seconds."""
    seconds = slice_seconds(slice_)
    return seconds is not None and seconds < instant


def closed_before(run: Run, began: datetime) -> int:
    """Return the instant before which a slice was named that nobody writes to any more.

    An address that was given out before the listing is linked within the grace period or not at
    all, an upload takes as long as the options say, and a slice is written to for no longer than
    `ROTATION`.

    Args:
        run: The run.
        began: When its listing began.

    Returns:
        Unix seconds.
    """
    options = run.options
    longest = max(options.min_age, _LINKED_WITHIN, options.longest_upload)
    return int((began - longest - ROTATION - MAX_CLOCK_SKEW).timestamp())


def saves(run: Run) -> bool:
    """Say whether a run keeps an index for the next one."""
    return run.options.optimized


def choose(run: Run) -> Index | Clean:
    """Find the index that a mark may take from.

    It costs a request for each newer run that did not pass, and three for the index.

    Returns:
        The index, or why the mark reads everything.
    """
    if not run.options.optimized:
        return Clean("")
    # Every mark has a listing, even if it did not end.
    keys = [key for key in run.earlier if key != run.key]
    last = last_passed(run, [key for key in keys if key < run.key])
    blocked = tuple(sorted({*last.blocked_by, *still_blocked(run, last.key)}))
    newer = f"run {keys[0]} is newer than this one" if keys[:1] > [run.key] else ""
    asked = "a clean run was asked for" if run.full else ""
    why = asked or newer or last.why or _blocked(run, blocked)
    if why or last.key is None or last.verdict is None:
        return Clean(why, blocked)
    try:
        saved = _usable(run, last.key, last.verdict)
    except LakegcError as problem:
        return Clean(f"run {last.key} left no index to take from: {problem.found}", blocked)
    why = _too_many(run, saved) or _restored_since(run, saved)
    return Clean(why, blocked) if why else Index(saved, saved.closed_before)


def index_of_mark(run: Run) -> Index | None:
    """Return what a mark that was begun takes from; None if it is a clean one.

    Raises:
        ChainError: If what the earlier mark saved was changed since.
        NotFoundError: If it is gone.
    """
    figures = ListedFigures.of(run.load(tables.NAMESPACE_SLICES).manifest).index
    if figures is None:
        return None
    key = RunKey.parse(figures.run)
    saved = saved_by(run, key)
    if saved.digest != figures.saved:
        raise ChainError(
            f"what run {key} saved was changed since run {run.key} began to take from it",
            MARK_CLEAN,
        )
    return Index(saved, figures.listed_since)


def last_saved(run: Run) -> Saved | None:
    """Return what the last mark that passed saved, whatever this run is; None if it is no use."""
    earlier = run.earlier or tables.runs(run.store, tables.NAMESPACE_SLICES.folder)
    last = last_passed(run, [key for key in earlier if key < run.key])
    if last.key is None or last.verdict is None:
        return None
    try:
        saved = as_stored(run, last.key, last.verdict)
    except LakegcError:
        return None
    return None if _is_elsewhere(run, saved) else saved


def _is_elsewhere(run: Run, saved: Saved) -> bool:
    """Say whether what was saved may be about a copy of the store, which went its own way since."""
    return saved.endpoint != endpoint_of(run.store)


def _blocked(run: Run, blocked: tuple[str, ...]) -> str:
    if not blocked:
        return ""
    return (
        f"run {blocked[-1]} found an object alive that an optimized run had deleted: confirm that "
        f"this is understood (`lakegc confirm {run.repository.id} {AUDIT} --run {blocked[-1]}`)"
    )


def _usable(run: Run, key: RunKey, verdict: Verdict) -> Saved:
    """Read what the last mark saved, and refuse what this run cannot take from.

    Raises:
        LakegcError: Why it cannot.
    """
    if run.now() < verdict.concluded_at:
        raise ChainError("it ended in the future: a clock was set back")
    differing = chain.other_options(run, verdict.options)
    if differing:
        raise ChainError(f"other options decided: {differing}")
    # What an update reads in another way, or at last rightly, must not wait for `full_every`.
    if (made_by := verdict.versions.get("lakegc")) != __version__:
        raise ChainError(f"lakegc {made_by} read what is in it, and this is {__version__}")
    saved = as_stored(run, key, verdict)
    if _is_elsewhere(run, saved):
        then, now = (url or "its own place" for url in (saved.endpoint, endpoint_of(run.store)))
        raise ChainError(f"the store was reached at {then} then, and is at {now}")
    _require_files(run.store, saved)
    return saved


def _require_files(store: ObjectStore, saved: Saved) -> None:
    """Refuse an index of which a file is gone or has another size, by one listing of its folder.

    Whoever reads a file compares its bytes.

    Raises:
        CorruptTableError: With the name of such a file.
    """
    sizes: dict[str, int] = {}
    for batch in store.list(lakegc_keys.INDEX):
        columns = (batch.column(name).to_pylist() for name in ("key", "size_bytes"))
        sizes.update(zip(*columns, strict=True))
    for part in saved.files:
        if sizes.get(part.key) != part.size_bytes:
            there = f"has {sizes[part.key]} bytes" if part.key in sizes else "is not there"
            problem = f"{there}, and {part.size_bytes} were written"
            raise CorruptTableError(part.key, None, problem, OF_A_RUN)


def _restored_since(run: Run, saved: Saved) -> str:
    """Say that objects came back that the index counts as gone, in slices that it takes."""
    since = saved.started - MAX_CLOCK_SKEW
    later = [at for at in run.restores if at >= since]
    if not later:
        return ""
    at = later[-1].isoformat(timespec="seconds")
    when = (
        f"since run {saved.run}, the last time at {at}"
        if later[-1] >= saved.started
        else f"at {at}, and run {saved.run} began so soon after it that clocks do not prove that "
        "it listed them"
    )
    return f"deleted objects were brought back {when}: no optimized run lists their slices"


def _too_many(run: Run, saved: Saved) -> str:
    if len(saved.optimized_since) + 1 >= run.options.full_every:
        return f"each of {run.options.full_every} marks reads everything (full_every)"
    return ""
