"""Addresses are data from elsewhere: each hostile form, planted at each entrance, is refused or
kept, and never deleted for another.

The entrances: a listing, a staged entry, a committed range, the Parquet of a
mark, a mark of lakeFS's own job, the journal of a sweep.
"""

import hashlib
import json
import os
import unicodedata
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from moto.s3.models import s3_backends

from lakegc_dagster.sandbox import history, objects
from lakegc_dagster.sandbox.tables import write_range
from spark_core import lakegc_keys, schemas, sweep
from spark_core.addresses.collectable import is_collectable
from spark_core.addresses.namespace import AddressType, Namespace
from spark_core.checks import verdict
from spark_core.errors import (
    AddressError,
    CorruptTableError,
    IncompleteReadError,
    LakegcError,
    TransientError,
    UnsafePlanError,
    VerdictError,
)
from spark_core.graveler import Entry, read_range
from spark_core.lakefs.files_of_server import SERVER_UNCOMMITTED, read_uncommitted
from spark_core.model import Branch
from spark_core.records import journal, tables
from spark_core.reference_job import marks
from spark_core.references import range_entries
from spark_core.storage import StoreOptions, open_store
from spark_core.sweep import references_now
from spark_core.sweep.plan import require_allowed
from tests.support.looks import looked
from tests.support.moto_s3 import moto_s3
from tests.support.passing_mark import passing_mark, plant
from tests.support.pipeline import mark_and_conclude, mark_only
from tests.support.sandbox_runs import open_sandbox_run
from tests.support.stored_rows import rows_of
from tests.support.written_run import any_name, written_run

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)
VICTIM = "data/s/x"
S3 = Namespace.parse("s3://bucket/repo")
AZURE = Namespace.parse("https://account.blob.core.windows.net/container/repo")
GCS = Namespace.parse("gs://bucket/repo")
LOCAL = Namespace.parse("local://repo", server_path="/blocks")

# What a hostile entry may hold in the place of the victim's address, relative to the namespace.
RELATIVE = (
    "",
    "data/s/x\0",
    "\0data/s/x",
    "/data/s/x",
    "//data/s/x",
    "../repo/data/s/x",
    "data/../data/s/x",
    "data/s/./x",
    "data/s//x",
    "data/s/x/",
    "data\\s\\x",
    "..\\repo\\data\\s\\x",
    "data/s/x.",
    "data%2Fs%2Fx",
    "data/s/%78",
    "data/s/x%00",
    "data/s/x?versionId=1",
    "data/s/x#1",
    "DATA/s/x",
    "data/s/X",
    "data/s/\u0445",  # a letter that looks like the x
    "data/s/\uff58",  # a wide x, which some normal forms make an x
    "data/s/x\u200b",
    "\ufeffdata/s/x",
    "data/s/\u202ex",
    "data/s/x\n",
    " data/s/x",
    "data/s/x ",
    "\x1b[2Jdata/s/x",
    "data/s/" + "x" * 5_000,
    "data" + "/s" * 3_000,
    "s3://bucket/repo/data/s/x",
    "file:///etc/passwd",
    "$(rm -rf /)",
    "*",
)
# Forms that the server or some store resolves to the victim's own object: to call them another one
# would let it go.
ELSEWHERE = (
    "{root}../repo/data/s/x",
    "{root}data/../data/s/x",
    "{root}data%2Fs%2Fx",
    "{root}data/s/x?versionId=1",
    "{root}data/s/x%00",
    "{root}data/s/x\0",
    "{root}",
    "file:///blocks/repo/data/s/x",
    "ftp://bucket/repo/data/s/x",
    "data/s/x",
    "//bucket/repo/data/s/x",
    "s3:/bucket/repo/data/s/x",
    "s3://other/repo/data/s/x",
    "s3://bucket/other/data/s/x",
    "s3://bucket/repository/data/s/x",
    "s3://user:secret@bucket/repo/data/s/x",
    "s3://BUCKET/repo/data/s/x",
    "gs://bucket/repo/data/s/x",
    "gs://elsewhere/x",
    "https://account.blob.core.windows.net/container/repo\\data\\s\\x",
    "https://account-secondary.blob.core.windows.net/container/repo/data/s/x",
    "https://evil.example/container/repo/data/s/x",
    "local:///etc/passwd",
    "local:///blocks/repo/../repo/data/s/x",
    "local://blocks/other/data/s/x",
)
NAMESPACES = {"s3": S3, "azure": AZURE, "gcs": GCS, "local": LOCAL}


