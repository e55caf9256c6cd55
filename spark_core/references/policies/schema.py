"""The JSON Schema of a policy document, in its first form and its second.

`python -m spark_core.references.policies.schema` writes it to docs/.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from spark_core.references.policies.document import ACTIONS, REMOVAL_ACTIONS, REMOVE
from spark_core.references.policies.lifecycle import DEFAULT_UNDO_DAYS, MOST_PATTERNS, MOST_POLICIES
from spark_core.references.policies.parsing import MOST_RULES
from spark_core.references.policies.rule_parsing import LONGEST_DAYS

FILE = Path(__file__).parents[3] / "docs" / "object-retention.schema.json"

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
    "properties": {
        **_RULE_PARTS,
        "expiration": _PERIOD,
        "noncurrent_expiration": _PERIOD,
        "uncommitted_expiration": _PERIOD,
    },
    "anyOf": [
        {"required": ["expiration"]},
        {"required": ["noncurrent_expiration"]},
        {"required": ["uncommitted_expiration"]},
    ],
    "additionalProperties": False,
}

_DAYS = {"type": "integer", "minimum": 1, "maximum": LONGEST_DAYS}
_PATTERNS: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "string",
        "pattern": r"^(?:[A-Za-z0-9_*?-]|\[!?(?:[A-Za-z0-9_](?:-[A-Za-z0-9_])?)+\])+$",
    },
    "maxItems": MOST_PATTERNS,
    "uniqueItems": True,
}

_LIFECYCLE: dict[str, Any] = {
    "type": "object",
    "description": "Which branches may go when nobody works on them any more.",
    "properties": {
        "policies": {
            "type": "array",
            "description": "The first one that names a branch counts for it.",
            "items": {
                "type": "object",
                "properties": {
                    "branches": {**_PATTERNS, "minItems": 1},
                    "max_age_days": _DAYS,
                    "max_inactivity_days": _DAYS,
                },
                "required": ["branches"],
                "anyOf": [{"required": ["max_age_days"]}, {"required": ["max_inactivity_days"]}],
                "additionalProperties": False,
            },
            "minItems": 1,
            "maxItems": MOST_POLICIES,
        },
        "keep": {**_PATTERNS, "description": "Patterns of branches that never go."},
        "delete_staged": {
            "type": "boolean",
            "description": "Whether a branch may go with what is staged on it.",
        },
        "undo_days": {
            **_DAYS,
            "description": f"How long it can be made again; {DEFAULT_UNDO_DAYS} if left out.",
        },
    },
    "required": ["policies"],
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
        "branch_lifecycle": _LIFECYCLE,
    },
    "anyOf": [{"required": ["rules"]}, {"required": ["branch_lifecycle"]}],
    "additionalProperties": False,
}


def schema_text() -> str:
    """Return the schema as docs/ holds it."""
    return json.dumps(SCHEMA, indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(schema_text(), encoding="utf-8")
