"""What the pages about platforms tell people to type is what the engine and the settings take."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import spark_core
from lakegc_dagster.pipes import payloads
from spark_core.settings import Settings, load_settings
from tests.support.command_line import parsed

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "platforms").glob("*.md"))
PLATFORMS = [page for page in PAGES if page.name != "index.md"]
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
# What stands before the engine's words on a command line.
STARTS = r"(?:(?<![^\n`])lakegc|run_engine\.py|lakegc_job\.py .*? --) "


def blocks(text: str, *kinds: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [body for kind, body in found if kind in kinds]


def engine_words(text: str) -> Iterator[list[str]]:
    """Yield what the engine is given by command lines, scripts, and the job of Databricks."""
    for block in blocks(text, "sh"):
        lines = block.replace("\\\n", " ")
        yield from map(shlex.split, re.findall(rf"^[^#\n]*?{STARTS}(.*)$", lines, re.MULTILINE))
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    yield from map(shlex.split, re.findall(rf"`{STARTS}([^`]+)`", prose))
    for block in blocks(text, "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "main":
                given = ast.unparse(node.args[0])
                if given != "sys.argv[1:]":
                    yield ast.literal_eval(given)
    for block in blocks(text, "json"):
        for task in json.loads(block)["tasks"]:
            yield task["spark_python_task"]["parameters"]


@pytest.mark.parametrize("page", PLATFORMS, ids=lambda page: page.stem)
def test_each_platform_says_how_to_mark_and_what_was_run(page):
    text = page.read_text()
    assert "mark" in {words[0] for words in engine_words(text)}
    titles = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert titles[-3:] == ["Mark", "Known not to work", "What was run"]


def test_the_page_for_all_names_every_other_one():
    named = re.findall(r"\]\((\w+\.md)\)", (PLATFORMS[0].parent / "index.md").read_text())
    assert set(named) == {page.name for page in PLATFORMS}


@each_page
def test_the_engine_takes_what_a_page_gives_it(page):
    for words in engine_words(page.read_text()):
        parsed(words)


@each_page
def test_scripts_can_be_read_and_import_what_is_there(page):
    for block in blocks(page.read_text(), "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module.startswith(
                ("spark_core", "lakegc_dagster")
            ):
                for name in node.names:
                    getattr(importlib.import_module(node.module), name.name)


@each_page
def test_settings_of_a_page_are_accepted(page):
    text = page.read_text()
    for block in blocks(text, "toml"):
        settings = Settings.model_validate(tomllib.loads(block))
        assert settings.repository("my-repo").mode == "mark"
    for table, key in re.findall(r"`\[(\w+)\](?: (\w+))?", text):
        assert table in Settings.model_fields
        assert not key or key in Settings.model_fields[table].annotation.model_fields


@each_page
def test_variables_of_a_page_are_read(page):
    text = page.read_text()
    for name in set(re.findall(r"\bLAKEGC_[A-Z_]+\b", text)):
        table, _, key = name.removeprefix("LAKEGC_").lstrip("_").lower().partition("__")
        if not name.startswith("LAKEGC__"):
            assert name in {"LAKEGC_ACCESS_KEY_ID", "LAKEGC_SECRET_ACCESS_KEY"}
        elif key:
            assert key in Settings.model_fields[table].annotation.model_fields, name
        else:
            assert table in Settings.model_fields, name
    for block in blocks(text, "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.AugAssign) and ast.unparse(node.target) == "os.environ":
                settings = load_settings(env=ast.literal_eval(node.value))
                assert settings.repository_ids == ("my-repo",)


@each_page
def test_wheels_and_extras_of_a_page_are_built(page):
    text = page.read_text()
    for version in re.findall(r"lakegc[-_]engine(?:-|(?:\[.+?\])?==)(\d[\d.]+\d)", text):
        assert version == spark_core.__version__
    for project, folder in (("lakegc", "."), ("lakegc[-_]engine", "packaging/engine")):
        declared = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())
        wheel = rf"-{re.escape(spark_core.__version__)}\S*?"
        names = re.findall(rf"\b{project}(?:{wheel})?\[(.+?)\]", text)
        for extra in {each for name in names for each in name.split(",")}:
            assert extra in declared["project"]["optional-dependencies"]


def test_the_pages_name_every_payload_and_no_other():
    named = {
        name
        for page in PLATFORMS
        for name in re.findall(r"`(\w+_(?:flow|run|task))\b", page.read_text())
    }
    assert named == {
        name
        for name, value in inspect.getmembers(payloads, inspect.isfunction)
        if value.__module__ == payloads.__name__
    }


@pytest.mark.parametrize("page", PLATFORMS, ids=lambda page: page.stem)
def test_the_versions_that_were_run_are_those_of_the_runs(page):
    runs = (ROOT / ".ci" / "test_spark.py").read_text()
    sparks = ast.literal_eval(re.search(r"^SPARKS = (.+)$", runs, re.MULTILINE)[1])
    said = page.read_text().partition("## What was run")[2]
    versions = set(re.findall(r"\b\d\.\d\.\d\b", said))
    assert versions
    assert versions <= set(sparks.values())
