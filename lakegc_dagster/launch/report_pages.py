"""The report pages of runs, read from the stores, beside Dagster's own pages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from spark_core.errors import FAILED, LakegcError, NotFoundError, exit_code
from spark_core.settings import load_settings

if TYPE_CHECKING:
    from spark_core.settings import Settings

# Where `lakegc ui` serves them; `[report] base_url` is this path on the host that people use.
PLACE = "/reports"

_ASKED = re.compile(
    rf"{PLACE}/(?P<repository>[a-z0-9][a-z0-9-]+)"
    r"/(?P<key>_lakefs/retention/gc/(?:addresses|reports)/run_id=[0-9TZ-]+/_report\.html)"
)
# A page is of another origin than the UI, whatever its repository could write into it.
_HEADERS = {
    "Content-Security-Policy": "sandbox allow-scripts",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


def is_a_report(method: str, path: str) -> bool:
    """Say whether a request asks for something of this file."""
    return method in ("GET", "HEAD") and path.startswith(f"{PLACE}/")


async def answer(path: str) -> Response:
    """Return the page of a path, or the sentence that says why there is none."""
    return await run_in_threadpool(_read, path)


def _read(path: str) -> Response:
    asked = _ASKED.fullmatch(path)
    if asked is None:
        return _sentence(f"{path} is not the address of a report", 404)
    try:
        page = _page(load_settings(), asked["repository"], asked["key"])
    except NotFoundError as missing:
        return _sentence(missing.message, 404)
    except LakegcError as error:
        return _sentence(error.message, 502 if exit_code(error) == FAILED else 403)
    return HTMLResponse(page, headers=_HEADERS)


def _page(settings: Settings, repository_id: str, key: str) -> bytes:
    from datetime import UTC, datetime

    from spark_core.model import RunKey
    from spark_core.stored_runs import open_stored

    settings.repository(repository_id)
    store = open_stored(settings, repository_id, RunKey.at(datetime.now(UTC))).store
    return bytes(store.read(key))


def _sentence(words: str, status: int) -> Response:
    return PlainTextResponse(f"lakegc: {words}\n", status, {"X-Content-Type-Options": "nosniff"})
