"""A call to the server and its answer, as the rest of the room passes them around."""

from __future__ import annotations

import json
from dataclasses import dataclass

# The server's own words where they decide what an answer means.
UNKNOWN_ENDPOINT = "invalid API endpoint"
UNKNOWN_REPOSITORY = "repository not found"
READ_ONLY = "read-only repository"
_LACKING_PERMISSION = "insufficient permissions"
# With status 500, where the authorization says no and gives no reason.
_NOT_PERMITTED = "User does not have the required permissions"

TOO_MANY = 429
# Stands for the status of an answer that broke off.
BROKEN_OFF = 0


@dataclass(frozen=True)
class Call:
    """What is asked of the server, in the words that an error needs.

    Attributes:
        name: Name by which calls are counted.
        subject: What is asked of what: "prepare_commits of repository docs".
        action: Permission action that the server checks; empty for any user.
        repeatable: Whether a second call does no harm if the first one did its work.
    """

    name: str
    subject: str
    action: str = ""
    repeatable: bool = True


@dataclass(frozen=True)
class Answer:
    """What the server answered.

    Attributes:
        status: HTTP status.
        body: The bytes; empty for none.
    """

    status: int
    body: bytes

    @property
    def message(self) -> str:
        """The server's own words about an error; empty if the body is not its JSON."""
        try:
            value = json.loads(self.body)
        except ValueError:
            return ""
        message = value.get("message") if isinstance(value, dict) else None
        return message if isinstance(message, str) else ""

    @property
    def lacks_permission(self) -> bool:
        """Whether the server knows the keys and says that their user may not do this."""
        by_words = self.status in (401, 403) and self.message.startswith(_LACKING_PERMISSION)
        return by_words or (self.status >= 400 and self.message == _NOT_PERMITTED)
