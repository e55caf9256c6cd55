"""Routes about branches, tags, commits, merges and differences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from http import HTTPStatus
from itertools import dropwhile, islice
from typing import Any

from starlette.responses import Response

from lakegc_dagster.sandbox import listing, merge, objects, refs
from lakegc_dagster.sandbox.errors import ApiError, bad_request, not_found
from lakegc_dagster.sandbox.times import to_seconds
from lakegc_dagster.sandbox.web import Call, Endpoint, Field, answer, no_content, page
from spark_core.graveler import CommitRecord, Timestamp

_OVERRIDES = {"message": Field(str), "metadata": Field(dict)}


def commit_json(commit: CommitRecord) -> dict[str, object]:
    """Print a commit as the API does."""
    return {
        "committer": commit.committer,
        "creation_date": commit.creation_date.seconds,
        "generation": commit.generation,
        "id": commit.id,
        "message": commit.message,
        "meta_range_id": commit.metarange_id,
        "metadata": dict(commit.metadata),
        "parents": list(commit.parents),
        "version": commit.version,
    }


def _ref_json(name: str, commit_id: str) -> dict[str, object]:
    return {"commit_id": commit_id, "id": name}


def _ref_page(call: Call, rows: Iterable[tuple[str, str]]) -> Response:
    after, prefix = call.text("after"), call.text("prefix")
    shown = (_ref_json(name, commit) for name, commit in rows if name > after and name.startswith(prefix))
    return answer(page(shown, call.amount(), offset=lambda row: row["id"]))


# branches


def _list_branches(call: Call) -> Response:
    hidden = call.flag("show_hidden")
    repository = call.core.repository(call.repository_id)
    branches = call.core.state.branches(repository.number)
    return _ref_page(call, ((branch.id, branch.commit_id) for branch in branches if hidden or not branch.hidden))


def _create_branch(call: Call) -> Response:
    body = call.json(
        "BranchCreation",
        {
            "name": Field(str, required=True),
            "source": Field(str, required=True),
            "hidden": Field(bool),
            "force": Field(bool),
        },
    )
    commit = refs.create_branch(
        call.core,
        call.repository_id,
        body["name"],
        body["source"],
        hidden=body.get("hidden", False),
        force=body.get("force", False),
    )
    return Response(commit.id, HTTPStatus.CREATED, media_type="text/plain")


def _get_branch(call: Call) -> Response:
    branch = call.core.branch(call.core.repository(call.repository_id), call.branch_id)
    return answer(_ref_json(branch.id, branch.commit_id))


def _delete_branch(call: Call) -> Response:
    refs.delete_branch(call.core, call.repository_id, call.branch_id, force=call.flag("force"))
    return no_content()


def _reset_branch(call: Call) -> Response:
    body = call.json("ResetCreation", {"type": Field(str, required=True), "path": Field(str), "force": Field(bool)})
    objects.reset(
        call.core,
        call.repository_id,
        call.branch_id,
        body["type"],
        body.get("path", ""),
        force=body.get("force", False),
    )
    return no_content()


def _hard_reset(call: Call) -> Response:
    refs.hard_reset(call.core, call.repository_id, call.branch_id, call.required("ref"), force=call.flag("force"))
    return no_content()


def _overrides(body: dict[str, Any]) -> merge.Overrides | None:
    given = body.get("commit_overrides")
    return merge.Overrides(given.get("message"), given.get("metadata")) if given else None


def _revert(call: Call) -> Response:
    body = call.json(
        "RevertCreation",
        {
            "ref": Field(str, required=True),
            "parent_number": Field(int, required=True),
            "commit_overrides": Field(dict),
            "allow_empty": Field(bool),
            "force": Field(bool),
        },
    )
    merge.revert(
        call.core,
        call.repository_id,
        call.branch_id,
        body["ref"],
        parent_number=body["parent_number"],
        overrides=_overrides(body),
        allow_empty=body.get("allow_empty", False),
        force=body.get("force", False),
    )
    return no_content()


def _cherry_pick(call: Call) -> Response:
    body = call.json(
        "CherryPickCreation",
        {
            "ref": Field(str, required=True),
            "parent_number": Field(int),
            "commit_overrides": Field(dict),
            "force": Field(bool),
        },
    )
    commit = merge.cherry_pick(
        call.core,
        call.repository_id,
        call.branch_id,
        body["ref"],
        parent_number=body.get("parent_number"),
        overrides=_overrides(body),
        force=body.get("force", False),
    )
    return answer(commit_json(commit), HTTPStatus.CREATED)


# tags


def _list_tags(call: Call) -> Response:
    return _ref_page(call, call.core.state.tags(call.core.repository(call.repository_id).number))


def _create_tag(call: Call) -> Response:
    body = call.json(
        "TagCreation", {"id": Field(str, required=True), "ref": Field(str, required=True), "force": Field(bool)}
    )
    commit = refs.create_tag(call.core, call.repository_id, body["id"], body["ref"], force=body.get("force", False))
    return answer(_ref_json(body["id"], commit.id), HTTPStatus.CREATED)


def _get_tag(call: Call) -> Response:
    tag_id = call.path("tag")
    commit_id = call.core.state.tag(call.core.repository(call.repository_id).number, tag_id)
    if commit_id is None:
        raise not_found("tag")
    return answer(_ref_json(tag_id, commit_id))


def _delete_tag(call: Call) -> Response:
    repository = call.core.writable(call.repository_id, force=call.flag("force"))
    if not call.core.state.delete_tag(repository.number, call.path("tag")):
        raise not_found("tag")
    return no_content()


# commits


def _commit(call: Call) -> Response:
    body = call.json(
        "CommitCreation",
        {
            "message": Field(str, required=True),
            "metadata": Field(dict),
            "date": Field(int),
            "allow_empty": Field(bool),
            "force": Field(bool),
        },
    )
    made = refs.commit(
        call.core,
        call.repository_id,
        call.branch_id,
        message=body["message"],
        metadata=body.get("metadata"),
        date=body.get("date"),
        allow_empty=body.get("allow_empty", False),
        force=body.get("force", False),
    )
    return answer(commit_json(made), HTTPStatus.CREATED)


def _commit_record(call: Call) -> Response:
    body = call.json(
        "CommitRecordCreation",
        {
            "commit_id": Field(str, required=True),
            "version": Field(int, required=True),
            "committer": Field(str, required=True),
            "message": Field(str, required=True),
            "metarange_id": Field(str, required=True),
            "creation_date": Field(int, required=True),
            "parents": Field(list, required=True, items=str),
            "metadata": Field(dict),
            "generation": Field(int, required=True),
            "force": Field(bool),
        },
    )
    record = CommitRecord(
        id=body["commit_id"],
        committer=body["committer"],
        message=body["message"],
        creation_date=Timestamp(body["creation_date"]),
        metarange_id=body["metarange_id"],
        metadata=body.get("metadata", {}),
        parents=tuple(body["parents"]),
        version=body["version"],
        generation=body["generation"],
    )
    refs.add_commit_record(call.core, call.repository_id, record, force=body.get("force", False))
    return no_content()


def _get_commit(call: Call) -> Response:
    repository = call.core.repository(call.repository_id)
    return answer(commit_json(refs.resolve_commit(call.core, repository, call.path("commit"))))


def _log(call: Call) -> Response:
    repository = call.core.repository(call.repository_id)
    commits: Iterator[CommitRecord] = refs.log(
        call.core, repository, call.path("ref"), first_parent=call.flag("first_parent")
    )
    after = call.text("after")
    if after:
        commits = islice(dropwhile(lambda commit: commit.id != after, commits), 1, None)
    return answer(page(map(commit_json, commits), call.amount(), offset=lambda row: row["id"]))


# merges and differences


def _merge(call: Call) -> Response:
    body = (
        call.json(
            "Merge",
            {
                "message": Field(str),
                "metadata": Field(dict),
                "strategy": Field(str),
                "squash_merge": Field(bool),
                "allow_empty": Field(bool),
                "force": Field(bool),
            },
        )
        if call.data
        else {}
    )
    try:
        made = merge.merge(
            call.core,
            call.repository_id,
            call.path("source"),
            call.branch_id,
            message=body.get("message", ""),
            metadata=body.get("metadata"),
            strategy=body.get("strategy", ""),
            squash=body.get("squash_merge", False),
            allow_empty=body.get("allow_empty", False),
            force=body.get("force", False),
        )
    except ApiError as error:
        if error.status is HTTPStatus.CONFLICT:
            return answer({"reference": ""}, HTTPStatus.CONFLICT)
        raise
    return answer({"reference": made.id})


def _merge_base(call: Call) -> Response:
    repository = call.core.repository(call.repository_id)
    source = refs.resolve(call.core, repository, call.path("source")).commit
    destination = refs.resolve(call.core, repository, call.branch_id).commit
    base = refs.merge_base(call.core, repository, source, destination)
    return answer(
        {
            "base_commit_id": base.id if base else "",
            "destination_commit_id": destination.id,
            "source_commit_id": source.id,
        }
    )


def _difference_page(call: Call, rows: Iterable[listing.Difference]) -> Response:
    """Cut a page of differences, paths below a delimiter folded into their prefix."""
    after, prefix, delimiter = (call.text(name).encode() for name in ("after", "prefix", "delimiter"))
    include_right = call.flag("include_right_stats")

    def shown() -> Iterator[dict[str, object]]:
        folded = b""
        for row in rows:
            if not row.path.startswith(prefix) or (folded and row.path.startswith(folded)):
                continue
            end = row.path.find(delimiter, len(prefix)) if delimiter else -1
            if end >= 0:
                folded = row.path[: end + len(delimiter)]
                if folded > after:
                    yield {"path": folded.decode(), "path_type": "common_prefix", "type": "prefix_changed"}
                continue
            if row.path <= after:
                continue
            out: dict[str, object] = {
                "path": row.path.decode(),
                "path_type": "object",
                # The real server gives a removed path the size 0.
                "size_bytes": 0 if row.type == "removed" else row.entry.size_bytes,
                "type": row.type,
            }
            if include_right and row.type != "removed":
                out["right"] = {
                    "checksum": row.entry.checksum,
                    "content_type": row.entry.content_type,
                    "metadata": dict(row.entry.metadata),
                    "mtime": to_seconds(row.entry.last_modified),
                }
            yield out

    return answer(page(shown(), call.amount(), offset=lambda row: row["path"]))


def _diff_branch(call: Call) -> Response:
    repository = call.core.repository(call.repository_id)
    branch = call.core.branch(repository, call.branch_id)
    start = max(call.text("after"), call.text("prefix")).encode()
    return _difference_page(call, listing.uncommitted(call.core, repository, branch, start))


def _diff_refs(call: Call) -> Response:
    repository = call.core.repository(call.repository_id)
    left = refs.resolve(call.core, repository, call.path("left")).commit
    right = refs.resolve(call.core, repository, call.path("right")).commit
    kind = call.text("type", "three_dot")
    if kind not in {"two_dot", "three_dot"}:
        raise bad_request('parameter "type" in query has an error: value is not one of the allowed values')
    tree = left.metarange_id
    if kind == "three_dot":
        base = refs.merge_base(call.core, repository, right, left)
        tree = base.metarange_id if base else ""
    return _difference_page(call, listing.tree_differences(call.core, repository, tree, right.metarange_id))


_R = "/repositories/{repository}"
_B = _R + "/branches/{branch}"
ENDPOINTS = [
    Endpoint("GET", _R + "/branches", "list_branches", _list_branches),
    Endpoint("POST", _R + "/branches", "create_branch", _create_branch),
    Endpoint("GET", _B, "get_branch", _get_branch),
    Endpoint("DELETE", _B, "delete_branch", _delete_branch),
    Endpoint("PUT", _B, "reset_branch", _reset_branch),
    Endpoint("PUT", _B + "/hard_reset", "hard_reset_branch", _hard_reset),
    Endpoint("POST", _B + "/revert", "revert_branch", _revert),
    Endpoint("POST", _B + "/cherry-pick", "cherry_pick", _cherry_pick),
    Endpoint("GET", _B + "/diff", "diff_branch", _diff_branch),
    Endpoint("POST", _B + "/commits", "commit", _commit),
    Endpoint("GET", _R + "/tags", "list_tags", _list_tags),
    Endpoint("POST", _R + "/tags", "create_tag", _create_tag),
    Endpoint("GET", _R + "/tags/{tag}", "get_tag", _get_tag),
    Endpoint("DELETE", _R + "/tags/{tag}", "delete_tag", _delete_tag),
    Endpoint("POST", _R + "/commits", "create_commit_record", _commit_record),
    Endpoint("GET", _R + "/commits/{commit}", "get_commit", _get_commit),
    Endpoint("GET", _R + "/refs/{ref}/commits", "log_commits", _log),
    Endpoint("POST", _R + "/refs/{source}/merge/{branch}", "merge_into_branch", _merge),
    Endpoint("GET", _R + "/refs/{source}/merge/{branch}", "find_merge_base", _merge_base),
    Endpoint("GET", _R + "/refs/{left}/diff/{right}", "diff_refs", _diff_refs),
]
