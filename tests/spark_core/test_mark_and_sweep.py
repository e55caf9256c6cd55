"""The order of the tables of a mark, which Dagster's graph and `collect` both follow."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from spark_core import mark, mark_and_sweep
from spark_core.checks import verdict
from spark_core.records import tables


def test_the_store_is_listed_first_and_staged_entries_are_read_before_commits():
    assert [spec.name for spec in tables.MARK_TABLES] == [
        "namespace_slices",
        "uncommitted_addresses",
        "retained_commits",
        "committed_addresses",
        "expired_addresses",
    ]


def test_each_table_is_made_from_tables_before_it():
    before = set()
    for spec in tables.MARK_TABLES:
        assert set(spec.parents) <= before
        before.add(spec.name)


def test_collect_makes_each_table_from_the_stored_tables_that_its_spec_names(monkeypatch):
    made = []

    def maker(spec):
        def make(run, *parents):
            made.append((spec.name, parents))
            return spec

        return make

    class ConcludedError(Exception):
        pass

    def conclude(_):
        raise ConcludedError

    makers = {spec: maker(spec) for spec in mark._MAKERS}
    monkeypatch.setattr(mark, "_MAKERS", makers)
    monkeypatch.setattr(
        mark_and_sweep, "_keep", lambda run, spec, make, on_event: f"stored {make().name}"
    )
    monkeypatch.setattr(verdict, "conclude", conclude)
    monkeypatch.setattr(
        mark_and_sweep.policies, "store_if_asked", lambda _: made.append("policy_expirations")
    )
    run = SimpleNamespace(environment=SimpleNamespace(clock=None))
    with pytest.raises(ConcludedError):
        mark_and_sweep.collect(run, "mark")
    *four, expired = [
        (spec.name, tuple(f"stored {name}" for name in spec.parents)) for spec in tables.MARK_TABLES
    ]
    assert made == [*four, "policy_expirations", expired]
