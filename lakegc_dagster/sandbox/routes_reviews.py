"""Routes about what people agree on for branches: protection rules and pull requests.

The sandbox has one set of protection rules for all of its repositories.
"""

from __future__ import annotations

import json
from http import HTTPStatus

from starlette.responses import Response

from lakegc_dagster.sandbox.errors import ApiError, bad_request, not_found
from lakegc_dagster.sandbox.records import PullRecord
from lakegc_dagster.sandbox.times import rfc3339
from lakegc_dagster.sandbox.web import Call, Endpoint, answer, no_content, page

_STATUSES = ("open", "closed")


def _get_protection(call: Call) -> Response:
    call.core.repository(call.repository_id)
    return answer([{"pattern": pattern} for pattern in call.core.behaviour.protected])


def _set_protection(call: Call) -> Response:
    call.core.writable(call.repository_id)
    # The only body of the API that is a list.
    patterns = [rule["pattern"] for rule in json.loads(call.data)]
    call.core.behaviour.protected = tuple(dict.fromkeys(patterns))
    return no_content()


def _pull_json(pull: PullRecord) -> dict[str, object]:
    return {
        "author": "sandbox",
        "creation_date": pull.created,
        "destination_branch": pull.destination,
        "id": pull.id,
        "source_branch": pull.source,
        "status": pull.status,
        "title": pull.title,
    }


def _list_pulls(call: Call) -> Response:
    status, after = call.text("status", "all"), call.text("after")
    if status not in (*_STATUSES, "all"):
        raise bad_request(f"invalid pull request status: {status}")
    shown = (
        _pull_json(pull)
        for pull in call.core.state.pulls(call.repository.number)
        if pull.id > after and status in (pull.status, "all")
    )
    return answer(page(shown, call.amount(), offset=lambda row: row["id"]))


def _create_pull(call: Call) -> Response:
    body, core, repository = call.body(), call.core, call.repository
    for name in (body["source_branch"], body["destination_branch"]):
        core.branch(repository, name)
    if body["source_branch"] == body["destination_branch"]:
        raise bad_request("source branch and destination branch are the same")
    number = f"{len(core.state.pulls(repository.number)) + 1:06d}"
    core.state.put_pull(
        repository.number,
        PullRecord(
            id=number,
            title=body["title"],
            source=body["source_branch"],
            destination=body["destination_branch"],
            status="open",
            created=rfc3339(core.now()),
        ),
    )
    return answer({"id": number}, HTTPStatus.CREATED)


def _update_pull(call: Call) -> Response:
    state, number = call.core.state, call.repository.number
    pull = next((each for each in state.pulls(number) if each.id == call.path("pull")), None)
    if pull is None:
        raise not_found("pull request")
    status = call.body().get("status") or pull.status
    if status not in _STATUSES:
        raise ApiError(HTTPStatus.BAD_REQUEST, f"invalid pull request status: {status}")
    title = call.body().get("title") or pull.title
    state.put_pull(
        number,
        PullRecord(pull.id, title, pull.source, pull.destination, status, pull.created),
    )
    return no_content()


_R = "/repositories/{repository}"
_PROTECTION = _R + "/settings/branch_protection"
ENDPOINTS = [
    Endpoint("GET", _PROTECTION, "get_branch_protection_rules", _get_protection),
    Endpoint("PUT", _PROTECTION, "set_branch_protection_rules", _set_protection),
    Endpoint("GET", _R + "/pulls", "list_pull_requests", _list_pulls),
    Endpoint("POST", _R + "/pulls", "create_pull_request", _create_pull),
    Endpoint("PATCH", _R + "/pulls/{pull}", "update_pull_request", _update_pull),
]
