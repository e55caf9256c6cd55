"""Which requests may reach Dagster's server.

The server has no login, and the browser of whoever can reach it sends what any page on the web
asks it to. A page can ask for an address (an image), send a form or a text, open a WebSocket, and,
once its name leads to this machine, do all that a page of the UI does. It cannot choose the headers
`Host`, `Origin` and `Sec-Fetch-Site`, nor send JSON elsewhere without asking first (OPTIONS).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:/@?#\\\[\]]+)(:[0-9]+)?")
# Where Dagster executes what the address itself says. Its routes pass over a line end behind it.
_GRAPHQL = "/graphql"
# Answers its versions. A probe asks for it by the address of a pod, which nobody knows beforehand.
_PROBED = "/server_info"
_READS = ("GET", "HEAD")
_JUDGED = ("host", "origin", "sec-fetch-site", "content-type")
_UNDONE = "The request did not reach the server."


@dataclass(frozen=True)
class AskedOfUi:
    """A request as it arrives.

    Attributes:
        kind: What it opens.
        method: Its method in capitals; of a WebSocket `GET`.
        path: The path by which the server chooses what answers.
        query: What stands behind `?` in its address.
        headers: Its headers in their order; names in lower case.
    """

    kind: Literal["http", "websocket"]
    method: str
    path: str
    query: str
    headers: Sequence[tuple[str, str]]


def hosts_of(listens_on: str, named: Iterable[str]) -> frozenset[str]:
    """Return the hosts by which a UI may be asked, as they stand in a `Host` without the port.

    A name that leads to this machine is none of them by itself: anybody can let a name of theirs
    lead here. The port is left out, because whoever forwards one chooses it (`ssh -L`).

    Args:
        listens_on: The address that the UI listens on.
        named: The hosts of the settings.
    """
    given = (listens_on, *named)
    return LOOPBACK | {f"[{host}]" if ":" in host else host for host in map(str.lower, given)}


def refusal(asked: AskedOfUi, hosts: Collection[str]) -> str | None:
    """Say why a request may not reach the server; None if it may.

    Args:
        asked: The request.
        hosts: The hosts by which this UI may be asked, as `hosts_of` returns them.
    """
    if asked.kind == "http" and asked.method in _READS and asked.path == _PROBED:
        return None
    headers: dict[str, str] = {}
    for name, value in asked.headers:
        if name in _JUDGED:
            if name in headers:
                return f"the request has two headers {name}, wanted one. {_UNDONE}"
            headers[name] = value
    return _wrong_host(headers, hosts) or _wrong_way(asked, headers)


def _wrong_host(headers: Mapping[str, str], hosts: Collection[str]) -> str | None:
    host = headers.get("host", "")
    form = _HOST.fullmatch(host.lower())
    if form is not None and form[1] in hosts:
        return None
    return (
        f"the request is for the host {host!r}, and this UI answers for {', '.join(sorted(hosts))} "
        f"alone. {_UNDONE} If people reach it by that name, add the name to `hosts` of [ui] in "
        "lakegc.toml, and start the UI again."
    )


def _wrong_way(asked: AskedOfUi, headers: Mapping[str, str]) -> str | None:
    if asked.kind == "websocket":
        return _wrong_sender(headers)
    if asked.method in _READS:
        if asked.path.startswith(_GRAPHQL) and asked.query:
            return (
                "GraphQL in an address, which any page can ask for, may start a run. "
                f"{_UNDONE} Send it by POST, as application/json."
            )
        return None
    if asked.method != "POST":
        return f"the method is {asked.method!r}, wanted GET, HEAD or POST. {_UNDONE}"
    content_type = headers.get("content-type", "")
    if content_type.partition(";")[0].strip().lower() != "application/json":
        return (
            f"the content type is {content_type!r}, wanted application/json, which no page can "
            f"send elsewhere without being asked. {_UNDONE} Name it in the header Content-Type."
        )
    return _wrong_sender(headers)


def _wrong_sender(headers: Mapping[str, str]) -> str | None:
    """Refuse what a page of another origin sends; programs without a browser say no origin."""
    host = headers["host"].lower()
    # A browser leaves out the usual port.
    own = {f"http://{host.removesuffix(':80')}", f"https://{host.removesuffix(':443')}"}
    origin = headers.get("origin")
    if origin is not None and origin.lower() not in own:
        return (
            f"a page of {origin!r} sent the request to {host!r}, and only the UI's own pages may. "
            f"{_UNDONE} If it is the UI's own, a proxy changes the header Host: let it pass that "
            "on."
        )
    site = headers.get("sec-fetch-site", "same-origin")
    if site != "same-origin":
        return (
            f"the browser says that a page elsewhere sent the request (Sec-Fetch-Site: {site!r}), "
            f"and only the UI's own pages may. {_UNDONE}"
        )
    return None
