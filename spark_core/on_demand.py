"""Names of a package that are imported when somebody asks for them, so that a start is quick."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def on_demand(package: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package.

    The package imports the same names under `if TYPE_CHECKING:`, for readers and mypy.

    Args:
        package: Its name.
        names: Names by the module of the package that has them, with blanks between them.

    Examples:
        >>> find = on_demand("spark_core", {"errors": "exit_code kind_of"})
        >>> find("kind_of").__module__
        'spark_core.errors'
    """
    homes = {name: module for module, found in names.items() for name in found.split()}

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return find
