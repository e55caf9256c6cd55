"""The generated repository on a remote store and lakeFS server, reset for each run.

All files of the local namespace are put into the store under the same keys, and a bare repository
is restored from the refs dump. Tables are used unchanged, because the sandbox writes what a server
writes. The store gives objects a new date, so such a measurement runs with a minimum age of zero,
and collects objects that are older than the repository.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import urllib3

from benchmarks import change, local, processes, runs
from lakegc_dagster.sandbox.xids import IdSource

# Concurrent requests while the repository is copied.
_AT_ONCE = 16
_RESTORE_SECONDS = 600.0


class ServerRefusedError(Exception):
    """The server refused a call that the measurement needs."""


@dataclass(frozen=True)
class Server:
    """A lakeFS server, called by plain HTTP without code of the measured engine.

    Attributes:
        endpoint: URL without `/api/v1`.
        access_key_id: Access key of a user who may create and delete repositories.
        secret_access_key: Its secret.
    """

    endpoint: str
    access_key_id: str
    secret_access_key: str = field(repr=False)

    @cached_property
    def _http(self) -> urllib3.PoolManager:
        headers = urllib3.make_headers(basic_auth=f"{self.access_key_id}:{self.secret_access_key}")
        return urllib3.PoolManager(
            maxsize=_AT_ONCE, headers={**headers, "Content-Type": "application/json"}
        )

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        accepted: Iterable[int] = (),
    ) -> Any:
        """Make one call.

        Returns:
            JSON of the answer; None without a body, or for one of the accepted statuses.

        Raises:
            ServerRefusedError: For any other status than 2xx.
        """
        sent = None if body is None else json.dumps(body).encode()
        answer = self._http.request(
            method, f"{self.endpoint}/api/v1{path}", body=sent, retries=False, timeout=120
        )
        if answer.status in accepted:
            return None
        if not 200 <= answer.status < 300:
            raise ServerRefusedError(f"{method} {path}: {answer.status} {answer.data[:300]!r}")
        return json.loads(answer.data) if answer.data else None


class Bucket:
    """A namespace on S3.

    Args:
        uri: `s3://BUCKET/PREFIX`.
        endpoint: URL of an S3-compatible store; None for AWS.
    """

    def __init__(self, uri: str, endpoint: str | None) -> None:
        import boto3
        from botocore.config import Config

        self.uri = uri.rstrip("/")
        self.endpoint = endpoint
        self._bucket, _, path = self.uri.removeprefix("s3://").partition("/")
        self._before = f"{path}/" if path else ""
        config = Config(
            s3={"addressing_style": "path"},
            max_pool_connections=_AT_ONCE,
            retries={"total_max_attempts": 5},
        )
        self._client: Any = boto3.client("s3", endpoint_url=endpoint, config=config)

    def make(self) -> None:
        """Create the bucket if it does not exist."""
        from botocore.exceptions import ClientError

        try:
            self._client.head_bucket(Bucket=self._bucket)
        except ClientError:
            self._client.create_bucket(Bucket=self._bucket)

    def keys(self) -> set[str]:
        """List the namespace."""
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=self._before
        )
        return {
            found["Key"][len(self._before) :]
            for page in pages
            for found in page.get("Contents", ())
        }

    def put(self, files: Mapping[str, Path]) -> None:
        """Put files under their keys."""
        self._put(files, lambda key: files[key].read_bytes())

    def put_bodies(self, bodies: Mapping[str, bytes]) -> None:
        """Put contents under their keys."""
        self._put(bodies, lambda key: bodies[key])

    def _put(self, keys: Iterable[str], body: Callable[[str], bytes]) -> None:
        def put(key: str) -> None:
            self._client.put_object(Bucket=self._bucket, Key=self._before + key, Body=body(key))

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for _ in pool.map(put, keys):
                pass

    def get(self, key: str) -> bytes:
        """Read a key."""
        answer = self._client.get_object(Bucket=self._bucket, Key=self._before + key)
        found: bytes = answer["Body"].read()
        return found

    def delete(self, keys: Iterable[str]) -> None:
        """Delete keys."""
        named = [{"Key": self._before + key} for key in sorted(keys)]
        for start in range(0, len(named), 1000):
            self._client.delete_objects(
                Bucket=self._bucket, Delete={"Objects": named[start : start + 1000], "Quiet": True}
            )


@dataclass(frozen=True)
class Carried:
    """A repository on a server and a store.

    Attributes:
        found: The local repository from which it was made.
        server: The server.
        bucket: Its storage namespace.
        kept: Keys that belong to it; all other keys are from runs.
        expired: Objects that a mark must find; None if nobody knows.
    """

    found: local.Made
    server: Server
    bucket: Bucket
    kept: frozenset[str]
    expired: int | None


def carried(found: local.Made, server: Server, store: str, s3_endpoint: str | None) -> Carried:
    """Copy a local repository to a server and its store, and replace one of the same name.

    Args:
        found: The local one.
        server: The server.
        store: URI below which its namespace lies.
        s3_endpoint: URL of an S3-compatible store.
    """
    # A namespace stays in use after its repository was deleted.
    bucket = Bucket(
        f"{store.rstrip('/')}/{runs.REPOSITORY}-{time.time_ns() // 1_000_000}", s3_endpoint
    )
    bucket.make()
    server.call("DELETE", f"/repositories/{runs.REPOSITORY}?force=true", accepted=[404])
    made = {"name": runs.REPOSITORY, "storage_namespace": bucket.uri, "default_branch": "main"}
    _until_forgotten(server, made)
    files = local.files(found)
    bucket.put(files)
    told = local.told(found)
    _restore(server, told["dump"])
    rules = {"default_retention_days": told["retention_days"], "branches": []}
    server.call("PUT", f"/repositories/{runs.REPOSITORY}/settings/gc_rules", rules)
    _stage(server, bucket, told["staged"])
    return Carried(found, server, bucket, frozenset(bucket.keys()), found.expired)


def changed(there: Carried, whole: int) -> Carried:
    """Change a hundredth of a repository that was marked and swept, and keep what the run stored.

    As in `change`, but with three commits on branches, since a commit on main would take what is
    staged there. The store dates everything today, so commits leave retention by a shorter rule.

    Args:
        there: The repository.
        whole: Its objects.
    """
    server, bucket = there.server, there.bucket
    told = local.told(there.found)
    rules = {"default_retention_days": told["retention_days"] - local.STEP_DAYS, "branches": []}
    server.call("PUT", f"/repositories/{runs.REPOSITORY}/settings/gc_rules", rules)
    found = server.call("GET", f"/repositories/{runs.REPOSITORY}/branches?amount=1000")["results"]
    names = sorted(branch["id"] for branch in found if branch["id"] != "main")
    ids = IdSource(lambda: datetime.now(UTC))
    some = max(1, int(whole * change.CHANGED_SHARE) // 10)
    own, alike = 10 * some - min(change.ALIKE, some), min(change.ALIKE, some)
    # The last of what is reset has the sizes of the first of what is committed, and other content.
    bodies_of = chain(
        (bytes(10_000 + whole + number) for number in range(own)),
        (bytes(9_999 + whole + number) + b"x" for number in range(alike)),
    )
    hot = [f"hot/part-{part:06}" for part in range(2 * some)]

    def write(branch: str, paths: list[str]) -> None:
        staged, bodies = [], {}
        for path, body in zip(sorted(paths), bodies_of, strict=False):
            address = ids.object_address()
            checksum = hashlib.md5(body, usedforsecurity=False).hexdigest()
            bodies[address] = body
            staged.append(
                {"path": path, "address": address, "size_bytes": len(body), "checksum": checksum}
            )
        bucket.put_bodies(bodies)
        _stage(server, bucket, staged, branch)

    for branch, paths in (
        (names[len(names) // 4], [*hot, *(f"new/one-{part:06}" for part in range(2 * some))]),
        (names[len(names) // 2], [f"new/two-{part:06}" for part in range(2 * some)]),
        (names[-1], [*hot[:some], *(f"new/three-{part:06}" for part in range(some))]),
    ):
        write(branch, paths)
        place = f"/repositories/{runs.REPOSITORY}/branches/{branch}/commits"
        server.call("POST", place, {"message": f"change {branch}"})
    write(names[0], [f"new/staged-{part:06}" for part in range(some)])
    write(names[1], [f"new/dropped-{part:06}" for part in range(some)])
    branches = f"/repositories/{runs.REPOSITORY}/branches"
    server.call("PUT", f"{branches}/{names[1]}", {"type": "reset"})
    for one in told["staged"][:some]:
        server.call("PUT", f"{branches}/main", {"type": "object", "path": one["path"]})
    return replace(there, kept=frozenset(bucket.keys()), expired=None)


def _until_forgotten(server: Server, made: Mapping[str, Any]) -> None:
    """Create the bare repository; a deleted one of this name still answers for some seconds."""
    until = time.monotonic() + 60
    while True:
        try:
            server.call("POST", "/repositories?bare=true", made)
        except ServerRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(1)
        else:
            return


def _restore(server: Server, dump: Mapping[str, str]) -> None:
    path = f"/repositories/{runs.REPOSITORY}/restore"
    task = server.call("POST", path, dump)["id"]
    until = time.monotonic() + _RESTORE_SECONDS
    while True:
        status = server.call("GET", f"{path}?task_id={quote(task)}")
        if status["done"]:
            break
        if time.monotonic() > until:
            raise ServerRefusedError(
                f"the server did not restore the dump in {_RESTORE_SECONDS:g} seconds"
            )
        time.sleep(0.2)
    if status.get("error"):
        raise ServerRefusedError(f"the server did not restore the dump: {status['error']}")


def _stage(
    server: Server, bucket: Bucket, staged: Iterable[Mapping[str, Any]], branch: str = "main"
) -> None:
    def stage(one: Mapping[str, Any]) -> None:
        place = f"/repositories/{runs.REPOSITORY}/branches/{branch}"
        path = f"{place}/objects?path={quote(one['path'], safe='')}"
        body = {
            "physical_address": f"{bucket.uri}/{one['address']}",
            "checksum": one["checksum"],
            "size_bytes": one["size_bytes"],
        }
        server.call("PUT", path, body)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for _ in pool.map(stage, staged):
            pass


@contextmanager
def served(there: Carried) -> Iterator[runs.Served]:
    """Reset the namespace, and return its server and settings."""
    now = there.bucket.keys()
    there.bucket.delete(now - there.kept)
    missing = there.kept - now
    if missing:
        files = local.files(there.found)
        there.bucket.put({key: files[key] for key in missing})
    # Objects that were put just now must be older than the key of the run.
    time.sleep(2)
    storage: dict[str, Any] = {"s3_region": os.environ.get("AWS_REGION", "us-east-1")}
    if there.bucket.endpoint:
        storage |= {
            "s3_endpoint": there.bucket.endpoint,
            "allow_http": there.bucket.endpoint.startswith("http://"),
        }
    beside = {
        name: pid
        for name, url in (("server", there.server.endpoint), ("store", there.bucket.endpoint))
        if url and (pid := processes.listening(urlsplit(url).port or 0)) is not None
    }
    yield runs.Served(
        settings={
            "server": {"endpoint": there.server.endpoint},
            "storage": storage,
            "repository": {
                "min_age_hours": 0,
                "allow_unsafe_min_age": True,
                "inherited": "collect",
            },
        },
        environment={
            "LAKEGC_ACCESS_KEY_ID": there.server.access_key_id,
            "LAKEGC_SECRET_ACCESS_KEY": there.server.secret_access_key,
        },
        server=urlsplit(there.server.endpoint).netloc,
        beside=beside,
        expired=there.expired,
        read=there.bucket.get,
        delays_calls=False,
    )
