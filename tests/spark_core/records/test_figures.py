"""The figures of a manifest are read by their types, and written as they always were."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from spark_core.errors import CorruptTableError
from spark_core.records import tables
from spark_core.records.figures import CommittedFigures, DeletionFigures, ExpiredFigures
from spark_core.records.manifest import Manifest
from tests.support.figures import OF_TABLES, manifest_of, nothing, read
from tests.support.stored_formats import MANIFEST

# What is written of a mark with everything in it, and of an empty one.
RECORDED = json.loads(
    (Path(__file__).parents[2] / "data/facts/recorded.json").read_text(encoding="utf-8")
)


def _of(kind, facts):
    return kind.of(replace(MANIFEST, facts=facts))


def _written(spec, facts):
    """Return figures as they are written; of a run without an index, nothing was taken from it."""
    written = _of(OF_TABLES[spec], facts).facts()
    assert not any(written.pop("taken", {}).values())
    return written


@pytest.mark.parametrize("spec", tables.ALL_TABLES, ids=lambda spec: spec.name)
def test_figures_are_written_as_they_were_read_under_the_same_names(spec):
    facts = RECORDED[spec.name]
    assert _written(spec, facts) == facts


@pytest.mark.parametrize("spec", tables.ALL_TABLES, ids=lambda spec: spec.name)
def test_what_nobody_counted_in_a_table_without_rows_is_zero(spec):
    facts = RECORDED[f"empty {spec.name}"]
    written = _written(spec, facts)
    assert {name: written[name] for name in facts} == facts
    assert not any(value for name, value in written.items() if name not in facts)


def test_a_figure_that_only_a_later_lakegc_knows_is_passed_over_and_stays_in_the_manifest():
    facts = {**RECORDED["expired_addresses"], "more": {"of": ["this"]}}
    stored = replace(MANIFEST, facts=facts)
    again = Manifest.from_json(stored.to_json(), name="m")
    assert ExpiredFigures.of(again) == _of(ExpiredFigures, RECORDED["expired_addresses"])
    assert again.facts["more"] == {"of": ["this"]}
    assert again.sha256 == stored.sha256
    assert again.digest == stored.digest


@pytest.mark.parametrize("name", nothing(CommittedFigures))
def test_a_figure_that_is_missing_is_refused_by_name(name):
    facts = {**RECORDED["committed_addresses"]}
    del facts[name]
    with pytest.raises(CorruptTableError, match=rf"expired_addresses of run .*`{name}`: Field req"):
        _of(CommittedFigures, facts)


@pytest.mark.parametrize("value", ["1", 1.5, True, None, [1]])
def test_a_figure_of_another_type_is_refused_by_name(value):
    with pytest.raises(CorruptTableError, match="`metaranges_read`: Input should be a valid int"):
        read(CommittedFigures, metaranges_read=value)
    with pytest.raises(CorruptTableError, match=r"`twins\.calls`: Input should be a valid int"):
        read(ExpiredFigures, twins={"calls": value})


def test_what_does_not_apply_is_not_written():
    written = DeletionFigures.of(manifest_of(DeletionFigures)).facts()
    assert not written.keys() & {"quarantine_days", "rounds", "second_look", "deleted_objects"}
