"""Routes about the server itself: health and configuration."""

from __future__ import annotations

from starlette.responses import Response

from lakegc_dagster.sandbox.core import GRACE
from lakegc_dagster.sandbox.web import Call, Endpoint, answer, no_content

VERSION = {"version": "sandbox"}
_STORAGE = {
    "blockstore_description": "",
    "blockstore_id": "",
    "blockstore_namespace_ValidityRegex": "^local://",
    "blockstore_namespace_example": "local://example-bucket/",
    "blockstore_type": "local",
    "default_namespace_prefix": "local://",
    "import_support": False,
    "import_validity_regex": "^local://",
    "pre_sign_multipart_upload": False,
    "pre_sign_support": False,
    "pre_sign_support_ui": False,
}


def _health(_call: Call) -> Response:
    return no_content()


def _version_config(call: Call) -> dict[str, str]:
    return {**VERSION, "version_context": call.core.behaviour.edition}


def _config(call: Call) -> Response:
    return answer(
        {
            "capabilities_config": {},
            "storage_config": _STORAGE,
            "storage_config_list": [],
            "ui_config": {},
            "version_config": _version_config(call),
        }
    )


def _version(call: Call) -> Response:
    return answer(_version_config(call))


def _garbage_collection(_call: Call) -> Response:
    return answer({"grace_period": int(GRACE.total_seconds())})


ENDPOINTS = [
    Endpoint("GET", "/healthcheck", "health_check", _health, public=True),
    Endpoint("GET", "/config", "get_config", _config),
    Endpoint("GET", "/config/version", "get_lake_fs_version", _version),
    Endpoint(
        "GET", "/config/garbage-collection", "get_garbage_collection_config", _garbage_collection
    ),
]