def _range(address, kind):
    """A committed range of two entries, one of them hostile, as a server writes it."""
    entries = [
        Entry(
            path=path,
            address=where,
            address_type=how,
            size_bytes=1,
            checksum="c",
            last_modified=NOW,
            content_type="",
        )
        for path, where, how in (
            (b"a", "data/s/plain", int(AddressType.RELATIVE)),
            (b"b", address, int(kind)),
        )
    ]
    written = write_range(entries)
    return read_range(written.data, name="range", expected_id=written.id, expected_count=2)


def _said(refusal):
    """A refusal that people can read."""
    assert refusal.next_step or "." in refusal.found
    assert str(refusal).isprintable()
    return refusal


def _resolved(namespace, address, kind):
    """What the committed side makes of an entry: its address, None for outside; or the error."""
    try:
        every, is_elsewhere = range_entries._resolved(namespace, _range(address, kind))
    except (AddressError, CorruptTableError) as refusal:
        return _said(refusal)
    found = pc.if_else(is_elsewhere, None, every.column("address")).to_pylist()
    assert found[0] == "data/s/plain"
    return found[1]


@pytest.mark.parametrize("namespace", NAMESPACES.values(), ids=list(NAMESPACES))
@pytest.mark.parametrize("kind", list(AddressType))
def test_a_hostile_address_in_a_committed_range_is_refused_outside_or_itself_to_the_letter(
    namespace, kind
):
    forms = [*RELATIVE, *(form.format(root=namespace.root) for form in ELSEWHERE)]
    for form in forms:
        if kind is not AddressType.RELATIVE and form == VICTIM:
            continue
        told = _resolved(namespace, form, kind)
        if isinstance(told, LakegcError) or told is None:
            continue
        # Taken literally, or the rest behind the very words of the root; never decoded, folded or
        # trimmed.
        assert told in (form, form.removeprefix(namespace.root)), (form, told)


@pytest.mark.parametrize("namespace", NAMESPACES.values(), ids=list(NAMESPACES))
def test_what_some_store_takes_for_the_victims_object_is_never_told_to_be_elsewhere(namespace):
    same = {
        "local": ["data/../data/s/x", "data/s/./x", "data/s//x", "data/s/x/"],
        "azure": ["data\\s\\x", "data/s/x.", "..\\repo\\data\\s\\x"],
        "s3": [],
        "gs": [],
    }[namespace.kind]
    for form in same:
        assert isinstance(_resolved(namespace, form, AddressType.RELATIVE), AddressError), form
    for form in ELSEWHERE[:7]:
        told = _resolved(namespace, form.format(root=namespace.root), AddressType.FULL)
        assert isinstance(told, AddressError) or told == form.removeprefix("{root}"), (form, told)
        if namespace.kind == "local":
            assert isinstance(told, AddressError) or "%" in form or "?" in form, form


def _staged_file(tmp_path, *addresses):
    """A file of a scan, as a server writes it."""
    (tmp_path / "repo").mkdir(exist_ok=True)
    file = tmp_path / "repo/scan.parquet"
    rows = [{"physical_address": address, "creation_date": 1_790_000_000} for address in addresses]
    pq.write_table(pa.Table.from_pylist(rows, schema=SERVER_UNCOMMITTED), file)
    namespace = Namespace.parse("local://repo", server_path=str(tmp_path))
    return open_store(namespace, StoreOptions(local_path=str(tmp_path)))


