"""Bearer tokens for the server, and where they come from.

Nobody verifies a token here. Of a JWT its end is read, so that another is had in time.
"""

from __future__ import annotations

import base64
import binascii
import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from spark_core.errors import LakegcError, SettingsError, TransientError
from spark_core.json_and_toml import read_json
from spark_core.pasted_keys import require_plain
from spark_core.text_files import read_text

_COMMAND_SECONDS = 60.0


@dataclass(frozen=True)
class Token:
    """A bearer token.

    Attributes:
        text: As it is sent.
        ends: When it ends; None if it does not say.
    """

    text: str = field(repr=False)
    ends: datetime | None = None

    @classmethod
    def parse(cls, text: str, called: str) -> Token:
        """Read a token, with its end if it is a JWT that has one.

        Args:
            text: The token; white space around it is left out.
            called: What it is called, for the refusal.

        Raises:
            SettingsError: If there is none, or it has characters that no token has.
        """
        token = text.strip()
        if not token:
            raise SettingsError(f"{called} is empty", "Put a token there that the server knows.")
        require_plain(token, called)
        return cls(token, _end_of_jwt(token))


# Hands an identity to the server's log-in for so many seconds, and returns the token.
LogIn: TypeAlias = Callable[[Mapping[str, str], int], Token]


class TokenSource(Protocol):
    """Where tokens come from; it holds none, and so may be copied and shown."""

    @property
    def called(self) -> str:
        """What its token is called in messages."""
        ...

    @property
    def is_cheap(self) -> bool:
        """Whether it is read for each call, so that a change is seen at once."""
        ...

    def read(self, log_in: LogIn) -> Token:
        """Read the token that is there now.

        Raises:
            LakegcError: If there is none.
        """
        ...


@dataclass(frozen=True)
class TokenInFile:
    """A token in a file that somebody else keeps up to date.

    Attributes:
        path: The file.
    """

    path: str
    is_cheap: bool = field(default=True, init=False, repr=False)

    @property
    def called(self) -> str:
        """What the token is called."""
        return f"the token in {self.path}"

    def read(self, _log_in: LogIn) -> Token:
        """Read the token."""
        text = read_text(Path(self.path), self.called, "Mend the file, or correct token_file.")
        return Token.parse(text, self.called)


@dataclass(frozen=True)
class TokenOfCommand:
    """A token that a command prints: the helper of a vault, or of an identity provider.

    What it prints besides is not shown, as that may hold the token. Of its arguments neither.

    Attributes:
        arguments: Program and arguments; no shell reads them.
        seconds: How long it may take.
    """

    arguments: tuple[str, ...] = field(repr=False)
    seconds: float = _COMMAND_SECONDS
    is_cheap: bool = field(default=False, init=False, repr=False)

    @property
    def called(self) -> str:
        """What the token is called."""
        return f"the token that {self.arguments[0]} of token_command prints"

    def read(self, _log_in: LogIn) -> Token:
        """Run the command."""
        try:
            # In a session of its own, so that what it started ends with it.
            running = subprocess.Popen(
                self.arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as problem:
            raise self._failed(f"cannot be started ({problem.strerror})") from None
        with running:
            try:
                said, _ = running.communicate(timeout=self.seconds)
            except subprocess.TimeoutExpired:
                os.killpg(running.pid, signal.SIGKILL)
                late = f"gave no token within {self.seconds:g} seconds"
                raise self._failed(late, TransientError) from None
        if running.returncode != 0:
            raise self._failed(f"ended with status {running.returncode}")
        try:
            return Token.parse(said.decode(), self.called)
        except UnicodeDecodeError:
            raise self._failed("printed what is not text") from None

    def _failed(self, how: str, kind: type[LakegcError] = SettingsError) -> LakegcError:
        return kind(
            f"{self.arguments[0]} of token_command {how}",
            "Run it by hand where lakegc runs, as the same user: it has to print the token alone.",
        )


def _end_of_jwt(token: str) -> datetime | None:
    """Return `exp` of a JWT; None for another token, or one that does not end.

    Examples:
        >>> _end_of_jwt("e30.eyJleHAiOjE3OTU2NTEyMDB9.x")
        datetime.datetime(2026, 11, 26, 0, 0, tzinfo=datetime.timezone.utc)
        >>> _end_of_jwt("an opaque token") is None
        True
    """
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims: Any = read_json(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        ends = claims.get("exp")
        return None if ends is None else datetime.fromtimestamp(float(ends), UTC)
    except (binascii.Error, ValueError, TypeError, AttributeError, OverflowError, OSError):
        return None
