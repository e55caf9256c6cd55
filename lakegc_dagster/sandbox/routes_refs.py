"""Routes about branches, tags, commits, merges and differences."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from itertools import dropwhile, islice

from starlette.responses import Response

from lakegc_dagster.sandbox import listing, merge, objects, refs
from lakegc_dagster.sandbox.errors import ApiError, bad_request, not_found
from lakegc_dagster.sandbox.web import Call, Endpoint, answer, no_content, page
from spark_core.graveler import CommitRecord


def commit_json(commit: CommitRecord) -> dict[str, object]:
    """Return a commit in the API's form."""
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
    shown = (
        _ref_json(name, commit) for name, commit in rows if name > after and name.startswith(prefix)
    )
    return answer(page(shown, call.amount(), offset=lambda row: row["id"]))


# branches


def _list_branches(call: Call) -> Response:
    hidden = call.flag("show_hidden")
    repository = call.repository
    branches = call.core.state.branches(repository.number)
    return _ref_page(
        call, ((branch.id, branch.commit_id) for branch in branches if hidden or not branch.hidden)
    )


def _get_branch(call: Call) -> Response:
    branch = call.core.branch(call.repository, call.path("branch"))
    return answer(_ref_json(branch.id, branch.commit_id))


def _create_branch(call: Call) -> Response:
    body = call.body()
    commit = refs.create_branch(
        *call.place, body["name"], body["source"], hidden=body.get("hidden", False)
    )
    return Response(commit.id, HTTPStatus.CREATED, media_type="text/plain")


def _delete_branch(call: Call) -> Response:
    refs.delete_branch(*call.branch)
    return no_content()


def _reset_branch(call: Call) -> Response:
    body = call.body()
    objects.reset(*call.branch, body["type"], body.get("path", ""))
    return no_content()


def _hard_reset(call: Call) -> Response:
    refs.hard_reset(*call.branch, call.text("ref"))
    return no_content()


def _revert(call: Call) -> Response:
    body = call.body()
    overrides = body.get("commit_overrides") or {}
    merge.revert(
        *call.branch,
        body["ref"],
        parent_number=body["parent_number"],
        message=overrides.get("message") or "",
        metadata=overrides.get("metadata"),
    )
    return no_content()


def _cherry_pick(call: Call) -> Response:
    body = call.body()
    commit = merge.cherry_pick(*call.branch, body["ref"], parent_number=body.get("parent_number"))
    return answer(commit_json(commit), HTTPStatus.CREATED)


# tags


def _list_tags(call: Call) -> Response:
    return _ref_page(call, call.core.state.tags(call.repository.number))


def _create_tag(call: Call) -> Response:
    body = call.body()
    commit = refs.create_tag(*call.place, body["id"], body["ref"])
    return answer(_ref_json(body["id"], commit.id), HTTPStatus.CREATED)


def _delete_tag(call: Call) -> Response:
    repository = call.core.writable(call.repository_id)
    if not call.core.state.delete_tag(repository.number, call.path("tag")):
        raise not_found("tag")
    return no_content()


# commits


def _commit(call: Call) -> Response:
    body = call.body()
    made = refs.commit(
        *call.branch,
        message=body["message"],
        metadata=body.get("metadata"),
        date=body.get("date"),
        allow_empty=body.get("allow_empty", False),
    )
    return answer(commit_json(made), HTTPStatus.CREATED)


def _log(call: Call) -> Response:
    repository = call.repository
    commits = refs.log(
        call.core, repository, call.path("ref"), first_parent=call.flag("first_parent")
    )
    after = call.text("after")
    if after:
        commits = islice(dropwhile(lambda commit: commit.id != after, commits), 1, None)
    return answer(page(map(commit_json, commits), call.amount(), offset=lambda row: row["id"]))


# merges and differences


def _merge(call: Call) -> Response:
    body = call.body()
    try:
        made = merge.merge(
            *call.place,
            call.path("source"),
            call.path("branch"),
            message=body.get("message", ""),
            strategy=body.get("strategy", ""),
            squash=body.get("squash_merge", False),
            metadata=body.get("metadata"),
        )
    except ApiError as error:
        if error.status is HTTPStatus.CONFLICT:
            return answer({"reference": ""}, HTTPStatus.CONFLICT)
        raise
    return answer({"reference": made.id})


def _diff_branch(call: Call) -> Response:
    repository = call.repository
    branch = call.core.branch(repository, call.path("branch"))
    after, prefix = call.text("after").encode(), call.text("prefix").encode()
    shown = (
        _difference_json(row)
        for row in listing.uncommitted(call.core, repository, branch, max(after, prefix))
        if row.path != after and row.path.startswith(prefix)
    )
    return answer(page(shown, call.amount(), offset=lambda row: row["path"]))


def _difference_json(row: listing.Difference) -> dict[str, object]:
    return {
        "path": row.path.decode(),
        "path_type": "object",
        # The real server reports size 0 for a removed path.
        "size_bytes": 0 if row.type == "removed" else row.entry.size_bytes,
        "type": row.type,
    }


def _diff_refs(call: Call) -> Response:
    """Compare the commits of two refs; only from the first to the second (`two_dot`)."""
    repository = call.repository
    if call.text("type") != "two_dot":
        raise bad_request("the sandbox knows differences of the type two_dot alone")
    left, right = (
        refs.resolve(call.core, repository, call.path(name)).commit for name in ("left", "right")
    )
    after, prefix = call.text("after").encode(), call.text("prefix").encode()
    shown = (
        _difference_json(row)
        for row in listing.tree_differences(
            call.core, repository, left.metarange_id, right.metarange_id
        )
        if row.path > after and row.path.startswith(prefix)
    )
    return answer(page(shown, call.amount(), offset=lambda row: row["path"]))


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
    Endpoint("DELETE", _R + "/tags/{tag}", "delete_tag", _delete_tag),
    Endpoint("GET", _R + "/refs/{ref}/commits", "log_commits", _log),
    Endpoint("POST", _R + "/refs/{source}/merge/{branch}", "merge_into_branch", _merge),
    Endpoint("GET", _R + "/refs/{left}/diff/{right}", "diff_refs", _diff_refs),
]
