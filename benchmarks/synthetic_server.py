"""Answer for a lakeFS server with a prepared repository, each call after the same delay.

    python -m benchmarks.synthetic_server DIRECTORY [--state FOLDER] [--latency-ms 15]

It serves the directory that `benchmarks.large_case` made until its standard input ends, and prints
its address in one line. Another state of the repository has its refs and its plan in a folder of
its own. An unknown call is answered with status 501.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import threading
import time
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np

from benchmarks.hooks.lakegc_bench_plan import Layers

REPOSITORY = "bench"
PREFIX = "_lakefs"
STAGED_PREFIX = "zz-staged/"
_PAGE = 1_000
_UPDATED = "2026-01-01T00:00:00Z"


def staged_path(number: int) -> str:
    """Return the path of a branch's staged entry."""
    return f"{STAGED_PREFIX}part-{number:07}"


@dataclass(frozen=True)
class Refs:
    """The server's knowledge of the repository.

    Attributes:
        branches: Branch -> its head, sorted by name.
        dump: Ids of the metaranges of a refs dump, by the API's names.
        commits_run: Run id of the list of retained commits.
        uncommitted_run: Run id of the scan of staged entries.
        staged: Number of staged entries; the branches have them in turn.
        created_at: Creation of the repository, in seconds since 1970.
        staged_of: Number of staged entries of each plan, in order; None for one plan.
        rules: Rules of garbage collection, as the API shows them.
    """

    branches: dict[str, str]
    dump: dict[str, str]
    commits_run: str
    uncommitted_run: str
    staged: int
    created_at: int
    staged_of: list[int] | None = None
    rules: dict[str, Any] = field(
        default_factory=lambda: {"default_retention_days": 36_500, "branches": None}
    )

    @classmethod
    def read(cls, file: Path) -> Refs:
        """Read the file that was written when the repository was made."""
        return cls(**json.loads(file.read_text()))


