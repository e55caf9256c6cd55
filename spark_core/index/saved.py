"""What a mark saves for the next: one document, named by its verdict, that names the index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar
from urllib.parse import urlsplit

from spark_core import lakegc_keys
from spark_core.model import RunKey
from spark_core.records import writing
from spark_core.records.documents import Count, Instant, OfAMark, Parsed
from spark_core.records.manifest import Part, Parts
from spark_core.storage import ObjectStore

# Characters of files that a document takes over, and still holds new ones.
_MOST_HELD = 2**18

Names = Annotated[tuple[str, ...], Parsed(list, "a list of names", tuple)]


def endpoint_of(store: ObjectStore) -> str:
    """Return where a store is reached; nothing for AWS and a folder.

    AWS has many endpoints for one bucket, by region and network, and one bucket of a name. A
    region that was not told once must not make a run clean.
    """
    url = store.endpoint_url
    host = urlsplit(url).hostname or ""
    return "" if host.endswith((".amazonaws.com", ".amazonaws.com.cn")) else url


@dataclass(frozen=True)
class Saved(OfAMark):
    """What a mark saved for the next.

    Attributes:
        repository: Repository id.
        instance: Instance of the repository.
        endpoint: Where the store was reached (`endpoint_of`).
        run: Run key.
        started: Before the first page of the listing was read.
        last_slice: The newest slice that was read; empty for none. Names fall as time passes, so it
            is the first in the order of names.
        open_slices: Slices with objects that were too young: the next run lists them again.
        clean: The last clean run; this one, if it is clean.
        optimized_since: The optimized runs since, this one included.
        options: The options that decided.
        blocked_by: Clean runs that found an object alive that an optimized one had deleted, which
            nobody has confirmed yet.
        closed_before: Slices whose names tell an earlier instant, in unix seconds, and that are not
            open, are in `slices`; 0 for none.
        slices: Files of closed slices.
        trees: Files of metaranges.
        ranges: Files of ranges.
        entries: Files of entries, which `ranges` names by their keys.
    """

    CALLED: ClassVar[str] = "what a lakegc mark saved for the next"

    repository: str
    instance: str
    endpoint: str
    run: str
    started: Instant
    last_slice: str
    open_slices: Names
    clean: str
    optimized_since: Names
    options: Mapping[str, Any]
    blocked_by: Names
    closed_before: Count
    slices: Parts
    trees: Parts
    ranges: Parts
    entries: Parts

    @property
    def files(self) -> Iterator[Part]:
        """The files that the index needs in the store; small ones lie in the document."""
        for part in self.parts:
            yield from (one for one in (part, part.without) if one and not one.content)

    @property
    def parts(self) -> Parts:
        """The files of all kinds, wherever they lie."""
        return (*self.slices, *self.trees, *self.ranges, *self.entries)


def holds(before: Saved | None) -> int:
    """Return up to how many bytes a new file of the index lies in the document, not in the store.

    That spares a request for each small file. What a document holds the next one takes over, until
    it is much.

    Args:
        before: What the run takes from; None for a clean run.
    """
    held = 0 if before is None else sum(len(part.content) for part in before.parts)
    return 0 if held > _MOST_HELD else writing.HELD_BYTES


def load(store: ObjectStore, run: RunKey) -> Saved:
    """Read what a run saved.

    Raises:
        NotFoundError: If it saved nothing.
        CorruptTableError: If it is not as it was written.
        VerdictError: If another lakegc wrote it in another format.
    """
    key = lakegc_keys.saved_key(run)
    return Saved.from_json(store.read(key), name=key)
