"""The JSON Schema of a stored report: `python -m spark_core.report.schema` writes it to docs/."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

from spark_core.report import report

FILE = Path(__file__).parents[2] / "docs" / "report.schema.json"


def described(root: type, module: ModuleType) -> dict[str, Any]:
    """Return the schema of a dataclass, with the words of the docstrings.

    Args:
        root: The class.
        module: Where it is, and the classes of its values.
    """
    from pydantic import TypeAdapter

    found = TypeAdapter(root).json_schema(mode="serialization")
    for name, each in {root.__name__: found, **found["$defs"]}.items():
        documented = getattr(module, name)
        words = inspect.getdoc(documented) or ""
        each["description"] = words.partition("\n\n")[0]
        of = dict(re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", words, re.MULTILINE))
        for field, inner in each["properties"].items():
            inner["description"] = " ".join(of[field].split())
    return found


def titled(title: str, found: dict[str, Any]) -> dict[str, Any]:
    """Return a schema as a document of its own."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **{key: value for key, value in found.items() if key != "title"},
    }


def schema() -> dict[str, Any]:
    """Return the schema; types come from the classes of a report, and words from their docstrings.

    Keys that a later lakegc adds are allowed. Those that an earlier one did not write are not
    required.
    """
    found = described(report.Report, report)
    formats = {"const": report.Report.FORMAT, "description": "Format of the document."}
    found["properties"] = {"format": formats, **found["properties"]}
    found["required"] = ["format", *found["required"]]
    return titled("Report of a lakegc run", found)


def schema_text() -> str:
    """Return the schema as it is written."""
    return json.dumps(schema(), indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(schema_text(), encoding="utf-8")
