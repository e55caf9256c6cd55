"""A pattern matches what the regular expression of the same meaning does, and never hangs."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_core.globs import Syntax, matches

ALL = Syntax(has_choices=True)
# Each piece of a pattern, and the regular expression that means the same.
PIECES = st.sampled_from(
    [
        ("a", "a"),
        ("b", "b"),
        ("-", "-"),
        ("*", ".*"),
        ("**", ".*"),
        ("?", "."),
        ("[ab]", "[ab]"),
        ("[a-c]", "[a-c]"),
        ("[!a]", "[^a]"),
        ("[!b-c0-9]", "[^b-c0-9]"),
        ("\\*", "[*]"),
        ("\\b", "b"),
    ]
)


def joined(pieces):
    return tuple("".join(side) for side in zip(("", ""), *pieces, strict=True))


def choices(inner):
    return st.lists(st.lists(inner, max_size=3).map(joined), min_size=1, max_size=3).map(
        lambda found: (
            "{" + ",".join(pattern for pattern, _ in found) + "}",
            "(?:" + "|".join(regex for _, regex in found) + ")",
        )
    )


PATTERNS = st.lists(st.recursive(PIECES, choices, max_leaves=6), max_size=6).map(joined)
NAMES = st.text("abc-*,0", max_size=7)


@pytest.mark.slow
@given(PATTERNS, NAMES)
def test_a_pattern_means_what_the_regular_expression_means(pattern, name):
    written, regex = pattern
    assert matches(written, name, ALL) is (re.fullmatch(regex, name) is not None)


@given(st.text("ab*?[]{},-!^\\01", max_size=9), NAMES)
def test_whatever_is_written_is_read_or_in_doubt(pattern, name):
    assert matches(pattern, name, ALL) in (True, False, None)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "pattern",
    [
        "*a" * 9,
        "*a" * 50_000,
        "?*" * 1_000 + "a",
        "{*a,*b}" * 9 + "c",
        "{a,aa}" * 60,
        "{" * 50_000 + "*a" + "}" * 50_000,
    ],
)
def test_a_pattern_that_can_be_tried_in_many_ways_is_answered_at_once(pattern):
    assert matches(pattern, "a" * 119 + "b", ALL) is False


@pytest.mark.timeout(20)
def test_a_set_without_an_end_is_in_doubt_at_once():
    assert matches("[" + "a-" * 100_000, "a", ALL) is None
