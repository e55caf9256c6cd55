"""Ask about the object store: is it the right one, and do the credentials suffice for a run."""

from __future__ import annotations

import secrets

from spark_core import lakegc_keys
from spark_core.clocks import MAX_CLOCK_SKEW
from spark_core.doctor.credentials import credential_source
from spark_core.doctor.examination import Examination
from spark_core.doctor.questions import ProbeAnswer, Question, found_by
from spark_core.errors import LakegcError, NotFoundError, PermissionDeniedError, SettingsError
from spark_core.run.preconditions import ask_store_clock
from spark_core.storage import is_directory_bucket, open_store
from spark_core.storage.probes import (
    honours_conditional_put,
    require_deletable,
    write_read_delete,
)

# The server writes this object when it creates a repository that is not bare.
_DUMMY = "_lakefs/dummy"
_KINDS = {"local": "files", "s3": "S3", "azure": "Azure Blob Storage", "gs": "Google Cloud Storage"}


def _credentials(examination: Examination) -> ProbeAnswer:
    return ProbeAnswer(
        credential_source(examination.namespace.scheme, examination.storage().store_options)
    )


def _opens(examination: Examination) -> ProbeAnswer:
    examination.store = open_store(examination.namespace, examination.storage().store_options)
    kind = _KINDS[examination.namespace.kind]
    if is_directory_bucket(examination.namespace):
        kind = f"{kind}, a directory bucket (no order, no MD5, no versions)"
    return ProbeAnswer(f"{kind}, {examination.store.root}")


def _lists(examination: Examination) -> ProbeAnswer:
    store = examination.store
    # The first page of `data/`, which a fresh repository on local files does not have.
    next(iter(store.list("data/")), None)
    examination.listing = True
    return ProbeAnswer("data/ can be listed")


def _reads(examination: Examination) -> ProbeAnswer:
    """Read an object of the server: if it is there, this is the store that the server writes to."""
    store, _ = examination.store, examination.listing
    try:
        store.read(_DUMMY)
    except NotFoundError:
        return _reads_table(examination)
    except LakegcError:
        # The questions about writing can still be asked.
        examination.right_place = True
        raise
    examination.right_place = True
    return ProbeAnswer(f"{_DUMMY} can be read")


def _reads_table(examination: Examination) -> ProbeAnswer:
    store, server, repository = examination.store, examination.server, examination.repository
    head = next(iter(server.log(repository.id, repository.default_branch, first_page=1)), None)
    key = (
        f"{server.table_prefix(repository.id)}/{head.metarange_id}"
        if head is not None and head.metarange_id
        else ""
    )
    if not key and repository.read_only:
        # The server writes `_lakefs/dummy` only into namespaces that it may write to.
        return ProbeAnswer(
            "the server wrote nothing there: the repository was read-only from its beginning", None
        )
    if not key or not store.exists(key):
        table = (
            f"nor the table of {repository.default_branch}'s head, {key}"
            if key
            else "nor is there a committed table"
        )
        raise SettingsError(
            f"{store.root} has neither {_DUMMY}, which the server writes when it makes a "
            f"repository, {table}: this is not the place that the server writes to",
            "Look at local_path or the endpoint in [storage].",
        )
    examination.right_place = True
    return ProbeAnswer(f"the table of {repository.default_branch}'s head is there")


def _writes(examination: Examination) -> ProbeAnswer:
    store, *_ = examination.store, examination.listing, examination.right_place
    write_read_delete(store)
    return ProbeAnswer(f"an object under {lakegc_keys.PROBE} was written, read and deleted")


def _conditions(examination: Examination) -> ProbeAnswer:
    store, *_ = examination.store, examination.listing, examination.right_place
    if honours_conditional_put(store, f"{lakegc_keys.PROBE}{secrets.token_hex(8)}"):
        return ProbeAnswer("a conditional put fails if the object exists")
    return ProbeAnswer(
        "the store accepts a conditional put although the object exists: two runs would not "
        "notice each other",
        False,
        "Never run two collections of one repository at once, or use a store that honours "
        "If-None-Match.",
    )


def _deletes(examination: Examination) -> ProbeAnswer:
    store, *_ = examination.store, examination.listing, examination.right_place
    try:
        require_deletable(store)
    except (PermissionDeniedError, SettingsError) as refusal:
        if examination.options.may_sweep:
            raise
        found = found_by(refusal)
        return ProbeAnswer(
            f"{found.text}. A mark does without it",
            None,
            f"Before a sweep: {found.next_step}",
            found.figures,
        )
    return ProbeAnswer("objects under data/ may be deleted (asked for a name that no object has)")


def _clock(examination: Examination) -> ProbeAnswer:
    store, *_ = examination.store, examination.listing, examination.right_place
    reading = ask_store_clock(store)
    if reading is None:
        return ProbeAnswer(
            "the store took so long to answer that its clock cannot be read", None, "Ask again."
        )
    figures = {
        "skew_seconds": reading.skew.total_seconds(),
        "limit_seconds": MAX_CLOCK_SKEW.total_seconds(),
    }
    return ProbeAnswer(f"its clock {reading}", figures=figures)


def _undelete(examination: Examination) -> ProbeAnswer:
    store, *_ = examination.store, examination.listing, examination.right_place
    hint = store.undelete_hint()
    if hint:
        return ProbeAnswer(hint, figures={"undelete": True})
    return ProbeAnswer(
        "deleted objects are gone: the store keeps nothing of them, or does not say so",
        figures={"undelete": False},
    )


STORE_QUESTIONS = (
    Question("store", "credentials", _credentials),
    Question("store", "opens", _opens),
    Question("store", "list", _lists),
    Question("store", "read", _reads),
    Question("store", "write", _writes),
    Question("store", "conditional put", _conditions),
    Question("store", "clock", _clock),
    Question("store", "delete", _deletes),
    Question("store", "undelete", _undelete),
)
