"""Which modules name Spark's frames: two, which carry out all work; none is for sources of data."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import spark_core

ENGINE = Path(spark_core.__file__).parent
WORKERS = {"spark/exchange.py", "spark/tasks.py"}
# What makes, changes or keeps a frame, or looks behind it.
FRAMES = {
    "DataFrame",
    "createDataFrame",
    "mapInArrow",
    "mapInPandas",
    "selectExpr",
    "unionByName",
    "repartition",
    "localCheckpoint",
    "persist",
    "_jvm",
    "_jsparkSession",
}
# Beside those who work: the session says where it runs, and the package is shipped to executors.
CONTEXT = {"spark/cluster.py", "spark/session.py"}


def names_in(source: str) -> set[str]:
    """Return every name, attribute and imported module of a source."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module or "", *(each.name for each in node.names)}
        elif isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
    return found


@pytest.fixture(scope="module")
def named() -> dict[str, set[str]]:
    return {
        path.relative_to(ENGINE).as_posix(): names_in(path.read_text())
        for path in ENGINE.rglob("*.py")
    }


def test_only_tasks_and_exchanges_name_frames(named: dict[str, set[str]]) -> None:
    assert {path for path, names in named.items() if names & FRAMES} == WORKERS


def test_the_context_is_asked_by_the_session_and_by_who_ships_the_package(
    named: dict[str, set[str]],
) -> None:
    asking = {path for path, names in named.items() if "sparkContext" in names}
    assert asking == {*CONTEXT, "spark/tasks.py"}


def test_nobody_uses_functions_of_sql(named: dict[str, set[str]]) -> None:
    assert not [path for path, names in named.items() if "pyspark.sql.functions" in names]


@pytest.mark.parametrize(
    "source",
    ["frame.mapInArrow(f, s)", "from pyspark.sql import DataFrame", "x = spark.createDataFrame(t)"],
)
def test_a_frame_is_seen_in(source: str) -> None:
    assert names_in(source) & FRAMES