class Answers:
    """Finds the answer to a call.

    Args:
        directory: The directory that `benchmarks.large_case` made.
        state: Folder there with the refs, and with the plan of the namespace's objects.
    """

    def __init__(self, directory: Path, state: str = ".") -> None:
        self.refs = Refs.read(directory / state / "refs.json")
        self._layers = Layers.read(directory / state / "plan.json")
        self._root = directory.resolve() / "blockstore" / REPOSITORY
        self._numbers = {branch: number for number, branch in enumerate(self.refs.branches)}

    def answer(self, method: str, url: str) -> tuple[int, Any]:
        """Return status and JSON for a call."""
        split = urlsplit(url)
        after = parse_qs(split.query).get("after", [""])[0]
        called = f"{method} {unquote(split.path.removeprefix('/api/v1'))}"
        for pattern, status, make in self._routes:
            found = pattern.fullmatch(called)
            if found is not None:
                return status, make(*found.groups(), after)
        return 501, {"message": f"{called} is not among the prepared answers"}

    @cached_property
    def _routes(self) -> list[tuple[re.Pattern[str], int, Callable[..., Any]]]:
        """Pattern of each call, its status, and the function that makes the answer."""
        refs, gc = self.refs, f"local://{self._root}/{PREFIX}/retention/gc"
        prepared = {
            "run_id": refs.commits_run,
            "gc_commits_location": f"{gc}/commits/run_id={refs.commits_run}/commits.csv",
            "gc_addresses_location": "",
        }
        scanned = {
            "run_id": refs.uncommitted_run,
            "gc_uncommitted_location": f"{gc}/uncommitted/{refs.uncommitted_run}/uncommitted",
        }
        done = {"done": True, "completed": True, "update_time": _UPDATED}
        constant: dict[str, tuple[int, Any]] = {
            "GET /config": (200, {"storage_config": _STORAGE, "storage_config_list": []}),
            "GET /config/garbage-collection": (200, {"grace_period": 86_400}),
            "GET /repositories": (200, _page([self._repository], more=False, after="")),
            "GET /repositories/bench": (200, self._repository),
            "GET /repositories/bench/settings/gc_rules": (
                200,
                refs.rules,
            ),
            "GET /repositories/bench/tags": (200, _page([], more=False, after="")),
            "POST /repositories/bench/dump": (202, {"id": "dump"}),
            "GET /repositories/bench/dump": (200, {"id": "dump", **done, "refs": refs.dump}),
            "POST /repositories/bench/gc/prepare_commits/async": (202, {"id": "commits"}),
            "GET /repositories/bench/gc/prepare_commits/status": (
                200,
                {"task_id": "commits", **done, "result": prepared},
            ),
            "POST /repositories/bench/gc/prepare_uncommited": (201, scanned),
        }
        branch = "(" + "|".join(map(re.escape, refs.branches)) + ")"
        made: dict[str, Callable[..., Any]] = {
            "GET /repositories/bench/metadata/range/([0-9a-f]+)": lambda table, _: {
                "location": f"{PREFIX}/{table}"
            },
            "GET /repositories/bench/branches": self._branches,
            f"GET /repositories/bench/branches/{branch}/diff": partial(
                self._staged, shows_address=False
            ),
            f"GET /repositories/bench/refs/{branch}/objects/ls": partial(
                self._staged, shows_address=True
            ),
        }
        return [
            *(
                (re.compile(re.escape(call)), status, partial(_said, body))
                for call, (status, body) in constant.items()
            ),
            *((re.compile(call), 200, make) for call, make in made.items()),
        ]

    @property
    def _repository(self) -> dict[str, Any]:
        return {
            "id": REPOSITORY,
            "storage_namespace": f"local://{REPOSITORY}",
            "default_branch": "main",
            "creation_date": self.refs.created_at,
            "read_only": False,
        }

    def _branches(self, after: str) -> Any:
        names = [name for name in self.refs.branches if name > after]
        rows = [{"id": name, "commit_id": self.refs.branches[name]} for name in names[:_PAGE]]
        return _page(rows, more=len(names) > _PAGE, after=rows[-1]["id"] if rows else "")

    def _staged(self, branch: str, after: str, *, shows_address: bool) -> Any:
        """List a branch's staged entries behind a path.

        Its committed entries come before them, and no client needs to list those.
        """
        if shows_address and after < STAGED_PREFIX:
            raise ValueError(
                f"the committed entries of {branch} behind {after!r} were asked for, and are not "
                "prepared"
            )
        branches, first = len(self._numbers), self._numbers[branch]
        count = (self.refs.staged - first + branches - 1) // branches
        begin = bisect_right(range(count), after, key=staged_path) if after else 0
        chosen = range(begin, min(begin + _PAGE, count))
        addresses, sizes = self._layers.staged(
            np.array([first + number * branches for number in chosen], np.int64),
            self.refs.staged_of or [self.refs.staged],
        )
        rows = [
            {
                "type": "added",
                "path": staged_path(number),
                "path_type": "object",
                "size_bytes": size,
            }
            if not shows_address
            else {
                "path": staged_path(number),
                "path_type": "object",
                "physical_address": f"local://{self._root}/{address}",
                "checksum": "0" * 32,
                "mtime": 0,
                "size_bytes": size,
            }
            for number, size, address in zip(chosen, sizes, addresses, strict=True)
        ]
        return _page(
            rows, more=chosen.stop < count, after=staged_path(chosen[-1]) if chosen else ""
        )


def _said(body: Any, _after: str) -> Any:
    return body


def _page(rows: list[Any], *, more: bool, after: str) -> Any:
    return {
        "pagination": {
            "has_more": more,
            "next_offset": after if more else "",
            "results": len(rows),
            "max_per_page": _PAGE,
        },
        "results": rows,
    }


_STORAGE = {
    "blockstore_description": "",
    "blockstore_id": "",
    "blockstore_namespace_ValidityRegex": "^local://",
    "blockstore_namespace_example": "local://example-bucket/",
    "blockstore_type": "local",
    "default_namespace_prefix": "local://",
    "import_support": False,
    "import_validity_regex": "^local://",
    "pre_sign_support": False,
    "pre_sign_support_ui": False,
}


def serve(answers: Answers, latency_seconds: float) -> ThreadingHTTPServer:
    """Make the server; it listens on a free port of loopback, and the caller starts it."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and body of an answer are sent together and without delay.
        wbufsize = -1
        disable_nagle_algorithm = True

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

        def _respond(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            time.sleep(latency_seconds)
            try:
                status, body = answers.answer(self.command, self.path)
            except ValueError as unprepared:
                status, body = 501, {"message": str(unprepared)}
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = _respond  # noqa: N815 - the library's names

    return ThreadingHTTPServer(("127.0.0.1", 0), Handler)


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--state", default=".", help="folder in it with another state")
    parser.add_argument("--latency-ms", type=float, default=15.0, help="delay before each answer")
    asked = parser.parse_args()
    answers = Answers(asked.directory, asked.state)
    server = serve(answers, asked.latency_ms / 1000)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write(f"http://127.0.0.1:{server.server_port}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
