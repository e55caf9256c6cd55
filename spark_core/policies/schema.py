"""The JSON Schema of a policy document, in its first form and its second."""

from __future__ import annotations

import json
from typing import Any

from spark_core.policies.document import (
    ACTIONS,
    LONGEST_DAYS,
    MOST_RULES,
    REMOVAL_ACTIONS,
    REMOVE,
)

_PERIOD: dict[str, Any] = {
    "type": "object",
    "description": "How old: days and weeks together, at least one day.",
    "properties": {
        "days": {"type": "integer", "minimum": 0, "maximum": LONGEST_DAYS},
        "weeks": {"type": "integer", "minimum": 0, "maximum": LONGEST_DAYS // 7},
    },
    "anyOf": [
        {"required": ["days"], "properties": {"days": {"minimum": 1}}},
        {"required": ["weeks"], "properties": {"weeks": {"minimum": 1}}},
    ],
    "additionalProperties": False,
}

_RULE_PARTS: dict[str, Any] = {
    "filter": {
        "type": "object",
        "properties": {
            "prefix": {
                "type": "string",
                "description": "BRANCH/PATH: a whole branch name, and the beginning of a path.",
                "pattern": "^/?[A-Za-z0-9_][A-Za-z0-9_-]*/",
            }
        },
        "additionalProperties": False,
    },
    "status": {"enum": ["enabled", "disabled"]},
    "effect": {"enum": ["expire"]},
}

_FIRST: dict[str, Any] = {
    "properties": {
        **_RULE_PARTS,
        "expiration": {
            "type": "object",
            "properties": dict.fromkeys(ACTIONS, _PERIOD),
            "minProperties": 1,
            "additionalProperties": False,
        },
    },
    "required": ["expiration"],
    "additionalProperties": False,
}

# A rule that removes entries by a commit names its branch, and knows other actions.
_REMOVAL_PARTS: dict[str, Any] = {
    "filter": {**_RULE_PARTS["filter"], "required": ["prefix"]},
    "status": _RULE_PARTS["status"],
    "effect": {"const": REMOVE},
}

_REMOVAL: dict[str, Any] = {
    "properties": {
        **_REMOVAL_PARTS,
        "expiration": {
            "type": "object",
            "properties": dict.fromkeys(REMOVAL_ACTIONS, _PERIOD),
            "minProperties": 1,
            "additionalProperties": False,
        },
    },
    "required": ["filter", "effect", "expiration"],
    "additionalProperties": False,
}

_SECOND_REMOVAL: dict[str, Any] = {
    "properties": {**_REMOVAL_PARTS, "expiration": _PERIOD, "uncommitted_expiration": _PERIOD},
    "required": ["filter", "effect"],
    "anyOf": [{"required": ["expiration"]}, {"required": ["uncommitted_expiration"]}],
    "additionalProperties": False,
}

_SECOND: dict[str, Any] = {
    "properties": {**_RULE_PARTS, "expiration": _PERIOD, "noncurrent_expiration": _PERIOD},
    "anyOf": [{"required": ["expiration"]}, {"required": ["noncurrent_expiration"]}],
    "additionalProperties": False,
}

SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Object retention policy of a lakeFS repository",
    "type": "object",
    "properties": {
        "branch_order": {
            "type": "array",
            "description": "Branches whose main lines name what was committed on them, in order.",
            "items": {"type": "string", "pattern": "^[A-Za-z0-9_][A-Za-z0-9_-]*$"},
            "uniqueItems": True,
        },
        "rules": {
            "type": "array",
            "items": {"type": "object", "anyOf": [_FIRST, _SECOND, _REMOVAL, _SECOND_REMOVAL]},
            "minItems": 1,
            "maxItems": MOST_RULES,
        },
    },
    "required": ["rules"],
    "additionalProperties": False,
}


def schema_text() -> str:
    """Return the schema as the command prints it and docs/ holds it."""
    return json.dumps(SCHEMA, indent=2) + "\n"
