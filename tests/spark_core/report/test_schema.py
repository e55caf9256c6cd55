"""The JSON Schema of a report is that of the code, and every report keeps to it."""

import json
from dataclasses import replace

import pytest
from jsonschema import Draft202012Validator

from spark_core.report import schema
from tests.security.test_hostile_text import REPORT as WHOLE
from tests.support import stored_formats

DOCUMENTED = json.loads(schema.FILE.read_text(encoding="utf-8"))


def faults(report):
    return [fault.message for fault in Draft202012Validator(DOCUMENTED).iter_errors(report)]


def test_the_documented_schema_is_that_of_the_code():
    """After a change: `python -m spark_core.report.schema`."""
    Draft202012Validator.check_schema(DOCUMENTED)
    assert schema.FILE.read_text(encoding="utf-8") == schema.schema_text()


def test_every_key_of_the_schema_is_described():
    for each in (DOCUMENTED, *DOCUMENTED["$defs"].values()):
        assert all(inner["description"] for inner in each["properties"].values())


def test_a_report_with_everything_in_it_and_one_of_each_format_keep_to_the_schema():
    recorded = [
        json.loads(stored_formats.recorded("report", number).read_bytes())
        for number in stored_formats.KINDS["report"].formats
    ]
    mark = json.loads(replace(WHOLE, outcomes=None, passed=None, rules=None).to_json())
    for report in (json.loads(WHOLE.to_json()), mark, *recorded):
        assert faults(report) == []


@pytest.mark.parametrize("wrong", [{"format": 2}, {"largest": [{}]}, {"listed": {"objects": "1"}}])
def test_what_is_no_report_does_not_keep_to_it(wrong):
    assert faults({**json.loads(WHOLE.to_json()), **wrong})