def test_a_hostile_address_in_a_scan_is_refused_or_itself_to_the_letter(tmp_path):
    for form in (*RELATIVE, *(form.format(root=LOCAL.root) for form in ELSEWHERE)):
        store = _staged_file(tmp_path, "data/s/plain", form)
        try:
            found = (
                pa.Table.from_batches(read_uncommitted(store, "scan.parquet"))
                .column("address")
                .to_pylist()
            )
        except AddressError as refusal:
            _said(refusal)
            continue
        assert found == ["data/s/plain", form]
        assert not form.startswith(("/", "s3://", "local://", "file://"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "address",
    ["local://repo/data/gone/../{victim}", "local://repo/./{victim}", "local://repo//{victim}"],
)
@pytest.mark.spark
def test_a_staged_entry_that_folds_to_an_object_ends_the_mark_and_the_object_stays(
    address, sandbox, spark
):
    story = history.documents_history(sandbox, "repo", now=NOW)
    sandbox.clock.set(NOW + timedelta(seconds=1))
    victim = story.deleted[0].address
    detour = address.format(victim=victim.removeprefix("data/") if "../" in address else victim)
    with sandbox.core.lock:
        objects.stage(
            sandbox.core,
            "repo",
            "main",
            "hostile",
            physical_address=detour,
            checksum="0" * 32,
            size_bytes=3,
            link=False,
        )
    run = open_sandbox_run(sandbox, "repo", spark, NOW)
    with pytest.raises(AddressError, match="whether it is alive cannot be decided"):
        mark_only(run)
    assert run.store.exists(victim)


ODD_NAMES = (
    "data/s/x%00",
    "data/s/%78",
    "data%2Fs%2Fx",
    "data/s/\u0445",
    "data/s/\uff58",
    "data/s/x\u200b",
    "data/s/\u202egpj.exe",
    "data/s/x\n",
    "data/s/x\x1b[2J",
    "data/s/<script>alert(1)<",
    "data/s/x ",
    "data/s/x.",
    "data/s/-rf",
    "data/s/" + "x" * 200,
    "data/" + "/".join(["d" * 100] * 8) + "/x",
    "data/s\\..\\x",
    "DATA/s/x",
    "data/_lakefs/x",
    "data/nested/_lakefs/x",
)


def _listed(store):
    return {key for batch in store.list("") for key in batch.column("key").to_pylist()}


def test_hostile_names_in_a_listing_are_told_to_the_letter_and_only_plain_ones_are_candidates(
    tmp_path,
):
    store = _staged_file(tmp_path)
    (tmp_path / "repo/scan.parquet").unlink()
    for name in ODD_NAMES:
        file = tmp_path / "repo" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"1")
    assert _listed(store) == set(ODD_NAMES)
    candidates = {name for name in ODD_NAMES if is_collectable(name)}
    assert not [name for name in candidates if "_lakefs" in name or not name.startswith("data/")]
    assert not [name for name in candidates if "\n" in name or "\x1b" in name]
    # Each is another object: deleting one leaves those that look or decode alike.
    for name in sorted(candidates):
        before = _listed(store)
        (outcome,) = store.delete([name])
        assert outcome.outcome == "deleted"
        assert before - _listed(store) == {name}


@pytest.mark.slow
def test_hostile_names_in_a_bucket_are_told_to_the_letter_and_deleted_one_by_one():
    with moto_s3() as server:
        bucket = server.bucket()
        names = [
            name
            for name in (*ODD_NAMES, "data/../data/s/x", "data//s/x", VICTIM)
            if "\x1b" not in name
        ]
        # Past HTTP, whose routes in this server fold some of them.
        backend = s3_backends["123456789012"]["aws"]
        for name in names:
            backend.put_object(bucket, f"repo/{name}", b"1")
        store = open_store(Namespace.parse(f"s3://{bucket}/repo"), server.options())
        assert _listed(store) == set(names)
        asked = [name for name in names if name != VICTIM and is_collectable(name)]
        assert not [name for name in asked if ".." in name.split("/") or "//" in name]
        assert {outcome.outcome for outcome in store.delete(asked)} == {"deleted"}
        assert _listed(store) == set(names) - set(asked)
        refused = store.delete(
            ["data/../data/s/x", "data//s/x", "data/s/x\n", "../repo/data/s/x", "/repo/data/s/x"]
        )
        assert {outcome.outcome for outcome in refused} == {"refused"}
        assert VICTIM in _listed(store)


@pytest.mark.slow
@pytest.mark.spark
def test_a_link_that_is_put_into_a_namespace_between_mark_and_sweep_leads_nowhere(
    sandbox, spark, tmp_path, monkeypatch
):
    story = history.documents_history(sandbox, "repo", now=NOW)
    sandbox.clock.set(NOW + timedelta(seconds=1))
    run = open_sandbox_run(sandbox, "repo", spark, NOW)
    _, found, _ = mark_and_conclude(run)
    assert found.passed
    root, outside = sandbox.blockstore / "repo", tmp_path / "outside"
    outside.mkdir()
    old = (NOW - timedelta(days=90)).timestamp()
    # A file becomes a link to a file, a slice a link to a directory with files of the same names,
    # times and sizes.
    one = story.deleted[0].address
    other = next(
        file.address for file in story.deleted if Path(file.address).parent != Path(one).parent
    )
    (root / one).unlink()
    (outside / "file").write_bytes(b"precious")
    (root / one).symlink_to(outside / "file")
    slice_ = (root / other).parent
    slice_.rename(outside / "slice")
    slice_.symlink_to(outside / "slice")
    for path in outside.rglob("*"):
        os.utime(path, (old, old))
    before = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
    # Seen before anything is deleted.
    with pytest.raises(TransientError, match=r"symbolic link"):
        run.keep(sweep.sweep(run))
    assert all((root / file.address).exists() for file in story.deleted)
    # Put there a moment later, it leads nowhere all the same.
    monkeypatch.setattr(sweep, "require_deletable", lambda _store: None)
    report = run.keep(sweep.sweep(run))
    outcomes = {row.address: row.outcome for row in rows_of(report, ["address", "outcome"])}
    linked = {file.address for file in story.deleted if (root / file.address).parent == slice_} | {
        one
    }
    left = {address for address, what in outcomes.items() if what != "deleted"}
    # A slice with a link in it cannot be listed, so its other objects may stay as well.
    assert linked <= left
    assert {Path(address).parent for address in left} == {Path(one).parent, Path(other).parent}
    assert {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()} == before
    assert (root / one).is_symlink()
    # With the links still there the next mark says so.
    again = open_sandbox_run(sandbox, "repo", spark, NOW + timedelta(minutes=1))
    with pytest.raises(IncompleteReadError, match=r"symbolic link"):
        mark_only(again)


