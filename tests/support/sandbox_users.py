"""More users of a sandbox than its owner, for as long as the sandbox lives."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from lakegc_dagster.sandbox import Sandbox
from lakegc_dagster.sandbox.accounts import User


def add_user(sandbox: Sandbox, name: str, policy: Mapping[str, Any]) -> User:
    """Add a user with a policy in the server's form."""
    return sandbox._accounts.add(name, policy)


def attach_aws_identity(sandbox: Sandbox, aws_key_id: str, user: User | None = None) -> None:
    """Let the AWS identity that signs with a key log in as a user, or as the owner."""
    sandbox._accounts.attach(aws_key_id, user or sandbox._accounts.owner)


def token(sandbox: Sandbox, life: timedelta, user: User | None = None) -> str:
    """Return a bearer token of a user, or of the owner; the sandbox's clock tells its life."""
    return sandbox._accounts.tokens.give((user or sandbox._accounts.owner).name, life)[0]
