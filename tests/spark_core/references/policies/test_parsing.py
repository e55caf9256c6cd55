"""The policy document: both forms, JSON and YAML, and every fault with its place."""

import json
import re
from datetime import timedelta
from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_core.references.policies.document import Period, Policy, Rule
from spark_core.references.policies.faults import PolicyError
from spark_core.references.policies.parsing import MOST_RULES, parse
from spark_core.references.policies.schema import FILE, SCHEMA, schema_text
from tests.support.examples import examples

# The example of the old document, with its second rule without a status.
EXAMPLE = """{"rules": [
  {"filter": {"prefix": "master/logs/"}, "status": "enabled",
   "expiration": {"all": {"weeks": 2, "days": 1}, "noncurrent": {"days": 7}}},
  {"filter": {"prefix": "users/"}, "expiration": {"all": {"days": 3}}}]}
"""

names = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,9}", fullmatch=True)
paths = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
periods = st.one_of(
    st.builds(Period, days=st.integers(1, 36_500)),
    st.builds(Period, weeks=st.integers(1, 5_000)),
    st.builds(Period, days=st.integers(0, 1_000), weeks=st.integers(1, 5_000)),
)


@st.composite
def rules(draw):
    branch = draw(st.none() | names)
    return Rule(
        branch,
        "" if branch is None else draw(paths),
        draw(st.dictionaries(st.sampled_from(["all", "noncurrent"]), periods, min_size=1)),
        draw(st.booleans()),
        draw(st.sampled_from([None, "expire"])),
    )


policies = st.builds(
    Policy,
    st.lists(rules(), min_size=1, max_size=5).map(tuple),
    st.lists(names, max_size=3, unique=True).map(tuple),
)


def read(text):
    return parse(text if isinstance(text, bytes) else text.encode(), name="retention.json")


def faults(text):
    with pytest.raises(PolicyError) as refused:
        read(text)
    return [str(fault) for fault in refused.value.faults]


def one_rule(**parts):
    return json.dumps({"rules": [{"expiration": {"all": {"days": 1}}, **parts}]})


def test_the_example_of_the_old_document_is_read():
    first, second = read(EXAMPLE).rules
    assert (first.branch, first.path, first.is_enabled) == ("master", "logs/", True)
    assert {action: p.length for action, p in first.periods.items()} == {
        "all": timedelta(days=15),
        "noncurrent": timedelta(days=7),
    }
    assert (second.branch, second.path, second.is_enabled) == ("users", "", True)
    assert first.words(1, "noncurrent") == "policy rule 1: noncurrent, 7 days, on master/logs/"


def test_the_page_has_the_example_of_these_tests():
    page = (Path(__file__).parents[4] / "docs" / "object-retention.md").read_text()
    shown = re.search(r"```json\n(.*?)```", page, re.DOTALL)[1]
    assert read(shown) == read(EXAMPLE)


def test_a_yaml_file_says_the_same_as_the_json_file():
    text = """
rules:
  - filter: {prefix: master/logs/}
    status: enabled
    expiration:
      all: {weeks: 2, days: 1}
      noncurrent: {days: 7}
  - filter:
      prefix: users/
    expiration: {all: {days: 3}}
"""
    assert read(text) == read(EXAMPLE)


def test_the_second_form_is_shown_in_the_first():
    second = """{"rules": [{"filter": {"prefix": "master/logs/"},
      "expiration": {"days": 15}, "noncurrent_expiration": {"weeks": 1}}]}"""
    assert read(second).content() == {
        "rules": [
            {
                "filter": {"prefix": "master/logs/"},
                "status": "enabled",
                "expiration": {"all": {"days": 15}, "noncurrent": {"weeks": 1}},
            }
        ]
    }


def test_an_action_alone_is_read_in_the_second_form():
    found = read('{"rules": [{"noncurrent_expiration": {"days": 7}}]}').rules[0]
    assert (found.branch, dict(found.periods)) == (None, {"noncurrent": Period(days=7)})


@settings(max_examples=examples(20, 100))
@given(policies)
def test_a_shown_document_is_read_back_as_it_was(policy):
    assert read(policy.to_json()) == policy
    assert read(json.dumps(policy.content())) == policy
    assert read(policy.to_json()).digest == policy.digest


@settings(max_examples=examples(20, 100))
@given(policies)
def test_a_document_written_as_yaml_is_read_back_as_it_was(policy):
    for flow in (True, False):
        written = yaml.safe_dump(policy.content(), allow_unicode=False, default_flow_style=flow)
        # A text that begins with a brace is JSON.
        assert read(written if not flow else f"---\n{written}") == policy


