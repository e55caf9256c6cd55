"""The stored verdict: what it holds, and that nothing changes it."""

import hashlib
import json
import re
from dataclasses import replace

import pytest

from spark_core import checks as guards
from spark_core import lakegc_keys
from spark_core.checks import verdict
from spark_core.errors import CorruptTableError, VerdictError
from spark_core.records import tables
from spark_core.records.verdict_document import Verdict
from tests.support.passing_mark import passing_mark
from tests.support.written_run import written_run


@pytest.fixture
def run(tmp_path):
    return written_run(tmp_path, spark=None).run


def _marked(run, **facts):
    passing_mark(run, **facts)
    return verdict.conclude(run)[0]


def _under(run, **options):
    return replace(run, options=replace(run.options, **options))


def test_a_verdict_holds_every_check_with_its_limit_and_who_may_lift_it(run):
    checks = _marked(run).checks
    assert [check["name"] for check in checks] == [name for name, _, _ in guards.CHECKS]
    assert all(
        {"figures", "limit", "lifted_by", "passed", "summary", "table"} < check.keys()
        for check in checks
    )


def test_a_verdict_says_what_was_marked_by_which_rules_and_from_which_bytes(run):
    _marked(run)
    document = json.loads(run.store.read(lakegc_keys.verdict_key(run.key)))
    stored = verdict.load_mark(run)
    assert {
        name: document[name]
        for name in ("format", "repository", "namespace", "run", "cutoff", "min_age_seconds")
    } == {
        "format": 1,
        "repository": "repo",
        "namespace": "local://repo",
        "run": str(run.key),
        "cutoff": "2026-11-19T01:55:00+00:00",
        "min_age_seconds": 86_400.0,
    }
    assert document["instance"] == run.instance
    assert document["rules"] == {"default_retention_days": 7, "branches": {}}
    assert {
        name: (link["manifest"], link["rows"], link["size_bytes"])
        for name, link in document["tables"].items()
    } == {
        name: (table.manifest.sha256, table.manifest.rows, table.manifest.size_bytes)
        for name, table in stored.items()
    }
    assert document["tables"]["expired_addresses"]["parents"] == {
        name: table.manifest.sha256 for name, table in stored.items() if name != "expired_addresses"
    }
    (part,) = stored["expired_addresses"].manifest.parts
    assert document["addresses"] == {part.key: hashlib.sha256(run.store.read(part.key)).hexdigest()}
    assert {"lakegc", "pyspark", "pyarrow", "lakefs-sdk"} == document["versions"].keys()


def test_a_stored_verdict_is_never_written_over(run):
    _marked(run)
    before = run.store.read(lakegc_keys.verdict_key(run.key))
    found, results = verdict.conclude(_under(run, max_missing_share=0.5))
    assert run.store.read(lakegc_keys.verdict_key(run.key)) == before
    assert found == verdict.load(run)
    assert len(results) == len(guards.CHECKS)


@pytest.mark.slow
@pytest.mark.parametrize("every", [11, pytest.param(1, marks=pytest.mark.deep)])
def test_any_flipped_bit_of_a_verdict_refuses_by_name(run, every):
    _marked(run)
    key = lakegc_keys.verdict_key(run.key)
    written = run.store.read(key)
    for at in range(0, len(written), every):
        data = bytearray(written)
        data[at] ^= 1 << at % 8
        with pytest.raises((CorruptTableError, VerdictError), match=re.escape(key)):
            Verdict.from_json(bytes(data), name=key)


def test_what_another_process_stored_since_is_seen_by_the_verdict(run):
    passing_mark(run)
    key = tables.manifest_key(tables.RETAINED_COMMITS, run.key)
    mine = run.load(tables.RETAINED_COMMITS).manifest
    another = replace(mine, attempt="another")
    run.store.put(key, another.to_json())
    assert run.load(tables.RETAINED_COMMITS).manifest == mine, (
        "what this process stored it need not read"
    )
    found, _ = verdict.conclude(run)
    assert found.tables["retained_commits"]["manifest"] == another.sha256
    assert "tables_were_made_in_order" in {check["name"] for check in found.failed}
