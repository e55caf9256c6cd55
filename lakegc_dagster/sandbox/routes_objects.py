"""Routes about objects: uploads, reads, listings, copies, deletions and staged addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from email.utils import format_datetime
from http import HTTPStatus

from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.responses import Response

from lakegc_dagster.sandbox import listing, objects
from lakegc_dagster.sandbox.blockstore import RELATIVE
from lakegc_dagster.sandbox.errors import ApiError, bad_request, no_data
from lakegc_dagster.sandbox.refs import resolve
from lakegc_dagster.sandbox.state import RepositoryRecord
from lakegc_dagster.sandbox.times import to_seconds
from lakegc_dagster.sandbox.web import Call, Endpoint, Field, answer, no_content, page
from spark_core.graveler import Entry

_METADATA_HEADER = "x-lakefs-meta-"
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")
_MAX_DELETED = 1000
_NO_PRESIGN = "local adapter presigned URL: operation not supported"


def _json(call: Call, repository: RepositoryRecord, entry: Entry) -> dict[str, object]:
    address = call.core.blockstore.physical_address(repository.storage_namespace, entry.address, entry.address_type)
    return {
        "checksum": entry.checksum,
        "content_type": entry.content_type or objects.DEFAULT_CONTENT_TYPE,
        "mtime": to_seconds(entry.last_modified),
        "path": entry.path.decode(),
        "path_type": "object",
        "physical_address": address,
        "size_bytes": entry.size_bytes,
    }


def _json_with_metadata(call: Call, repository: RepositoryRecord, entry: Entry) -> dict[str, object]:
    return {**_json(call, repository, entry), "metadata": dict(entry.metadata)}


class _ContentPart:
    """Takes the first part called `content` out of a multipart body."""

    def __init__(self, boundary: bytes) -> None:
        self._name = b""
        self._value = b""
        self._headers: dict[str, str] = {}
        self._taken = False
        self._inside = False
        self.data = bytearray()
        self.content_type = ""
        self.parser = MultipartParser(
            boundary,
            {
                "on_header_field": self._on_header_field,
                "on_header_value": self._on_header_value,
                "on_header_end": self._on_header_end,
                "on_headers_finished": self._on_headers_finished,
                "on_part_data": self._on_part_data,
                "on_part_end": self._on_part_end,
            },
        )

    @property
    def found(self) -> bool:
        """Whether there was such a part."""
        return self._taken

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _on_header_end(self) -> None:
        self._headers[self._name.decode("latin-1").lower()] = self._value.decode("latin-1")
        self._name = self._value = b""

    def _on_headers_finished(self) -> None:
        _, options = parse_options_header(self._headers.get("content-disposition", ""))
        self._inside = not self._taken and options.get(b"name") == b"content"
        if self._inside:
            self._taken = True
            self.content_type = self._headers.get("content-type", "")
        self._headers = {}

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._inside:
            self.data += data[start:end]

    def _on_part_end(self) -> None:
        self._inside = False


def _content(call: Call) -> tuple[bytes, str]:
    """Return the uploaded bytes and their type, from a raw body or a multipart form."""
    header = call.request.headers.get("content-type", "") or objects.DEFAULT_CONTENT_TYPE
    media_type, options = parse_options_header(header)
    if media_type != b"multipart/form-data":
        return call.data, header
    if b"boundary" not in options:
        raise ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, "no multipart boundary param in Content-Type")
    part = _ContentPart(options[b"boundary"])
    part.parser.write(call.data)
    part.parser.finalize()
    if not part.found:
        raise ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, "multipart upload missing key 'content': http: no such file")
    return bytes(part.data), part.content_type


def _upload(call: Call) -> Response:
    data, content_type = _content(call)
    metadata = {
        name.removeprefix(_METADATA_HEADER): value
        for name, value in call.request.headers.items()
        if name.startswith(_METADATA_HEADER)
    }
    only_new = call.request.headers.get("if-none-match")
    if only_new not in {None, "*"}:
        raise bad_request('Unsupported value for If-None-Match - Only "*" is supported')
    entry = objects.upload(
        call.core,
        call.repository_id,
        call.branch_id,
        call.required("path"),
        data,
        content_type=content_type,
        metadata=metadata,
        only_new=only_new is not None,
        force=call.flag("force"),
    )
    repository = call.core.repository(call.repository_id)
    return answer(_json_with_metadata(call, repository, entry), HTTPStatus.CREATED)


def _stage(call: Call) -> Response:
    body = call.json(
        "ObjectStageCreation",
        {
            "physical_address": Field(str, required=True),
            "checksum": Field(str, required=True),
            "size_bytes": Field(int, required=True),
            "mtime": Field(int),
            "metadata": Field(dict),
            "content_type": Field(str),
            "force": Field(bool),
        },
    )
    entry = objects.stage(
        call.core,
        call.repository_id,
        call.branch_id,
        call.required("path"),
        physical_address=body["physical_address"],
        checksum=body["checksum"],
        size_bytes=body["size_bytes"],
        content_type=body.get("content_type"),
        metadata=body.get("metadata"),
        mtime=body.get("mtime"),
        link=False,
        force=body.get("force", False),
    )
    return answer(_json(call, call.core.repository(call.repository_id), entry), HTTPStatus.CREATED)


def _physical_address(call: Call) -> Response:
    repository = call.core.repository(call.repository_id)
    address = objects.signed_address(call.core, call.repository_id, call.branch_id, call.required("path"))
    if call.flag("presign"):
        raise ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, _NO_PRESIGN)
    shown = call.core.blockstore.physical_address(repository.storage_namespace, address, RELATIVE)
    return answer({"physical_address": shown, "presigned_url": None})


def _link(call: Call) -> Response:
    body = call.json(
        "StagingMetadata",
        {
            "staging": Field(dict, required=True),
            "checksum": Field(str, required=True),
            "size_bytes": Field(int, required=True),
            "user_metadata": Field(dict),
            "content_type": Field(str),
            "mtime": Field(int),
            "force": Field(bool),
        },
    )
    address = str(body["staging"].get("physical_address") or "")
    entry = objects.stage(
        call.core,
        call.repository_id,
        call.branch_id,
        call.required("path"),
        physical_address=address,
        checksum=body["checksum"],
        size_bytes=body["size_bytes"],
        content_type=body.get("content_type"),
        metadata=body.get("user_metadata"),
        mtime=body.get("mtime"),
        link=True,
        force=body.get("force", False),
    )
    shown = _json_with_metadata(call, call.core.repository(call.repository_id), entry)
    return answer({**shown, "physical_address": address})


def _no_multipart(_call: Call) -> Response:
    raise ApiError(HTTPStatus.NOT_IMPLEMENTED, "presign multipart upload API is not supported")


def _object_headers(entry: Entry) -> dict[str, str]:
    return {
        "ETag": f'"{entry.checksum}"',
        "Last-Modified": format_datetime(entry.last_modified, usegmt=True),
        "Cache-Control": "no-store, must-revalidate",
        "Expires": "0",
    }


def _byte_range(text: str, size: int) -> slice:
    match = _RANGE.fullmatch(text)
    first, last = match.groups() if match else ("", "")
    if first:
        start, end = int(first), min(int(last), size - 1) if last else size - 1
    elif last:
        start, end = max(size - int(last), 0), size - 1
    else:
        start, end = 0, -1
    if start > end:
        raise ApiError(
            HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
            "Requested Range Not Satisfiable",
            {"Content-Range": f"bytes */{size}"},
        )
    return slice(start, end + 1)


def _get(call: Call) -> Response:
    repository, entry = objects.stat(call.core, call.repository_id, call.path("ref"), call.required("path"))
    headers = _object_headers(entry)
    if call.request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=HTTPStatus.NOT_MODIFIED)
    if call.flag("presign"):
        raise bad_request(_NO_PRESIGN)
    headers["Content-Disposition"] = "attachment"
    try:
        data = call.core.blockstore.read(repository.storage_namespace, entry.address, entry.address_type)
    except ApiError as error:
        if error.status is HTTPStatus.GONE:
            raise no_data(headers) from None
        raise
    headers["Content-Type"] = entry.content_type or objects.DEFAULT_CONTENT_TYPE
    wanted = call.request.headers.get("range")
    if wanted is None:
        return Response(data, headers=headers)
    part = _byte_range(wanted, entry.size_bytes)
    headers["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{entry.size_bytes}"
    return Response(data[part], HTTPStatus.PARTIAL_CONTENT, headers)


def _head(call: Call) -> Response:
    try:
        _, entry = objects.stat(call.core, call.repository_id, call.path("ref"), call.required("path"))
    except ApiError as error:
        return Response(status_code=error.status)
    # The object's size, although nothing is read: HEAD answers for an object that is gone, too.
    headers = {
        **_object_headers(entry),
        "Accept-Ranges": "bytes",
        "Content-Type": entry.content_type or objects.DEFAULT_CONTENT_TYPE,
        "Content-Length": str(entry.size_bytes),
    }
    return Response(headers=headers)


def _stat(call: Call) -> Response:
    repository, entry = objects.stat(call.core, call.repository_id, call.path("ref"), call.required("path"))
    if call.flag("presign"):
        raise bad_request(_NO_PRESIGN)
    shown = _json_with_metadata(call, repository, entry)
    if not call.flag("user_metadata", default=True):
        shown["metadata"] = {}
    return answer(shown)


def _underlying(call: Call) -> Response:
    repository, entry = objects.stat(call.core, call.repository_id, call.path("ref"), call.required("path"))
    if not call.core.blockstore.file(repository.storage_namespace, entry.address, entry.address_type).is_file():
        raise ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, "not found")
    return answer({"storage_class": None})


def _list(call: Call) -> Response:
    if call.flag("presign"):
        raise bad_request(_NO_PRESIGN)
    repository = call.core.repository(call.repository_id)
    ref = resolve(call.core, repository, call.path("ref"))
    after, prefix, delimiter = (call.text(name).encode() for name in ("after", "prefix", "delimiter"))
    with_metadata = call.flag("user_metadata", default=True)

    def shown() -> Iterator[dict[str, object]]:
        position = max(after, prefix)
        while True:
            for entry in listing.entries(call.core, repository, ref, position):
                if not entry.path.startswith(prefix):
                    return
                end = entry.path.find(delimiter, len(prefix)) if delimiter else -1
                if end >= 0:
                    folded = entry.path[: end + len(delimiter)]
                    if folded > after:
                        yield {
                            "checksum": "",
                            "mtime": 0,
                            "path": folded.decode(),
                            "path_type": "common_prefix",
                            "physical_address": "",
                        }
                    # Begin anew behind the prefix, so that what lies below it is not read.
                    position = _behind(folded)
                    break
                if entry.path <= after:
                    continue
                row = _json(call, repository, entry)
                if with_metadata and entry.metadata:
                    row["metadata"] = dict(entry.metadata)
                yield row
            else:
                return

    return answer(page(shown(), call.amount(), offset=lambda row: row["path"]))


def _behind(prefix: bytes) -> bytes:
    """Return the first key behind all that begin with a prefix; a delimiter's last byte is never 0xff in UTF-8."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


