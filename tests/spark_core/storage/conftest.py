"""One S3 server for all tests of the stores."""

from __future__ import annotations

import pytest

from tests.support import azurite, fault_proxy, moto_s3

pytest.register_assert_rewrite("tests.support.store_conformance", "tests.support.move_conformance")


@pytest.fixture(scope="session")
def s3_server():
    with moto_s3.moto_s3() as server:
        yield server


@pytest.fixture(scope="session")
def s3_proxy(s3_server):
    with fault_proxy.fault_proxy(s3_server.endpoint) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def azurite_server(tmp_path_factory):
    with azurite.azurite(tmp_path_factory.mktemp("azurite")) as server:
        yield server
