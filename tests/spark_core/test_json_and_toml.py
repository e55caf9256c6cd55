"""What is nested deeper than anybody writes is refused, not read until Python's stack ends."""

import pytest

from spark_core.json_and_toml import DEEPEST, read_json, read_toml

JSON = [("[", "1", "]"), ('{"a":', "1", "}"), ('[{"a":[', "[1]", "]}]")]


def depth(text):
    return max(text[:at].count("[") + text[:at].count("{") for at in range(len(text)))


@pytest.mark.parametrize(("begin", "inner", "end"), JSON)
def test_json_is_read_down_to_a_limit(begin, inner, end):
    times = DEEPEST // depth(begin + inner)
    assert read_json(begin * times + inner + end * times)


@pytest.mark.parametrize(("begin", "inner", "end"), JSON)
@pytest.mark.parametrize("times", [DEEPEST + 1, 5_000, 200_000])
def test_deeper_json_is_a_fault_of_the_text(begin, inner, end, times):
    with pytest.raises(ValueError, match="values are nested deeper than 100"):
        read_json(begin * times + inner + end * times)


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * (DEEPEST + 1) + "]" * (DEEPEST + 1),
        "a = " + "[" * 5_000 + "]" * 5_000,
        "a = " + "{a = " * 5_000 + "1" + "}" * 5_000,
        "[" + ".".join("a" * 1_000) + "]",
        ".".join("a" * 1_000) + " = 1",
    ],
)
def test_deeper_toml_is_a_fault_of_the_text(text):
    with pytest.raises(ValueError, match="values are nested deeper than 100"):
        read_toml(text)


def test_what_is_not_deep_is_read_as_ever():
    assert read_json(b'{"a": [1, {"b": null}], "c": "[[[["}') == {
        "a": [1, {"b": None}],
        "c": "[[[[",
    }
    assert read_toml("[a.b]\nc = [[1], []]") == {"a": {"b": {"c": [[1], []]}}}
    assert read_json("7") == 7


def test_a_name_that_is_twice_in_an_object_is_refused_where_each_must_be_there_once():
    text = '{"a": [{"gone": true, "gone": false}]}'
    assert read_json(text) == {"a": [{"gone": False}]}
    with pytest.raises(ValueError, match="it has the field `gone` twice"):
        read_json(text, each_once=True)
