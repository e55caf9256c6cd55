"""Both distributions: the engine's is the lower half of lakegc's, and both can be published."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENGINE = ROOT / "packaging" / "engine"


def _project(folder):
    return tomllib.loads((folder / "pyproject.toml").read_text())["project"]


def _names(requirements):
    return {re.match(r"[A-Za-z0-9-]+", each)[0] for each in requirements}


def test_the_engine_needs_nothing_that_lakegc_does_not_declare_and_nothing_of_the_platform():
    engine, lakegc = _project(ENGINE), _project(ROOT)
    assert _names(engine["dependencies"]) < _names(lakegc["dependencies"])
    absent = {"dagster", "dagster-pyspark", "pyspark", "starlette", "uvicorn"}
    assert not absent & _names(engine["dependencies"])
    open_ended = {each for each in engine["dependencies"] if "<" not in each}
    assert _names(open_ended) == {"numba", "numpy", "pyarrow"}
    # The oldest is what lakegc is tried with, and the newest is the platform's.
    oldest = {each.partition(",")[0] for each in lakegc["dependencies"]}
    assert open_ended <= oldest
    bounded = set(engine["dependencies"]) - open_ended
    assert bounded <= set(lakegc["dependencies"])


def test_both_have_the_program_and_that_of_the_engine_has_its_old_name_too():
    program = "spark_core.cli.main:main"
    assert _project(ROOT)["scripts"] == {"lakegc": program}
    assert _project(ENGINE)["scripts"] == {"lakegc": program, "lakegc-engine": program}


def test_extras_of_the_engine_are_those_of_lakegc_without_what_dagster_needs():
    engine, lakegc = (_project(each)["optional-dependencies"] for each in (ENGINE, ROOT))
    for extra in engine.keys() - {"spark"}:
        of_lakegc = [each for each in lakegc[extra] if not each.startswith("dagster")]
        assert engine[extra] == of_lakegc, extra
    assert engine["spark"] == [
        each for each in _project(ROOT)["dependencies"] if re.match("pandas|pyspark", each)
    ]


def test_both_say_the_same_of_what_they_share():
    engine, lakegc = _project(ENGINE), _project(ROOT)
    for field in ("license", "authors", "classifiers", "requires-python"):
        assert engine[field] == lakegc[field], field
    assert (ENGINE / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("package", ["lakegc_dagster", "spark_core"])
def test_both_packages_are_typed_and_no_message_names_a_file_of_the_repository(package):
    assert (ROOT / package / "py.typed").is_file()
    for path in sorted((ROOT / package).rglob("*.py")):
        tree = ast.parse(path.read_text())
        sentences = {
            id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)
        }  # docstrings
        named = [
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and id(node) not in sentences
            and isinstance(node.value, str)
            and re.search(r"\bdocs/[a-z-]+\.md", node.value)
        ]
        assert not named, path


def test_no_link_of_the_readme_is_relative_where_pypi_shows_it():
    hook = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["metadata"]
    shown = (ROOT / "README.md").read_text()
    for each in hook["hooks"]["fancy-pypi-readme"]["substitutions"]:
        shown = re.sub(each["pattern"], each["replacement"], shown)
    links = re.findall(r"\]\(([^)]+)\)", shown)
    assert links
    assert [link for link in links if not link.startswith("https://")] == []
    pages = re.findall(r"https://lakegc\.github\.io/lakegc/(\S+?)\.html", shown)
    assert [page for page in pages if not (ROOT / "docs" / f"{page}.md").is_file()] == []