def _sweepable(folder, spark):
    run = written_run(folder, spark=spark).run
    server = SimpleNamespace(
        repository=lambda _repository: run.repository,
        branches=lambda _repository: [Branch("main", "c")],
        storage_config=lambda _repository: SimpleNamespace(may_compact=False),
        repositories=lambda: [run.repository],
    )
    return replace(
        run,
        environment=replace(run.environment, server=server),
        options=replace(run.options, may_sweep=True),
    )


@pytest.fixture
def run(tmp_path, spark, monkeypatch):
    monkeypatch.setattr(references_now, "reader_of_references", lambda _: looked(()))
    made = _sweepable(tmp_path, spark)
    plant(made, [VICTIM, "data/s/live"])
    return made


def _refused(run, error, text):
    with pytest.raises(error, match=text):
        run.keep(sweep.sweep(run))
    assert run.store.read(VICTIM) == run.store.read("data/s/live") == b"1234"


def _edit(run, key, change):
    file = Path(run.store.options.local_path) / "repo" / key
    file.write_bytes(change(file.read_bytes()))


@pytest.mark.spark
def test_a_mark_whose_parquet_somebody_edited_is_refused_however_far_the_hashes_were_mended(run):
    mark = passing_mark(run, expired=(VICTIM,))
    verdict.conclude(run)
    expired = mark["expired_addresses"]
    (part,) = expired.parts
    forged = pa.Table.from_pylist(
        [
            {
                "address": "data/s/live",
                "size_bytes": 4,
                "last_modified": run.cutoff - timedelta(days=1),
                "slice": "s",
                "reason": "in no commit, and not staged",
            }
        ],
        schema=schemas.EXPIRED_ADDRESSES,
    )
    sink = pa.BufferOutputStream()
    pq.write_table(forged, sink)
    data = sink.getvalue().to_pybytes()
    run.store.put(part.key, data)
    # The file alone.
    _refused(run, CorruptTableError, r"sha256 is .* the manifest says")
    # The file and its manifest.
    mended = replace(
        expired,
        parts=(replace(part, sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data)),),
    )
    key = tables.manifest_key(tables.EXPIRED_ADDRESSES, run.key)
    run.store.put(key, mended.to_json())
    _refused(run, VerdictError, "not the one that the verdict speaks of")
    # And the verdict, but for its own seal.
    _edit(
        run,
        lakegc_keys.verdict_key(run.key),
        lambda old: old.replace(expired.sha256.encode(), mended.sha256.encode()),
    )
    _refused(run, CorruptTableError, "edited or damaged")


@pytest.mark.spark
@pytest.mark.parametrize("address", ["_lakefs/dummy", "data/../_lakefs/dummy", "../other/data/s/x"])
def test_a_mark_that_is_forged_as_a_whole_still_names_nothing_outside_data(address, run):
    passing_mark(run, expired=(address, VICTIM))
    verdict.conclude(run)
    _refused(run, UnsafePlanError, "outside data/")


@pytest.mark.parametrize("address", [form for form in RELATIVE if not is_collectable(form)])
def test_no_row_of_a_plan_with_a_hostile_address_passes_the_last_look(address):
    row = {
        "address": address,
        "size_bytes": 1,
        "last_modified": NOW - timedelta(days=9),
        "slice": "",
        "reason": "",
    }
    batch = pa.RecordBatch.from_pylist([row], schema=schemas.EXPIRED_ADDRESSES)
    with pytest.raises(UnsafePlanError, match="outside data/"):
        require_allowed(batch, any_name(NOW))


@pytest.mark.spark
def test_a_mark_of_another_namespace_or_repository_is_refused(run):
    passing_mark(run, expired=(VICTIM,))
    verdict.conclude(run)
    other = run.repository.__class__(
        "repo", "local://elsewhere", "main", run.repository.creation_date
    )
    _refused(replace(run, repository=other), VerdictError, "speaks of")


