"""Repositories recorded from a real lakeFS server: where they lie and how to unpack them."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).resolve().parents[1] / "data"
REPOSITORIES = sorted(path.name for path in (DATA / "repos").iterdir())
# The one with the most files.
LARGE = "many-ranges"

# Absolute path of the blockstore in the FULL addresses of the recorded ranges.
SERVER_PATH = "/srv/lakefs/state/local/bs"


@cache
def expected(name: str) -> dict[str, Any]:
    """What the recorded server's API said about the repository, worked out into sets."""
    return json.loads((DATA / "repos" / name / "expected.json").read_text())


@cache
def server(name: str) -> dict[str, Any]:
    """The recorded API answers about the repository."""
    return json.loads((DATA / "repos" / name / "server.json").read_text())


def unpack(name: str, target: Path) -> Path:
    """Unpack a repository's storage namespace and return the directory that is its root."""
    with tarfile.open(DATA / "repos" / name / "namespace.tar.gz") as archive:
        archive.extractall(target, filter="data")
    return target / "namespace"


def slow_where_large(names: Iterable[str]) -> list[Any]:
    """Give repositories as parameters; the large one is one of the slow tests."""
    return [pytest.param(name, marks=pytest.mark.slow) if name == LARGE else name for name in names]
