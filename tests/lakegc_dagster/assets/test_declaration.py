"""What Dagster reads of a function that gets its runs from a collector's resource."""

from collections.abc import Iterator
from inspect import Signature, signature
from typing import get_type_hints

import dagster as dg
import pytest

from lakegc_dagster.assets.declaration import with_runs
from lakegc_dagster.names import OWN
from lakegc_dagster.resources import Runs


def yielding(context: dg.AssetExecutionContext, runs: Runs) -> Iterator[dg.AssetCheckResult]:
    yield dg.AssetCheckResult(passed=True)


def returning(context: dg.AssetExecutionContext, table: dict, runs: Runs) -> dict:
    return table


@pytest.mark.parametrize(
    ("function", "hints"),
    [
        (yielding, {"context": dg.AssetExecutionContext}),
        (returning, {"context": dg.AssetExecutionContext, "table": dict, "return": dict}),
    ],
)
def test_annotations_say_what_the_signature_says_to_older_versions_of_dagster(function, hints):
    made = with_runs(OWN, function)
    assert get_type_hints(made) == hints
    shown = signature(made)
    of_signature = {name: each.annotation for name, each in shown.parameters.items()}
    if shown.return_annotation is not Signature.empty:
        of_signature["return"] = shown.return_annotation
    assert of_signature == hints
