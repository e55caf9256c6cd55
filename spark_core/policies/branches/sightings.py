"""What stored runs saw of a branch: when it was made, and when it came to its present head."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from spark_core.errors import ChainError, CorruptTableError
from spark_core.lakefs.side_by_side import side_by_side
from spark_core.mark.heads import Heads
from spark_core.model import Branch, RunKey
from spark_core.records import reading, tables
from spark_core.run import Run

# A manifest is read for each run.
MOST_RUNS = 1_000


@dataclass(frozen=True)
class Sighting:
    """The branches that one stored run saw.

    Attributes:
        read_at: An instant before it read them.
        heads: Commit of each; None if it is a run of this instance that cannot be read.
    """

    read_at: datetime
    heads: Mapping[str, str] | None


@dataclass(frozen=True)
class Seen:
    """What stored runs tell of a branch.

    Attributes:
        made: When a run first saw it, after an older one had not; None if no run tells that.
        is_new: Whether the newest run did not see it, so that it was made since.
        elsewhere: When a run last saw it at another commit; None if none did.
        arrived: When a run first saw it at its present commit, after `elsewhere`; None if none did.
    """

    made: datetime | None = None
    is_new: bool = False
    elsewhere: datetime | None = None
    arrived: datetime | None = None


def seen(branch: Branch, sightings: Sequence[Sighting]) -> Seen:
    """Put together what stored runs tell of a branch.

    A branch that was deleted and made again is a new one, if a run in between did not see it.

    Args:
        branch: The branch as it is now.
        sightings: Oldest first.
    """
    found, is_absent = Seen(), False
    for sighting in sightings:
        if sighting.heads is None:
            # Nobody knows whether the branch was there.
            found, is_absent = Seen(), False
        elif branch.id not in sighting.heads:
            found, is_absent = Seen(is_new=True), True
        else:
            made = sighting.read_at if is_absent else found.made
            is_here = sighting.heads[branch.id] == branch.commit_id
            elsewhere = found.elsewhere if is_here else sighting.read_at
            arrived = found.arrived
            if not is_here or elsewhere is None:
                arrived = None
            elif arrived is None:
                arrived = sighting.read_at
            found, is_absent = Seen(made, elsewhere=elsewhere, arrived=arrived), False
    return found


def stored(run: Run) -> list[Sighting]:
    """Read what the stored runs of this instance saw, oldest first.

    The cost is one read for each of the newest 1,000 stored runs, side by side. Pruning keeps what
    is read. A run from before lakegc recorded heads tells nothing.
    """

    def read(key: RunKey) -> Iterable[Sighting]:
        try:
            manifest = reading.load_table(run.store, tables.RETAINED_COMMITS, key).manifest
            heads = Heads.of(manifest)
        except ChainError:
            return  # the run did not come so far
        except CorruptTableError:
            yield Sighting(key.instant, None)
            return
        if heads is not None and manifest.instance == run.instance:
            commits = {branch: head.commit_id for branch, head in heads.branches.items()}
            yield Sighting(heads.read_at, commits)

    keys = tables.runs(run.store, tables.RETAINED_COMMITS.folder)[:MOST_RUNS]
    found = side_by_side(keys, read, at_once=run.options.branches_at_once)
    return [sighting for _, sighting in sorted(found, key=lambda pair: pair[1].read_at)]
