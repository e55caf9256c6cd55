"""Send single requests to GCS's JSON API, in the session of Google's client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from google.api_core.exceptions import from_http_response

from spark_core.json_and_toml import read_json


@dataclass(frozen=True)
class JsonApi:
    """The API, as one process reaches it.

    Attributes:
        session: Adds the token and renews it.
        timeout: Of a connection and of an answer, in seconds.

    Every answer is a success; else an error of the client is raised.
    """

    session: Any
    timeout: tuple[float, float]

    def get(self, url: str, params: Mapping[str, str], **how: Any) -> Any:
        """Send one GET and return the answer."""
        return _success(self.session.get(url, params=params, timeout=self.timeout, **how))

    def json(self, url: str, params: Mapping[str, str]) -> Any:
        """Send one GET and return what its JSON says."""
        return _json(self.get(url, params))

    def send(self, method: str, url: str, params: Mapping[str, str]) -> Any:
        """Send one GET or POST and return what its JSON says."""
        if method == "GET":
            return self.json(url, params)
        return _json(_success(self.session.post(url, params=params, timeout=self.timeout)))

    def post_batch(self, endpoint: str, content_type: str, body: bytes) -> Any:
        """Send several requests in one and return the answer."""
        return _success(
            self.session.post(
                f"{endpoint}/batch/storage/v1",
                data=body,
                headers={"Content-Type": content_type},
                timeout=self.timeout,
            )
        )


def _success(answer: Any) -> Any:
    if not 200 <= answer.status_code < 300:
        raise from_http_response(answer)  # type: ignore[no-untyped-call]
    return answer


def _json(answer: Any) -> Any:
    """Read a body as JSON; None if it is no JSON, and so no answer of GCS."""
    try:
        return read_json(answer.content)
    except ValueError:
        return None
