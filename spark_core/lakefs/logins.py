"""How calls log in: what a log-in is, and the one with a key pair; `renewed_token` is the other."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Protocol


class Login(Protocol):
    """What calls carry so that the server knows the user; threads share one."""

    def authorization(self) -> str:
        """Return the value of the header for the next call."""
        ...

    def renewed(self, refused: str) -> bool:
        """Say whether there is another value after the server has refused one."""
        ...

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be in any message."""
        ...

    @property
    def called(self) -> str:
        """What the keys or the token are called in messages."""
        ...


@dataclass(frozen=True)
class KeyPair:
    """Logs in with the keys of a lakeFS user.

    Attributes:
        access_key_id: The key.
        secret_access_key: Its secret.
    """

    access_key_id: str = field(repr=False)
    secret_access_key: str = field(repr=False)
    called: str = field(default="access_key_id and secret_access_key", init=False)

    @property
    def _pair(self) -> str:
        return base64.b64encode(f"{self.access_key_id}:{self.secret_access_key}".encode()).decode()

    def authorization(self) -> str:
        """Return the header's value."""
        return f"Basic {self._pair}"

    def renewed(self, _refused: str) -> bool:
        """Say that there are no others."""
        return False

    @property
    def secrets(self) -> tuple[str, ...]:
        """The keys as they are, and as they are sent."""
        return self._pair, self.secret_access_key, self.access_key_id
