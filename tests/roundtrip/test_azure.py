"""A recorded repository, marked and swept in an Azure container."""

import pytest

from spark_core.records import tables
from tests.support import azurite
from tests.support.moved_repository import collected_exactly

pytestmark = [
    pytest.mark.spark,
    # The same with the least permissions is in tests/security.
    pytest.mark.deep,
    pytest.mark.skipif(azurite.why_not() is not None, reason=str(azurite.why_not())),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with azurite.azurite(tmp_path_factory.mktemp("azurite")) as running:
        yield running


def test_a_recorded_repository_is_marked_and_swept_exactly_in_azure(server, tmp_path, spark):
    container, path = server.container(), "lake/ns/"
    run = collected_exactly(
        azurite.uri(container, path),
        server.options(),
        tmp_path,
        spark,
        put=lambda key, data: container.upload_blob(f"{path}{key}", data),
        names=lambda: {name.removeprefix(path) for name in container.list_blob_names()},
    )
    # The server's scan does not know every spelling of an account's address.
    assert run.load(tables.UNCOMMITTED_ADDRESSES).manifest.facts["from_diffs"] > 0