@settings(max_examples=examples(10, 20))
@given(policies)
def test_every_document_fits_the_schema(policy):
    jsonschema.validate(policy.content(), SCHEMA)


def test_the_schema_fits_the_second_form_and_refuses_a_period_of_no_day():
    jsonschema.validate({"rules": [{"expiration": {"days": 3}}]}, SCHEMA)
    for wrong in (
        {"rules": [{"expiration": {"all": {"days": 0}}}]},
        {"rules": [{"expiration": {"all": {"weeks": 0, "days": 0}}}]},
        {"rules": [{"expiration": {}}]},
        {"rules": [{"filter": {"prefix": "master"}, "expiration": {"days": 1}}]},
        {"rules": []},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, SCHEMA)


def test_the_schema_in_the_docs_is_the_schema():
    assert FILE.read_text() == schema_text()


@settings(max_examples=examples(20, 100))
@given(policies, st.integers(0, 36_500))
def test_another_period_gives_another_digest(policy, days):
    first = policy.rules[0]
    changed = Rule(first.branch, first.path, {"all": Period(days=days + 1, weeks=7_777)})
    assert Policy((changed, *policy.rules[1:]), policy.branch_order).digest != policy.digest


@pytest.mark.parametrize(
    ("prefix", "branch", "path"),
    [
        ("master/logs/", "master", "logs/"),
        ("master/logs", "master", "logs"),
        ("/master/logs", "master", "logs"),
        ("master/", "master", ""),
        ("/master/", "master", ""),
        ("master//logs", "master", "/logs"),
        ("master/a b/ü", "master", "a b/ü"),
    ],
)
def test_the_part_before_the_first_slash_is_the_branch(prefix, branch, path):
    found = read(one_rule(filter={"prefix": prefix})).rules[0]
    assert (found.branch, found.path) == (branch, path)


@pytest.mark.parametrize(
    ("prefix", "problem"),
    [
        ("master", "no slash behind the branch"),
        ("/master", "no slash behind the branch"),
        ("/", "no slash behind the branch"),
        ("", "leave the filter out"),
        ("//logs", "cannot be the name of a branch"),
        ("master*/logs", "cannot be the name of a branch"),
        ("my branch/", "cannot be the name of a branch"),
        (" master/", "cannot be the name of a branch"),
        ("master/\0", "no path holds such characters"),
        ("master/\ud800", "no path holds such characters"),
        (7, "wanted BRANCH/PATH"),
        (None, "wanted BRANCH/PATH"),
    ],
)
def test_a_prefix_that_could_mean_more_than_it_says_is_refused(prefix, problem):
    (fault,) = faults(one_rule(filter={"prefix": prefix}))
    assert problem in fault
    assert "rules[0].filter.prefix" in fault


@pytest.mark.parametrize("filter_", [{}, None])
def test_a_rule_without_a_prefix_matches_everything(filter_):
    parts = {} if filter_ is None else {"filter": filter_}
    assert read(one_rule(**parts)).rules[0].branch is None


def test_a_filter_of_null_is_no_filter_that_was_left_out():
    assert faults(one_rule(filter=None)) == [
        "line 1, column 59, rules[0].filter: null, wanted a mapping"
    ]


@pytest.mark.parametrize(
    ("period", "problem"),
    [
        ({}, "has no period"),
        ({"days": 0}, "is 0 days, wanted 1 to 36,500"),
        ({"days": 0, "weeks": 0}, "is 0 days"),
        ({"days": -1}, "-1, wanted a whole number"),
        ({"days": 1.5}, "1.5, wanted a whole number"),
        ({"days": 1.0}, "1.0, wanted a whole number"),
        ({"days": True}, "true, wanted a whole number"),
        ({"days": "3"}, "'3', wanted a whole number"),
        ({"days": None}, "null, wanted a whole number"),
        ({"days": 36_501}, "is 36,501 days"),
        ({"days": 4_294_967_301}, "is 4,294,967,301 days"),
        ({"days": 10**40}, "wanted a whole number"),
        ({"hours": 3}, "unknown; known are days, weeks"),
        (3, "3, wanted a mapping"),
    ],
)
def test_a_period_is_whole_days_from_one_to_a_century(period, problem):
    (fault,) = faults(one_rule(expiration={"all": period}))
    assert problem in fault
    assert "rules[0].expiration.all" in fault


