"""What hook files say of branches, and that a file nobody can read may name any."""

import pytest

from spark_core.branches.stale import hooks

FILE = b"""\
name: check
# Ann looks after the branch nightly.
on:
  pre-merge:
    branches:
      - main
      - rel-*
      - "*"
  pre-create-tag:
hooks:
  - id: look
    type: lua
    properties:
      script: |
        if action.branch_id == "staging-2" then error("--copy=archive") end
"""


def names(data, branch):
    return hooks.parse("_lakefs_actions/a.yml", "main", data).names(branch)


@pytest.mark.parametrize("branch", ["main", "nightly", "staging-2", "copy", "archive"])
def test_a_name_anywhere_in_the_file_is_named(branch):
    where = "the hook file _lakefs_actions/a.yml on branch main"
    assert names(FILE, branch) == f"{where} has its name in it"


def test_a_pattern_of_an_event_names_branches_and_a_star_alone_does_not():
    assert names(FILE, "rel-7") == (
        "the hook file _lakefs_actions/a.yml on branch main names it (rel-*)"
    )
    assert names(FILE, "dev") is None


@pytest.mark.parametrize("branch", ["nigh", "staging", "night", "2"])
def test_a_part_of_a_word_is_no_name(branch):
    assert names(FILE, branch) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "data",
    [
        b"on: [",
        b"",
        b"- a",
        b"name: x",
        b"on: {pre-merge: {branches: main}}",
        b"on: {pre-merge: {branches: [[main]]}}",
        b"\xff\xfe",
        b"[" * 5_000,
        None,
    ],
)
def test_a_file_that_cannot_be_read_may_name_any_branch(data):
    assert "cannot be read as YAML, and may name it" in names(data, "dev")


def test_a_pattern_of_an_unknown_form_may_name_any_branch():
    data = b"on: {pre-merge: {branches: ['[']}}"
    assert "has the pattern '[', which may name it" in names(data, "dev")


def test_an_event_without_branches_names_none():
    assert names(b"on: {pre-merge: , post-merge: {}}", "dev") is None


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_a_list_that_is_repeated_for_each_event_may_name_any_branch():
    repeated = "".join(f"  e{number}: {{branches: *all}}\n" for number in range(4_000))
    data = f"on:\n  e: {{branches: &all [{'a*,' * 4_000}]}}\n{repeated}"
    assert "cannot be read as YAML" in names(data.encode(), "dev")


def test_a_list_that_two_events_share_is_read():
    data = b"on:\n  pre-merge: {branches: &all [rel-*]}\n  pre-commit: {branches: *all}\n"
    assert "names it (rel-*)" in names(data, "rel-7")
    assert names(data, "dev") is None
