"""The server that the live tests run against.

Without one they are skipped, and one line says how to run them.
"""

import contextlib

import pytest

from tests.support.live_repository import LiveRepository
from tests.support.live_server import LiveServer, why_skipped


def pytest_runtest_setup(item):
    if "enforcing" in item.fixturenames:
        return  # these start a server of their own, from an executable
    # Skipped from here, all tests have one place and one reason, and so one line in pytest's
    # summary.
    missing = why_skipped()
    if missing:
        pytest.skip(missing)


@pytest.fixture(scope="session")
def server():
    """The server that the environment names."""
    return LiveServer.from_environment()


@pytest.fixture
def make(server):
    """Make throw-away repositories; they are taken away after the test."""
    with contextlib.ExitStack() as stack:

        def made(**creation):
            repository = LiveRepository(server, **creation)
            stack.callback(repository.remove)
            return repository

        yield made


@pytest.fixture
def repository(make):
    """A throw-away repository."""
    return make()