def test_periods_at_their_ends_are_read():
    for days in (1, 36_500):
        found = read(one_rule(expiration={"all": {"days": days}})).rules[0]
        assert found.periods["all"].length == timedelta(days=days)
    assert read(one_rule(expiration={"all": {"weeks": 1, "days": 0}})).rules[0].periods[
        "all"
    ].length == timedelta(days=7)


def test_several_faults_are_shown_together_each_with_its_place():
    assert faults(
        """{
  "rules": [
    {"filter": {"prefix": "master"}, "expiration": {"all": {"days": 0}}},
    {"status": "on", "expiration": {}, "note": 1},
    {"filter": {"prefixes": "x/"}}
  ],
  "version": 2
}"""
    ) == [
        (
            "line 3, column 27, rules[0].filter.prefix: 'master' has no slash behind the branch, "
            "and could mean every branch that begins so; write `master/` for the whole branch"
        ),
        "line 3, column 60, rules[0].expiration.all: is 0 days, wanted 1 to 36,500",
        "line 4, column 16, rules[1].status: 'on', wanted enabled or disabled",
        (
            "line 4, column 36, rules[1].expiration: empty; wanted at least one of all, "
            "noncurrent, uncommitted"
        ),
        (
            "line 4, column 40, rules[1].note: unknown; known are filter, status, effect, "
            "expiration, noncurrent_expiration, uncommitted_expiration"
        ),
        "line 5, column 5, rules[2].expiration: missing",
        "line 5, column 17, rules[2].filter.prefixes: unknown; known are prefix",
        "line 7, column 3, version: unknown; known are rules, branch_order, branch_lifecycle",
    ]


def test_a_fault_in_yaml_has_its_place_too():
    text = "rules:\n- filter:\n    prefix: master\n  expiration:\n    all:\n      days: 0x10\n"
    first, second = faults(text)
    assert first.startswith("line 3, column 13, rules[0].filter.prefix:")
    assert second == (
        "line 6, column 13, rules[0].expiration.all.days: 0x10, wanted a whole number of at least 0"
    )


def test_the_message_names_the_file_and_all_faults():
    with pytest.raises(PolicyError, match=r"^x\.yml is not a retention policy, it has 2 errors: "):
        parse(b"rules:\n- expiration: {all: {days: 0}}\n- expiration: 3\n", name="x.yml")


@pytest.mark.parametrize(
    "parts",
    [
        {"expiration": {"uncommitted": {"weeks": 1}}},
        {"uncommitted_expiration": {"weeks": 1}},
    ],
)
def test_a_rule_by_which_staged_objects_expire_is_read_in_both_forms(parts):
    document = json.dumps({"rules": [parts]})
    jsonschema.validate(json.loads(document), SCHEMA)
    policy = read(document)
    (found,) = policy.rules
    assert (found.removes, dict(found.periods)) == (False, {"uncommitted": Period(weeks=1)})
    assert found.words(1, "uncommitted").startswith("policy rule 1: uncommitted, 7 days, ")
    jsonschema.validate(policy.content(), SCHEMA)
    assert read(policy.to_json()) == policy


def test_an_unknown_effect_is_refused_by_name():
    found = faults(one_rule(effect="delete"))
    assert any("wanted expire or remove" in fault for fault in found)


@pytest.mark.parametrize(
    ("parts", "named"),
    [
        ({"expiration": {"all": {"days": 1}}}, "rules[0].filter: has no prefix, and a rule that"),
        (
            {"filter": {"prefix": "main/"}, "expiration": {"noncurrent": {"days": 1}}},
            "rules[0].expiration.noncurrent: has no meaning for a rule that removes",
        ),
        (
            {"filter": {"prefix": "main/"}, "noncurrent_expiration": {"days": 1}},
            "rules[0].noncurrent_expiration: has no meaning for a rule that removes",
        ),
        (
            {"filter": {"prefix": "main/"}, "expiration": {}},
            "empty; wanted at least one of all, uncommitted",
        ),
        (
            {"filter": {"prefix": "main/"}, "expiration": {"uncommitted": {"days": 0}}},
            "expiration.uncommitted: is 0 days",
        ),
    ],
)
def test_a_rule_that_removes_names_its_branch_and_knows_other_actions(parts, named):
    found = faults(json.dumps({"rules": [{"effect": "remove", **parts}]}))
    assert any(named in fault for fault in found), found


