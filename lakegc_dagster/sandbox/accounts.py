"""Who may call the sandbox: its owner without limits, and users within their policies."""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lakegc_dagster.sandbox.core import COMMITTER
from lakegc_dagster.sandbox.permissions import (
    LIST_REPOSITORIES,
    NEEDS,
    NEEDS_OF_EACH_PATH,
    Policy,
)
from lakegc_dagster.sandbox.tokens import Tokens

_KEY_LETTERS = string.ascii_uppercase + string.digits


@dataclass(frozen=True)
class Credentials:
    """A key pair."""

    access_key_id: str
    secret_access_key: str = field(repr=False)

    @classmethod
    def made(cls) -> Credentials:
        """Make a pair that nobody has."""
        return cls(
            "SANDBOX" + "".join(secrets.choice(_KEY_LETTERS) for _ in range(13)),
            secrets.token_urlsafe(30),
        )

    def matches(self, access_key_id: str, secret_access_key: str) -> bool:
        """Say whether this is the pair."""
        return hmac.compare_digest(
            f"{access_key_id}:{secret_access_key}".encode(),
            f"{self.access_key_id}:{self.secret_access_key}".encode(),
        )


@dataclass
class User:
    """A user of the sandbox.

    Attributes:
        name: Display name.
        credentials: The key pair.
        policy: What the user may do; None for the owner, who may do everything.
        used: The actions that calls of this user needed and were allowed.
    """

    name: str
    credentials: Credentials
    policy: Policy | None = None
    used: set[str] = field(default_factory=set)

    def lacks(self, endpoint: str, names: Mapping[str, str]) -> list[str]:
        """Return the actions that a call needs and this user's policy does not allow.

        Args:
            endpoint: Name of the endpoint.
            names: Names from its path, query and body.
        """
        if self.policy is None:
            return []
        if endpoint == "list_repositories":
            needed = [LIST_REPOSITORIES]
            lacking = [] if self.policy.allows_somewhere(LIST_REPOSITORIES) else needed
        else:
            needs = NEEDS.get(endpoint, ())
            needed = [need.action for need in needs]
            lacking = [
                need.action for need in needs if not self.policy.allows(need.action, need.on(names))
            ]
        if not lacking:
            self.used.update(needed)
        return lacking

    def may_on_path(self, endpoint: str, repository_id: str, path: str) -> bool:
        """Say whether a call about many paths is allowed on one of them."""
        need = NEEDS_OF_EACH_PATH[endpoint]
        names = {"repository": repository_id, "path": path}
        if self.policy is not None and not self.policy.allows(need.action, need.on(names)):
            return False
        if self.policy is not None:
            self.used.add(need.action)
        return True

    def sees(self, repository_id: str) -> bool:
        """Say whether the list of repositories shows this one to the user."""
        resource = f"arn:lakefs:fs:::repository/{repository_id}"
        return self.policy is None or self.policy.allows(LIST_REPOSITORIES, resource)


class Accounts:
    """The users of one sandbox.

    Args:
        owner: The key pair that may do everything.
        now: The sandbox's clock.

    Attributes:
        owner: The user with that pair.
        tokens: Gives bearer tokens.
    """

    def __init__(self, owner: Credentials, now: Callable[[], datetime]) -> None:
        self.owner = User(COMMITTER, owner)
        self.tokens = Tokens(now)
        self._users: dict[str, User] = {owner.access_key_id: self.owner}
        self._of_aws: dict[str, User] = {}

    def add(self, name: str, policy: Mapping[str, Any]) -> User:
        """Add a user with a policy.

        Raises:
            ValueError: If `policy` is not a lakeFS policy.
        """
        user = User(name, Credentials.made(), Policy.parse(policy))
        self._users[user.credentials.access_key_id] = user
        return user

    def attach(self, aws_key_id: str, user: User) -> None:
        """Let an AWS identity log in as a user."""
        self._of_aws[aws_key_id] = user

    def with_aws_key(self, aws_key_id: str) -> User | None:
        """Return the user to whom an AWS identity is attached, or None."""
        return self._of_aws.get(aws_key_id)

    def with_keys(self, access_key_id: str, secret_access_key: str) -> User | None:
        """Return the user with a key pair, or None."""
        user = self._users.get(access_key_id)
        known = user is not None and user.credentials.matches(access_key_id, secret_access_key)
        return user if known else None

    def caller(self, header: str) -> User | None:
        """Return the user whose key pair or token an Authorization header carries, or None."""
        scheme, _, value = header.partition(" ")
        if scheme.lower() == "bearer":
            name = self.tokens.user_of(value)
            return next((user for user in self._users.values() if user.name == name), None)
        if scheme.lower() != "basic":
            return None
        try:
            key, _, secret = base64.b64decode(value, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
        return self.with_keys(key, secret)
