"""Compare the statements of both packages with the budget of pyproject.toml, which only falls.

    python .ci/count_statements.py [--lower]

A statement is a node of the syntax tree that is one, without docstrings and imports; a line of a
template counts as one. `--lower` writes the number of now into pyproject.toml, if it is smaller.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

PACKAGES = ("spark_core", "lakegc_dagster")
TEMPLATES = (".html", ".j2", ".jinja", ".css", ".js")
BUDGET = re.compile(r"^statements = (\d+)$", re.MULTILINE)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def statements_of(name: str, text: str) -> int:
    r"""Count the statements of one file.

    Examples:
        >>> statements_of("a.py", '"What it does."\nimport os\nif os.sep:\n    print(1)\n')
        2
        >>> statements_of("a.html", "<p>\n\n</p>\n")
        2
    """
    if not name.endswith(".py"):
        return sum(bool(line.strip()) for line in text.splitlines())
    documented = counted = 0
    for node in ast.walk(ast.parse(text)):
        imports = isinstance(node, ast.Import | ast.ImportFrom)
        counted += isinstance(node, ast.stmt) and not imports
        documented += isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None
    return counted - documented


def statements_below(folder: Path) -> int:
    """Count the statements of the tracked files of both packages in a checkout."""
    listed = subprocess.run(
        ["git", "ls-files", *PACKAGES], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    files = [folder / name for name in listed if name.endswith((".py", *TEMPLATES))]
    return sum(statements_of(at.name, at.read_text("utf8")) for at in files if at.is_file())


def main(words: list[str], folder: Path) -> int:
    """Print the difference, and return 1 above the budget.

    Args:
        words: `["--lower"]`, or none.
        folder: The checkout.
    """
    settings = folder / "pyproject.toml"
    text = settings.read_text("utf8")
    budget = int(BUDGET.findall(text)[0])
    count = statements_below(folder)
    print(f"statements: {count:,} of {budget:,} ({count - budget:+,})")
    if count > budget:
        print(
            f"{count - budget:,} too many. Take away as much elsewhere; or raise `statements` in "
            "pyproject.toml, and say why in the commit."
        )
        return 1
    if "--lower" in words and count < budget:
        settings.write_text(BUDGET.sub(f"statements = {count}", text), "utf8")
        print(f"pyproject.toml says {count:,} now.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path(__file__).resolve().parents[1]))
