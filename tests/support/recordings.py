"""Single request/response pairs of the recorded API."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from tests.support.golden import DATA
from tests.support.scripted_server import Reply


@cache
def recordings(name: str) -> list[Any]:
    """All entries of one file of recordings."""
    entries: list[Any] = json.loads((DATA / "api" / f"{name}.json").read_text())
    return entries


def recorded(name: str, index: int) -> Reply:
    """One recorded answer, sent as it came: text that is no JSON value (two documents) byte for
    byte.
    """
    response = recordings(name)[index]["response"]
    body = response["body"]
    return Reply(response["status"], body.encode() if isinstance(body, str) else body)


def asked(name: str, index: int) -> str:
    """Method and path below /api/v1 of one recorded request."""
    request = recordings(name)[index]["request"]
    return f"{request['method']} {request['path'].removeprefix('/api/v1')}"
