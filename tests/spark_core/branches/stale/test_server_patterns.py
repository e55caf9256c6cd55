"""Patterns of protection rules and hook files name what lakeFS's own libraries say they name."""

import pytest

from spark_core.branches.stale.server_patterns import hook_names, protects


@pytest.mark.parametrize(
    ("pattern", "named", "not_named"),
    [
        ("main", ["main"], ["main2", "xmain", "Main"]),
        ("*", ["main", "a-b_c"], []),
        ("**", ["main"], []),
        ("stable_*", ["stable_1", "stable_"], ["stable"]),
        ("v?", ["v1"], ["v", "v12"]),
        ("v[0-9]", ["v1"], ["va"]),
        ("v[!0-9]", ["va"], ["v1"]),
        ("v[abc]", ["vb"], ["vd"]),
        ("{main,release-*}", ["main", "release-1"], ["dev"]),
        ("{a,{b,c}}-x", ["a-x", "c-x"], ["d-x"]),
        ("a\\*", [], ["a", "ab"]),
        ("", [], ["main"]),
    ],
)
def test_protection_rules_are_globs(pattern, named, not_named):
    assert [protects(pattern, branch) for branch in named] == [True] * len(named)
    assert [protects(pattern, branch) for branch in not_named] == [False] * len(not_named)


@pytest.mark.parametrize(
    "pattern",
    [
        "[",
        "a]",
        "[]",
        "{a",
        "a}",
        "a\\",
        "[a.b]",
        "[z-a]",
        "[^a]",
        "[ab-d]",
        "[a-z0-9]",
        "[-a]",
        "[a-]",
    ],
)
def test_a_rule_of_an_unknown_form_is_in_doubt(pattern):
    assert protects(pattern, "main") is None


@pytest.mark.parametrize(
    ("pattern", "branch", "found"),
    [
        ("dev-*-dev", "dev-dev", None),
        ("ab*ba", "aba", None),
        ("{a**a}", "a", None),
        ("x{ab*b,c}*", "xab", None),
        ("1{?,ab}", "1", None),
        ("*_{[!a],*1}", "_", None),
        ("{v?,x}", "w", False),
        ("dev-*-dev", "dev-1-dev", True),
        ("ab*ba", "ab", False),
    ],
)
def test_what_the_servers_library_names_by_mistake_is_in_doubt(pattern, branch, found):
    assert protects(pattern, branch) is found


@pytest.mark.parametrize(
    ("pattern", "branch", "found"),
    [
        ("main", "main", True),
        ("feature-*", "feature-x", True),
        ("feature-*", "dev", False),
        ("v[^0-9]", "va", True),
        ("v[^0-9]", "v1", False),
        ("*", "main", False),
        ("**", "main", False),
        ("{main,dev}", "main", False),
        ("v[a-z0-9]", "v1", True),
        ("v[a-]", "va", None),
        ("[", "main", None),
        ("v[!0-9]", "va", None),
        ("", "main", False),
    ],
)
def test_patterns_of_hook_files_are_those_of_go(pattern, branch, found):
    assert hook_names(pattern, branch) is found
