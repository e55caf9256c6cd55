"""Every text that people write is read alike, whatever editor wrote it."""

import codecs
import json

import pytest

from spark_core.cli import rules_document
from spark_core.errors import SettingsError
from spark_core.lakefs.credentials_file import read_credentials_file
from spark_core.lakefs.tokens import TokenInFile
from spark_core.model import RetentionRules
from spark_core.references.policies import parsing
from spark_core.settings import load_settings

RULES = '{"default_retention_days": 7,\n "branches": []}'
POLICY = '{"rules": [{"filter": {"prefix": "main/tmp/"}, "expiration": {"days": 3}}]}'
LAKECTL = "credentials:\n  access_key_id: AKIA\n  secret_access_key: hush\n"
ENDPOINT = "http://127.0.0.1:8000"
SETTINGS = f'[server]\nendpoint = "{ENDPOINT}"\n'


def settings(path):
    return load_settings(path, env={}).server.endpoint


def rules(path):
    return rules_document.read_rules(path, longest_days=100)


def policy(path):
    return parsing.parse(path.read_bytes(), name=str(path)).to_json()


def lakectl(path):
    return read_credentials_file(path, ENDPOINT, {})


def token(path):
    return TokenInFile(str(path)).read(None).text


KEYS = {"access_key_id": "AKIA", "secret_access_key": "hush"}
READ = {
    "settings": (settings, SETTINGS, ENDPOINT),
    "rules": (rules, RULES, RetentionRules(7, {})),
    "policy": (policy, POLICY, parsing.parse(POLICY.encode(), name="it").to_json()),
    "a policy in YAML": (
        policy,
        "rules:\n- {filter: {prefix: main/tmp/}, expiration: {days: 3}}\n",
        parsing.parse(POLICY.encode(), name="it").to_json(),
    ),
    "lakectl's file": (lakectl, LAKECTL, KEYS),
    "another file of keys": (lakectl, 'access_key_id = "AKIA"\nsecret_access_key = "hush"\n', KEYS),
    "token": (token, "abc.def.ghi\n", "abc.def.ghi"),
}


@pytest.mark.parametrize("door", READ)
@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8], ids=["plain", "with a mark"])
def test_a_mark_of_byte_order_before_it_changes_nothing(tmp_path, door, mark):
    read, text, wanted = READ[door]
    (tmp_path / "file").write_bytes(mark + text.encode())
    assert read(tmp_path / "file") == wanted


@pytest.mark.parametrize("door", READ)
def test_utf_16_is_named_with_file_line_and_remedy(tmp_path, door):
    read, text, _ = READ[door]
    (tmp_path / "file").write_bytes(text.encode("utf-16"))
    with pytest.raises(SettingsError) as raised:
        read(tmp_path / "file")
    said = str(raised.value)
    assert f"{tmp_path / 'file'} cannot be read: from line 1 on it is not UTF-8" in said
    assert "such as UTF-16. Save it as UTF-8." in said
    assert "codec" not in said


def test_the_line_of_the_first_other_letter_is_named(tmp_path):
    (tmp_path / "file").write_bytes(f"{SETTINGS}# gr\xfc\xdfe\n".encode("latin-1"))
    with pytest.raises(SettingsError, match="from line 3 on it is not UTF-8"):
        settings(tmp_path / "file")


TWICE = {
    "rules": (rules, '{"default_retention_days": 14, "default_retention_days": 1}'),
    "a rule": (
        rules,
        RULES.replace("[]", '[{"branch_id": "a", "retention_days": 9, "retention_days": 1}]'),
    ),
    "lakectl's file": (lakectl, f"{LAKECTL}  secret_access_key: other\n"),
    "lakectl's file, nested and dotted": (lakectl, f"{LAKECTL}credentials.access_key_id: other\n"),
    "lakectl's file, in two cases": (lakectl, f"{LAKECTL}  Access_Key_ID: other\n"),
    "keys in JSON": (
        lakectl,
        '{"access_key_id": "A", "secret_access_key": "b", "secret_access_key": "c"}',
    ),
    "policy": (policy, POLICY.replace('"days"', '"days": 90, "days"')),
    "a policy in YAML": (
        policy,
        "rules:\n- {filter: {prefix: main/}, expiration: {days: 90, days: 3}}\n",
    ),
}


@pytest.mark.parametrize("door", TWICE)
def test_a_name_that_is_there_twice_is_refused_by_name(tmp_path, door):
    read, text = TWICE[door]
    (tmp_path / "file").write_text(text)
    with pytest.raises(SettingsError, match="twice") as raised:
        read(tmp_path / "file")
    named = ("retention_days", "access_key", "expiration.days")
    assert any(name in str(raised.value) for name in named)
    assert "other" not in str(raised.value)


def test_71_the_last_of_two_retentions_in_one_document_was_taken_and_was_the_shorter(tmp_path):
    read, text = TWICE["rules"]
    (tmp_path / "rules.json").write_text(text)
    with pytest.raises(SettingsError, match="it has the field `default_retention_days` twice"):
        read(tmp_path / "rules.json")


def test_71_the_last_of_two_ages_in_one_variable_was_taken_and_was_the_shorter(tmp_path):
    twice = '{"min_age_hours": 72, "min_age_hours": 24}'
    (tmp_path / "file").write_text(SETTINGS)
    with pytest.raises(SettingsError) as raised:
        load_settings(tmp_path / "file", env={"LAKEGC__DEFAULTS": twice})
    assert str(raised.value) == (
        "LAKEGC__DEFAULTS: it has the field `min_age_hours` twice. Say it once."
    )


def test_two_variables_of_one_setting_are_both_named(tmp_path):
    (tmp_path / "file").write_text(SETTINGS)
    env = {"LAKEGC__DEFAULTS__MIN_AGE_HOURS": "72", "LAKEGC__defaults__min_age_hours": "24"}
    with pytest.raises(SettingsError) as raised:
        load_settings(tmp_path / "file", env=env)
    assert str(raised.value) == (
        "LAKEGC__DEFAULTS__MIN_AGE_HOURS and LAKEGC__defaults__min_age_hours name one setting. "
        "Unset one of them."
    )


def test_a_template_with_a_name_twice_is_refused_by_name(tmp_path):
    template = {"webhook_template": '{"text": $title, "text": $words}'}
    (tmp_path / "file").write_text(SETTINGS)
    with pytest.raises(SettingsError, match="it has the field `text` twice"):
        load_settings(tmp_path / "file", env={"LAKEGC__NOTIFY": json.dumps(template)})


def test_rules_of_no_branch_are_read_as_the_server_writes_them(tmp_path):
    (tmp_path / "rules.json").write_text('{"default_retention_days": 7, "branches": null}')
    assert rules(tmp_path / "rules.json") == RetentionRules(7, {})
