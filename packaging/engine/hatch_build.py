"""Take the engine's sources, and its version, from where they are: the repository, or the sdist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

_PACKAGE = "spark_core"


def _sources(root: str) -> Path:
    inside = Path(root, _PACKAGE)
    return inside if inside.is_dir() else Path(root).parents[1] / _PACKAGE


class EngineSources(BuildHookInterface[Any]):
    """Puts the engine's package into what is built."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's signature
        """Name the package's folder."""
        build_data["force_include"][str(_sources(self.root))] = _PACKAGE


class EngineVersion(MetadataHookInterface):
    """Reads the version that the package says of itself."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the version."""
        text = (_sources(self.root) / "__init__.py").read_text(encoding="utf-8")
        found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
        if found is None:
            raise ValueError(f"{_PACKAGE}/__init__.py says no __version__")
        metadata["version"] = found[1]
