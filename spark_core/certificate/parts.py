"""The parts that a certificate must have before anything in it is shown or compared."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from spark_core.errors import VerdictError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

# Parts that a message names; who removed more than these knows what is missing.
_NAMED = 5


@dataclass(frozen=True)
class _Object:
    address: str
    path: str
    last_commit: str | None
    deleted_by_this_run: bool
    gone: bool
    held_by: list[str]


@dataclass(frozen=True)
class _Path:
    prefix: str
    gone: bool
    statement: str
    objects: list[_Object]
    commits_read: int
    read_at: str
    limits: str


@dataclass(frozen=True)
class _Content:
    lakegc: str
    issued_at: str
    repository: str
    instance: str
    namespace: str
    run: str
    gone: bool
    held_by: list[str]
    statement: str
    outcomes: dict[str, list[int]]
    after_deletion: dict[str, Any]
    figures: dict[str, Any]
    rules: Any
    cutoff: Any
    options: dict[str, Any]
    commits: dict[str, Any]
    mark: dict[str, Any]
    checks: list[dict[str, Any]]
    confirmed: list[str]
    tables: dict[str, dict[str, Any]]
    verdict: str
    deletion_report: str
    limits: str
    sha256: str
    path: _Path | None = None


@cache
def _adapter() -> TypeAdapter[_Content]:
    from pydantic import TypeAdapter

    return TypeAdapter(_Content)


def require(data: bytes, name: str) -> None:
    """Refuse a certificate that lacks a part, or has one in another form.

    Args:
        data: The certificate, JSON.
        name: Its file.

    Raises:
        VerdictError: Naming the parts.
    """
    from pydantic import ValidationError

    try:
        _adapter().validate_json(data, strict=True)
    except ValidationError as invalid:
        parts = list(
            dict.fromkeys(
                ".".join(map(str, each["loc"])) or each["msg"] for each in invalid.errors()
            )
        )
        named = ", ".join(parts[:_NAMED]) + ", ..." * (len(parts) > _NAMED)
        raise VerdictError(
            f"{name} is a certificate that lacks a part, or has it in another form: {named}",
            "It was edited, or cut; ask for it again where it was issued.",
        ) from None