def _delete(call: Call) -> Response:
    objects.delete(call.core, call.repository_id, call.branch_id, [call.required("path")], force=call.flag("force"))
    return no_content()


def _delete_many(call: Call) -> Response:
    body = call.json("PathList", {"paths": Field(list, required=True, items=str)})
    if len(body["paths"]) > _MAX_DELETED:
        raise bad_request(f"request size exceeded, max paths is set to {_MAX_DELETED}")
    objects.delete(call.core, call.repository_id, call.branch_id, body["paths"], force=call.flag("force"))
    return answer({"errors": []})


def _copy(call: Call) -> Response:
    body = call.json(
        "ObjectCopyCreation",
        {"src_path": Field(str, required=True), "src_ref": Field(str), "force": Field(bool), "shallow": Field(bool)},
    )
    if body.get("shallow"):
        raise ApiError(HTTPStatus.NOT_IMPLEMENTED, "Not Implemented")
    entry = objects.copy(
        call.core,
        call.repository_id,
        call.branch_id,
        call.required("dest_path"),
        source_path=body["src_path"],
        source_ref=body.get("src_ref"),
        force=body.get("force", False),
    )
    repository = call.core.repository(call.repository_id)
    return answer(_json_with_metadata(call, repository, entry), HTTPStatus.CREATED)


