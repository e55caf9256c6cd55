"""What a key of `lakegc retention restore` names; a key that names two things is refused."""

from types import SimpleNamespace

import pytest

from spark_core import lakegc_keys
from spark_core.branches.named_by_key import named_by_key
from spark_core.errors import NotFoundError, SettingsError
from spark_core.model import RunKey
from tests.support.memory_store import MemoryStore

KEY, OTHER = RunKey.parse("2026-11-20T02-00-00Z"), RunKey.parse("2026-11-19T02-00-00Z")


def run_with(*keys):
    store = MemoryStore()
    for key in keys:
        store.put(key, b"{}")
    return SimpleNamespace(store=store, repository=SimpleNamespace(id="repo"))


def removal(key):
    return f"{lakegc_keys.removal(key)}begun.json"


def test_a_key_names_what_is_on_record_under_it():
    run = run_with(removal(KEY), lakegc_keys.branch_mark_key(OTHER))
    assert named_by_key(run, KEY) == "entries"
    assert named_by_key(run, OTHER) == "branches"


def test_a_key_that_names_both_is_refused_with_the_two_ways_on():
    run = run_with(removal(KEY), lakegc_keys.branch_mark_key(KEY))
    with pytest.raises(SettingsError, match=r"names both .*; nothing was brought back") as refused:
        named_by_key(run, KEY)
    assert "--branch" in refused.value.message
    assert "--what-is-there" in refused.value.message


def test_a_key_that_names_neither_is_refused_with_those_there_are():
    run = run_with(removal(OTHER))
    with pytest.raises(NotFoundError, match=f"removals {OTHER}; marks none"):
        named_by_key(run, KEY)
