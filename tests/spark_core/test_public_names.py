"""What the engine promises to users by name stays small enough to be explained."""

from __future__ import annotations

import ast
import re
from functools import cache
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST = 60


@cache
def public_names() -> list[tuple[str, str]]:
    """List what `__all__` of each module of the engine names."""
    found = []
    for path in sorted((ROOT / "spark_core").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                found += [(module, name) for name in ast.literal_eval(node.value)]
    return found


def test_the_public_names_are_few():
    assert len(public_names()) <= MOST


def test_each_public_name_is_there_and_has_an_example_that_runs():
    silent = [
        f"{module}.{name}"
        for module, name in public_names()
        if ">>> " not in (getattr(import_module(module), name).__doc__ or "")
    ]
    assert not silent


def test_the_page_of_names_shows_each_of_them():
    shown = re.findall(r"^::: (\S+)\.(\w+)$", (ROOT / "docs/api.md").read_text(), re.MULTILINE)
    found = {getattr(import_module(module), name) for module, name in shown}
    assert found == {getattr(import_module(module), name) for module, name in public_names()}
