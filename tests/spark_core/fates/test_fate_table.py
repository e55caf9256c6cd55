"""Every case of the one decision, against a table in words that knows nothing of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import pytest

from spark_core.addresses.candidates import STANDINGS
from spark_core.fates import Fate
from spark_core.fates.deciding import CODES, FATES, MAY_GO, OF_STANDING, Known, fate

# What name and age say of an object, and the fate that this is if nothing refers to the object.
BY_NAME_AND_AGE = {
    "candidate": "expired",
    "protected": "unsafe_name",
    "young": "young",
    "upload": "uploading",
    "stranger": "stranger",
    "inherited": "inherited",
}

# What else is known, with the fate that it is; the first that holds, with those by name and age.
LADDER = (
    ("is_due", "taken_by_policy"),
    ("is_committed", "committed"),
    ("is_staged", "staged"),
    ("is_held", "held"),
    ("unsafe_name", "unsafe_name"),
    ("young", "young"),
    ("uploading", "uploading"),
    ("stranger", "stranger"),
    ("inherited", "inherited"),
    ("is_left", "left_to_others"),
    ("is_unnamed", "not_named"),
    ("is_read", "read_by_branch"),
    ("may_hide", "may_hide"),
    ("expired", "expired"),
)
NO_POLICY_TAKES = {
    *("is_held", "is_read", "may_hide"),
    *("unsafe_name", "young", "uploading", "stranger", "inherited"),
}
FLAGS = tuple(name for name, _ in LADDER if name.startswith(("is_", "may_")))

Case = Mapping[str, Any]
CASES: tuple[Case, ...] = tuple(
    dict(zip(("alone", *FLAGS), values, strict=True))
    for values in product(BY_NAME_AND_AGE.values(), *[(False, True)] * len(FLAGS))
)


def in_words(case: Case) -> str:
    """Climb down the ladder."""
    holds = {"expired", case["alone"], *(name for name in FLAGS if case[name])}
    if holds & NO_POLICY_TAKES:
        holds.discard("is_due")
    return next(word for name, word in LADDER if name in holds)


def known(cases: tuple[Case, ...], **fixed: bool) -> Known:
    """Return what is known, as arrays, but for what is the same for all of them."""
    alone = np.array([CODES[Fate(case["alone"])] for case in cases], np.int8)
    arrays = {name: np.array([case[name] for case in cases]) for name in FLAGS}
    return Known(alone, **{**arrays, **fixed})


def decided(what: Known) -> list[str]:
    return [FATES[code].value for code in fate(what)]


def test_the_ladder_is_the_enum_in_its_order() -> None:
    assert [word for _, word in LADDER] == [fate.value for fate in Fate]


def test_all_that_is_known_is_in_the_table() -> None:
    assert set(FLAGS) | {"alone"} == set(Known.__dataclass_fields__)
    assert len(CASES) == 6 * 2**8


def test_every_case_has_the_fate_of_the_table() -> None:
    wrong = [
        (case, word)
        for case, word in zip(CASES, decided(known(CASES)), strict=True)
        if word != in_words(case)
    ]
    assert wrong == []


@pytest.mark.parametrize("says", [False, True])
@pytest.mark.parametrize("name", FLAGS)
def test_one_value_for_all_says_the_same_as_an_array(name: str, *, says: bool) -> None:
    some = tuple(case for case in CASES if case[name] is says)
    assert decided(known(some, **{name: says})) == [in_words(case) for case in some]


def test_what_is_not_said_does_not_hold() -> None:
    alone = np.array([CODES[Fate(word)] for word in BY_NAME_AND_AGE.values()], np.int8)
    assert decided(Known(alone)) == list(BY_NAME_AND_AGE.values())
    assert fate(Known(alone)).dtype == np.int8
    assert decided(Known(alone[:0])) == []


def test_each_standing_by_name_and_age_is_a_fate() -> None:
    assert [FATES[code].value for code in OF_STANDING] == [BY_NAME_AND_AGE[of] for of in STANDINGS]


def test_nothing_goes_that_name_or_age_or_people_or_branches_keep() -> None:
    going = [case for case, code in zip(CASES, fate(known(CASES)), strict=True) if code in MAY_GO]
    assert {case["alone"] for case in going} == {"expired"}
    for name in ("is_held", "is_read", "may_hide"):
        assert not any(case[name] for case in going)


def test_but_for_what_is_due_nothing_goes_that_anything_speaks_for() -> None:
    going = [case for case, code in zip(CASES, fate(known(CASES)), strict=True) if code in MAY_GO]
    (free,) = (case for case in going if not case["is_due"])
    assert not any(free[name] for name in FLAGS)
