"""Routes for garbage collection: rules, both prepare calls, and where the tables lie."""

from __future__ import annotations

from http import HTTPStatus

from starlette.responses import Response

from lakegc_dagster.sandbox import gc
from lakegc_dagster.sandbox.errors import not_found
from lakegc_dagster.sandbox.trees import META_PREFIX
from lakegc_dagster.sandbox.web import Call, Endpoint, answer, json_bytes, no_content


def _get_rules(call: Call) -> Response:
    found = gc.rules(call.core, call.repository)
    if found is None:
        raise not_found()
    branches = [
        {"branch_id": branch, "retention_days": days} for branch, days in found.branch_days.items()
    ]
    # Without branch rules the real server says null, although its own schema forbids it
    # (`lakefs-facts` 11.18).
    return answer({"branches": branches or None, "default_retention_days": found.default_days})


def _set_rules(call: Call) -> Response:
    body = call.body()
    days = {row["branch_id"]: row["retention_days"] for row in body["branches"]}
    gc.set_rules(*call.place, gc.Rules(body["default_retention_days"], days))
    return no_content()


def _delete_rules(call: Call) -> Response:
    gc.set_rules(*call.place, None)
    return no_content()


def _prepare_commits(call: Call) -> Response:
    prepared = gc.prepare_commits(*call.place)
    # The local store cannot presign. The real server answers with the error and then, in the same
    # body, with the result.
    body = json_bytes(
        {"message": "local adapter presigned URL: operation not supported"}
    ) + json_bytes(
        {
            "gc_addresses_location": prepared.addresses_location,
            "gc_commits_location": prepared.commits_location,
            "gc_commits_presigned_url": "",
            "run_id": prepared.run_id,
        }
    )
    return Response(body, HTTPStatus.BAD_REQUEST, {"Content-Type": "application/json"})


def _prepare_commits_async(call: Call) -> Response:
    return answer({"id": gc.submit_prepare_commits(*call.place).id}, HTTPStatus.ACCEPTED)


def _prepare_commits_status(call: Call) -> Response:
    task = gc.task(*call.place, gc.PREPARE_COMMITS, call.text("id"))
    return answer(
        {"task_id": task.id, "completed": True, "update_time": task.update_time, **task.body}
    )


def _prepare_uncommitted(call: Call) -> Response:
    token = call.body().get("continuation_token") or ""
    made = gc.prepare_uncommitted(*call.place, token)
    shown = {"run_id": made.run_id, "gc_uncommitted_location": made.location}
    if made.token is not None:
        shown["continuation_token"] = made.token
    return answer(shown, HTTPStatus.CREATED)


def _table_location(call: Call) -> Response:
    call.core.repository(call.repository_id)
    location = f"{META_PREFIX}/{call.path('table')}"
    return answer({"location": location}, headers={"Location": location})


_R = "/repositories/{repository}"
ENDPOINTS = [
    Endpoint("GET", _R + "/settings/gc_rules", "get_gc_rules", _get_rules),
    Endpoint("PUT", _R + "/settings/gc_rules", "set_gc_rules", _set_rules),
    Endpoint("DELETE", _R + "/settings/gc_rules", "delete_gc_rules", _delete_rules),
    Endpoint(
        "POST", _R + "/gc/prepare_commits", "prepare_garbage_collection_commits", _prepare_commits
    ),
    Endpoint(
        "POST",
        _R + "/gc/prepare_commits/async",
        "prepare_garbage_collection_commits_async",
        _prepare_commits_async,
    ),
    Endpoint(
        "GET",
        _R + "/gc/prepare_commits/status",
        "prepare_garbage_collection_commits_status",
        _prepare_commits_status,
    ),
    # The API's own spelling has one t.
    Endpoint(
        "POST",
        _R + "/gc/prepare_uncommited",
        "prepare_garbage_collection_uncommitted",
        _prepare_uncommitted,
    ),
    Endpoint("GET", _R + "/metadata/range/{table}", "get_range", _table_location),
]