def _any(kind):
    """Some value of a type."""
    values = {pa.string(): "x", pa.int32(): 1, pa.int64(): 1, pa.bool_(): False}
    return NOW if pa.types.is_timestamp(kind) else values[kind]


@pytest.mark.spark
def test_a_journal_that_somebody_wrote_into_adds_nothing_to_what_is_deleted(run):
    mark = passing_mark(run, expired=(VICTIM,))
    verdict.conclude(run)
    # A part by its name, whose rows name something alive; made with the journal's own means it fits
    # its own hash.
    forger = journal.Journal(run.store, str(run.key), mark["expired_addresses"].sha256)
    told = {"address": "data/s/live", "outcome": "failed", "size_bytes": 4}
    filled = {
        field.name: told.get(field.name)
        if field.nullable or field.name in told
        else _any(field.type)
        for field in schemas.JOURNAL
    }
    forger.bind(run.instance)
    forger.intend("abc.1.1.1.1", pa.RecordBatch.from_pylist([filled], schema=schemas.JOURNAL))
    forger.conclude("abc.1.1.1.1", pa.RecordBatch.from_pylist([filled], schema=schemas.JOURNAL))
    report = run.keep(sweep.sweep(run))
    assert report.manifest.facts["deleted_objects"] == 1
    assert run.store.read("data/s/live") == b"1234"
    assert not run.store.exists(VICTIM)


@pytest.mark.spark
@pytest.mark.parametrize(
    "name", ["../../../data/s/live", "intent-..parquet", "outcome-abc.parquet"]
)
def test_a_stranger_in_the_journals_folder_stops_the_sweep(name, run):
    mark = passing_mark(run, expired=(VICTIM,))
    verdict.conclude(run)
    plain = name.replace("/", "%2F")
    journal.Journal(run.store, str(run.key), mark["expired_addresses"].sha256).bind(run.instance)
    run.store.put(f"{journal.folder(run.key)}{plain}", b"x")
    _refused(run, CorruptTableError, "no part of a journal")


MARK = "ft6s0e1ksdufuaulm34g"
SUMMARY = {
    "run_id": MARK,
    "success": True,
    "first_slice": "s",
    "start_time": "2026-11-19T00:00:00.000Z",
    "cutoff_time": "2026-11-18T00:00:00.000Z",
    "num_deleted_objects": 1,
}


def _reference(tmp_path, **changes):
    store = _staged_file(tmp_path)
    where = marks.folder(MARK)
    store.put(f"{where}summary.json", json.dumps({**SUMMARY, **changes}).encode())
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"address": [VICTIM]}), sink)
    store.put(f"{where}deleted/part-00000-x-c000.snappy.parquet", sink.getvalue().to_pybytes())
    return store


@pytest.mark.parametrize(
    "names",
    [
        {"storage_namespace": "s3://bucket/other"},
        {"first_slice": "s3://bucket/other/data/s"},
        {"report": {"where": ["local://repository/"]}},
        {"note": "LOCAL://repo/../other"},
    ],
)
def test_a_summary_that_names_another_namespace_is_refused(names, tmp_path):
    with pytest.raises(UnsafePlanError, match=r"another namespace"):
        marks.load(_reference(tmp_path, **names), MARK)


def test_a_summary_that_names_its_own_namespace_is_read(tmp_path):
    assert marks.load(_reference(tmp_path, storage_namespace="local://repo"), MARK).mark_id == MARK
    assert marks.load(_reference(tmp_path, report="local://repo/_lakefs/x"), MARK).mark_id == MARK


@pytest.mark.parametrize(
    "mark_id",
    ["..", "../../data", "a/b", "", "a\0b", "%2e%2e", "x" * 65, "a\n", "\u0430bc", "-x", "."],
)
def test_a_mark_id_that_is_no_name_of_a_folder_is_refused(mark_id):
    with pytest.raises(UnsafePlanError, match="is not the id of a mark") as refusal:
        marks.folder(mark_id)
    assert str(refusal.value).isprintable()


def test_names_that_are_one_in_some_normal_form_are_different_addresses():
    for one, other in (("data/s/\u00e9", "data/s/e\u0301"), ("data/s/x", "data/s/\uff58")):
        assert unicodedata.normalize("NFKC", one) == unicodedata.normalize("NFKC", other)
        assert _resolved(S3, one, AddressType.RELATIVE) == one
        assert _resolved(S3, other, AddressType.RELATIVE) == other
