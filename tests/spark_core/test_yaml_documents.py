"""YAML is read to a depth that people write, and no name of it is lost."""

import time

import pytest
import yaml

from spark_core.branches.stale import hooks
from spark_core.errors import SettingsError
from spark_core.json_and_toml import DEEPEST, NamedTwiceError
from spark_core.lakefs.credentials_file import read_credentials_file
from spark_core.references.policies import parsing
from spark_core.yaml_documents import read_yaml


@pytest.fixture
def fetched(monkeypatch):
    """Each word that PyYAML looks for, which it does again for all that is open."""
    calls = []
    fetch = yaml.scanner.Scanner.fetch_more_tokens

    def counted(scanner):
        calls.append(time.monotonic())
        return fetch(scanner)

    monkeypatch.setattr(yaml.scanner.Scanner, "fetch_more_tokens", counted)
    return calls


def policy(_path, text):
    with pytest.raises(SettingsError, match="values are nested deeper than"):
        parsing.parse(text.encode(), name="it")


def lakectl(path, text):
    (path / "file").write_text(text)
    with pytest.raises(SettingsError, match="it is no YAML"):
        read_credentials_file(path / "file", "http://127.0.0.1", {})


def hook(_path, text):
    assert not hooks.parse("_lakefs_actions/a.yaml", "main", text.encode()).is_readable


@pytest.mark.parametrize("read", [policy, lakectl, hook])
@pytest.mark.parametrize("text", ["[", "[{", "[\n", "- ", "[{a: "], ids=ascii)
def test_brackets_without_end_are_refused_at_the_first_that_is_too_deep(
    read, text, tmp_path, fetched
):
    read(tmp_path, text * 4_000)
    # A word may be a name until a thousand letters have followed it; so far PyYAML reads ahead.
    assert len(fetched) < 1_500


def test_yaml_is_read_down_to_a_limit():
    assert read_yaml("[" * DEEPEST + "]" * DEEPEST)
    with pytest.raises(yaml.YAMLError, match=r"nested deeper than 100"):
        read_yaml("[" * (DEEPEST + 2) + "]" * (DEEPEST + 2))


@pytest.mark.parametrize("as_words", [False, True])
@pytest.mark.parametrize("text", ["a: 1\nb: 2\na: 3", '{"a": 1, a: 2}', "x: [{a: 1, a: 2}]"])
def test_a_name_that_is_twice_in_a_mapping_is_refused(text, as_words):
    with pytest.raises(NamedTwiceError, match="it has the field `a` twice"):
        read_yaml(text, as_words=as_words)


def test_what_is_not_deep_is_read_as_ever():
    assert read_yaml("on: {x: &a {b: 1}, y: {<<: *a, c: no}}") == {
        True: {"x": {"b": 1}, "y": {"b": 1, "c": False}}
    }
    assert read_yaml("on: [1, no]", as_words=True) == {"on": ["1", "no"]}


def test_a_hook_file_with_a_name_twice_may_name_any_branch():
    text = b"on: {pre-merge: {branches: [main]}}\non: {pre-merge: {branches: [dev]}}\n"
    found = hooks.parse("_lakefs_actions/a.yaml", "main", text)
    assert "cannot be read" in found.names("whatever")
