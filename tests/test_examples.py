"""Every example in a docstring runs; the modules that have some are found by looking."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

from tests.support.example_names import a_marked_repository

ROOT = Path(__file__).parents[1]


def modules_with_examples() -> list[str]:
    """Name the modules of both packages that have an example somewhere."""
    return [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for package in ("spark_core", "lakegc_dagster")
        for path in sorted((ROOT / package).rglob("*.py"))
        if ">>> " in path.read_text(encoding="utf-8")
    ]


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    """What examples may name without making it."""
    with a_marked_repository(tmp_path_factory.mktemp("lake")) as names:
        yield names


@pytest.mark.parametrize("name", modules_with_examples())
def test_the_examples_of_a_module_show_what_it_does(name, named, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    outcome = doctest.testmod(import_module(name), extraglobs=named)
    assert outcome.attempted
    assert not outcome.failed
