"""Retention rules as the lakeFS documents have them: JSON with days by branch.

References:
    lakeFS documentation, "Garbage Collection", configuring rules.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_core.errors import SettingsError
from spark_core.json_and_toml import read_json
from spark_core.text_files import read_text

if TYPE_CHECKING:
    from spark_core.model import RetentionRules

_DEFAULT, _BRANCHES, _BRANCH, _DAYS = (
    "default_retention_days", "branches", "branch_id", "retention_days",
)  # fmt: skip
_EXAMPLE = (
    'Write it like {"default_retention_days": 14, "branches": [{"branch_id": "main", '
    '"retention_days": 21}]}. Nothing was changed.'
)


def document_of(rules: RetentionRules | None) -> dict[str, Any] | None:
    """Return the document of some rules; None if there are none."""
    if rules is None:
        return None
    return {
        _DEFAULT: rules.default_retention_days,
        _BRANCHES: [
            {_BRANCH: branch, _DAYS: days} for branch, days in sorted(rules.branches.items())
        ],
    }


def read_rules(path: Path, *, longest_days: int) -> RetentionRules:
    """Read rules from a file; a word that is not known is refused, since it may be a typing error.

    Args:
        path: The file.
        longest_days: Largest number of days.

    Raises:
        SettingsError: If it is not such a document.
    """
    from spark_core.model import RetentionRules

    text = read_text(path, str(path))
    try:
        document = read_json(text, each_once=True)
    except ValueError as problem:
        raise SettingsError(f"{path} is not JSON that can be used ({problem})", _EXAMPLE) from None
    if not isinstance(document, dict) or not {_DEFAULT} <= document.keys() <= {_DEFAULT, _BRANCHES}:
        raise SettingsError(f"{path} has other keys than {_DEFAULT} and {_BRANCHES}", _EXAMPLE)
    # The server writes null where there are rules of no branch.
    listed = [] if document.get(_BRANCHES) is None else document[_BRANCHES]
    if not isinstance(listed, list):
        raise SettingsError(f"{path}: {_BRANCHES} is no list", _EXAMPLE)
    days: dict[str, int] = {}
    for rule in listed:
        if not isinstance(rule, dict) or rule.keys() != {_BRANCH, _DAYS}:
            raise SettingsError(
                f"{path}: {rule!r} is not a rule with {_BRANCH} and {_DAYS}", _EXAMPLE
            )
        branch = rule[_BRANCH]
        if not isinstance(branch, str) or not branch or branch in days:
            raise SettingsError(
                f"{path}: branch {branch!r} is no name, or is named twice", _EXAMPLE
            )
        days[branch] = _number(path, rule[_DAYS], longest_days)
    return RetentionRules(_number(path, document[_DEFAULT], longest_days), days)


def _number(path: Path, days: object, longest_days: int) -> int:
    if type(days) is not int or not 0 <= days <= longest_days:
        raise SettingsError(
            f"{path}: {days!r} is no number of days (0 to {longest_days})", _EXAMPLE
        )
    return days
