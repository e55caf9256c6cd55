"""One S3 server for all tests of the stores."""

from __future__ import annotations

import pytest

from tests.support import moto_s3

pytest.register_assert_rewrite("tests.support.store_conformance")


@pytest.fixture(scope="session")
def s3_server():
    with moto_s3.moto_s3() as server:
        yield server
