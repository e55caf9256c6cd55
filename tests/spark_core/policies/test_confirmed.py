"""Confirmations of a policy: by its digest, apart for resets, and never another document's."""

import pytest

from lakegc_dagster.sandbox import Sandbox
from spark_core import lakegc_keys
from spark_core.errors import CorruptTableError
from spark_core.policies import confirmed, versions
from tests.support.removals import World, rule


@pytest.fixture
def world(tmp_path):
    with Sandbox(tmp_path / "sandbox") as sandbox:
        yield World(sandbox)


def test_a_policy_is_confirmed_by_its_digest_and_resets_apart(world):
    policy = world.policy(rule("main/logs/", 3), confirm=False)
    run = world.run()
    version = versions.newest(run)
    assert not confirmed.is_confirmed(run.store, policy.digest)
    first = confirmed.confirm(run, version, "ann@host")
    assert confirmed.is_confirmed(run.store, policy.digest)
    assert not confirmed.may_reset(run.store, policy.digest)
    assert not confirmed.is_confirmed(run.store, "0" * 64)
    assert confirmed.confirm(run, version, "bob@host") == first
    confirmed.confirm_resets(run, version, "bob@host")
    assert confirmed.may_reset(run.store, policy.digest)
    # The same document confirms itself, in whatever version it stands.
    world.policy(rule("main/data/", 3), confirm=False)
    world.policy(rule("main/logs/", 3), confirm=False)
    assert confirmed.is_confirmed(run.store, versions.newest(run).policy_digest)


def test_a_confirmation_under_another_digest_is_refused(world):
    policy = world.policy(rule("main/logs/", 3))
    store = world.run().store
    store.put(
        lakegc_keys.confirmed_policy_key("0" * 64),
        store.read(lakegc_keys.confirmed_policy_key(policy.digest)),
    )
    with pytest.raises(CorruptTableError, match=f"it confirms the policy {policy.digest[:12]}"):
        confirmed.is_confirmed(store, "0" * 64)
