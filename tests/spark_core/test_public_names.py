"""What the engine promises to users by name stays small enough to be explained."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST = 60


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


def test_each_public_name_is_there_and_says_what_it_is():
    silent = [
        f"{module}.{name}"
        for module, name in public_names()
        if not getattr(import_module(module), name).__doc__
    ]
    assert not silent
