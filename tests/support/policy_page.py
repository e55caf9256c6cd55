"""The policies of docs/security.md, read from the page itself, so that what people copy is what was
tried.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "security.md"
_BLOCK = re.compile(r"<!-- policy: (\S+) -->\n```json\n(.*?)```", re.DOTALL)


def policy(name: str, **words: str) -> Any:
    """Read a policy of the page.

    Args:
        name: As its comment says.
        words: What stands on the page, underscores for dashes, and what to put there instead.

    Raises:
        AssertionError: If one of the words is not in it.
    """
    found = dict(_BLOCK.findall(PAGE.read_text()))
    text = found[name]
    for word, instead in words.items():
        shown = word.replace("_", "-")
        assert shown in text, f"policy {name} of {PAGE.name} does not speak of {shown}"
        text = text.replace(shown, instead)
    return json.loads(text)


def names() -> list[str]:
    """Name the policies of the page."""
    return [name for name, _ in _BLOCK.findall(PAGE.read_text())]
