"""Every table file of the recorded repositories, unpacked once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import golden

_TABLE = re.compile(r"[0-9a-f]{64}")


@pytest.fixture(scope="session")
def namespaces(tmp_path_factory) -> dict[str, Path]:
    """Namespace root of each recorded repository."""
    return {
        name: golden.unpack(name, tmp_path_factory.mktemp(name)) for name in golden.REPOSITORIES
    }


@pytest.fixture(scope="session")
def tables(namespaces) -> dict[str, dict[str, bytes]]:
    """Repository -> table id -> file."""
    return {
        name: {
            path.name: path.read_bytes()
            for path in sorted((root / "_lakefs").glob("*"))
            if _TABLE.fullmatch(path.name)
        }
        for name, root in namespaces.items()
    }
