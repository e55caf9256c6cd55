"""The budget of statements: what counts, what fails, and what lowers it."""

import importlib.util
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "count_statements.py"


@pytest.fixture(scope="module")
def counting():
    spec = importlib.util.spec_from_file_location("count_statements", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(tmp_path):
    """A checkout with seven statements in its packages, and others elsewhere."""
    files = {
        "spark_core/a.py": '"""A."""\nimport os\n\nclass A:\n    """A."""\n\n    size = 1\n\n'
        "def f():\n    'F.'\n    return os.sep; pass\n",
        "lakegc_dagster/page.html": "<p>\n\n</p>\n",
        "tests/test_a.py": "a = 1\nb = 2\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    for words in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    (tmp_path / "spark_core" / "not_tracked.py").write_text("a = 1\n")
    return tmp_path


def _with_budget(checkout, number):
    (checkout / "pyproject.toml").write_text(f"[tool.lakegc]\nstatements = {number}\nother = 1\n")


def test_docstrings_and_imports_do_not_count_and_lines_of_templates_do(counting, checkout):
    assert counting.statements_below(checkout) == 7


@pytest.mark.parametrize("budget", [8, 7, 6])
def test_the_count_fails_only_above_the_budget(counting, checkout, capsys, budget):
    _with_budget(checkout, budget)
    assert counting.main([], checkout) == (budget < 7)
    assert f"7 of {budget} ({7 - budget:+})" in capsys.readouterr().out
    assert f"statements = {budget}\n" in (checkout / "pyproject.toml").read_text()


@pytest.mark.parametrize(("budget", "then"), [(9, 7), (6, 6)])
def test_lowering_writes_the_smaller_number_and_never_a_larger_one(
    counting, checkout, budget, then
):
    _with_budget(checkout, budget)
    counting.main(["--lower"], checkout)
    text = (checkout / "pyproject.toml").read_text()
    assert text == f"[tool.lakegc]\nstatements = {then}\nother = 1\n"
