"""The lakeFS server of the live tests and its store, named by environment variables.

LAKEGC_LIVE_ENDPOINT        URL of the server
LAKEGC_LIVE_ACCESS_KEY_ID, LAKEGC_LIVE_SECRET_ACCESS_KEY
                            keys of a user who may make and delete repositories
LAKEGC_LIVE_NAMESPACE_ROOT  URI below which repositories may be made:
                            s3://bucket/lakegc-live, local://lakegc-live
LAKEGC_LIVE_LOCAL_PATH      for a local blockstore: its path on this machine
LAKEGC_LIVE_SERVER_PATH     its path on the server, when that differs
AWS_*, AWS_ENDPOINT_URL     for S3: the usual variables
LAKEGC_LIVE_SEEDS           number of random histories (8)

The server is called by plain HTTP, and the store is listed as files or by boto3, so no code of the
tested engine is used.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from base64 import b64encode
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import boto3
import urllib3
from botocore.config import Config

from spark_core.lakefs import LakeFSServer, ServerOptions
from spark_core.model import RunKey
from spark_core.run import Environment, Run, RunOptions, open_run
from spark_core.storage import StoreOptions

WANTED = (
    "LAKEGC_LIVE_ENDPOINT",
    "LAKEGC_LIVE_ACCESS_KEY_ID",
    "LAKEGC_LIVE_SECRET_ACCESS_KEY",
    "LAKEGC_LIVE_NAMESPACE_ROOT",
)
# For a collection of a few hundred objects. The wait for a deletion's cache has a separate test.
SMALL = {"repository_cache": timedelta(0), "quarantine": False}
# An object is old enough when it was written in an earlier second than that of the run key.
OLD_ENOUGH_SECONDS = 2.0


class LiveError(Exception):
    """The server refused."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status} {message}")
        self.status = status
        self.message = message


