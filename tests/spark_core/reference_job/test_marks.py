"""Marks of lakeFS's own job: what may be read as one, and what is refused."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_core.addresses.namespace import Namespace
from spark_core.errors import CorruptTableError, NotFoundError, UnsafePlanError
from spark_core.reference_job import marks
from spark_core.storage import StoreOptions, open_store
from tests.support import official_mark


@pytest.fixture
def store(tmp_path):
    (tmp_path / "repo/_lakefs").mkdir(parents=True)
    return open_store(
        Namespace.parse("local://repo", server_path=str(tmp_path)),
        StoreOptions(local_path=str(tmp_path)),
    )


@pytest.fixture
def root(tmp_path, store):
    return tmp_path / "repo"


@pytest.fixture
def stray(root):
    """The folder of a copy of the job's own mark of 90 addresses."""
    return root / "_lakefs/retention/gc/unified" / official_mark.put_mark("stray", root)


def _summary(folder, **changes):
    file = folder / "summary.json"
    document = json.loads(file.read_text()) | changes
    file.write_text(
        json.dumps({name: value for name, value in document.items() if value is not ...})
    )


def test_a_finished_mark_is_found_with_all_its_parts(store, stray):
    mark = marks.load(store, stray.name)
    assert mark.summary.num_deleted_objects == 90
    assert mark.summary.cutoff_time == "2026-11-21T07:26:35.754Z"
    assert [key.rpartition("/")[2][:10] for key in mark.parts] == ["part-00000", "part-00001"]


def test_a_summary_is_written_byte_by_byte_as_the_job_writes_it(store, stray):
    data = (stray / "summary.json").read_bytes()
    assert marks.Summary.from_json(data, name="summary.json").to_json() == data


def test_a_mark_that_does_not_exist_is_refused_and_those_that_do_are_named(store, root, stray):
    with pytest.raises(NotFoundError) as missing:
        marks.load(store, "ft6s0e1ksdufuaulm34g")
    assert str(missing.value) == (
        "mark ft6s0e1ksdufuaulm34g does not exist in local://repo/ "
        "(_lakefs/retention/gc/unified/ft6s0e1ksdufuaulm34g/summary.json is not there): it is of "
        "another repository, or its "
        f"run broke off before it was finished. The marks of this repository: {stray.name}."
    )


def test_where_there_is_no_mark_at_all_none_is_named(store):
    with pytest.raises(NotFoundError, match=r"The marks of this repository: none\."):
        marks.load(store, "ft6s0e1ksdufuaulm34g")


def test_a_mark_without_its_summary_does_not_exist(store, stray):
    (stray / "summary.json").unlink()
    with pytest.raises(NotFoundError, match="its run broke off before it was finished"):
        marks.load(store, stray.name)


def test_the_mark_of_a_failed_run_is_refused(store, root):
    mark_id = official_mark.put_mark("failed", root)
    with pytest.raises(UnsafePlanError) as refused:
        marks.load(store, mark_id)
    assert str(refused.value) == (
        f"mark {mark_id} in local://repo/ is of a failed run (its summary.json says success: "
        "false): its list may be "
        f"anything. Name another one ({mark_id}), or mark with lakegc."
    )


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../../addresses", "a/b", "/etc", "a b", "x" * 65, "ft6\n"]
)
def test_what_is_no_name_of_a_folder_is_no_mark(name, store):
    with pytest.raises(
        UnsafePlanError, match="is not the id of a mark: wanted the name of a folder under _lakefs"
    ):
        marks.load(store, name)


