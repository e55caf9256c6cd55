"""The doctor on a real server: what is in order, what is wrong, and that asking changes nothing."""

from dataclasses import replace

import pytest

from spark_core.clocks import MAX_CLOCK_SKEW
from spark_core.doctor import Examination, examine
from spark_core.lakefs import LakeFSServer
from spark_core.lakefs.permissions import Permissions
from spark_core.run import RunOptions, Storage

CLOCK = "_lakefs/retention/gc/probe/clock"


@pytest.fixture
def look(server):
    """Examine a repository with the live settings, or others.

    What was found, by what was looked at.
    """

    def examined(name, *, store=None, **changes):
        options = server.environment(None).server._transport.options
        examination = Examination(
            name,
            lambda: replace(options, **changes),
            Storage(store or server.store_options(), server.server_path),
            RunOptions(may_sweep=True),
        )
        return {f"{probe.about}: {probe.name}": probe for probe in examine(examination)}

    return examined


def failed(probes):
    return [name for name, probe in probes.items() if probe.passed is False]


def test_of_a_repository_in_order_nothing_fails_and_nothing_is_changed(repository, look):
    address = repository.upload("main", "kept", b"kept")
    repository.commit("main")
    before = repository.store.keys()
    probes = look(repository.name)
    assert failed(probes) == []
    assert [name for name, probe in probes.items() if probe.passed is None] == [
        "repository: imports elsewhere"
    ]
    after = repository.store.keys()
    assert address in after
    assert {key: size for key, size in after.items() if key != CLOCK} == before


def test_what_is_wrong_is_found_where_it_is(make, look, server, tmp_path):
    inner = make()
    read_only = make(read_only=True)
    make(namespace=f"{inner.namespace}/inside")
    inner.rules(14, main=21, mian=3)
    # A rule for a branch that is not there is told, and fails nothing.
    assert failed(look(inner.name)) == ["repository: own namespace"]
    assert "repository: state" in failed(look(read_only.name))
    assert failed(look("lakegc-live-nobody")) == ["repository: description"]
    assert failed(look(inner.name, secret_access_key="not-the-secret-of-anybody")) == [
        "server: takes the keys"
    ]
    assert failed(look(inner.name, endpoint=f"{server.endpoint}/repositories")) == [
        "server: answers"
    ]
    if server.is_local:
        elsewhere = replace(server.store_options(), local_path=str(tmp_path))
        assert {"store: list", "store: read"} & set(failed(look(inner.name, store=elsewhere)))
        assert list(tmp_path.iterdir()) == []


def test_permissions_are_asked_for_without_making_the_server_work(repository, server):
    options = server.environment(None).server._transport.options
    permissions = Permissions(options)
    permissions.require_lakefs()
    before = repository.store.keys()
    for ask in (
        permissions.prepare_commits,
        permissions.prepare_uncommitted,
        permissions.dump_refs,
    ):
        assert ask(repository.name)
    assert repository.store.keys() == before
    assert LakeFSServer(options).repository(repository.name).id == repository.name
    assert not permissions.clock_reading.further_than(MAX_CLOCK_SKEW)
