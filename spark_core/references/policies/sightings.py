"""What stored runs saw: since when a branch stands where it does, or nothing shows an object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from sys import intern

import numpy as np
from numpy.typing import NDArray

from spark_core.errors import ChainError, CorruptTableError
from spark_core.lakefs.side_by_side import side_by_side
from spark_core.model import Branch, RunKey
from spark_core.records import reading, tables
from spark_core.references.heads import Heads
from spark_core.references.policies.canonical_names import NEVER, Graph, micros
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
class BranchSightings:
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


def sightings_of_branch(branch: Branch, sightings: Sequence[Sighting]) -> BranchSightings:
    """Put together what stored runs tell of a branch.

    A branch that was deleted and made again is a new one, if a run in between did not see it.

    Args:
        branch: The branch as it is now.
        sightings: Oldest first.
    """
    found, is_absent = BranchSightings(), False
    for sighting in sightings:
        if sighting.heads is None:
            # Nobody knows whether the branch was there.
            found, is_absent = BranchSightings(), False
        elif branch.id not in sighting.heads:
            found, is_absent = BranchSightings(is_new=True), True
        else:
            made = sighting.read_at if is_absent else found.made
            is_here = sighting.heads[branch.id] == branch.commit_id
            elsewhere = found.elsewhere if is_here else sighting.read_at
            arrived = found.arrived
            if not is_here or elsewhere is None:
                arrived = None
            elif arrived is None:
                arrived = sighting.read_at
            found, is_absent = BranchSightings(made, elsewhere=elsewhere, arrived=arrived), False
    return found


@dataclass(frozen=True)
class Gone:
    """Since when stored runs tell that no branch shows something: by commit, by its number.

    A branch that is made, deleted or reset leaves no date behind, so only a run that looked at all
    heads tells that none shows an object. Microseconds since 1970, `NEVER` where no run tells it.

    Attributes:
        having: What the commit has: the first run after its date and after each run that saw a
            branch there.
        dropping: What the commit has dropped: the first run after its date.
    """

    having: NDArray[np.int64]
    dropping: NDArray[np.int64]


def gone_since(graph: Graph, sightings: Sequence[Sighting]) -> Gone:
    """Tell since when no branch shows what commits have, as far as each commit alone tells.

    What several commits have or dropped is gone since the latest of these moments. A run that
    cannot be read, or whose heads are not all known, may have seen anything.

    Args:
        graph: All commits.
        sightings: Oldest first.
    """
    number = {id_: at for at, id_ in enumerate(graph.ids)}
    read_at = np.array([*(micros(one.read_at) for one in sightings), NEVER], np.int64)
    dropping = np.searchsorted(read_at, graph.dates)
    having = dropping.copy()
    for after, sighting in enumerate(sightings, start=1):
        heads = None if sighting.heads is None else set(sighting.heads.values())
        if heads is None or not heads <= number.keys():
            having = np.maximum(having, after)
        else:
            seen_at = [number[head] for head in heads]
            having[seen_at] = np.maximum(having[seen_at], after)
    return Gone(read_at[having], read_at[dropping])


def read_sightings(run: Run) -> list[Sighting]:
    """Read what the stored runs of this instance saw, oldest first.

    The cost is one read for each of the newest 1,000 stored runs, side by side. Pruning keeps what
    is read.
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
        if manifest.instance == run.instance:
            # Runs see the same names again and again.
            commits = {
                intern(branch): intern(head.commit_id) for branch, head in heads.branches.items()
            }
            yield Sighting(heads.read_at, commits)

    keys = tables.runs(run.store, tables.RETAINED_COMMITS.folder)[:MOST_RUNS]
    found = side_by_side(keys, read, at_once=run.options.branches_at_once)
    return [sighting for _, sighting in sorted(found, key=lambda pair: pair[1].read_at)]
