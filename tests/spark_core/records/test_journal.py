"""The journal: bound to its plan, told apart part by part, and never believed when a bit of it is
another.
"""

import random
import re
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from spark_core import schemas
from spark_core.errors import (
    ChainError,
    CorruptTableError,
    LakegcError,
    ObjectExistsError,
    UnsafePlanError,
)
from spark_core.records import journal as journals
from spark_core.records.journal import Journal
from spark_core.storage.local import LocalStore
from tests.support.written_run import written_run

AT = datetime(2026, 11, 20, 2, tzinfo=UTC)


def entries(**outcomes):
    rows = [
        {"address": f"data/s/{name}", "size_bytes": 4, "outcome": outcome, "error": None, "at": AT}
        for name, outcome in outcomes.items()
    ]
    return pa.Table.from_pylist(rows, schema=schemas.JOURNAL).combine_chunks().to_batches()[0]


def read_all(journal):
    journal.bind("repo")
    return [journal.read(part) for part in journal.parts()]


@pytest.fixture
def journal(tmp_path):
    run = written_run(tmp_path, spark=None).run
    return Journal(run.store, str(run.key), "5" * 64)


def test_what_was_written_is_read_back_with_who_wrote_it(journal):
    assert journal.bind("repo") is False
    assert journal.bind("repo") is True
    journal.intend("ab.1.0.7.0", entries(x="intended", y="intended"))
    journal.conclude("ab.1.0.7.0", entries(x="deleted", y="failed"))
    parts = {part.kind: part for part in journal.parts()}
    assert set(parts) == {"intent", "outcome"}
    assert {(part.sweep, part.batch, part.rows) for part in parts.values()} == {
        ("ab", ".1.0.7.0", 2)
    }
    assert journal.read(parts["intent"]).equals(entries(x="intended", y="intended"))
    assert journal.read(parts["outcome"]).column("outcome").to_pylist() == ["deleted", "failed"]


def test_a_journal_of_another_plan_refuses(journal):
    journal.bind("repo")
    with pytest.raises(ChainError, match=r"was swept by another plan "):
        replace(journal, plan="6" * 64).bind("repo")
    with pytest.raises(ChainError, match="of 'repo', stored is 555555555555 of 'another'"):
        journal.bind("another")


def test_a_part_of_another_plan_that_was_copied_there_refuses(journal):
    journal.intend("ab.1.0.7.0", entries(x="intended"))
    (part,) = journal.parts()
    with pytest.raises(CorruptTableError, match=r"lakegc\.plan is b'5+', wanted 6+"):
        replace(journal, plan="6" * 64).read(part)


def test_a_part_under_the_name_of_another_batch_refuses(journal):
    journal.intend("ab.1.0.7.0", entries(x="intended"))
    (part,) = journal.parts()
    journal.store.put(part.key.replace("ab.1.0.7.0", "ab.1.0.7.1"), journal.store.read(part.key))
    journal.store.delete([part.key])
    (moved,) = journal.parts()
    with pytest.raises(CorruptTableError, match=r"lakegc\.batch"):
        journal.read(moved)


def test_a_file_that_is_no_part_refuses_and_what_a_killed_writer_left_does_not(journal):
    journal.bind("repo")
    journal.store.put(f"{journal.folder}.lakegc-0123456789abcdef.part", b"half of")
    assert journal.parts() == []
    journal.store.put(f"{journal.folder}notes.txt", b"somebody's")
    with pytest.raises(CorruptTableError, match=r"notes\.txt.*no part of a journal"):
        journal.parts()


@pytest.mark.slow
def test_no_flipped_bit_and_no_cut_in_a_journal_is_read_as_something_else(journal):
    journal.bind("repo")
    journal.intend("ab.1.0.7.0", entries(x="intended", y="intended"))
    journal.conclude("ab.1.0.7.0", entries(x="deleted", y="failed"))
    keys = sorted(
        key
        for batch in journal.store.list(journal.folder)
        for key in batch.column("key").to_pylist()
    )
    assert len(keys) == 3
    chosen = random.Random(5)
    for _ in range(300):
        key = chosen.choice(keys)
        data = journal.store.read(key)
        if chosen.random() < 0.2:
            damaged = data[: chosen.randrange(len(data))]
        else:
            place = chosen.randrange(len(data))
            damaged = (
                data[:place] + bytes([data[place] ^ (1 << chosen.randrange(8))]) + data[place + 1 :]
            )
        journal.store.put(key, damaged)
        with pytest.raises(LakegcError, match=re.escape(key)):
            read_all(journal)
        journal.store.put(key, data)
    read_all(journal)


class _Lossy(LocalStore):
    """A store whose client sends a put again because the first answer was lost."""

    def put_if_absent(self, key, data):
        super().put_if_absent(key, data)
        super().put_if_absent(key, data)


def test_a_part_that_the_client_wrote_twice_is_written(tmp_path):
    run = written_run(tmp_path, spark=None).run
    journal = Journal(_Lossy(run.namespace, run.store.options), str(run.key), "5" * 64)
    assert journal.bind("repo") is True, "nobody can tell whose it was, and it says the same"
    journal.intend("ab.1.0.7.0", entries(x="intended"))
    assert len(journal.parts()) == 1


def test_a_part_is_never_written_over_another(journal):
    journal.intend("ab.1.0.7.0", entries(x="intended"))
    (part,) = journal.parts()
    journal.store.put(part.key, b"somebody else's")
    with pytest.raises(ObjectExistsError):
        journal.intend("ab.1.0.7.0", entries(x="intended"))


def test_the_folder_of_a_journal_lies_where_nothing_is_ever_collected(journal):
    assert (
        journal.folder
        == f"_lakefs/retention/gc/journal/run_id={journal.run}/"
        == journals.folder(journal.run)
    )


@pytest.mark.parametrize("quarantine", [True, False])
def test_a_sweep_goes_on_with_quarantine_as_it_began(journal, quarantine):
    journal.bind("repo", quarantine=quarantine)
    assert journal.bind("repo", quarantine=quarantine) is True
    begun, wanted = str(quarantine).lower(), str(not quarantine).lower()
    with pytest.raises(UnsafePlanError, match=f"begun with quarantine = {begun}") as raised:
        journal.bind("repo", quarantine=not quarantine)
    assert f"With quarantine = {wanted} begin a new run (`lakegc run`)" in str(raised.value)
    assert f"or set quarantine = {begun} again and go on" in str(raised.value)
    assert journal.bind("repo", quarantine=quarantine) is True, "it keeps the mode it began with"
