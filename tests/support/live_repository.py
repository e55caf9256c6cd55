"""A throw-away repository on a live server, used as by a user, and its written objects."""

from __future__ import annotations

import contextlib
import hashlib
import time
import uuid
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.live_server import LiveError, LiveServer, wait_until_old

# The server remembers settings for three seconds, and up to three more (lakeFS
# `pkg/graveler/settings/manager.go`).
_SETTINGS_WITHIN_SECONDS = 10


class LiveRepository:
    """A repository that records everything written to it.

    Attributes:
        name: Unique name.
        namespace: Its requested storage namespace.
        store: The namespace in the store, without the server.
        contents: Relative address -> bytes of every object that was written.
        commits: Commit id -> the commit as the API described it when it was made.
    """

    def __init__(
        self,
        server: LiveServer,
        *,
        namespace: str | None = None,
        prefix: str = "",
        slash: str = "",
        **creation: Any,
    ) -> None:
        self.server = server
        self.name = f"lakegc-live-{uuid.uuid4().hex[:12]}"
        self.namespace = namespace or f"{server.root}/{prefix}{self.name}{slash}"
        self.store = server.store(self.namespace)
        self.contents: dict[str, bytes] = {}
        self.commits: dict[str, dict[str, Any]] = {}
        self.last_write = time.time()
        query = {"bare": "true"} if creation.pop("bare", False) else None
        server.call(
            "POST",
            "/repositories",
            query=query,
            data={
                "name": self.name,
                "storage_namespace": self.namespace,
                "default_branch": "main",
                **creation,
            },
        )
        if query is None:
            self.note_head("main")

    def call(self, method: str, path: str, **what: Any) -> Any:
        """Call an endpoint of this repository."""
        return self.server.call(method, f"/repositories/{self.name}{path}", **what)

    def ask(self, method: str, path: str, **what: Any) -> Any:
        """Call an endpoint of this repository; accept any status."""
        return self.server.ask(method, f"/repositories/{self.name}{path}", **what)

    def remove(self) -> None:
        """Delete the repository and its namespace."""
        with contextlib.suppress(LiveError):
            self.call("DELETE", "", query={"force": "true"})
        self.store.clear()

    def settle(self) -> None:
        """Wait until everything that was written is old enough to be collected."""
        wait_until_old(self.last_write)

    # Objects

    def wrote(self, physical_address: str, data: bytes) -> str:
        """Record an object; return its relative address."""
        address = self.store.relative(physical_address)
        assert address is not None, physical_address
        self.contents[address] = data
        self.last_write = time.time()
        return address

    def upload(self, branch: str, path: str, data: bytes) -> str:
        """Upload through the API; returns the relative address."""
        found = self.call("POST", f"/branches/{branch}/objects", query={"path": path}, body=data)
        return self.wrote(found["physical_address"], data)

    def upload_by_gateway(self, branch: str, path: str, data: bytes) -> str:
        """Upload through the S3 gateway."""
        self.server.gateway.put_object(Bucket=self.name, Key=f"{branch}/{path}", Body=data)
        return self.wrote(self.stat(branch, path)["physical_address"], data)

    def upload_in_parts(self, branch: str, path: str, parts: list[bytes]) -> str:
        """Upload through the S3 gateway, in parts."""
        where = {"Bucket": self.name, "Key": f"{branch}/{path}"}
        upload = self.server.gateway.create_multipart_upload(**where)["UploadId"]
        done = [
            {
                "PartNumber": number,
                "ETag": self.server.gateway.upload_part(
                    **where, UploadId=upload, PartNumber=number, Body=part
                )["ETag"],
            }
            for number, part in enumerate(parts, 1)
        ]
        self.server.gateway.complete_multipart_upload(
            **where, UploadId=upload, MultipartUpload={"Parts": done}
        )
        return self.wrote(self.stat(branch, path)["physical_address"], b"".join(parts))

    def upload_in_presigned_parts(self, branch: str, path: str, parts: list[bytes]) -> str:
        """Upload in parts without the server, for stores that presign."""
        upload = self.call(
            "POST", f"/branches/{branch}/staging/pmpu", query={"path": path, "parts": len(parts)}
        )
        done = []
        for number, (url, part) in enumerate(zip(upload["presigned_urls"], parts, strict=True), 1):
            answer = self.server.http.request("PUT", url, body=part)
            assert answer.status == 200, answer.data
            done.append({"part_number": number, "etag": answer.headers["ETag"]})
        self.call(
            "PUT",
            f"/branches/{branch}/staging/pmpu/{upload['upload_id']}",
            query={"path": path},
            data={"physical_address": upload["physical_address"], "parts": done},
        )
        return self.wrote(upload["physical_address"], b"".join(parts))

    def address_for(self, branch: str, path: str) -> dict[str, Any]:
        """Allocate an address for an upload without the server."""
        return dict(self.call("GET", f"/branches/{branch}/staging/backing", query={"path": path}))

    def write_unlinked(self, branch: str, path: str, data: bytes) -> dict[str, Any]:
        """Write an object at an allocated address, and leave it there without a reference."""
        place = self.address_for(branch, path)
        key = self.store.relative(place["physical_address"])
        assert key is not None, place
        self.store.put(key, data)
        self.wrote(place["physical_address"], data)
        return place

    def link(self, branch: str, path: str, data: bytes) -> str:
        """Upload without the server and link the object to a path."""
        place = self.write_unlinked(branch, path, data)
        self.link_to(branch, path, place["physical_address"], data)
        address = self.store.relative(place["physical_address"])
        assert address is not None
        return address

    def link_to(self, branch: str, path: str, physical_address: str, data: bytes) -> None:
        """Link a path to an existing object."""
        self.call(
            "PUT",
            f"/branches/{branch}/staging/backing",
            query={"path": path},
            data={
                "staging": {"physical_address": physical_address},
                "checksum": hashlib.md5(data).hexdigest(),
                "size_bytes": len(data),
            },
        )
        self.last_write = time.time()

    def import_object(self, branch: str, path: str, uri: str) -> None:
        """Import one object of the store to a path, by a commit, and wait for it.

        Raises:
            LiveError: If the server does not accept the import.
            AssertionError: If the accepted import failed.
        """
        data = {
            "paths": [{"path": uri, "destination": path, "type": "object"}],
            "commit": {"message": "import"},
        }
        started = self.call("POST", f"/branches/{branch}/import", data=data)
        while not (
            status := self.call("GET", f"/branches/{branch}/import", query={"id": started["id"]})
        )["completed"]:
            # A failed import is never completed.
            assert not status.get("error"), status["error"]
            time.sleep(0.1)
        self.note_head(branch)
        self.last_write = time.time()

    def stage(
        self,
        branch: str,
        path: str,
        physical_address: str,
        *,
        size_bytes: int = 1,
        checksum: str = "said",
    ) -> Any:
        """Stage an entry with a chosen address; accept any status."""
        self.last_write = time.time()
        return self.ask(
            "PUT",
            f"/branches/{branch}/objects",
            query={"path": path},
            data={
                "physical_address": physical_address,
                "checksum": checksum,
                "size_bytes": size_bytes,
            },
        )

    def date_entry(self, branch: str, path: str, *, days_ago: float) -> None:
        """Stage an entry again with a date of some days ago; an upload gives it today's."""
        then = self.server.now() - timedelta(days=days_ago)
        self.stage_again(branch, path, branch, path, mtime=int(then.timestamp()))

    def stage_again(self, source: str, path: str, branch: str, other: str, **data: Any) -> None:
        """Give an object another name, or the same one anew."""
        found = self.stat(source, path)
        address = self.store.relative(found["physical_address"])
        assert address is not None, found
        self.call(
            "PUT",
            f"/branches/{branch}/objects",
            query={"path": other},
            data={
                # A local server shows a staged address with its own path twice, and would not find
                # that one.
                "physical_address": self.store.absolute(address),
                "checksum": found["checksum"],
                "size_bytes": found["size_bytes"],
                **data,
            },
        )

    def upload_dated(self, branch: str, path: str, data: bytes, *, days_ago: float) -> str:
        """Upload an object that is some days old, by its entry and in the store, and stage it.

        Only a local store takes a date.
        """
        address = self.upload(branch, path, data)
        self.store.date(address, self.server.now() - timedelta(days=days_ago))
        self.date_entry(branch, path, days_ago=days_ago)
        return address

    def copy(self, branch: str, path: str, source_ref: str, source_path: str) -> str:
        """Copy an object."""
        source = self.stat(source_ref, source_path)
        found = self.call(
            "POST",
            f"/branches/{branch}/objects/copy",
            query={"dest_path": path},
            data={"src_path": source_path, "src_ref": source_ref},
        )
        address = self.store.relative(source["physical_address"])
        assert address is not None, source
        return self.wrote(found["physical_address"], self.contents[address])

    def delete(self, branch: str, path: str) -> None:
        self.call("DELETE", f"/branches/{branch}/objects", query={"path": path})

    def stat(self, ref: str, path: str) -> dict[str, Any]:
        return dict(self.call("GET", f"/refs/{ref}/objects/stat", query={"path": path}))

    def get(self, ref: str, path: str) -> bytes:
        """Read an object through the API."""
        answer = self.ask("GET", f"/refs/{ref}/objects", query={"path": path})
        if answer.status != 200:
            raise LiveError(answer.status, f"{ref}/{path}")
        return bytes(answer.body)

    def entries(self, ref: str) -> dict[str, str]:
        """Path -> physical address of every entry of a ref."""
        found = self.server.listed(f"/repositories/{self.name}/refs/{ref}/objects/ls")
        return {entry["path"]: entry["physical_address"] for entry in found}

    # Commits and refs

    def note_head(self, branch: str) -> str:
        """Record the head of a branch; return its id."""
        (head,) = self.call("GET", f"/refs/{branch}/commits", query={"amount": 1})["results"]
        return self.note(head)

    def note(self, commit: dict[str, Any]) -> str:
        self.commits[commit["id"]] = commit
        return str(commit["id"])

    def created(self, commit_id: str) -> datetime:
        """Return the creation date of a commit, as the rules count it."""
        return datetime.fromtimestamp(self.commits[commit_id]["creation_date"], UTC)

    def commit(self, branch: str, *, days_ago: float = 0, message: str = "", **data: Any) -> str:
        """Commit what is staged, as of some days ago."""
        made = self.server.now() - timedelta(days=days_ago)
        data = {"message": message or f"{days_ago} days ago", "date": int(made.timestamp()), **data}
        return self.note(self.call("POST", f"/branches/{branch}/commits", data=data))

    def branch(self, name: str, source: str = "main", *, hidden: bool = False) -> None:
        self.call("POST", "/branches", data={"name": name, "source": source, "hidden": hidden})

    def drop_branch(self, name: str) -> None:
        self.call("DELETE", f"/branches/{name}")

    def branches(self) -> dict[str, str]:
        """Name -> head, hidden ones too."""
        found = self.server.listed(f"/repositories/{self.name}/branches", show_hidden="true")
        return {branch["id"]: branch["commit_id"] for branch in found}

    def tag(self, name: str, ref: str) -> None:
        self.call("POST", "/tags", data={"id": name, "ref": ref})

    def drop_tag(self, name: str) -> None:
        self.call("DELETE", f"/tags/{name}")

    def tags(self) -> dict[str, str]:
        """Name -> commit."""
        return {
            tag["id"]: tag["commit_id"]
            for tag in self.server.listed(f"/repositories/{self.name}/tags")
        }

    def merge(self, source: str, destination: str, **data: Any) -> str:
        self.call("POST", f"/refs/{source}/merge/{destination}", data={"message": "merge", **data})
        return self.note_head(destination)

    def revert(self, branch: str, ref: str, *, parent_number: int = 0) -> str:
        self.call(
            "POST", f"/branches/{branch}/revert", data={"ref": ref, "parent_number": parent_number}
        )
        return self.note_head(branch)

    def cherry_pick(self, branch: str, ref: str, **data: Any) -> str:
        return self.note(
            self.call("POST", f"/branches/{branch}/cherry-pick", data={"ref": ref, **data})
        )

    def reset(self, branch: str, **data: Any) -> None:
        self.call("PUT", f"/branches/{branch}", data={"type": "reset", **data})

    def hard_reset(self, branch: str, ref: str) -> None:
        self.call("PUT", f"/branches/{branch}/hard_reset", query={"ref": ref})

    def protect(self, *patterns: str) -> None:
        """Set branch protection, and wait until the server enforces it: it remembers the rules for
        up to six seconds.

        The branches that are tried have the names of the patterns, with `probe` for a `*`.
        """
        rules = [{"pattern": pattern} for pattern in patterns]
        self.call("PUT", "/settings/branch_protection", data=rules)
        for name in (pattern.replace("*", "probe") for pattern in patterns):
            is_there = name in self.branches()
            if not is_there:
                self.branch(name)
            until = time.monotonic() + _SETTINGS_WITHIN_SECONDS
            while self.ask("POST", f"/branches/{name}/commits", data={"message": ""}).status != 403:
                assert time.monotonic() < until, f"{name} is not protected"
                time.sleep(0.2)
            if not is_there:
                self.drop_branch(name)

    def rules(self, default: int, **branches: int) -> None:
        """Set the retention rules."""
        rules = [{"branch_id": name, "retention_days": days} for name, days in branches.items()]
        self.call(
            "PUT", "/settings/gc_rules", data={"default_retention_days": default, "branches": rules}
        )

    # What is there

    def data(self) -> set[str]:
        """The keys below data/, listed by the store itself."""
        return set(self.store.keys("data/"))

    def lies_there(self, address: str) -> bool:
        return address in self.data()

    def require_readable(self, refs: list[str], *, but: AbstractSet[str] = frozenset()) -> int:
        """Read every entry of the refs, except some addresses, and compare the bytes; return the
        number read.
        """
        shown = [
            (ref, path, self.store.relative(address))
            for ref in refs
            for path, address in self.entries(ref).items()
        ]
        wanted = [one for one in shown if one[2] not in but]
        with ThreadPoolExecutor(8) as pool:
            found = pool.map(lambda one: self.get(one[0], one[1]), wanted)
            for (ref, path, address), data in zip(wanted, found, strict=True):
                assert address is not None, (ref, path)
                assert data == self.contents[address], (ref, path, address)
        return len(wanted)


def import_or_skip(repository: LiveRepository, branch: str, path: str, uri: str) -> None:
    """Import one object of the store, or skip the test where the server takes no such import."""
    try:
        repository.import_object(branch, path, uri)
    except LiveError as refused:
        pytest.skip(
            f"this server takes no such import (on a local blockstore: import_enabled): {refused}"
        )


def short(commit_id: str) -> str:
    """Abbreviate a commit id, because after a cherry-pick the server's cache under the full id may
    be damaged.
    """
    return commit_id[:24]
