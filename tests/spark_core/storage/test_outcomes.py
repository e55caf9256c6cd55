"""What a deletion says of a key is enough to know whether its object is gone."""

from __future__ import annotations

from typing import get_args

from spark_core.storage.outcomes import GONE, DeleteOutcome, Outcome


def test_what_was_deleted_or_was_not_there_is_gone_and_nothing_else() -> None:
    gone = {each for each in get_args(Outcome) if DeleteOutcome("data/a", each).is_gone}
    assert gone == set(GONE) == {"deleted", "already_gone"}