def test_a_mark_that_was_copied_under_another_name_is_refused(store, stray):
    stray.rename(stray.parent / "ft6s0e1ksdufuaulm34g")
    with pytest.raises(
        CorruptTableError,
        match=f"it is the summary of mark '{stray.name}', wanted 'ft6s0e1ksdufuaulm34g'",
    ):
        marks.load(store, "ft6s0e1ksdufuaulm34g")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"success": "true"}, "`success` is 'true', wanted a bool"),
        (
            {"success": ...},
            r"not the summary of a mark of the reference job \(KeyError\('success'\)\)",
        ),
        ({"num_deleted_objects": True}, "`num_deleted_objects` is True, wanted a int"),
    ],
)
def test_a_summary_of_another_form_is_refused(changes, problem, store, stray):
    _summary(stray, **changes)
    with pytest.raises(CorruptTableError, match=problem):
        marks.load(store, stray.name)


@pytest.mark.parametrize("text", ["", "[]", "null", "{"])
def test_a_summary_that_is_no_json_object_is_refused(text, store, stray):
    (stray / "summary.json").write_text(text)
    with pytest.raises(CorruptTableError, match="not the summary of a mark of the reference job"):
        marks.load(store, stray.name)


def test_a_field_that_a_later_job_adds_is_let_be(store, stray):
    _summary(stray, more="1")
    assert marks.load(store, stray.name).summary.success is True


@pytest.mark.parametrize("name", ["notes.txt", "part-00000", "inner/part-00000-x.snappy.parquet"])
def test_a_stray_file_among_the_parts_is_refused(name, store, stray):
    file = stray / "deleted" / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"x")
    with pytest.raises(
        CorruptTableError,
        match=f"it holds '{name.split('/')[0]}.*which the reference job does not write",
    ):
        marks.load(store, stray.name)


def test_what_spark_keeps_for_itself_is_no_stray_file(store, stray):
    (stray / "deleted/.part-00000.crc").write_bytes(b"x")
    assert len(marks.load(store, stray.name).parts) == 2


@pytest.mark.spark
def test_the_addresses_are_read_with_the_hashes_of_their_files(store, stray, spark):
    found = marks.addresses(lambda: spark, store, marks.load(store, stray.name), tasks=2)
    rows = set(found.source.here(2)["address"].to_pylist())
    assert rows >= official_mark.lines("expected-candidates.txt")
    assert "data/stray-file/stray-file" in rows
    assert [part.rows for part in found.parts] == [86, 4] or sum(
        part.rows for part in found.parts
    ) == 90
    assert found.mark.mark_id == stray.name


@pytest.mark.spark
def test_a_part_that_changed_since_it_was_hashed_is_refused(store, stray, spark):
    found = marks.addresses(lambda: spark, store, marks.load(store, stray.name), tasks=2)
    part = next(stray.glob("deleted/part-00000*"))
    pq.write_table(pq.read_table(part).slice(1), part)
    with pytest.raises(Exception, match=r"sha256 is .* it was"):
        found.source.here(2)


@pytest.mark.spark
def test_a_missing_part_is_noticed_by_the_number_of_addresses(store, stray, spark):
    next(stray.glob("deleted/part-00001*")).unlink()
    with pytest.raises(
        CorruptTableError, match=r"its 1 files hold \d+ addresses, its summary.json says 90"
    ):
        marks.addresses(lambda: spark, store, marks.load(store, stray.name), tasks=2)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (
            pa.table({"address": [1]}),
            "its columns are 'address: int64', wanted one string, `address`",
        ),
        (pa.table({"path": ["x"]}), "its columns are 'path: string', wanted one string, `address`"),
        (pa.table({"address": ["x"], "size": [1]}), "wanted one string, `address`"),
    ],
)
def test_a_part_of_other_columns_is_refused(table, problem, store, stray, spark):
    pq.write_table(table, stray / "deleted/part-00002-x.parquet")
    with pytest.raises(CorruptTableError, match=problem):
        marks.addresses(lambda: spark, store, marks.load(store, stray.name), tasks=2)


@pytest.mark.spark
def test_a_part_that_is_no_parquet_is_refused(store, stray, spark):
    (stray / "deleted/part-00002-x.parquet").write_bytes(b"PAR1")
    with pytest.raises(CorruptTableError, match="no sound Parquet file"):
        marks.addresses(lambda: spark, store, marks.load(store, stray.name), tasks=2)
