"""The section `branch_lifecycle` of a policy: what it says, and what is refused with its place."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_core.references.policies import lifecycle
from spark_core.references.policies.document import Policy
from spark_core.references.policies.faults import PolicyError
from spark_core.references.policies.lifecycle import Lifecycle, LifecyclePolicy
from spark_core.references.policies.parsing import of_content, parse
from spark_core.references.policies.schema import SCHEMA
from tests.support.examples import examples

EXAMPLE = """{"branch_lifecycle": {
  "policies": [
    {"branches": ["users-*", "tmp-?"], "max_inactivity_days": 30},
    {"branches": ["*"], "max_age_days": 365, "max_inactivity_days": 90}],
  "keep": ["release-[0-9]*"],
  "delete_staged": true,
  "undo_days": 14}}"""

patterns = st.lists(
    st.from_regex(r"(?:[A-Za-z0-9_*?-]|\[!?[a-z]-?[z]\])+", fullmatch=True), unique=True, max_size=4
).map(tuple)
some_days = st.none() | st.integers(1, 36_500)
sections = st.builds(
    Lifecycle,
    st.lists(
        st.builds(
            LifecyclePolicy, patterns.filter(bool), some_days, max_inactivity_days=some_days
        ).filter(lambda each: each.max_age_days or each.max_inactivity_days),
        min_size=1,
        max_size=3,
    ).map(tuple),
    patterns,
    delete_staged=st.booleans(),
    undo_days=st.integers(1, 36_500),
)


def read(text):
    return parse(text.encode(), name="retention.json")


def faults(**changes):
    """What is wrong with the example, changed at these keys; None takes one away."""
    section = {**json.loads(EXAMPLE)["branch_lifecycle"], **changes}
    section = {key: value for key, value in section.items() if value is not None}
    with pytest.raises(PolicyError) as refused:
        read(json.dumps({"branch_lifecycle": section}))
    return [str(fault) for fault in refused.value.faults]


def test_the_section_is_read_as_it_is_written():
    assert read(EXAMPLE) == Policy(
        (),
        (),
        Lifecycle(
            (
                LifecyclePolicy(("users-*", "tmp-?"), None, 30),
                LifecyclePolicy(("*",), 365, 90),
            ),
            ("release-[0-9]*",),
            delete_staged=True,
            undo_days=14,
        ),
    )


def test_the_example_of_the_docs_is_read():
    page = Path(__file__).parents[4] / "docs" / "object-retention-branches.md"
    shown = re.search(r"```json\n(.*?)```", page.read_text(), re.DOTALL)[1]
    section = read(shown).branch_lifecycle
    assert section.policy_of("users-ann")[2].max_inactivity_days == 30
    assert (section.keep, section.undo_days) == (("release-[0-9]*",), 30)


def test_what_is_left_out_keeps_what_is_staged_and_gives_thirty_days():
    text = '{"branch_lifecycle": {"policies": [{"branches": ["x"], "max_age_days": 1}]}}'
    found = read(text).branch_lifecycle
    assert (found.keep, found.delete_staged, found.undo_days) == ((), False, 30)


def test_the_first_policy_that_names_a_branch_counts():
    section = read(EXAMPLE).branch_lifecycle
    assert section.policy_of("users-ann")[:2] == (1, "users-*")
    assert section.policy_of("tmp-1")[:2] == (1, "tmp-?")
    assert section.policy_of("tmp-12")[:2] == (2, "*")
    assert Lifecycle(section.policies[:1]).policy_of("main") is None


@pytest.mark.parametrize(
    ("pattern", "names", "does_not_name"),
    [
        ("dev", ["dev"], ["dev2", "Dev", "xdev"]),
        ("dev-*", ["dev-", "dev-a-b"], ["dev"]),
        ("dev?", ["dev1"], ["dev", "dev12"]),
        ("v[0-9]", ["v1"], ["va", "v12"]),
        ("v[!0-9]", ["va"], ["v1"]),
        ("v[abx-z]", ["va", "vy"], ["vc"]),
    ],
)
def test_patterns_name_whole_branches_by_case(pattern, names, does_not_name):
    assert [lifecycle.first_match([pattern], name) for name in names] == [pattern] * len(names)
    assert not any(lifecycle.first_match([pattern], name) for name in does_not_name)


@settings(max_examples=examples(12, 100))
@given(sections)
def test_a_shown_section_is_read_back_as_it_was(section):
    policy = Policy((), (), section)
    assert read(policy.to_json()) == policy
    assert read("---\n" + yaml.safe_dump(policy.content())) == policy
    assert of_content(policy.content(), name="x").digest == policy.digest
    jsonschema.validate(policy.content(), SCHEMA)


def test_a_document_without_the_section_has_the_digest_that_it_had_before_there_was_one():
    rules = '{"rules": [{"expiration": {"days": 3}}]}'
    assert read(rules).digest == "713b1272478a7fa8e49d5b0c4d83f5648c7872d8e829a2e8e15b4309049b1e5a"
    both = json.loads(rules) | json.loads(EXAMPLE)
    assert read(json.dumps(both)).digest != read(rules).digest
    assert read(json.dumps(both)).rules == read(rules).rules


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"policies": None}, "branch_lifecycle.policies: missing"),
        ({"policies": []}, "0 policies, wanted 1 to 100"),
        ({"policies": {}}, "a mapping, wanted a list of policies"),
        ({"policies": [3]}, "policies[0]: 3, wanted a mapping"),
        ({"policies": [{"max_age_days": 1}]}, "policies[0].branches: missing"),
        ({"policies": [{"branches": ["x"]}]}, "policies[0]: has no days"),
        ({"policies": [{"branches": [], "max_age_days": 1}]}, "0 patterns, wanted 1 to 100"),
        ({"policies": [{"branches": "x", "max_age_days": 1}]}, "wanted a list of patterns"),
        (
            {"policies": [{"branches": ["x"], "max_age_days": 0}]},
            "policies[0].max_age_days: 0, wanted whole days from 1 to 36,500",
        ),
        (
            {"policies": [{"branches": ["x"], "max_inactivity_days": True}]},
            "policies[0].max_inactivity_days: true, wanted whole days",
        ),
        (
            {"policies": [{"branches": ["x"], "max_inactivity_days": 36_501}]},
            "36501, wanted whole days",
        ),
        (
            {"policies": [{"branches": ["x"], "max_age_days": None}]},
            "policies[0].max_age_days: null, wanted whole days",
        ),
        (
            {"policies": [{"branches": ["x"], "max_age_days": 1, "days": 2}]},
            "policies[0].days: unknown; known are branches, max_age_days, max_inactivity_days",
        ),
        ({"keep": ["a", "a"]}, "keep[1]: a is named twice"),
        ({"keep": ["feature/x"]}, "keep[0]: 'feature/x', wanted a pattern of branch names"),
        ({"keep": [""]}, "keep[0]: '', wanted a pattern"),
        ({"keep": ["{a,b}"]}, "keep[0]: '{a,b}', wanted a pattern"),
        ({"keep": ["[z-a]"]}, "keep[0]: '[z-a]' has the range z-a, which is empty"),
        ({"keep": ["[]"]}, "keep[0]: '[]', wanted a pattern"),
        ({"keep": [1]}, "keep[0]: 1, wanted a pattern"),
        ({"delete_staged": "yes"}, "delete_staged: 'yes', wanted true or false"),
        ({"undo_days": 0}, "undo_days: 0, wanted whole days"),
        ({"undo": 3}, "branch_lifecycle.undo: unknown"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(changes, problem):
    found = faults(**changes)
    assert any(problem in fault for fault in found), found
    assert all(fault.startswith("line 1, column ") for fault in found)


def test_all_faults_of_the_section_and_of_the_rules_are_shown_together():
    text = """{
 "branch_lifecycle": {"policies": [{"branches": ["x/y"]}]},
 "rules": [{"expiration": {"days": 0}}]}"""
    with pytest.raises(PolicyError) as refused:
        read(text)
    assert [str(fault).partition(":")[0] for fault in refused.value.faults] == [
        "line 2, column 36, branch_lifecycle.policies[0]",
        "line 2, column 50, branch_lifecycle.policies[0].branches[0]",
        "line 3, column 27, rules[0].expiration",
    ]


def test_a_section_that_is_no_mapping_is_refused():
    with pytest.raises(PolicyError, match="branch_lifecycle: a list, wanted a mapping"):
        read('{"branch_lifecycle": []}')


@pytest.mark.parametrize(
    "section",
    [
        {"policies": []},
        {"policies": [{"branches": ["x"]}]},
        {"policies": [{"branches": [], "max_age_days": 1}]},
        {"policies": [{"branches": ["a/b"], "max_age_days": 1}]},
        {"policies": [{"branches": ["a"], "max_age_days": 1}], "undo_days": 0},
    ],
)
def test_the_schema_refuses_what_the_reader_refuses(section):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"branch_lifecycle": section}, SCHEMA)


def test_the_schema_wants_rules_or_the_section():
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({}, SCHEMA)
    with pytest.raises(PolicyError, match="rules: missing"):
        read("{}")
