"""Routes about repositories and their dumps."""

from __future__ import annotations

from http import HTTPStatus

from starlette.responses import Response

from lakegc_dagster.sandbox import dump, gc, repositories
from lakegc_dagster.sandbox.records import RepositoryRecord
from lakegc_dagster.sandbox.web import Call, Endpoint, answer, no_content, page


def _json(repository: RepositoryRecord) -> dict[str, object]:
    return {
        "creation_date": repository.creation_date,
        "default_branch": repository.default_branch,
        "id": repository.id,
        "read_only": repository.read_only,
        "storage_id": "",
        "storage_namespace": repository.storage_namespace,
    }


def _create(call: Call) -> Response:
    body = call.body()
    bare = call.flag("bare")
    made = repositories.create(
        call.core,
        body["name"],
        body["storage_namespace"],
        default_branch=body.get("default_branch") or "main",
        bare=bare,
        read_only=body.get("read_only", False),
    )
    shown = _json(made)
    if bare:
        del shown["read_only"]
    return answer(shown, HTTPStatus.CREATED)


def _get(call: Call) -> Response:
    repositories.check_name(call.repository_id)
    return answer(_json(call.repository))


def _list(call: Call) -> Response:
    after, prefix = call.text("after"), call.text("prefix")
    rows = (
        _json(repository)
        for repository in call.core.state.repositories()
        if repository.id > after
        and repository.id.startswith(prefix)
        and call.caller.sees(repository.id)
    )
    return answer(page(rows, call.amount(), offset=lambda row: row["id"]))


def _delete(call: Call) -> Response:
    repositories.delete(*call.place)
    return no_content()


def _dump_json(refs: dump.Dump) -> dict[str, object]:
    return {
        "branches_meta_range_id": refs.branches_metarange_id,
        "commits_meta_range_id": refs.commits_metarange_id,
        "tags_meta_range_id": refs.tags_metarange_id,
    }


def _dump(call: Call) -> Response:
    repository = call.repository
    refs = _dump_json(dump.dump_refs(call.core, repository, dump.SYNCHRONOUS))
    call.core.blockstore.write(repository.storage_namespace, dump.MANIFEST_KEY, dump.manifest(refs))
    return answer(refs, HTTPStatus.CREATED)


def _dump_submit(call: Call) -> Response:
    repository = call.repository
    refs = _dump_json(dump.dump_refs(call.core, repository))
    task = gc.new_task(call.core, repository, dump.TASK_KIND, {"refs": refs})
    return answer({"id": task.id}, HTTPStatus.ACCEPTED)


def _dump_status(call: Call) -> Response:
    task = gc.task(*call.place, dump.TASK_KIND, call.text("task_id"))
    return answer({"id": task.id, "done": True, "update_time": task.update_time, **task.body})


ENDPOINTS = [
    Endpoint("POST", "/repositories", "create_repository", _create),
    Endpoint("GET", "/repositories", "list_repositories", _list),
    Endpoint("GET", "/repositories/{repository}", "get_repository", _get),
    Endpoint("DELETE", "/repositories/{repository}", "delete_repository", _delete),
    Endpoint("PUT", "/repositories/{repository}/refs/dump", "dump_refs", _dump),
    Endpoint("POST", "/repositories/{repository}/dump", "dump_submit", _dump_submit),
    Endpoint("GET", "/repositories/{repository}/dump", "dump_status", _dump_status),
]