@pytest.mark.parametrize(
    "parts",
    [
        {"expiration": {"all": {"days": 3}, "uncommitted": {"weeks": 1}}},
        {"expiration": {"days": 3}, "uncommitted_expiration": {"weeks": 1}},
    ],
)
def test_a_rule_that_removes_is_read_in_both_forms(parts):
    document = {"rules": [{"filter": {"prefix": "main/x/"}, "effect": "remove", **parts}]}
    jsonschema.validate(document, SCHEMA)
    policy = read(json.dumps(document))
    (found,) = policy.rules
    assert found.removes
    assert dict(found.periods) == {"all": Period(days=3), "uncommitted": Period(weeks=1)}
    jsonschema.validate(policy.content(), SCHEMA)
    assert read(policy.to_json()) == policy


@pytest.mark.parametrize(
    "expiration",
    [
        {"all": {"days": 1}, "days": 3},
        {"noncurrent": {"days": 1}, "weeks": 3},
    ],
)
def test_a_mixture_of_the_two_forms_is_refused(expiration):
    assert any("mixes the two forms" in f for f in faults(one_rule(expiration=expiration)))


def test_both_forms_of_one_action_beside_each_other_are_refused():
    mixed = one_rule(expiration={"all": {"days": 1}}, noncurrent_expiration={"days": 1})
    assert any("mixes the two forms" in fault for fault in faults(mixed))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "there is nothing in it"),
        ("{", "a key in double quotes was expected"),
        ('{"rules": [,]}', "a value was expected"),
        ('{"rules": []} x', "something follows"),
        ('{"rules": [01]}', "no value of JSON"),
        ('{"rules": [NaN2]}', "no value of JSON"),
        ('{"rules" []}', "`:` was expected"),
        ('{"rules": ["a', "Unterminated string"),
        ("rules: [", "expected"),
        ("rules: *x", "found undefined alias"),
        ("rules: &x [1]", "anchors, aliases and tags"),
        ("rules: !!python/name:os.system []", "anchors, aliases and tags"),
        ("a: 1\n---\nb: 2", "another document"),
        ("{" * 5000, "a key in double quotes"),
        ('{"a":' * 5000, "nested deeper"),
        ("[" * 200 + "]" * 200, "nested deeper"),
        ("- a\n", "wanted a mapping"),
        ("rules: {}", "wanted a list of rules"),
        ('{"rules": []}', "0 rules, wanted 1 to 1,000"),
        ("branch_order: [x]", "rules: missing"),
        (b" " * 1_000_001, "at most 1,000,000 are read"),
    ],
)
def test_a_text_that_is_no_document_is_refused_with_its_place(text, problem):
    assert any(problem in fault for fault in faults(text)), faults(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"rules": [{"expiration": {"days": 1}}], "rules": [{"expiration": {"days": 2}}]}',
        "rules: [{expiration: {days: 1, days: 2}}]",
    ],
)
def test_a_key_that_is_given_twice_is_refused(text):
    assert any("it is given twice" in fault for fault in faults(text))


def test_more_rules_than_a_document_may_have_are_refused():
    rule = {"expiration": {"days": 1}}
    assert len(read(json.dumps({"rules": [rule] * MOST_RULES})).rules) == MOST_RULES
    assert "1,001 rules" in faults(json.dumps({"rules": [rule] * (MOST_RULES + 1)}))[0]


def test_a_document_that_would_be_too_long_to_read_back_is_refused():
    # Shown in the first form, each of these rules is longer than it was written.
    one = f'{{"noncurrent_expiration":{{"days":1}},"filter":{{"prefix":"main/{"x" * 920}"}}}}'
    text = f'{{"rules":[{",".join([one] * 1000)}]}}'
    assert len(text) < 1_000_000
    assert "bytes as it is stored" in faults(text)[0]


@pytest.mark.parametrize(
    ("order", "problem"),
    [
        ("main", "wanted a list of branches"),
        (["main", "main"], "main is named twice"),
        (["release-*"], "wanted the name of a branch"),
        ([3], "wanted the name of a branch"),
    ],
)
def test_the_branch_order_is_a_list_of_different_branches(order, problem):
    text = json.dumps({"rules": [{"expiration": {"days": 1}}], "branch_order": order})
    assert problem in faults(text)[0]


@given(st.text(max_size=60))
def test_any_text_is_a_policy_or_is_refused(text):
    try:
        read(text.encode("utf-8", "surrogatepass"))
    except PolicyError:
        return
