"""Questions to the object store: is it the right one, and may these credentials do what a mark and a sweep need."""

from __future__ import annotations

import secrets

from spark_core import layout
from spark_core.clocks import MAX_CLOCK_SKEW, require_near
from spark_core.doctor.credentials import credential_source
from spark_core.doctor.patient import Patient
from spark_core.doctor.probe import Found, Question, told
from spark_core.errors import LakegcError, NotFoundError, PermissionDeniedError, SettingsError
from spark_core.storage import open_store
from spark_core.storage.probes import (
    honours_conditional_put,
    read_clock,
    require_deletable,
    write_read_delete,
)

# The server writes it when it makes a repository that is not bare.
_DUMMY = "_lakefs/dummy"
_KINDS = {"local": "files", "s3": "S3", "azure": "Azure Blob Storage", "gs": "Google Cloud Storage"}


def _credentials(patient: Patient) -> Found:
    return Found(credential_source(patient.namespace.scheme, patient.storage().store_options))


def _opens(patient: Patient) -> Found:
    patient.store = open_store(patient.namespace, patient.storage().store_options)
    return Found(f"{_KINDS[patient.namespace.kind]}, {patient.store.root}")


def _lists(patient: Patient) -> Found:
    store = patient.store
    # Of `data/` itself, which a fresh repository on local files does not have, the first page.
    next(iter(store.list("data/")), None)
    patient.listing = True
    return Found("data/ can be listed")


def _reads(patient: Patient) -> Found:
    """Read what the server wrote: if that is there, this is the store that it writes to."""
    store, _ = patient.store, patient.listing
    try:
        store.read(_DUMMY)
    except NotFoundError:
        return _reads_table(patient)
    except LakegcError:
        # Whether it may be written there can be asked all the same.
        patient.right_place = True
        raise
    patient.right_place = True
    return Found(f"{_DUMMY} can be read")


def _reads_table(patient: Patient) -> Found:
    store, server, repository = patient.store, patient.server, patient.repository
    head = next(iter(server.log(repository.id, repository.default_branch, first_page=1)), None)
    key = f"{server.table_prefix(repository.id)}/{head.metarange_id}" if head is not None and head.metarange_id else ""
    if not key and repository.read_only:
        # The server checks, and marks, only the namespaces that it may write to.
        return Found("the server wrote nothing there: the repository was read-only from its beginning", None)
    if not key or not store.exists(key):
        table = (
            f"nor the table of {repository.default_branch}'s head, {key}" if key else "nor is there a committed table"
        )
        raise SettingsError(
            f"{store.root} has neither {_DUMMY}, which the server writes when it makes a repository, {table}: this is not the "
            "place that the server writes to",
            "Look at local_path or the endpoint in [storage].",
        )
    patient.right_place = True
    return Found(f"the table of {repository.default_branch}'s head is there")


def _writes(patient: Patient) -> Found:
    store, *_ = patient.store, patient.listing, patient.right_place
    write_read_delete(store)
    return Found(f"an object under {layout.PROBE} was written, read and deleted")


def _conditions(patient: Patient) -> Found:
    store, *_ = patient.store, patient.listing, patient.right_place
    if honours_conditional_put(store, f"{layout.PROBE}{secrets.token_hex(8)}"):
        return Found("a put that must be the first fails when it is not")
    return Found(
        "the store takes a put that must be the first although there is such an object: two runs would not notice each other",
        False,
        "Never let two runs of one repository go at once, or use a store that honours If-None-Match.",
    )


def _deletes(patient: Patient) -> Found:
    store, *_ = patient.store, patient.listing, patient.right_place
    try:
        require_deletable(store)
    except (PermissionDeniedError, SettingsError) as refusal:
        if patient.options.may_sweep:
            raise
        found = told(refusal)
        return Found(f"{found.text}. A mark does without it", None, f"Before a sweep: {found.next_step}", found.figures)
    return Found("objects under data/ may be deleted (asked for a name that nobody has)")


def _clock(patient: Patient) -> Found:
    store, *_ = patient.store, patient.listing, patient.right_place
    reading = read_clock(store)
    if reading is None:
        return Found("the store took so long to answer that its clock cannot be told", None, "Ask again.")
    require_near(reading, f"the store of {store.root}")
    figures = {"skew_seconds": reading.skew.total_seconds(), "limit_seconds": MAX_CLOCK_SKEW.total_seconds()}
    return Found(f"its clock {reading}", figures=figures)


def _undelete(patient: Patient) -> Found:
    store, *_ = patient.store, patient.listing, patient.right_place
    hint = store.undelete_hint()
    if hint:
        return Found(hint, figures={"undelete": True})
    return Found(
        "what is deleted is gone: the store keeps nothing, or does not tell",
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
