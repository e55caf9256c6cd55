"""The other half of the deep run's histories with retention policies, for another worker."""

import pytest

from tests.search.test_policy_histories import PARTS, search_deeply

pytestmark = pytest.mark.spark


@pytest.mark.deep
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("part", range(PARTS // 2, PARTS))
def test_more_random_histories_lose_nothing_that_no_rule_names(
    shared_sandbox, spark, record_property, part
):
    search_deeply(shared_sandbox, spark, record_property)
