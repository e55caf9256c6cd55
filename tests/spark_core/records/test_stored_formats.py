"""What a release has stored is read by every later one.

A format that was raised blocks no namespace and ends no hold.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pytest

from spark_core import holds, lakegc_keys
from spark_core.errors import CorruptTableError, RefusedError
from spark_core.lock import lease, lease_log
from spark_core.records.documents import seal
from tests.support.memory_store import MemoryStore
from tests.support.stored_formats import HOLD, KINDS, LEASE, recorded
from tests.support.written_run import written_run

# A report has no digest: whoever reads one makes it again.
SEALED = [name for name in KINDS if name != "report"]
EVERY_FORMAT = [(name, number) for name, kind in KINDS.items() for number in kind.formats]


@pytest.fixture
def raised(monkeypatch):
    """The next version of lakegc, which writes each document in another format."""
    for kind in (KINDS[name] for name in SEALED):
        monkeypatch.setattr(kind.model, "ALSO_READ", kind.formats)
        monkeypatch.setattr(kind.model, "FORMAT", kind.format + 1)


@pytest.fixture
def run(tmp_path):
    return replace(written_run(tmp_path, spark=None).run, store=MemoryStore())


def in_format(data, number):
    document = {name: value for name, value in json.loads(data).items() if name != "sha256"}
    return seal({**document, "format": number})


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_what_is_written_is_read_and_its_format_is_among_those_that_are(kind):
    assert kind.format in kind.formats
    assert kind.read(kind.write()) == kind.meaning


@pytest.mark.parametrize("name", SEALED)
def test_what_is_written_is_byte_for_byte_what_the_release_of_that_format_wrote(name):
    """So an earlier lakegc in the same namespace reads it, and digests that others hold stay those
    of what they name.
    """
    assert KINDS[name].write() == recorded(name, KINDS[name].format).read_bytes()


@pytest.mark.parametrize("name", SEALED)
def test_a_field_of_another_type_is_not_taken_for_what_it_may_have_meant(name):
    document = _recorded(name)
    for field, value in document.items():
        for other in ("1", 1, True, ["1"], {"1": ["1"]}):
            if field not in ("format", "min_age_seconds") and not isinstance(
                other, type(other if value is None else value)
            ):
                _refused(name, {**document, field: other}, rf"not .* \(`{field}")


@pytest.mark.parametrize("name", SEALED)
def test_a_field_that_nobody_knows_or_that_is_missing_is_refused_by_name(name):
    document = _recorded(name)
    _refused(name, {**document, "more": 1}, "`more`")
    for field in document.keys() - {"format", "taken_by", "earlier_until"}:
        _refused(
            name,
            {each: document[each] for each in document if each != field},
            f"`{field}`: Field required",
        )


def _recorded(name):
    document = json.loads(recorded(name, KINDS[name].format).read_bytes())
    return {field: value for field, value in document.items() if field != "sha256"}


def _refused(name, document, text):
    with pytest.raises(CorruptTableError, match=text):
        KINDS[name].read(seal(document))


@pytest.mark.parametrize(("name", "number"), EVERY_FORMAT)
def test_every_format_that_is_read_has_a_recorded_document_which_is_still_read(name, number):
    assert KINDS[name].read(recorded(name, number).read_bytes()) == KINDS[name].meaning


@pytest.mark.parametrize(("name", "number"), EVERY_FORMAT)
def test_a_format_that_was_raised_once_made_what_was_stored_unreadable(name, number, raised):
    assert KINDS[name].read(recorded(name, number).read_bytes()) == KINDS[name].meaning


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("number", [0, 99, None, "1"])
def test_a_format_that_is_not_known_is_refused_by_name(kind, number):
    with pytest.raises(RefusedError, match=r"of another|another version|not a report of format"):
        kind.read(in_format(kind.write(), number))


def test_the_lease_that_a_release_left_blocked_its_namespace_for_ever(run, raised):
    run.store.objects[LEASE.key] = recorded("lease", 1).read_bytes()
    late = replace(
        run, environment=replace(run.environment, clock=_Later(run)), take_over=LEASE.owner.run
    )
    with lease.acquire(late, take_over=LEASE.owner.run) as held:
        assert held.epoch == LEASE.epoch + 1


class _Later:
    """Long after the lease of a release ran out."""

    def __init__(self, run):
        self._at = LEASE.expires_at.replace(year=run.now().year + 1)

    def now(self):
        return self._at


def test_a_hold_that_a_release_made_still_protects(run, raised):
    run.store.objects[lakegc_keys.hold_key("audit")] = recorded("hold", 1).read_bytes()
    held = holds.load(run.store)
    assert held.holds == (HOLD,)
    assert held.protecting(pa.array(["data/s1/x", "data/s2/x"])).to_pylist() == [True, False]


def test_a_lease_and_a_hold_from_the_future_say_in_which_format_they_are(run):
    run.store.objects[LEASE.key] = in_format(LEASE.to_json(), 9)
    with pytest.raises(
        CorruptTableError,
        match=r"a lease of another lakegc, in format 9; use the one that wrote it",
    ):
        lease_log.last_record(run.store)
    run.store.objects[lakegc_keys.hold_key("audit")] = in_format(HOLD.to_json(), 9)
    with pytest.raises(
        CorruptTableError, match=r"a hold of another lakegc, in format 9; use the one that wrote it"
    ):
        holds.load(run.store)
