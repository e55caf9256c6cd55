"""The enum of fates: which of them let an object go."""

from __future__ import annotations

from spark_core.fates import Fate


def test_only_two_fates_let_an_object_go() -> None:
    assert [fate for fate in Fate if fate.may_go] == [Fate.TAKEN_BY_POLICY, Fate.UNREFERENCED]
