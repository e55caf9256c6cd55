"""Which action each call needs on which resource, and what a policy allows: as the real server defines both.

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
        resource: Template of its ARN, over the names of the path, the query and the JSON body.
    """

    action: str
    resource: str = "repository/{repository}"

    def on(self, names: Mapping[str, str]) -> str:
        """Return the ARN of the resource; a name that the call does not have is empty."""
        if self.resource == ANYTHING:
            return ANYTHING
        filled = re.sub(r"\{(\w+)\}", lambda found: names.get(found[1], ""), self.resource)
        return f"arn:lakefs:fs:::{filled}"


_BRANCH = "repository/{repository}/branch/{branch}"
_TAG = "repository/{repository}/tag/{tag}"
_OBJECT = "repository/{repository}/object/{path}"
_READ_CONFIG = (Need("fs:ReadConfig", ANYTHING),)
_GET_RULES = (Need("retention:GetGarbageCollectionRules"),)
_SET_RULES = (Need("retention:SetGarbageCollectionRules"),)
_PREPARE_COMMITS = (Need("retention:PrepareGarbageCollectionCommits"),)
_DUMP = (Need("fs:ListTags"), Need("fs:ListBranches"), Need("fs:ListCommits"))
_TABLE = (Need("fs:ListObjects"), Need("fs:ReadRepository"))
_WRITE = (Need("fs:WriteObject", _OBJECT),)
_READ = (Need("fs:ReadObject", _OBJECT),)
_REVERT = (Need("fs:RevertBranch", _BRANCH),)
_COMMIT = (Need("fs:CreateCommit", _BRANCH),)

# By the name of the endpoint. Without an entry a call needs a valid user and nothing more. The list of repositories is
# not among them: the server filters it instead.
NEEDS: Mapping[str, tuple[Need, ...]] = {
    "get_storage_config": _READ_CONFIG,
    "create_repository": (
        Need("fs:CreateRepository", "repository/{name}"),
        Need("fs:AttachStorageNamespace", "namespace/{storage_namespace}"),
    ),
    "get_repository": (Need("fs:ReadRepository"),),
    "delete_repository": (Need("fs:DeleteRepository"),),
    "get_repository_metadata": (Need("fs:ReadRepository"),),
    "dump_refs": _DUMP,
    "dump_submit": _DUMP,
    "dump_status": _DUMP,
    "list_branches": (Need("fs:ListBranches"),),
    "create_branch": (Need("fs:CreateBranch", "repository/{repository}/branch/{name}"),),
    "get_branch": (Need("fs:ReadBranch", _BRANCH),),
    "delete_branch": (Need("fs:DeleteBranch", _BRANCH),),
    "reset_branch": _REVERT,
    "hard_reset_branch": _REVERT,
    "revert_branch": _REVERT,
    "cherry_pick": (*_COMMIT, Need("fs:ReadCommit")),
    "diff_branch": (Need("fs:ListObjects"),),
    "commit": _COMMIT,
    "list_tags": (Need("fs:ListTags"),),
    "create_tag": (Need("fs:CreateTag", "repository/{repository}/tag/{id}"),),
    "get_tag": (Need("fs:ReadTag", _TAG),),
    "delete_tag": (Need("fs:DeleteTag", _TAG),),
    "create_commit_record": (Need("fs:CreateCommit"),),
    "get_commit": (Need("fs:ReadCommit"),),
    "log_commits": (Need("fs:ReadBranch", "repository/{repository}/branch/{ref}"),),
    "merge_into_branch": _COMMIT,
    "find_merge_base": (Need("fs:ListCommits"),),
    "diff_refs": (Need("fs:ListObjects"),),
    "upload_object": _WRITE,
    "stage_object": _WRITE,
    "delete_object": (Need("fs:DeleteObject", _OBJECT),),
    # The server asks for each path and answers with those that are refused; here one refusal refuses all.
    "delete_objects": (Need("fs:DeleteObject", "repository/{repository}/object/*"),),
    "copy_object": (
        Need("fs:ReadObject", "repository/{repository}/object/{src_path}"),
        Need("fs:WriteObject", "repository/{repository}/object/{dest_path}"),
    ),
    "update_object_user_metadata": _WRITE,
    "get_physical_address": _WRITE,
    "link_physical_address": _WRITE,
    "create_presign_multipart_upload": _WRITE,
    "get_object": _READ,
    "head_object": _READ,
    "stat_object": _READ,
    "get_underlying_properties": _READ,
    "list_objects": (Need("fs:ListObjects"),),
    "get_gc_rules": _GET_RULES,
    "set_gc_rules": _SET_RULES,
    "delete_gc_rules": _SET_RULES,
    "internal_get_garbage_collection_rules": _GET_RULES,
    "internal_set_garbage_collection_rules": _SET_RULES,
    "internal_delete_garbage_collection_rules": _SET_RULES,
    "set_garbage_collection_rules_preflight": _SET_RULES,
    "prepare_garbage_collection_commits": _PREPARE_COMMITS,
    "prepare_garbage_collection_commits_async": _PREPARE_COMMITS,
    "prepare_garbage_collection_commits_status": _PREPARE_COMMITS,
    "prepare_garbage_collection_uncommitted": (Need("retention:PrepareGarbageCollectionUncommitted"),),
    "get_meta_range": _TABLE,
    "get_range": _TABLE,
    "get_metadata_object": _TABLE,
}


@dataclass(frozen=True)
class Policy:
    """What a user may do: the statements of one policy or of several.

    Attributes:
        statements: Each with `effect`, a list `action` and one `resource`, which may be a JSON list in a string.
    """

    statements: tuple[Mapping[str, Any], ...]

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Policy:
        """Read a policy document as it is given to the server.

        Raises:
            ValueError: If a statement is not one of a policy.
        """
        statements = tuple(document["statement"])
        for statement in statements:
            resources = list(_resources(statement))
            actions = statement["action"]
            well_formed = statement["effect"] in {"allow", "deny"} and isinstance(actions, list) and actions
            if not well_formed or not all(each == ANYTHING or each.count(":") >= 5 for each in resources):
                raise ValueError(f"not a statement of a lakeFS policy: {statement}")
        return cls(statements)

    def allows(self, action: str, resource: str) -> bool:
        """Say whether an action is allowed on a resource: by some statement, and denied by none."""
        effects = {statement["effect"] for statement in self.statements if _matches(statement, action, resource)}
        return effects == {"allow"}

    def allows_somewhere(self, action: str) -> bool:
        """Say whether an action is allowed on any resource at all."""
        return any(
            statement["effect"] == "allow" and any(_fits(pattern, action) for pattern in statement["action"])
            for statement in self.statements
        )


def _matches(statement: Mapping[str, Any], action: str, resource: str) -> bool:
    return any(_fits(pattern, action) for pattern in statement["action"]) and any(
        # Only the last field of an ARN takes wildcards; of the others a policy has the very words.
        pattern == ANYTHING or _fits(pattern, resource)
        for pattern in _resources(statement)
    )


def _resources(statement: Mapping[str, Any]) -> Iterator[str]:
    resource: str = statement["resource"]
    yield from json.loads(resource) if resource.startswith("[") else [resource]


def _fits(pattern: str, text: str) -> bool:
    """Compare with a pattern of `*` (anything) and `?` (one character)."""
    words = {"*": ".*", "?": "."}
    return re.fullmatch("".join(words.get(each, re.escape(each)) for each in pattern), text, re.DOTALL) is not None
