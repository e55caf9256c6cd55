"""What a mark saves for the optimized run after it: one small document, named by the verdict."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from spark_core import lakegc_keys
from spark_core.errors import OF_A_RUN, CorruptTableError
from spark_core.model import RunKey
from spark_core.records import tables
from spark_core.records.documents import Count, Flag, Instant, OfAMark, Parsed
from spark_core.records.manifest import Manifest, Part, Parts
from spark_core.records.reading import StoredTable
from spark_core.records.tables import TableSpec
from spark_core.storage import ObjectStore
from spark_core.storage.small_files import LARGEST

# Bytes of files and manifests that the document has itself.
MOST = 4 * LARGEST

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
        expired: Files of the expired addresses.
        fates: Files of the table `fates`: of what a hold or a branch keeps it has the addresses.
        manifests: Table name -> its manifest as stored. A large one is only where it was stored.
        files: Key of a small file of these tables -> its bytes in base 64.
        objects: Objects of the whole namespace.
        bytes: Their bytes.
        live_objects: Objects below `data/` that heads and staged entries reach.
        are_sizes_said: Whether some entry gives another size than its object has.
        checksums_agree: As in `ExpiredFigures`; False where nobody compared all of them.
        blocked_by: Full runs that found an object alive that an optimized one had deleted, which
            nobody has confirmed yet.
    """

    # Sketches of the first format had fingerprints of addresses. The second named no files, and the
    # third not those of fates.
    FORMAT: ClassVar[int] = 4
    FORMATS: ClassVar[tuple[int, ...]] = (4,)
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
    checksums_agree: Flag
    blocked_by: Names
    expired: Parts
    fates: Parts
    manifests: Mapping[str, str]
    files: Mapping[str, str]

    def table(self, store: ObjectStore, spec: TableSpec) -> StoredTable | None:
        """Return a table by the manifest that the document has; None if it has none.

        Raises:
            CorruptTableError: If it is not the manifest that `tables` names.
        """
        text = self.manifests.get(spec.name)
        if text is None:
            return None
        key = tables.manifest_key(spec, RunKey.parse(self.run))
        if hashlib.sha256(text.encode()).hexdigest() != self.tables.get(spec.name):
            raise CorruptTableError(
                lakegc_keys.saved_key(RunKey.parse(self.run)),
                None,
                f"its {spec.name} is not the table that it names",
                OF_A_RUN,
            )
        return StoredTable(Manifest.from_json(text.encode(), name=key), store)

    def unpack(self, store: ObjectStore) -> None:
        """Let the store remember the files; whoever reads one compares its hash."""
        for key, text in self.files.items():
            store.small_files.keep(key, base64.b64decode(text))


def packed(
    store: ObjectStore, found: Sequence[StoredTable], others: Sequence[Part]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return `manifests` and `files` of tables, as far as they are small and remembered.

    Args:
        store: Rooted at the namespace; it is not asked for anything.
        found: The tables.
        others: Further files.
    """
    left = MOST
    manifests, files = dict[str, str](), dict[str, str]()
    for table in found:
        text = table.manifest.to_json().decode()
        if len(text) <= min(left, 2 * LARGEST):
            manifests[table.manifest.table] = text
            left -= len(text)
    for part in (*(part for table in found for part in table.manifest.parts), *others):
        data = None if part.content else store.small_files.get(part.key)
        if data is not None and len(data) <= left:
            files[part.key] = base64.b64encode(data).decode()
            left -= len(data)
    return manifests, files


def load(store: ObjectStore, run: RunKey) -> Saved:
    """Read what a run saved.

    Raises:
        NotFoundError: If it saved nothing.
        CorruptTableError: If it is not as it was written.
        VerdictError: If another lakegc wrote it in another format.
    """
    key = lakegc_keys.saved_key(run)
    return Saved.from_json(store.read(key), name=key)
