"""Make one call to the server: timeouts, repetition, and every failure as an error of the one tree.

Answers are taken raw from lakefs-sdk and read by `answers`: the models of the
SDK turn a legal answer into an error (`lakefs-facts` 11.18) and log whole
bodies, presigned URLs included, at debug level.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import urllib3.exceptions

from spark_core import __version__
from spark_core.clocks import Clock, ClockReading, http_date, narrower
from spark_core.errors import SettingsError, TransientError
from spark_core.lakefs.calls import BROKEN_OFF, TOO_MANY, UNKNOWN_ENDPOINT, Answer, Call
from spark_core.lakefs.failures import Failures, ServerAwayError
from spark_core.lakefs.options import ServerOptions

if TYPE_CHECKING:
    # Imported where a call is made: executors import this package, and never call the server.
    from lakefs_sdk.api_response import ApiResponse


# Connections kept open: calls are made side by side, and one that is not kept is made anew for each call.
_CONNECTIONS = 64


class Transport:
    """Calls methods of lakefs-sdk and turns what comes back into answers or errors; threads may share one.

    Args:
        options: Where and how.
        clock: What waiting goes by.

    Attributes:
        clock_reading: The server's clock against this machine's, from the answer that says most; None before any.
        outages: How often the server was away and came back.
    """

    def __init__(self, options: ServerOptions, clock: Clock) -> None:
        self.options = options
        self.clock_reading: ClockReading | None = None
        from lakefs_sdk.api_client import ApiClient
        from lakefs_sdk.configuration import Configuration

        self.clock = clock
        self.failures = Failures(options)
        self.requests: Counter[str] = Counter()
        self.outages = 0
        self._answered = False
        # Held where what was counted or noted is changed, never during a call.
        self._noting = threading.Lock()
        configuration = Configuration(
            host=options.api_url,
            username=options.access_key_id,
            password=options.secret_access_key,
            ssl_ca_cert=options.ca_certificate,
        )
        # urllib3 would repeat by itself, wait by its own clock, and carry the keys after a redirect.
        configuration.retries = False  # type: ignore[assignment]
        configuration.connection_pool_maxsize = _CONNECTIONS
        client = f"lakegc/{__version__}"
        self.client = ApiClient(configuration, header_name="X-Lakefs-Client", header_value=client)
        self.client.user_agent = client

    def call(
        self,
        call: Call,
        method: Callable[..., ApiResponse],
        *arguments: Any,
        expected: tuple[int, ...] = (),
        **options: Any,
    ) -> Answer:
        """Call a `..._with_http_info` method of the SDK.

        Args:
            call: What is asked, for counting and for errors.
            method: The method.
            *arguments: Its arguments.
            expected: Statuses beside 2xx that the caller wants to see as answers.
            **options: Its keyword arguments.

        Returns:
            An answer of status 2xx, or one of `expected`.

        Raises:
            LakegcError: One of the tree, by what went wrong; see `failures`.
        """
        for attempt in itertools.count(1):
            answer, retry_after = self._answer(call, method, *arguments, **options)
            if 200 <= answer.status < 300:
                return answer
            again = answer.status in (TOO_MANY, BROKEN_OFF) or answer.status >= 500
            # Of a call that it did not know the server said so with status 500 before v1.75.
            again = again and answer.message != UNKNOWN_ENDPOINT and not answer.lacks_permission
            if again and call.repeatable and attempt < self.options.tries:
                self.clock.sleep(max(self._backoff(attempt), retry_after))
                continue
            if answer.status in expected and not answer.lacks_permission:
                return answer
            raise self.failures.of(call, answer)
        raise AssertionError  # the loop above ends by returning or raising

    def _answer(
        self, call: Call, method: Callable[..., ApiResponse], *arguments: Any, **options: Any
    ) -> tuple[Answer, float]:
        """Call until a connection can be made, as long as a restart may take.

        Only a server that answered before is waited for: one that was never
        there is more likely a wrong endpoint, which should be said at once.
        """
        began = self.clock.monotonic()
        for attempt in itertools.count(1):
            with self._noting:
                self.requests[call.name] += 1
            try:
                answered = self._once(call, method, *arguments, **options)
            except ServerAwayError:
                pause = self._backoff(attempt)
                waited = self.clock.monotonic() - began
                if not self._answered or waited + pause > self.options.longest_outage.total_seconds():
                    raise
                self.clock.sleep(pause)
            else:
                self._answered = True
                with self._noting:
                    self.outages += attempt > 1 or answered[0].status == BROKEN_OFF
                return answered
        raise AssertionError  # the loop above ends by returning or raising

    def _once(
        self, call: Call, method: Callable[..., ApiResponse], *arguments: Any, **options: Any
    ) -> tuple[Answer, float]:
        """Call once; a broken connection counts as an overloaded server."""
        from lakefs_sdk.exceptions import ApiException

        timeouts = (self.options.connect_timeout.total_seconds(), self.options.read_timeout.total_seconds())
        sent = datetime.now(UTC)
        try:
            response = method(*arguments, **options, _preload_content=False, _request_timeout=timeouts)
        except ApiException as error:
            if not error.status:
                raise SettingsError(
                    f"{call.subject}: no TLS connection to {self.options.endpoint}: {self.failures.shown(str(error.reason))}",
                    "Check endpoint (http or https); if the server's certificate is signed by an authority "
                    "of your own, name its file as ca_certificate.",
                ) from None
            self._read_clock(error.headers or {}, sent)
            body = error.body if isinstance(error.body, str) else ""
            retry_after = str(error.headers.get("Retry-After", "")) if error.headers is not None else ""
            return Answer(int(error.status), body.encode()), self._retry_after(retry_after)
        except UnicodeDecodeError:
            raise TransientError(
                f"{call.subject}: {self.options.endpoint} answered an error that is no text",
                "Check that endpoint is a lakeFS server and not something in front of it, and run again.",
            ) from None
        except urllib3.exceptions.HTTPError as error:
            lost = self.failures.lost(call, error)
            if lost is None:
                return Answer(BROKEN_OFF, b""), 0.0
            raise lost from None
        self._read_clock(response.headers or {}, sent)
        return Answer(int(response.status_code or 0), bytes(response.raw_data or b"")), 0.0

    def _read_clock(self, headers: Mapping[str, str], sent: datetime) -> None:
        """Note the date of an answer, unless it comes from some cache on the way."""
        told = http_date(headers.get("Date", ""))
        if told is not None and "Age" not in headers:
            reading = ClockReading.of(told, sent=sent, received=datetime.now(UTC))
            with self._noting:
                self.clock_reading = narrower(self.clock_reading, reading)

    def _backoff(self, attempt: int) -> float:
        pause = self.options.first_backoff * 2 ** min(attempt - 1, 30)
        return float(min(pause, self.options.longest_backoff).total_seconds())

    def _retry_after(self, header: str) -> float:
        """Read how many seconds the server asks for, or until when, at most our own longest pause."""
        until = http_date(header)
        if until is not None:
            asked = (until - self.clock.now()).total_seconds()
        else:
            asked = float(header) if header.isascii() and header.isdigit() else 0.0
        return min(max(asked, 0.0), self.options.longest_backoff.total_seconds())
