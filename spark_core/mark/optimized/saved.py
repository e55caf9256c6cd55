"""What a mark saves for the optimized run after it: one small document, named by the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from spark_core import lakegc_keys
from spark_core.model import RunKey
from spark_core.records.documents import Count, Flag, Instant, OfAMark, Parsed
from spark_core.storage import ObjectStore

Names = Annotated[tuple[str, ...], Parsed(list, "a list of names", tuple)]


@dataclass(frozen=True)
class Saved(OfAMark):
    """What an optimized run takes over from its base.

    Attributes:
        repository: Repository id.
        instance: Instance of the repository.
        run: Run key.
        started: Before the first page of the listing was read.
        last_slice: The newest slice that was read; empty for none. Names fall as time passes, so it
            is the first in the order of names.
        open_slices: Slices with objects that were too young: the next run lists them again.
        base: The run that this one began from; empty for a full run.
        full: The last full run; this one, if it is full.
        optimized_since: The optimized runs since, this one included.
        options: The options that decided.
        tables: Table name -> sha256 of its manifest. The staged entries, the retained commits with
            their heads, and the retained ranges with their sketches are tables of this run; the
            missing addresses are, if there are any.
        objects: Objects of the whole namespace.
        bytes: Their bytes.
        live_objects: Objects below `data/` that heads and staged entries reach.
        are_sizes_said: Whether some entry gives another size than its object has.
        blocked_by: Full runs that found an object alive that an optimized one had deleted, which
            nobody has confirmed yet.
    """

    # Sketches of the first format had fingerprints of addresses.
    FORMAT: ClassVar[int] = 2
    FORMATS: ClassVar[tuple[int, ...]] = (2,)
    CALLED: ClassVar[str] = "what a lakegc mark saved for the next"

    repository: str
    instance: str
    run: str
    started: Instant
    last_slice: str
    open_slices: Names
    base: str
    full: str
    optimized_since: Names
    options: Mapping[str, Any]
    tables: Mapping[str, str]
    objects: Count
    bytes: Count
    live_objects: Count
    are_sizes_said: Flag
    blocked_by: Names


def load(store: ObjectStore, run: RunKey) -> Saved:
    """Read what a run saved.

    Raises:
        NotFoundError: If it saved nothing.
        CorruptTableError: If it is not as it was written.
        VerdictError: If another lakegc wrote it in another format.
    """
    key = lakegc_keys.saved_key(run)
    return Saved.from_json(store.read(key), name=key)
