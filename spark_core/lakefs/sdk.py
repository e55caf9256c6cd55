"""lakeFS's SDK, imported without the checks of arguments that it makes for each of its calls.

Making them is most of its import, seven tenths of a second of every command. What we call it with
has types of its own, and its answers are read by us.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

_IMPORTING = Lock()


def import_sdk() -> None:
    """Import the package for the first time in this process; then it is there for anybody."""
    from pydantic import v1

    with _IMPORTING:
        checking = v1.validate_arguments
        v1.validate_arguments = _as_it_is  # type: ignore[assignment]
        try:
            import lakefs_sdk  # noqa: F401
        finally:
            v1.validate_arguments = checking


def _as_it_is(call: Callable[..., Any], **_: Any) -> Callable[..., Any]:
    return call
