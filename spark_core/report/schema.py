"""The JSON Schema of a stored report: `python -m spark_core.report.schema` writes it to docs/."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

from spark_core.report import values

FILE = Path(__file__).parents[2] / "docs" / "report.schema.json"


def schema() -> dict[str, Any]:
    """Return the schema; types come from the classes of a report, and words from their docstrings.

    Keys that a later lakegc adds are allowed. Those that an earlier one did not write are not
    required.
    """
    from pydantic import TypeAdapter

    found = TypeAdapter(values.Report).json_schema(mode="serialization")
    for name, each in {"Report": found, **found["$defs"]}.items():
        documented = getattr(values, name)
        words = inspect.getdoc(documented) or ""
        each["description"] = words.partition("\n\n")[0]
        of = dict(re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", words, re.MULTILINE))
        for field, inner in each["properties"].items():
            inner["description"] = " ".join(of[field].split())
    formats = {"const": values.Report.FORMAT, "description": "Format of the document."}
    found["properties"] = {"format": formats, **found["properties"]}
    found["required"] = ["format", *found["required"]]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Report of a lakegc run",
        **{key: value for key, value in found.items() if key != "title"},
    }


def written() -> str:
    """Return the schema as it is written."""
    return json.dumps(schema(), indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(written(), encoding="utf-8")
