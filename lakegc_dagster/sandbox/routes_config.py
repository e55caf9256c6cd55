"""Routes about the server itself: health, login, configuration."""

from __future__ import annotations

from http import HTTPStatus

from starlette.responses import Response

from lakegc_dagster.sandbox.errors import ApiError
from lakegc_dagster.sandbox.times import to_seconds
from lakegc_dagster.sandbox.web import Call, Endpoint, Field, answer, no_content

VERSION = {"version": "sandbox", "version_context": "lakeFS"}
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


def _config(_call: Call) -> Response:
    return answer(
        {
            "capabilities_config": {},
            "storage_config": _STORAGE,
            "storage_config_list": [],
            "ui_config": {},
            "version_config": VERSION,
        }
    )


def _storage(_call: Call) -> Response:
    return answer(_STORAGE)


def _version(_call: Call) -> Response:
    return answer(VERSION)


def _garbage_collection(call: Call) -> Response:
    return answer({"grace_period": int(call.core.behaviour.grace.total_seconds())})


def _setup_state(_call: Call) -> Response:
    return answer(
        {
            "comm_prefs_missing": False,
            "login_config": {
                "RBAC": "none",
                "login_cookie_names": ["internal_auth_session"],
                "login_failed_message": "The credentials don't match.",
                "login_url": "",
                "login_url_method": "none",
                "logout_url": "",
            },
            "state": "initialized",
        }
    )


def _login(call: Call) -> Response:
    body = call.json(
        "LoginInformation", {"access_key_id": Field(str, required=True), "secret_access_key": Field(str, required=True)}
    )
    if not call.caller.credentials.matches(body["access_key_id"], body["secret_access_key"]):
        raise ApiError(HTTPStatus.UNAUTHORIZED, "error authenticating request")
    token, expires = call.caller.credentials.token()
    return answer({"token": token, "token_expiration": expires})


def _user(call: Call) -> Response:
    created = to_seconds(call.core.now())
    return answer({"user": {"creation_date": created, "email": "", "friendly_name": "", "id": call.caller.name}})


ENDPOINTS = [
    Endpoint("GET", "/healthcheck", "health_check", _health, public=True),
    Endpoint("GET", "/config", "get_config", _config),
    Endpoint("GET", "/config/storage", "get_storage_config", _storage),
    Endpoint("GET", "/config/version", "get_lake_fs_version", _version),
    Endpoint("GET", "/config/garbage-collection", "get_garbage_collection_config", _garbage_collection),
    Endpoint("GET", "/setup_lakefs", "get_setup_state", _setup_state, public=True),
    Endpoint("POST", "/auth/login", "login", _login, public=True),
    Endpoint("GET", "/user", "get_current_user", _user),
]
