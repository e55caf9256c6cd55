"""Confirmations of a policy: by its digest, apart for resets, and never another document's."""

from dataclasses import replace

import pytest

from lakegc_dagster.sandbox import Sandbox
from spark_core import lakegc_keys
from spark_core.errors import CorruptTableError
from spark_core.references.policies import confirmed, versions
from tests.support.removals import World, rule


@pytest.fixture
def world(tmp_path):
    with Sandbox(tmp_path / "sandbox") as sandbox:
        yield World(sandbox)


def test_a_policy_is_confirmed_by_its_digest_and_resets_apart(world):
    world.policy(rule("main/logs/", 3), confirm=False)
    run = world.run()
    version = versions.newest(run)
    other = replace(version, policy_digest="0" * 64)
    assert not confirmed.is_confirmed(run, version)
    first = confirmed.confirm(run, version, "ann@host")
    assert confirmed.is_confirmed(run, version)
    assert not confirmed.may_reset(run, version)
    assert not confirmed.is_confirmed(run, other)
    assert confirmed.confirm(run, version, "bob@host") == first
    confirmed.confirm_resets(run, version, "bob@host")
    assert confirmed.may_reset(run, version)
    # The same document confirms itself, in whatever version it stands.
    world.policy(rule("main/data/", 3), confirm=False)
    world.policy(rule("main/logs/", 3), confirm=False)
    assert confirmed.is_confirmed(run, versions.newest(run))


def test_a_confirmation_under_another_digest_is_refused(world):
    policy = world.policy(rule("main/logs/", 3))
    run = world.run()
    run.store.put(
        lakegc_keys.confirmed_policy_key("0" * 64),
        run.store.read(lakegc_keys.confirmed_policy_key(policy.digest)),
    )
    other = replace(versions.newest(run), policy_digest="0" * 64)
    with pytest.raises(CorruptTableError, match=f"it confirms the policy {policy.digest[:12]}"):
        confirmed.is_confirmed(run, other)


def test_what_was_confirmed_for_an_earlier_repository_of_the_name_does_not_count(world):
    world.policy(rule("main/logs/", 3), confirm=False)
    run = world.run()
    version = versions.newest(run)
    earlier = replace(confirmed.confirm(run, version, "ann@host"), instance="another one")
    run.store.put(lakegc_keys.confirmed_policy_key(version.policy_digest), earlier.to_json())
    assert not confirmed.is_confirmed(run, version)
    assert confirmed.confirm(run, version, "bob@host").who == "bob@host"
    assert confirmed.is_confirmed(run, version)
