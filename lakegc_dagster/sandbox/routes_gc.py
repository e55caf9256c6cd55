"""Routes that the collector needs: rules, both prepare calls, and the tables."""

from __future__ import annotations

import json
from http import HTTPStatus

from starlette.responses import Response

from lakegc_dagster.sandbox import gc
from lakegc_dagster.sandbox.errors import bad_request, not_found
from lakegc_dagster.sandbox.web import Call, Endpoint, Field, answer, json_bytes, no_content


def _get_rules(call: Call) -> Response:
    found = gc.rules(call.core, call.core.repository(call.repository_id))
    if found is None:
        raise not_found()
    branches = [{"branch_id": branch, "retention_days": days} for branch, days in found.branch_days.items()]
    # Without branch rules the real server says null, although its own schema forbids it (`lakefs-facts` 11.18).
    return answer({"branches": branches or None, "default_retention_days": found.default_days})


def _set_rules(call: Call) -> Response:
    # A repository that is not there is said before a body that is wrong.
    call.core.repository(call.repository_id)
    body = call.json(
        "GarbageCollectionRules",
        {
            "default_retention_days": Field(int, required=True),
            "branches": Field(
                list,
                required=True,
                items={"branch_id": Field(str, required=True), "retention_days": Field(int, required=True)},
            ),
        },
    )
    days = {row["branch_id"]: row["retention_days"] for row in body["branches"]}
    gc.set_rules(call.core, call.repository_id, gc.Rules(body["default_retention_days"], days))
    return no_content()


def _delete_rules(call: Call) -> Response:
    gc.set_rules(call.core, call.repository_id, None)
    return no_content()


def _may_set_rules(call: Call) -> Response:
    call.core.repository(call.repository_id)
    return no_content()


def _prepare_commits(call: Call) -> Response:
    prepared = gc.prepare_commits(call.core, call.repository_id)
    # The local store cannot presign: the real server answers the error and then, in the same body, the result.
    body = json_bytes({"message": "local adapter presigned URL: operation not supported"}) + json_bytes(
        {
            "gc_addresses_location": prepared.addresses_location,
            "gc_commits_location": prepared.commits_location,
            "gc_commits_presigned_url": "",
            "run_id": prepared.run_id,
        }
    )
    return Response(body, HTTPStatus.BAD_REQUEST, {"Content-Type": "application/json"})


def _prepare_commits_async(call: Call) -> Response:
    return answer({"id": gc.submit_prepare_commits(call.core, call.repository_id).id}, HTTPStatus.ACCEPTED)


def _prepare_commits_status(call: Call) -> Response:
    task, done = gc.poll_task(call.core, call.repository_id, gc.PREPARE_COMMITS, call.required("id"))
    return answer(
        {"task_id": task.id, "completed": done, "update_time": task.update_time, **(task.body if done else {})}
    )


def _prepare_uncommitted(call: Call) -> Response:
    token = ""
    if call.data.strip():
        try:
            body = json.loads(call.data)
        except ValueError as error:
            raise bad_request(f"request body has an error: failed to decode request body: {error}") from None
        token = str((body or {}).get("continuation_token") or "")
    made = gc.prepare_uncommitted(call.core, call.repository_id, token)
    shown = {"run_id": made.run_id, "gc_uncommitted_location": made.location}
    if made.token is not None:
        shown["continuation_token"] = made.token
    return answer(shown, HTTPStatus.CREATED)


def _table_location(call: Call) -> Response:
    call.core.repository(call.repository_id)
    location = call.core.trees.location(call.path("table"))
    return answer({"location": location}, headers={"Location": location})


def _table_content(call: Call) -> Response:
    if call.path("type") not in {"range", "meta_range"}:
        raise bad_request(
            'parameter "type" in path has an error: value is not one of the allowed values ["range","meta_range"]'
        )
    repository = call.core.repository(call.repository_id)
    data = call.core.trees.content(repository.storage_namespace, call.path("table"))
    return Response(data, media_type="application/octet-stream")


_R = "/repositories/{repository}"
ENDPOINTS = [
    Endpoint("GET", _R + "/settings/gc_rules", "get_gc_rules", _get_rules),
    Endpoint("PUT", _R + "/settings/gc_rules", "set_gc_rules", _set_rules),
    Endpoint("DELETE", _R + "/settings/gc_rules", "delete_gc_rules", _delete_rules),
    Endpoint("GET", _R + "/gc/rules", "internal_get_garbage_collection_rules", _get_rules),
    Endpoint("POST", _R + "/gc/rules", "internal_set_garbage_collection_rules", _set_rules),
    Endpoint("DELETE", _R + "/gc/rules", "internal_delete_garbage_collection_rules", _delete_rules),
    Endpoint("GET", _R + "/gc/rules/set_allowed", "set_garbage_collection_rules_preflight", _may_set_rules),
    Endpoint("POST", _R + "/gc/prepare_commits", "prepare_garbage_collection_commits", _prepare_commits),
    Endpoint(
        "POST", _R + "/gc/prepare_commits/async", "prepare_garbage_collection_commits_async", _prepare_commits_async
    ),
    Endpoint(
        "GET", _R + "/gc/prepare_commits/status", "prepare_garbage_collection_commits_status", _prepare_commits_status
    ),
    # One t: the API's own spelling.
    Endpoint("POST", _R + "/gc/prepare_uncommited", "prepare_garbage_collection_uncommitted", _prepare_uncommitted),
    Endpoint("GET", _R + "/metadata/meta_range/{table}", "get_meta_range", _table_location),
    Endpoint("GET", _R + "/metadata/range/{table}", "get_range", _table_location),
    Endpoint("GET", _R + "/metadata/object/{type}/{table}", "get_metadata_object", _table_content),
]
