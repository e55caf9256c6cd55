"""The table of losses is complete, its guards exist, and docs/safety.md has a row for each."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.losses.mutate import ROOT, Mutation, mutations, without
from tests.model.run import MODEL, guards

# Rows of the table of losses in docs/safety.md, and those of them that cannot happen any more.
LOSSES = {*range(1, 41), *range(42, 72)}
IMPOSSIBLE = {46, 47, 52}
# Where the protocol is: the order of readings, the lease, looks, requests, the journal.
PROTOCOL = (
    "spark_core/clocks.py", "spark_core/lakefs/staged_entries.py", "spark_core/lock/",
    "spark_core/run/chain.py", "spark_core/run/cutoff.py", "spark_core/storage/deletion.py",
    "spark_core/sweep/",
)  # fmt: skip
# Losses whose guards lie there and concern what the model leaves out (docs/decisions/model.md):
# policies, uploads in parts, missing objects, no branch at all, a server that begins to compact,
# the end of a dead sweep, the room of a disk.
LEFT_OUT = {5, 17, 36, 42, 63, 65, 66, 67}
# The same of single guards: rows that get lost are counted.
COUNTED = {"what is held of it is counted", "and what comes to its comparison with the plan"}


@cache
def _tests_of(file: Path) -> set[str]:
    found = ast.walk(ast.parse(file.read_text()))
    return {
        node.name
        for node in found
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def _ids(mutation: Mutation) -> str:
    return f"{mutation.loss}-{Path(mutation.file).stem}"


@pytest.mark.parametrize("mutation", list(mutations()), ids=_ids)
def test_a_guard_is_where_the_table_says_and_its_test_exists(mutation):
    source = (ROOT / mutation.file).read_text()
    ast.parse(without(source, mutation))
    file, _, name = mutation.test.partition("::")
    assert name.partition("[")[0] in _tests_of(ROOT / file)


def test_every_loss_has_a_guard_in_the_table_and_a_row_on_the_page_about_safety():
    page = (ROOT / "docs" / "safety.md").read_text()
    assert {mutation.loss for mutation in mutations()} == LOSSES - IMPOSSIBLE
    for number in IMPOSSIBLE:
        assert re.search(rf"^\| {number} \| .* \| cannot happen any more", page, re.MULTILINE)
    rows = re.findall(r"^\| (\d+) \| [^|]+ \| [^|]+ \|$", page, re.MULTILINE)
    assert {int(number) for number in rows} == LOSSES


def test_each_guard_of_the_protocol_has_its_line_in_the_model_and_the_other_way_round():
    named = {name for mutation in mutations() for name in mutation.model}
    assert named == set(guards(MODEL.read_text()))
    lacking = {
        f"{mutation.loss}: {mutation.guard}"
        for mutation in mutations()
        if mutation.file.startswith(PROTOCOL)
        and mutation.loss not in LEFT_OUT
        and mutation.guard not in COUNTED
        and not mutation.model
    }
    assert lacking == set()
