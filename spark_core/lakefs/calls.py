"""Describe a call to the server and its answer."""

from __future__ import annotations

from dataclasses import dataclass

from spark_core.json_and_toml import read_json

# The server's own words, where the meaning of an answer depends on them.
UNKNOWN_ENDPOINT = "invalid API endpoint"
UNKNOWN_REPOSITORY = "repository not found"
READ_ONLY = "read-only repository"
_LACKING_PERMISSION = "insufficient permissions"
# Comes with status 500 when the authorization refuses without a reason.
_NOT_PERMITTED = "User does not have the required permissions"

TOO_MANY = 429
NOT_IMPLEMENTED = 501
# The status of an answer that broke off.
BROKEN_OFF = 0


@dataclass(frozen=True)
class Call:
    """A call to the server, with the words that an error needs.

    Attributes:
        name: Name by which calls are counted.
        subject: What is called, and for what: "prepare_commits of repository docs".
        action: Permission action that the server checks; empty if any user may call.
        repeatable: Whether a second call does no harm after the first one took effect.
        public: Whether the server answers it to everybody, so that it carries no keys.
    """

    name: str
    subject: str
    action: str = ""
    repeatable: bool = True
    public: bool = False


@dataclass(frozen=True)
class Answer:
    """An answer of the server.

    Attributes:
        status: HTTP status.
        body: The bytes; empty for none.
    """

    status: int
    body: bytes

    @property
    def message(self) -> str:
        """The server's own error message; empty if the body is not its JSON."""
        try:
            value = read_json(self.body)
        except ValueError:
            return ""
        message = value.get("message") if isinstance(value, dict) else None
        return message if isinstance(message, str) else ""

    @property
    def lacks_permission(self) -> bool:
        """Whether the server knows the user but says that he may not do this."""
        by_words = self.status in (401, 403) and self.message.startswith(_LACKING_PERMISSION)
        return by_words or (self.status >= 400 and self.message == _NOT_PERMITTED)
