"""After any history, all that the rules protect reads as it was written, and all else is gone from
the store.
"""

import os
from collections import Counter

import pytest

from tests.support.live_collection import collect, require_exactly_the_dead_gone
from tests.support.live_history import DEFAULT, RULES, LiveHistory

pytestmark = pytest.mark.spark

SEEDS = range(1, 1 + int(os.environ.get("LAKEGC_LIVE_SEEDS") or 8))
STEPS = 120

OBJECTS = {
    "upload",
    "upload_by_gateway",
    "upload_in_parts",
    "link",
    "write_unlinked",
    "identical",
    "copy",
    "remove",
}
REFS = {
    "commit",
    "branch",
    "drop_branch",
    "tag",
    "drop_tag",
    "merge",
    "revert",
    "cherry_pick",
    "reset",
    "hard_reset",
}

did = Counter()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_history_loses_nothing_alive_and_nothing_dead_stays(seed, repository, spark):
    history = LiveHistory(repository, seed)
    history.begin()
    history.play(STEPS)
    first = require_exactly_the_dead_gone(repository, spark, DEFAULT, RULES, **history.options)
    assert first.gone, (history.done, history.refused)
    if seed % 3 == 1:
        # Life goes on after a collection: what it left is a whole repository.
        history.play(STEPS // 4)
        require_exactly_the_dead_gone(
            repository, spark, DEFAULT, RULES, gone_before=first.gone, **history.options
        )
        assert collect(repository, spark, **history.options).outcomes == {}
    did.update(history.done)


def test_the_histories_did_everything(server):
    if len(SEEDS) < 4 or not did:
        pytest.skip("too few histories were played to have done everything: LAKEGC_LIVE_SEEDS=8")
    assert set(did) >= OBJECTS | REFS, (OBJECTS | REFS) - set(did)
