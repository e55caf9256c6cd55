"""A run to write tables into."""

import pytest

from tests.support.written_run import written_run


@pytest.fixture
def written(tmp_path, spark):
    return written_run(tmp_path, spark)