@dataclass(frozen=True)
class Answer:
    """An answer of the server."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        """The body as JSON; None where the server answers nothing or plain text, as for a new
        branch.
        """
        return (
            json.loads(self.body)
            if "json" in self.headers.get("Content-Type", "") and self.body
            else None
        )


def why_skipped(environ: Mapping[str, str] = os.environ) -> str | None:
    """Say what is missing for the live tests and how to run them; None when nothing is missing."""
    missing = [name for name in WANTED if not environ.get(name)]
    root = environ.get("LAKEGC_LIVE_NAMESPACE_ROOT", "")
    if root.startswith("local://") and not environ.get("LAKEGC_LIVE_LOCAL_PATH"):
        missing.append("LAKEGC_LIVE_LOCAL_PATH")
    if not missing:
        return None
    return (
        "needs a lakeFS server where repositories may be made and deleted: set "
        f"{', '.join(missing)} "
        "(what they mean: tests/support/live_server.py) and run `make test-live`"
    )


@dataclass(frozen=True)
class LiveServer:
    """A lakeFS server and the store behind it.

    Attributes:
        endpoint: URL without `/api/v1`.
        access_key_id: Key of a lakeFS user.
        secret_access_key: Its secret.
        root: URI under which namespaces are made, no slash at its end.
        local_path: Where this machine sees a local blockstore.
        server_path: Where the server does, when that differs.
        s3_endpoint: Of an S3-compatible store.
    """

    endpoint: str
    access_key_id: str
    secret_access_key: str = field(repr=False)
    root: str
    local_path: Path | None = None
    server_path: str | None = None
    s3_endpoint: str | None = None
    http: urllib3.PoolManager = field(
        default_factory=lambda: urllib3.PoolManager(maxsize=16), repr=False
    )

    @classmethod
    def from_environment(cls) -> LiveServer:
        env = os.environ
        local_path = env.get("LAKEGC_LIVE_LOCAL_PATH")
        return cls(
            endpoint=env["LAKEGC_LIVE_ENDPOINT"].rstrip("/").removesuffix("/api/v1"),
            access_key_id=env["LAKEGC_LIVE_ACCESS_KEY_ID"],
            secret_access_key=env["LAKEGC_LIVE_SECRET_ACCESS_KEY"],
            root=env["LAKEGC_LIVE_NAMESPACE_ROOT"].rstrip("/"),
            local_path=Path(local_path) if local_path else None,
            server_path=env.get("LAKEGC_LIVE_SERVER_PATH"),
            s3_endpoint=env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL"),
        )

    @property
    def is_local(self) -> bool:
        return self.root.startswith("local://")

    @cached_property
    def authorization(self) -> str:
        return (
            "Basic " + b64encode(f"{self.access_key_id}:{self.secret_access_key}".encode()).decode()
        )

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        data: Any = None,
        body: bytes | None = None,
    ) -> Answer:
        """Call the server and accept any status; `data` is sent as JSON, `body` unchanged."""
        headers = {"Authorization": self.authorization}
        if data is not None:
            body, headers["Content-Type"] = json.dumps(data).encode(), "application/json"
        elif body is not None:
            headers["Content-Type"] = "application/octet-stream"
        url = f"{self.endpoint}/api/v1{path}"
        if query:
            url += "?" + urlencode(
                {name: str(value) for name, value in query.items()}, quote_via=quote
            )
        answer = self.http.request(
            method, url, body=body, headers=headers, retries=False, redirect=False, timeout=120
        )
        return Answer(answer.status, answer.data, answer.headers)

    def call(self, method: str, path: str, **what: Any) -> Any:
        """Call the server, which must not refuse; return the JSON."""
        answer = self.ask(method, path, **what)
        if answer.status >= 300:
            try:
                message = str(answer.json["message"])
            except (ValueError, KeyError, TypeError):
                message = answer.body[:200].decode(errors="replace")
            raise LiveError(answer.status, message)
        return answer.json

    def listed(self, path: str, **query: Any) -> list[dict[str, Any]]:
        """Read a list to its end."""
        found: list[dict[str, Any]] = []
        after = ""
        while True:
            page = self.call("GET", path, query={**query, "amount": 1000, "after": after})
            found += page["results"]
            if not page["pagination"]["has_more"]:
                return found
            after = page["pagination"]["next_offset"]

    @cached_property
    def gateway(self) -> Any:
        """The server's S3 gateway."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=self.access_key_id,
            aws_secret_access_key=self.secret_access_key,
            region_name="us-east-1",
            config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}),
        )

    @cached_property
    def s3(self) -> Any:
        """The store itself, by the usual AWS variables."""
        return boto3.client("s3", config=Config(s3={"addressing_style": "path"}))

    def now(self) -> datetime:
        """Return the server's time."""
        return datetime.now(UTC)

    def store(self, namespace: str) -> LiveStore:
        """Open a namespace in the store."""
        return LocalNamespace(self, namespace) if self.is_local else S3Namespace(self, namespace)

    def store_options(self) -> StoreOptions:
        """Say how lakegc reaches the store."""
        return StoreOptions(
            local_path=str(self.local_path) if self.local_path else None,
            s3_endpoint=self.s3_endpoint,
            allow_http=(self.s3_endpoint or "").startswith("http://"),
        )

    def environment(self, spark: Any, *, endpoint: str | None = None, **server: Any) -> Environment:
        """Make what an engine run needs; `endpoint` names a proxy before the server."""
        options = ServerOptions(
            endpoint or self.endpoint, self.access_key_id, self.secret_access_key, **server
        )
        return Environment(
            server=LakeFSServer(options),
            store_options=self.store_options(),
            spark=lambda: spark,
            server_path=self.server_path,
        )

    def open_run(
        self,
        spark: Any,
        name: str,
        *,
        endpoint: str | None = None,
        server: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Run:
        """Open a run of this very second that may delete everything old."""
        chosen = {
            "may_sweep": True,
            "min_age": timedelta(0),
            "allow_unsafe_min_age": True,
            **SMALL,
            **options,
        }
        environment = self.environment(spark, endpoint=endpoint, **(server or {}))
        return open_run(environment, name, RunKey.at(datetime.now(UTC)), RunOptions(**chosen))


class LiveStore:
    """A namespace in the store; keys are relative to it."""

    def __init__(self, server: LiveServer, namespace: str) -> None:
        self.server = server
        self.namespace = namespace

    @property
    def path(self) -> str:
        """The namespace without scheme, and without a slash at its end."""
        return self.namespace.partition("://")[2].rstrip("/")

    def relative(self, address: str) -> str | None:
        """Return the relative address of a physical address; None for one outside the namespace.

        Namespaces have unique names, so what follows the last such name is the
        key: a local server shows absolute addresses with its own path in front, once or twice.
        """
        _, found, key = address.rpartition(f"/{self.path}/")
        return key if found else None

    def absolute(self, key: str) -> str:
        """Return the address under which the server finds an object, if an entry has it."""
        return f"{self.namespace.partition('://')[0]}://{self.path}/{key}"

    def keys(self, prefix: str = "") -> dict[str, int]:
        """Size of every object."""
        raise NotImplementedError

    def put(self, key: str, data: bytes) -> str:
        """Write an object without the server; return its absolute address."""
        raise NotImplementedError

    def date(self, key: str, written: datetime) -> None:
        """Give an object a date; only a local store can."""
        raise NotImplementedError

    def delete(self, key: str) -> None:
        raise NotImplementedError

    def clear(self) -> None:
        """Delete the whole namespace."""
        raise NotImplementedError


class LocalNamespace(LiveStore):
    """A folder of a local blockstore."""

    @property
    def folder(self) -> Path:
        assert self.server.local_path is not None
        return self.server.local_path / self.path

    def absolute(self, key: str) -> str:
        seen = self.server.server_path or str(self.server.local_path)
        return f"local://{seen}/{self.path}/{key}"

    def keys(self, prefix: str = "") -> dict[str, int]:
        return {
            str(file.relative_to(self.folder)): file.stat().st_size
            for file in (self.folder / prefix).rglob("*")
            if file.is_file()
        }

    def put(self, key: str, data: bytes) -> str:
        file = self.folder / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        return self.absolute(key)

    def date(self, key: str, written: datetime) -> None:
        os.utime(self.folder / key, (written.timestamp(), written.timestamp()))

    def delete(self, key: str) -> None:
        (self.folder / key).unlink()

    def clear(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


class S3Namespace(LiveStore):
    """A prefix of a bucket."""

    def relative(self, address: str) -> str | None:
        before = f"s3://{self.path}/"
        return address.removeprefix(before) if address.startswith(before) else None

    def _key(self, key: str) -> dict[str, str]:
        bucket, _, path = self.path.partition("/")
        return {"Bucket": bucket, "Key": f"{path}/{key}" if path else key}

    def keys(self, prefix: str = "") -> dict[str, int]:
        where = self._key(prefix)
        cut = len(where["Key"]) - len(prefix)
        pages = self.server.s3.get_paginator("list_objects_v2").paginate(
            Bucket=where["Bucket"], Prefix=where["Key"]
        )
        return {
            found["Key"][cut:]: found["Size"]
            for page in pages
            for found in page.get("Contents", ())
        }

    def put(self, key: str, data: bytes) -> str:
        self.server.s3.put_object(**self._key(key), Body=data)
        return self.absolute(key)

    def delete(self, key: str) -> None:
        self.server.s3.delete_object(**self._key(key))

    def clear(self) -> None:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(self.delete, self.keys()))


def wait_until_old(last_write: float) -> None:
    """Wait until what was written by then (seconds since 1970) is older than a run key of now."""
    time.sleep(max(0.0, last_write + OLD_ENOUGH_SECONDS - time.time()))
