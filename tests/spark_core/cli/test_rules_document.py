"""Rules as a file, in the form of the lakeFS documents."""

import json

import pytest

from spark_core.cli import rules_document
from spark_core.cli.rules import LONGEST_DAYS
from spark_core.errors import SettingsError
from spark_core.model import RetentionRules

# The example of the lakeFS documentation.
DOCUMENT = {
    "default_retention_days": 14,
    "branches": [
        {"branch_id": "dev", "retention_days": 7},
        {"branch_id": "main", "retention_days": 21},
    ],
}
RULES = RetentionRules(14, {"main": 21, "dev": 7})


def read(tmp_path, document):
    file = tmp_path / "rules.json"
    file.write_text(document if isinstance(document, str) else json.dumps(document))
    return rules_document.read_rules(file, longest_days=LONGEST_DAYS)


def test_what_is_written_is_the_documents_form_and_is_read_back(tmp_path):
    assert rules_document.document_of(RULES) == DOCUMENT
    assert read(tmp_path, DOCUMENT) == RULES
    assert rules_document.document_of(None) is None


def test_a_default_alone_is_whole(tmp_path):
    assert read(tmp_path, {"default_retention_days": 0}) == RetentionRules(0, {})


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ("{", "is not JSON"),
        ([], "has other keys than"),
        ({"branches": []}, "has other keys than"),
        ({**DOCUMENT, "branch": []}, "has other keys than"),
        ({"default_retention_days": "14"}, "'14' is no number of days"),
        ({"default_retention_days": True}, "True is no number of days"),
        ({"default_retention_days": -1}, "-1 is no number of days"),
        ({"default_retention_days": LONGEST_DAYS + 1}, "is no number of days"),
        ({"default_retention_days": 1, "branches": {"main": 2}}, "branches is no list"),
        ({"default_retention_days": 1, "branches": [{"branch_id": "main"}]}, "is not a rule with"),
        (
            {"default_retention_days": 1, "branches": [DOCUMENT["branches"][0]] * 2},
            "is named twice",
        ),
        (
            {"default_retention_days": 1, "branches": [{"branch_id": "", "retention_days": 1}]},
            "is no name",
        ),
    ],
)
def test_what_is_no_such_document_is_refused_and_changes_nothing(tmp_path, document, text):
    with pytest.raises(SettingsError, match="Nothing was changed") as raised:
        read(tmp_path, document)
    assert text in str(raised.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(SettingsError, match=r"none\.json cannot be read"):
        rules_document.read_rules(tmp_path / "none.json", longest_days=1)
