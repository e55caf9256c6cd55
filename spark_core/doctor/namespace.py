"""Look at a storage namespace by itself: whose it was, what lies there, and who collects it.

lakeFS keeps the storage of a repository that is deleted, and no run of lakegc can collect it: what
is needed is what a server says, and no server says anything of it. This only reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow.compute as pc

from spark_core import lakegc_keys
from spark_core.addresses.namespace import Namespace
from spark_core.addresses.namespace_uri import quoted
from spark_core.addresses.readings import overlap
from spark_core.doctor.questions import Finding, ProbeAnswer, Question, ask
from spark_core.errors import ChainError, CorruptTableError, NotFoundError
from spark_core.lakefs import LakeFSServer, ServerOptions
from spark_core.model import Repository
from spark_core.plain_text import bytes_text, counted
from spark_core.records import tables
from spark_core.records.reading import load_table
from spark_core.run import Storage
from spark_core.storage import ObjectStore, open_store

_ABOUT = "namespace"
_DUMMY = "_lakefs/dummy"
# Folders whose objects are counted together, the first that fits.
_FOLDERS = {
    "data/": ("object", " of data/"),
    lakegc_keys.ROOT: ("file", " of collections"),
    "_lakefs/": ("table", " of lakeFS"),
    "": ("other file", ""),
}


@dataclass
class ExaminedNamespace:
    """A namespace under examination.

    Attributes:
        uri: As lakeFS writes it.
        server_options: Returns how to reach the server; raises `SettingsError` without keys.
        storage: How the store is reached.
        living: The repositories of the server that lie there; None if that is not known.
        objects: Objects that were found there.
    """

    uri: str
    server_options: Callable[[], ServerOptions]
    storage: Storage
    living: Sequence[Repository] | None = field(default=None, init=False)
    objects: int = field(default=0, init=False)

    @cached_property
    def namespace(self) -> Namespace:
        """The namespace; raises `AddressError` for an unknown form."""
        path = self.storage.server_path or self.storage.store_options.local_path
        return Namespace.parse(self.uri, server_path=path)

    @cached_property
    def store(self) -> ObjectStore:
        """The store, rooted there."""
        return open_store(self.namespace, self.storage.store_options)


def examine_namespace(place: ExaminedNamespace) -> Iterator[Finding]:
    """Yield what is found of a namespace; nothing is written.

    Args:
        place: The namespace.
    """
    for name, question in (
        ("repositories there", _living),
        ("whose it was", _owner),
        ("what lies there", _contents),
        ("collected", _collected),
    ):
        yield ask(Question[ExaminedNamespace](_ABOUT, name, question), place)


def _living(place: ExaminedNamespace) -> ProbeAnswer:
    server = LakeFSServer(place.server_options())
    seen, namespace = server.repositories(), place.namespace
    known = {each.id: overlap(namespace, each.storage_namespace) for each in seen}
    place.living = [each for each in seen if known[each.id]]
    told = [
        f"it and {found.id} ({quoted(found.storage_namespace)[1:-1]}) {known[found.id]}"
        for found in place.living
    ]
    figures = {"repositories": [found.id for found in place.living], "seen": len(seen)}
    if told:
        return ProbeAnswer("; ".join(told), figures=figures)
    return ProbeAnswer(f"none of the {len(seen)} that the user may see", figures=figures)


def _owner(place: ExaminedNamespace) -> ProbeAnswer:
    """Read the newest manifest that lakegc stored; lakeFS itself writes no name there."""
    for key in tables.runs(place.store, tables.NAMESPACE_SLICES.folder):
        try:
            found = load_table(place.store, tables.NAMESPACE_SLICES, key).manifest
        except (ChainError, CorruptTableError):
            continue
        return ProbeAnswer(
            f"{found.instance}, as run {key} of lakegc saw it",
            figures={"repository": found.repository, "instance": found.instance, "run": str(key)},
        )
    try:
        made = place.store.written_at(_DUMMY)
    except NotFoundError:
        return ProbeAnswer(f"no run of lakegc and no {_DUMMY} tells", None)
    return ProbeAnswer(
        f"a repository of lakeFS that was made at {made.isoformat()}; its name stands nowhere, as "
        "lakegc never marked it"
    )


def _contents(place: ExaminedNamespace) -> ProbeAnswer:
    counts = dict.fromkeys(_FOLDERS, (0, 0))
    for batch in place.store.list(""):
        rest = batch
        for folder, (objects, size) in counts.items():
            fits = pc.starts_with(rest.column("key"), folder)
            some = rest.filter(fits)
            added = pc.sum(some.column("size_bytes")).as_py() or 0
            counts[folder] = (objects + some.num_rows, size + added)
            rest = rest.filter(pc.invert(fits))
        place.objects += batch.num_rows
    words = [
        f"{counted(objects, word)}{where} ({bytes_text(size)})"
        for (objects, size), (word, where) in zip(counts.values(), _FOLDERS.values(), strict=True)
        if objects
    ]
    figures = {folder or "other": list(count) for folder, count in counts.items()}
    return ProbeAnswer("; ".join(words) or "nothing", figures=figures)


def _collected(place: ExaminedNamespace) -> ProbeAnswer:
    if place.living is None:
        return ProbeAnswer("not known, as nobody could say which repositories lie there", None)
    if place.living:
        names = ", ".join(found.id for found in place.living)
        return ProbeAnswer(f"by whoever collects {names}", figures={"collected": True})
    if not place.objects:
        return ProbeAnswer(
            "nothing is known to lie there, so nothing is there to collect or to delete",
            None,
            "Look whether it is written as lakeFS writes the storage namespace.",
        )
    return ProbeAnswer(
        "by nobody: lakeFS keeps the storage of a deleted repository, and lakegc collects only "
        "what a server tells of",
        passed=False,
        next_step="Ask whether another server has it, whether other repositories import its "
        "objects, and whether somebody restores it from a dump. If not, delete it with the store's "
        "own tools.",
        figures={"collected": False},
    )
