"""The actions that each call needs, and what a policy allows, as the real server defines both.

References:
    lakeFS v1.84: the `authorize` calls of `pkg/api/controller.go`, `pkg/permissions/permission.go`,
    `CheckPermissions` of `pkg/auth/service.go`, `pkg/auth/arn.go`, `pkg/auth/wildcard/match.go`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

ANYTHING = "*"
LIST_REPOSITORIES = "fs:ListRepositories"


@dataclass(frozen=True)
class Need:
    """An action that a call needs on a resource.

    Attributes:
        action: Name of the action.
        resource: Template of the ARN, over the names in the path, the query and the JSON body.
    """

    action: str
    resource: str = "repository/{repository}"

    def on(self, names: Mapping[str, str]) -> str:
        """Return the ARN of the resource; a name that is not in the call is empty."""
        if self.resource == ANYTHING:
            return ANYTHING
        filled = re.sub(r"\{(\w+)\}", lambda found: names.get(found[1], ""), self.resource)
        return f"arn:lakefs:fs:::{filled}"


_BRANCH = "repository/{repository}/branch/{branch}"
_TAG = "repository/{repository}/tag/{tag}"
_OBJECT = "repository/{repository}/object/{path}"
_GET_RULES = (Need("retention:GetGarbageCollectionRules"),)
_SET_RULES = (Need("retention:SetGarbageCollectionRules"),)
_PREPARE_COMMITS = (Need("retention:PrepareGarbageCollectionCommits"),)
_DUMP = (Need("fs:ListTags"), Need("fs:ListBranches"), Need("fs:ListCommits"))
_TABLE = (Need("fs:ListObjects"), Need("fs:ReadRepository"))
_WRITE = (Need("fs:WriteObject", _OBJECT),)
_READ = (Need("fs:ReadObject", _OBJECT),)
_REVERT = (Need("fs:RevertBranch", _BRANCH),)
_COMMIT = (Need("fs:CreateCommit", _BRANCH),)

# Keys are endpoint names. A call without an entry needs only a valid user. The list of repositories
# has no entry, because the server filters it instead.
NEEDS: Mapping[str, tuple[Need, ...]] = {
    "create_repository": (
        Need("fs:CreateRepository", "repository/{name}"),
        Need("fs:AttachStorageNamespace", "namespace/{storage_namespace}"),
    ),
    "get_repository": (Need("fs:ReadRepository"),),
    "delete_repository": (Need("fs:DeleteRepository"),),
    "dump_refs": _DUMP,
    "dump_submit": _DUMP,
    "dump_status": _DUMP,
    "list_branches": (Need("fs:ListBranches"),),
    "get_branch": (Need("fs:ReadBranch", _BRANCH),),
    "create_branch": (Need("fs:CreateBranch", "repository/{repository}/branch/{name}"),),
    "delete_branch": (Need("fs:DeleteBranch", _BRANCH),),
    "reset_branch": _REVERT,
    "hard_reset_branch": _REVERT,
    "revert_branch": _REVERT,
    "cherry_pick": (*_COMMIT, Need("fs:ReadCommit")),
    "diff_branch": (Need("fs:ListObjects"),),
    "commit": _COMMIT,
    "list_tags": (Need("fs:ListTags"),),
    "create_tag": (Need("fs:CreateTag", "repository/{repository}/tag/{id}"),),
    "delete_tag": (Need("fs:DeleteTag", _TAG),),
    "log_commits": (Need("fs:ReadBranch", "repository/{repository}/branch/{ref}"),),
    "merge_into_branch": _COMMIT,
    "diff_refs": (Need("fs:ListObjects"),),
    "upload_object": _WRITE,
    "stage_object": _WRITE,
    "delete_object": (Need("fs:DeleteObject", _OBJECT),),
    "copy_object": (
        Need("fs:ReadObject", "repository/{repository}/object/{src_path}"),
        Need("fs:WriteObject", "repository/{repository}/object/{dest_path}"),
    ),
    "get_physical_address": _WRITE,
    "link_physical_address": _WRITE,
    "get_object": _READ,
    "stat_object": _READ,
    "list_objects": (Need("fs:ListObjects"),),
    "get_gc_rules": _GET_RULES,
    "set_gc_rules": _SET_RULES,
    "delete_gc_rules": _SET_RULES,
    "prepare_garbage_collection_commits": _PREPARE_COMMITS,
    "prepare_garbage_collection_commits_async": _PREPARE_COMMITS,
    "prepare_garbage_collection_commits_status": _PREPARE_COMMITS,
    "prepare_garbage_collection_uncommitted": (
        Need("retention:PrepareGarbageCollectionUncommitted"),
    ),
    "get_range": _TABLE,
    "get_branch_protection_rules": (Need("branches:GetBranchProtectionRules"),),
    "set_branch_protection_rules": (Need("branches:SetBranchProtectionRules"),),
    "list_pull_requests": (Need("pr:ListPullRequests"),),
    "create_pull_request": (Need("pr:WritePullRequest"),),
    "update_pull_request": (Need("pr:WritePullRequest"),),
}


# A call about many paths is not refused as a whole: each path is.
NEEDS_OF_EACH_PATH: Mapping[str, Need] = {"delete_objects": Need("fs:DeleteObject", _OBJECT)}


@dataclass(frozen=True)
class Policy:
    """The permissions of a user: the statements of one or more policies.

    Attributes:
        statements: Each has `effect`, a list `action`, and one `resource`, which may be a JSON list
            in a string.
    """

    statements: tuple[Mapping[str, Any], ...]

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Policy:
        """Read a policy document in the server's form.

        Raises:
            ValueError: If a statement is not a policy statement.
        """
        statements = tuple(document["statement"])
        for statement in statements:
            resources = list(_resources(statement))
            actions = statement["action"]
            well_formed = (
                statement["effect"] in {"allow", "deny"} and isinstance(actions, list) and actions
            )
            if not well_formed or not all(
                each == ANYTHING or each.count(":") >= 5 for each in resources
            ):
                raise ValueError(f"not a statement of a lakeFS policy: {statement}")
        return cls(statements)

    def allows(self, action: str, resource: str) -> bool:
        """Say whether some statement allows an action on a resource and none denies it."""
        effects = {
            statement["effect"]
            for statement in self.statements
            if _matches(statement, action, resource)
        }
        return effects == {"allow"}

    def allows_somewhere(self, action: str) -> bool:
        """Say whether an action is allowed on at least one resource."""
        return any(
            statement["effect"] == "allow"
            and any(_fits(pattern, action) for pattern in statement["action"])
            for statement in self.statements
        )


def _matches(statement: Mapping[str, Any], action: str, resource: str) -> bool:
    return any(_fits(pattern, action) for pattern in statement["action"]) and any(
        # Only the last field of an ARN may have wildcards. The others must be equal.
        pattern == ANYTHING or _fits(pattern, resource)
        for pattern in _resources(statement)
    )


def _resources(statement: Mapping[str, Any]) -> Iterator[str]:
    resource: str = statement["resource"]
    yield from json.loads(resource) if resource.startswith("[") else [resource]


def _fits(pattern: str, text: str) -> bool:
    """Match a text with a pattern of `*` (anything) and `?` (one character)."""
    words = {"*": ".*", "?": "."}
    return (
        re.fullmatch("".join(words.get(each, re.escape(each)) for each in pattern), text, re.DOTALL)
        is not None
    )
