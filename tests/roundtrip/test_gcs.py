"""A recorded repository, moved to Google Cloud Storage, marked and swept on an emulator."""

import pytest

from tests.support.gcs_emulator import gcs_emulator, why_not
from tests.support.moved_repository import collected_exactly

# The same with the least permissions is in tests/security.
pytestmark = [
    pytest.mark.spark,
    pytest.mark.deep,
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]


@pytest.fixture(scope="module")
def gcs():
    with gcs_emulator() as server:
        yield server


def test_a_recorded_repository_on_gcs_is_marked_and_swept_exactly(gcs, tmp_path, spark):
    bucket, path = gcs.bucket(), "lake/ns/"
    collected_exactly(
        f"gs://{bucket.name}/lake/ns",
        gcs.options(),
        tmp_path,
        spark,
        put=lambda key, data: bucket.blob(f"{path}{key}").upload_from_string(data),
        names=lambda: {blob.name.removeprefix(path) for blob in bucket.list_blobs()},
    )
