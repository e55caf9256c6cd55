"""The one token at hand that all calls log in with, and how it is renewed."""

from __future__ import annotations

import threading
from collections import deque
from datetime import datetime, timedelta

from spark_core.clocks import Clock
from spark_core.lakefs.tokens import LogIn, Token, TokenSource

# A token is renewed so long before it ends, or in the last tenth of its life where that is shorter.
_BEFORE_ITS_END = timedelta(minutes=5)
# A token that has ended, and comes again when it is asked for, is not asked for more often.
_SHORTEST_PAUSE = timedelta(seconds=1)
# Of many calls that are refused at once, the first one asks whether there is another token.
_NOT_ASKED_AGAIN = timedelta(seconds=10)
# How many tokens of this process are taken out of what a server says: it may repeat a former one.
_REMEMBERED = 8


class RenewedToken:
    """Logs in with the token at hand, and has another before it ends, or once it is refused.

    Args:
        source: Where tokens come from.
        log_in: The server's log-in, for sources that need it.
        clock: Tells when a token is about to end.
    """

    def __init__(self, source: TokenSource, log_in: LogIn, clock: Clock) -> None:
        self._source, self._log_in, self._clock = source, log_in, clock
        self._token: Token | None = None
        self._due: datetime | None = None
        self._former: deque[str] = deque(maxlen=_REMEMBERED)
        # Held while a token is had: one renewal at a time, and the others take what it brought.
        self._renewing = threading.Lock()
        # The token that came again after the server had refused it, and until when that counts.
        self._came_again = "", clock.now()

    def authorization(self) -> str:
        """Return the header's value, with a token that has not ended.

        Raises:
            LakegcError: If there is none.
        """
        with self._renewing:
            is_due = self._due is not None and self._clock.now() >= self._due
            if self._token is None or is_due or self._source.is_cheap:
                self._read()
            assert self._token is not None  # noqa: S101 - `_read` has set it
            return f"Bearer {self._token.text}"

    def renewed(self, refused: str) -> bool:
        """Read once more, unless another thread just did, and say whether the token is another."""
        with self._renewing:
            again, until = self._came_again
            if refused == again and self._clock.now() < until:
                return False
            if self._token is None or refused == f"Bearer {self._token.text}":
                self._read()
            assert self._token is not None  # noqa: S101 - as above
            if refused != f"Bearer {self._token.text}":
                return True
            self._came_again = refused, self._clock.now() + _NOT_ASKED_AGAIN
            return False

    @property
    def secrets(self) -> tuple[str, ...]:
        """The tokens that this process has had lately."""
        return tuple(self._former)

    @property
    def called(self) -> str:
        """What the token is called, and that it has ended, if it has."""
        ends = None if self._token is None else self._token.ends
        if ends is None or ends > self._clock.now():
            return self._source.called
        return f"{self._source.called} (which says that it ended at {ends:%Y-%m-%d %H:%M:%S} UTC)"

    def _read(self) -> None:
        token = self._source.read(self._log_in)
        if token.text not in self._former:
            self._former.append(token.text)
        self._token, self._due = token, _due(token, self._clock.now())


def _due(token: Token, now: datetime) -> datetime | None:
    """Return when to read again: before the token ends, and not in haste if it has ended."""
    if token.ends is None:
        return None
    left = token.ends - now
    return now + max(left - min(_BEFORE_ITS_END, left / 10), _SHORTEST_PAUSE)
