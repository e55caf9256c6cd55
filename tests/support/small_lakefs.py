"""A lakeFS server whose repositories are new and in order, except where a test changes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from spark_core.lakefs import ServerOptions
from tests.support.scripted_server import Answer, Asked, Reply, ScriptedServer, page

ACCESS_KEY_ID = "AKIASMALLSERVERKEY00"
SECRET_ACCESS_KEY = "small/server+secret=0123456789"
CREATED = 1_795_245_461
HEAD = "c" * 64
DENIED = (401, {"message": "insufficient permissions"})

_NO_TASK = (404, {"message": "not found"})


class SmallLakeFS(ScriptedServer):
    """Answers about repositories that have one branch, one commit without a table, and nothing
    staged.

    Args:
        namespaces: Storage namespace by repository.
        overrides: Answers that come first; see `ScriptedServer`.

    Attributes:
        version: What the server says it is.
        users: Whether it takes the keys.
        blockstore_type: The kind of its store.
    """

    def __init__(
        self,
        namespaces: Mapping[str, str],
        *,
        overrides: Mapping[tuple[str, str], Answer] | None = None,
    ) -> None:
        super().__init__(self._known, overrides=overrides)
        self.namespaces = dict(namespaces)
        self.version = "1.84.0"
        self.users = True
        self.blockstore_type = "s3"

    def options(self, **changes: Any) -> ServerOptions:
        """Make the options of a client with the right keys."""
        return ServerOptions(self.endpoint, ACCESS_KEY_ID, SECRET_ACCESS_KEY, **changes)

    @property
    def env(self) -> dict[str, str]:
        """The environment of a command that has the right keys."""
        return {
            "LAKEGC_ACCESS_KEY_ID": ACCESS_KEY_ID,
            "LAKEGC_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
        }

    def _known(self, asked: Asked) -> Reply | tuple[int, Any] | None:
        if (asked.method, asked.path) == ("GET", "/healthcheck"):
            return 204, None
        if not self.users:
            return 401, {"message": "error authenticating request"}
        found = re.fullmatch(r"/repositories/([^/]+)(/.*)?", asked.path)
        if found is None:
            return self._about_the_server(asked)
        if found[1] not in self.namespaces:
            return 404, {"message": "repository not found"}
        return self._about(found[1], f"{asked.method} {found[2] or ''}", asked)

    def _about_the_server(self, asked: Asked) -> tuple[int, Any] | None:
        described = [self._described(name) for name in self.namespaces]
        storage = {
            "blockstore_type": self.blockstore_type,
            "blockstore_id": "",
            "pre_sign_support": True,
        }
        return {
            "/config": (
                200,
                {"storage_config": storage, "storage_config_list": [], "version_config": {}},
            ),
            "/config/version": (200, {"version": self.version}),
            "/config/garbage-collection": (200, {"grace_period": 86_400}),
            "/repositories": (200, page(described, asked.query)),
        }.get(asked.path)

    def _about(self, name: str, what: str, asked: Asked) -> tuple[int, Any] | None:
        main = [{"id": "main", "commit_id": HEAD}]
        commit = {
            "id": HEAD,
            "parents": [],
            "creation_date": CREATED,
            "meta_range_id": "",
            "version": 1,
            "committer": "",
            "message": "",
        }
        table = re.fullmatch(r"GET /metadata/range/([0-9a-f]{64})", what)
        if table:
            return 200, {"location": f"_lakefs/{table[1]}"}
        return {
            "GET ": (200, self._described(name)),
            "GET /branches": (200, page(main, asked.query)),
            "GET /tags": (200, page([], asked.query)),
            "GET /settings/gc_rules": (404, {"message": "not found"}),
            "GET /refs/main/objects/ls": (200, page([], asked.query)),
            "GET /refs/main/commits": (200, page([commit], asked.query)),
            "GET /gc/prepare_commits/status": _NO_TASK,
            "POST /gc/prepare_uncommited": (400, {"message": "invalid continuation token"}),
            "GET /dump": _NO_TASK,
        }.get(what)

    def _described(self, name: str) -> dict[str, Any]:
        return {
            "id": name,
            "storage_namespace": self.namespaces[name],
            "default_branch": "main",
            "creation_date": CREATED,
            "storage_id": "",
            "read_only": False,
        }
