"""A lakeFS server that answers about one recorded repository, as far as a mark and its proof need
it.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from spark_core.lakefs import ServerOptions
from spark_core.schemas import SERVER_UNCOMMITTED
from tests.support import golden
from tests.support.scripted_server import Answer, Asked, Reply, ScriptedServer, page

ACCESS_KEY_ID = "AKIARECORDEDSERVER"
SECRET_ACCESS_KEY = "recorded/server+secret=0123456789"
_AUTHORIZATION = (
    "Basic " + base64.b64encode(f"{ACCESS_KEY_ID}:{SECRET_ACCESS_KEY}".encode()).decode()
)

_EXTERNAL = "/srv/lakefs/state/local/ext"
_COMMITS_TASK = "GCPCrecordedrecordedrec0"
_ROUTES = (
    ("config", "GET", r"/config"),
    ("config_storage", "GET", r"/config/storage"),
    ("version", "GET", r"/config/version"),
    ("grace_period", "GET", r"/config/garbage-collection"),
    ("repositories", "GET", r"/repositories"),
    ("repository", "GET", r"/repositories/(?P<repository>[^/]+)"),
    ("rules", "GET", r"/repositories/(?P<repository>[^/]+)/settings/gc_rules"),
    ("set_rules", "PUT", r"/repositories/(?P<repository>[^/]+)/settings/gc_rules"),
    ("delete_rules", "DELETE", r"/repositories/(?P<repository>[^/]+)/settings/gc_rules"),
    ("branches", "GET", r"/repositories/(?P<repository>[^/]+)/branches"),
    ("tags", "GET", r"/repositories/(?P<repository>[^/]+)/tags"),
    ("diff", "GET", r"/repositories/(?P<repository>[^/]+)/branches/(?P<branch>[^/]+)/diff"),
    ("log", "GET", r"/repositories/(?P<repository>[^/]+)/refs/(?P<ref>[^/]+)/commits"),
    ("list_objects", "GET", r"/repositories/(?P<repository>[^/]+)/refs/(?P<ref>[^/]+)/objects/ls"),
    ("commit", "GET", r"/repositories/(?P<repository>[^/]+)/commits/(?P<commit>[^/]+)"),
    ("prepare_commits_sync", "POST", r"/repositories/(?P<repository>[^/]+)/gc/prepare_commits"),
    ("prepare_commits", "POST", r"/repositories/(?P<repository>[^/]+)/gc/prepare_commits/async"),
    (
        "prepare_commits_status",
        "GET",
        r"/repositories/(?P<repository>[^/]+)/gc/prepare_commits/status",
    ),
    ("prepare_uncommitted", "POST", r"/repositories/(?P<repository>[^/]+)/gc/prepare_uncommited"),
    ("dump", "POST", r"/repositories/(?P<repository>[^/]+)/dump"),
    ("dump_status", "GET", r"/repositories/(?P<repository>[^/]+)/dump"),
    ("dump_sync", "PUT", r"/repositories/(?P<repository>[^/]+)/refs/dump"),
    (
        "table_location",
        "GET",
        r"/repositories/(?P<repository>[^/]+)/metadata/(?:meta_)?range/(?P<table>[^/]+)",
    ),
)


class RecordedServer(ScriptedServer):
    """Answers about one recorded repository whose namespace is unpacked in a directory.

    Args:
        name: The repository, one of `golden.REPOSITORIES`.
        namespace_root: Directory that is the root of its namespace; the list of
            retained commits and the staged rows are written there where the
            recording has none.
        retention_label: Which entry of `retention[]` is in force, by label ...
        index: ... or by position; by default the first, the server's answer at
            capture. Repositories without any have the rules that were recorded.
        overrides: Answers that come first, by (method, pattern of the path
            below /api/v1); see `ScriptedServer`.
        storage_namespace: Another one than the recorded.
        grace_period_seconds: What the server says uploads may wait.

    Attributes:
        requests: Calls by route.
        rules: The rules as the API shows them; None for none.
        local_path: Where this machine sees the local blockstore, for namespaces made by `unpacked`.
    """

    def __init__(
        self,
        name: str,
        namespace_root: Path,
        *,
        retention_label: str | None = None,
        index: int | None = None,
        overrides: Mapping[tuple[str, str], Answer] | None = None,
        storage_namespace: str | None = None,
        grace_period_seconds: int = 86_400,
    ) -> None:
        super().__init__(self._recorded, overrides=overrides)
        self.name = name
        self.namespace_root = namespace_root
        self.expected = golden.expected(name)
        self.server = golden.server(name)
        self.requests: Counter[str] = Counter()
        self.repository = dict(self.server["repository"])
        self.repository["storage_namespace"] = (
            storage_namespace or self.repository["storage_namespace"]
        )
        self.grace_period_seconds = grace_period_seconds
        self.entry = self._chosen(retention_label, index)
        recorded = self.entry["rules"] if self.entry else self.server["gc_rules"]
        self.rules: dict[str, Any] | None = (
            None if "$status" in recorded else _rules_as_shown(recorded)
        )
        self.local_path = namespace_root.parent
        if not self.repository["read_only"]:
            self._write_what_the_server_wrote()

    @classmethod
    def unpacked(cls, name: str, blockstore: Path, **options: Any) -> Self:
        """Unpack the repository into a local blockstore, under the path that its storage namespace
        names.
        """
        path = golden.server(name)["repository"]["storage_namespace"].partition("://")[2].strip("/")
        target = blockstore / path
        target.parent.mkdir(parents=True, exist_ok=True)
        golden.unpack(name, target.parent / f"{target.name}.unpacking").rename(target)
        (target.parent / f"{target.name}.unpacking").rmdir()
        server = cls(name, target, **options)
        server.local_path = blockstore
        return server

    @property
    def now(self) -> datetime:
        """The instant of the chosen entry of `retention[]`, else that of the capture."""
        return datetime.fromtimestamp(
            self.entry["now"] if self.entry else self.expected["captured_at"], UTC
        )

    def options(self, **changes: Any) -> ServerOptions:
        """Make the options of a client with the right keys."""
        return ServerOptions(self.endpoint, ACCESS_KEY_ID, SECRET_ACCESS_KEY, **changes)

    def _chosen(self, label: str | None, index: int | None) -> dict[str, Any] | None:
        entries = self.expected.get("retention") or []
        if label is not None:
            return next(entry for entry in entries if entry["label"] == label)
        return entries[index or 0] if entries else None

    def _write_what_the_server_wrote(self) -> None:
        """Complete the namespace by the files of the two prepare calls."""
        if self.rules is not None:
            self.commits_csv.parent.mkdir(parents=True, exist_ok=True)
            if not self.commits_csv.exists():
                rows = [
                    f"{commit_id},false,{self.expected['commits'][commit_id]['metarange_id']}\n"
                    for commit_id in (self.entry or {"retained_as_coded": []})["retained_as_coded"]
                ]
                self.commits_csv.write_text("commit_id,expired,metarange_id\n" + "".join(rows))
        for shown in self.expected["prepare_uncommitted"]["pages"]:
            directory = (
                self.namespace_root
                / f"_lakefs/retention/gc/uncommitted/{shown['run_id']}/uncommitted"
            )
            if shown["gc_uncommitted_location"] and not directory.exists():
                directory.mkdir(parents=True)
                rows = self.expected["prepare_uncommitted"]["rows"]
                columns = [
                    pa.array([row[at] for row in rows], SERVER_UNCOMMITTED.field(at).type)
                    for at in (0, 1)
                ]
                pq.write_table(
                    pa.Table.from_arrays(columns, schema=SERVER_UNCOMMITTED),
                    directory / "dc0k43pksdufl6vf46mg",
                    compression="gzip",
                )

    @property
    def commits_run_id(self) -> str:
        """Run id of the list of retained commits of the chosen entry."""
        entry = self.entry or {}
        position = (self.expected.get("retention") or [entry]).index(entry)
        return str(entry.get("server_run_id") or f"ft6recorded{position:08}0")

    @property
    def commits_csv(self) -> Path:
        """The list of retained commits."""
        return (
            self.namespace_root
            / f"_lakefs/retention/gc/commits/run_id={self.commits_run_id}/commits.csv"
        )

    def _recorded(self, asked: Asked) -> Reply | tuple[int, Any] | None:
        if asked.headers.get("Authorization") != _AUTHORIZATION:
            return 401, {"message": "error authenticating request"}
        for route, method, pattern in _ROUTES:
            match = re.fullmatch(pattern, asked.path)
            if match and method == asked.method:
                self.requests[route] += 1
                parts = match.groupdict()
                if parts.pop("repository", self.repository["id"]) != self.repository["id"]:
                    return 404, {"message": "repository not found"}
                answer: Reply | tuple[int, Any] = getattr(self, f"_{route}")(asked, **parts)
                return answer
        return None

    def _config(self, asked: Asked) -> tuple[int, Any]:
        return 200, {**self.server["config"], "storage_config": self._storage()}

    def _config_storage(self, asked: Asked) -> tuple[int, Any]:
        return 200, self._storage()

    def _storage(self) -> dict[str, Any]:
        """Say which kind of store the repository lies in: another than the recorded one when it was
        moved.
        """
        recorded = self.server["config"]["storage_config"]
        scheme = self.repository["storage_namespace"].partition("://")[0]
        return {
            **recorded,
            "blockstore_type": {"https": "azure", "http": "azure"}.get(scheme, scheme),
        }

    def _version(self, asked: Asked) -> tuple[int, Any]:
        return 200, self.server["config"]["version_config"]

    def _grace_period(self, asked: Asked) -> tuple[int, Any]:
        return 200, {"grace_period": self.grace_period_seconds}

    def _repositories(self, asked: Asked) -> tuple[int, Any]:
        return 200, page([self.repository], asked.query)

    def _repository(self, asked: Asked) -> tuple[int, Any]:
        return 200, self.repository

    def _rules(self, asked: Asked) -> tuple[int, Any]:
        return (404, {"message": "not found"}) if self.rules is None else (200, self.rules)

    def _set_rules(self, asked: Asked) -> tuple[int, Any]:
        if self.repository["read_only"]:
            return _READ_ONLY
        self.rules = _rules_as_shown(asked.body)
        return 204, None

    def _delete_rules(self, asked: Asked) -> tuple[int, Any]:
        if self.repository["read_only"]:
            return _READ_ONLY
        self.rules = None
        return 204, None

    def _branches(self, asked: Asked) -> tuple[int, Any]:
        hidden = asked.query.get("show_hidden", "").lower() == "true"
        shown = self.server.get("branches_listed_without_show_hidden")
        branches = [
            branch
            for branch in self.server["branches"]
            if hidden or shown is None or branch["id"] in shown
        ]
        return 200, page(branches, asked.query)

    def _tags(self, asked: Asked) -> tuple[int, Any]:
        return 200, page(self.server["tags"], asked.query)

    def _commit(self, asked: Asked, commit: str) -> tuple[int, Any]:
        for recorded in self.server["commits"]:
            if recorded["id"] == commit:
                return 200, recorded
        return 404, {"message": "commit not found"}

    def _diff(self, asked: Asked, branch: str) -> tuple[int, Any]:
        if branch not in self.expected["branches"]:
            return 404, {"message": "branch not found"}
        changes = [
            {"path": change["path"], "path_type": "object", "size_bytes": 0, "type": change["type"]}
            for change in self.expected["branches"][branch]["diff"]
        ]
        return 200, page(changes, asked.query, "path")

    def _log(self, asked: Asked, ref: str) -> tuple[int, Any]:
        commits = {commit["id"]: commit for commit in self.server["commits"]}
        named = {
            at["id"]: at["commit_id"] for at in (*self.server["branches"], *self.server["tags"])
        }
        start = named.get(ref, ref)
        if start not in commits:
            return 404, {"message": "not found"}
        # As the server does: the newest first of those whose child was shown.
        shown, waiting = [], {start}
        while waiting:
            latest = max(
                waiting, key=lambda commit_id: (commits[commit_id]["creation_date"], commit_id)
            )
            waiting.remove(latest)
            shown.append(commits[latest])
            waiting |= set(commits[latest]["parents"]) - {commit["id"] for commit in shown}
        if "after" in asked.query:
            ids = [commit["id"] for commit in shown]
            shown = (
                shown[ids.index(asked.query["after"]) + 1 :] if asked.query["after"] in ids else []
            )
        cut = shown[: int(asked.query.get("amount", 100))]
        more = len(cut) < len(shown)
        pagination = {
            "has_more": more,
            "next_offset": cut[-1]["id"] if more else "",
            "results": len(cut),
        }
        return 200, {"pagination": {**pagination, "max_per_page": 1000}, "results": cut}

    def _list_objects(self, asked: Asked, ref: str) -> tuple[int, Any]:
        entries = self.entries.get(ref)
        if entries is None:
            return 404, {"message": "branch not found"}
        return 200, page([self._shown(row) for row in entries.values()], asked.query, key="path")

    def _shown(self, row: list[Any]) -> dict[str, Any]:
        path, address, size, checksum, mtime, content_type, metadata, *stored = row
        return {
            "checksum": checksum,
            "content_type": content_type,
            "metadata": metadata or {},
            "mtime": int(mtime),
            "path": path,
            "path_type": "object",
            "physical_address": self._shown_address(address, stored[0] if stored else None),
            "size_bytes": size,
        }

    @cached_property
    def entries(self) -> dict[str, dict[str, list[Any]]]:
        """What each branch, tag and commit shows: path -> row of `entry_table`."""
        table, metaranges = self.expected["entry_table"], self.expected["metaranges"]

        def committed(commit_id: str) -> dict[str, list[Any]]:
            metarange_id = self.expected["commits"][commit_id]["metarange_id"]
            return {table[at][0]: table[at] for at in metaranges[metarange_id]}

        shown = {commit_id: committed(commit_id) for commit_id in self.expected["commits"]}
        shown |= {tag["id"]: shown[tag["commit_id"]] for tag in self.server["tags"]}
        rows = {(row[0], row[1]): row for row in table}
        for name, branch in self.expected["branches"].items():
            on_branch = dict(shown[branch["commit_id"]])
            for path in branch["removed"]:
                del on_branch[path]
            on_branch |= {
                staged["path"]: rows[staged["path"], staged["address"]]
                for staged in branch["staged"]
            }
            shown[name] = on_branch
        return shown

    def _shown_address(self, address: str, stored: str | None) -> str:
        """Show an address as stat does: on a local store a full one carries the blockstore's path
        twice.
        """
        namespace = self.repository["storage_namespace"]
        if not namespace.startswith("local://"):
            return address if "://" in address else f"{namespace.rstrip('/')}/{address}"
        full = stored or (address if "://" in address else None)
        if full is None:
            return f"local://{golden.SERVER_PATH}/{namespace.removeprefix('local://').rstrip('/')}/{address}"
        return f"local://{golden.SERVER_PATH}{_filled_in(full).removeprefix('local://')}"

    def _prepared_commits(self) -> dict[str, str]:
        root = f"{_location_root(self.repository['storage_namespace'])}/_lakefs/retention/gc"
        return {
            "gc_addresses_location": f"{root}/addresses",
            "gc_commits_location": f"{root}/commits/run_id={self.commits_run_id}/commits.csv",
            "run_id": self.commits_run_id,
        }

    def _prepare_commits_sync(self, asked: Asked) -> Reply | tuple[int, Any]:
        if self.repository["read_only"]:
            return _READ_ONLY
        if self.rules is None:
            return 404, {"message": "get gc rules: not found"}
        prepared = {**self._prepared_commits(), "gc_commits_presigned_url": ""}
        if not self.repository["storage_namespace"].startswith("local://"):
            return 201, prepared
        error = {"message": "local adapter presigned URL: operation not supported"}
        return Reply(400, f"{json.dumps(error)}\n{json.dumps(prepared)}\n".encode())

    def _prepare_commits(self, asked: Asked) -> tuple[int, Any]:
        return _READ_ONLY if self.repository["read_only"] else (202, {"id": _COMMITS_TASK})

    def _prepare_commits_status(self, asked: Asked) -> tuple[int, Any]:
        if asked.query.get("id") != _COMMITS_TASK:
            return 404, {"message": "not found"}
        done = {
            "completed": True,
            "task_id": _COMMITS_TASK,
            "update_time": "2026-11-21T07:17:41.932822106Z",
        }
        if self.rules is None:
            return 200, {**done, "error": {"message": "get gc rules: not found"}}
        return 200, {**done, "result": self._prepared_commits()}

    def _prepare_uncommitted(self, asked: Asked) -> tuple[int, Any]:
        if self.repository["read_only"]:
            return _READ_ONLY
        pages = self.expected["prepare_uncommitted"]["pages"]
        token = (asked.body or {}).get("continuation_token")
        tokens = [None, *(shown.get("continuation_token") for shown in pages[:-1])]
        shown = pages[tokens.index(token or None)]
        return 201, {
            **shown,
            "gc_uncommitted_location": _filled_in(shown["gc_uncommitted_location"]),
        }

    def _dump(self, asked: Asked) -> tuple[int, Any]:
        if self.server["refs_dump"] is None:
            return 500, {"message": "no dump was recorded of this repository"}
        return 202, {"id": self.server["refs_dump"]["id"]}

    def _dump_status(self, asked: Asked) -> tuple[int, Any]:
        if asked.query.get("task_id") != self.server["refs_dump"]["id"]:
            return 404, {"message": "not found"}
        return 200, self.server["refs_dump"]

    def _dump_sync(self, asked: Asked) -> tuple[int, Any]:
        if self.server["refs_dump"] is None:
            return 500, {"message": "no dump was recorded of this repository"}
        return 201, self.server["refs_dump"]["refs"]

    def _table_location(self, asked: Asked, table: str) -> tuple[int, Any]:
        return 200, {"location": f"_lakefs/{table}"}


_READ_ONLY = (403, {"message": "read-only repository"})


def _rules_as_shown(rules: Mapping[str, Any]) -> dict[str, Any]:
    """Show rules as the server does: no branch rule is null."""
    return {**rules, "branches": rules["branches"] or None}


def _filled_in(text: str) -> str:
    return text.replace("<BLOCKSTORE>", golden.SERVER_PATH).replace("<EXTERNAL>", _EXTERNAL)


def _location_root(namespace: str) -> str:
    """Begin a location as the server does: on a local store with the blockstore's path
    (`lakefs-facts` 11.24).
    """
    if namespace.startswith("local://"):
        return f"local://{golden.SERVER_PATH}/{namespace.removeprefix('local://').rstrip('/')}"
    return namespace.rstrip("/")
