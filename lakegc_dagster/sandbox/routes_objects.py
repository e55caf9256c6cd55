"""Routes about objects: uploads, reads, listings, copies, deletions and staged addresses.

A listing knows no delimiter: the collector reads every entry under a prefix.
"""

from __future__ import annotations

from email.utils import format_datetime
from http import HTTPStatus
from itertools import takewhile

from starlette.responses import Response

from lakegc_dagster.sandbox import listing, objects
from lakegc_dagster.sandbox.blockstore import RELATIVE
from lakegc_dagster.sandbox.errors import ApiError, bad_request, no_data
from lakegc_dagster.sandbox.records import RepositoryRecord
from lakegc_dagster.sandbox.refs import resolve
from lakegc_dagster.sandbox.times import to_seconds
from lakegc_dagster.sandbox.web import Call, Endpoint, answer, no_content, page
from spark_core.graveler import Entry

# The real server's limit.
_MOST_PATHS = 1_000


def _json(call: Call, repository: RepositoryRecord, entry: Entry) -> dict[str, object]:
    address = call.core.blockstore.physical_address(
        repository.storage_namespace, entry.address, entry.address_type
    )
    return {
        "checksum": entry.checksum,
        "content_type": entry.content_type or objects.DEFAULT_CONTENT_TYPE,
        "mtime": to_seconds(entry.last_modified),
        "path": entry.path.decode(),
        "path_type": "object",
        "physical_address": address,
        "size_bytes": entry.size_bytes,
    }


def _json_with_metadata(
    call: Call, repository: RepositoryRecord, entry: Entry
) -> dict[str, object]:
    return {**_json(call, repository, entry), "metadata": dict(entry.metadata)}


def _upload(call: Call) -> Response:
    entry = objects.upload(
        *call.branch,
        call.text("path"),
        call.data,
        content_type=call.request.headers.get("content-type") or objects.DEFAULT_CONTENT_TYPE,
    )
    repository = call.repository
    return answer(_json_with_metadata(call, repository, entry), HTTPStatus.CREATED)


def _stage(call: Call) -> Response:
    body = call.body()
    entry = objects.stage(
        *call.branch,
        call.text("path"),
        physical_address=body["physical_address"],
        checksum=body["checksum"],
        size_bytes=body["size_bytes"],
        mtime=body.get("mtime"),
        link=False,
    )
    return answer(_json(call, call.repository, entry), HTTPStatus.CREATED)


def _physical_address(call: Call) -> Response:
    repository = call.repository
    address = objects.signed_address(*call.branch, call.text("path"))
    shown = call.core.blockstore.physical_address(repository.storage_namespace, address, RELATIVE)
    return answer({"physical_address": shown, "presigned_url": None})


def _link(call: Call) -> Response:
    body = call.body()
    address = str(body["staging"].get("physical_address") or "")
    entry = objects.stage(
        *call.branch,
        call.text("path"),
        physical_address=address,
        checksum=body["checksum"],
        size_bytes=body["size_bytes"],
        link=True,
    )
    shown = _json_with_metadata(call, call.repository, entry)
    return answer({**shown, "physical_address": address})


def _object_headers(entry: Entry) -> dict[str, str]:
    return {
        "ETag": f'"{entry.checksum}"',
        "Last-Modified": format_datetime(entry.last_modified, usegmt=True),
        "Cache-Control": "no-store, must-revalidate",
        "Expires": "0",
    }


def _get(call: Call) -> Response:
    repository, entry = objects.stat(*call.place, call.path("ref"), call.text("path"))
    headers = _object_headers(entry)
    headers["Content-Disposition"] = "attachment"
    try:
        data = call.core.blockstore.read(
            repository.storage_namespace, entry.address, entry.address_type
        )
    except ApiError as error:
        if error.status is HTTPStatus.GONE:
            raise no_data(headers) from None
        raise
    headers["Content-Type"] = entry.content_type or objects.DEFAULT_CONTENT_TYPE
    return Response(data, headers=headers)


def _stat(call: Call) -> Response:
    repository, entry = objects.stat(*call.place, call.path("ref"), call.text("path"))
    return answer(_json_with_metadata(call, repository, entry))


def _list(call: Call) -> Response:
    repository = call.repository
    ref = resolve(call.core, repository, call.path("ref"))
    after, prefix = call.text("after").encode(), call.text("prefix").encode()
    listed = listing.entries(call.core, repository, ref, max(after, prefix))
    shown = (
        _json(call, repository, entry)
        for entry in takewhile(lambda entry: entry.path.startswith(prefix), listed)
        if entry.path != after
    )
    return answer(page(shown, call.amount(), offset=lambda row: row["path"]))


def _delete(call: Call) -> Response:
    objects.delete(*call.branch, [call.text("path")])
    return no_content()


def _delete_many(call: Call) -> Response:
    """Delete many paths; the real server answers 200 also where there is no such branch."""
    paths = call.body()["paths"]
    if len(paths) > _MOST_PATHS:
        raise bad_request(f"request size exceeded, max paths is set to {_MOST_PATHS}")
    allowed = [
        path
        for path in paths
        if call.caller.may_on_path("delete_objects", call.repository_id, path)
    ]
    refused = [(path, HTTPStatus.UNAUTHORIZED, "Unauthorized") for path in paths]
    refused = [each for each in refused if each[0] not in allowed]
    try:
        objects.delete(*call.branch, allowed)
    except ApiError as error:
        if error.status is not HTTPStatus.NOT_FOUND:
            refused += [(path, error.status, error.message) for path in allowed]
    errors = [
        {"path": path, "status_code": int(status), "message": message}
        for path, status, message in refused
    ]
    # The first path that may not be deleted decides about the status, as on the real server.
    is_lacking = len(allowed) < len(paths)
    return answer({"errors": errors}, HTTPStatus.UNAUTHORIZED if is_lacking else HTTPStatus.OK)


def _copy(call: Call) -> Response:
    body = call.body()
    entry = objects.copy(
        *call.branch,
        call.text("dest_path"),
        source_path=body["src_path"],
        source_ref=body.get("src_ref"),
    )
    repository = call.repository
    return answer(_json_with_metadata(call, repository, entry), HTTPStatus.CREATED)


_R = "/repositories/{repository}"
_B = _R + "/branches/{branch}"
_REF = _R + "/refs/{ref}/objects"
ENDPOINTS = [
    Endpoint("POST", _B + "/objects", "upload_object", _upload),
    Endpoint("PUT", _B + "/objects", "stage_object", _stage),
    Endpoint("DELETE", _B + "/objects", "delete_object", _delete),
    Endpoint("POST", _B + "/objects/delete", "delete_objects", _delete_many),
    Endpoint("POST", _B + "/objects/copy", "copy_object", _copy),
    Endpoint("GET", _B + "/staging/backing", "get_physical_address", _physical_address),
    Endpoint("PUT", _B + "/staging/backing", "link_physical_address", _link),
    Endpoint("GET", _REF, "get_object", _get),
    Endpoint("GET", _REF + "/stat", "stat_object", _stat),
    Endpoint("GET", _REF + "/ls", "list_objects", _list),
]