def _set_metadata(call: Call) -> Response:
    body = call.json("UpdateObjectUserMetadata", {"set": Field(dict, required=True)})
    objects.set_metadata(call.core, call.repository_id, call.branch_id, call.required("path"), body["set"])
    return no_content()


_R = "/repositories/{repository}"
_B = _R + "/branches/{branch}"
_REF = _R + "/refs/{ref}/objects"
ENDPOINTS = [
    Endpoint("POST", _B + "/objects", "upload_object", _upload),
    Endpoint("PUT", _B + "/objects", "stage_object", _stage),
    Endpoint("DELETE", _B + "/objects", "delete_object", _delete),
    Endpoint("POST", _B + "/objects/delete", "delete_objects", _delete_many),
    Endpoint("POST", _B + "/objects/copy", "copy_object", _copy),
    Endpoint("PUT", _B + "/objects/stat/user_metadata", "update_object_user_metadata", _set_metadata),
    Endpoint("GET", _B + "/staging/backing", "get_physical_address", _physical_address),
    Endpoint("PUT", _B + "/staging/backing", "link_physical_address", _link),
    Endpoint("POST", _B + "/staging/pmpu", "create_presign_multipart_upload", _no_multipart),
    Endpoint("GET", _REF, "get_object", _get),
    Endpoint("HEAD", _REF, "head_object", _head),
    Endpoint("GET", _REF + "/stat", "stat_object", _stat),
    Endpoint("GET", _REF + "/ls", "list_objects", _list),
    Endpoint("GET", _REF + "/underlyingProperties", "get_underlying_properties", _underlying),
]
