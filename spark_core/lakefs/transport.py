"""Make one call to the server: timeouts, repetition, every failure as an error of the one tree.

Answers are taken raw from lakefs-sdk and read by `answers`. The models of the SDK turn a legal
answer into an error (`lakefs-facts` 11.18) and log whole bodies, presigned URLs included, at debug
level.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

import urllib3.exceptions
from tenacity import retry_if_exception, retry_if_result

from spark_core import __version__
from spark_core.backoff import Backoff
from spark_core.clocks import Clock, ClockReading, http_date, narrower
from spark_core.errors import SettingsError, TransientError
from spark_core.lakefs.calls import (
    BROKEN_OFF,
    NOT_IMPLEMENTED,
    TOO_MANY,
    UNKNOWN_ENDPOINT,
    Answer,
    Call,
)
from spark_core.lakefs.external_login import log_in
from spark_core.lakefs.failures import NeverAnsweredError, ServerAwayError, ServerErrors
from spark_core.lakefs.logins import KeyPair, Login
from spark_core.lakefs.options import ServerOptions
from spark_core.lakefs.proxies import proxy_of
from spark_core.lakefs.renewed_token import RenewedToken
from spark_core.lakefs.sdk import import_sdk

if TYPE_CHECKING:
    # Imported at each call: executors import this package, and never call the server.
    from lakefs_sdk.api_response import ApiResponse


# Connections kept open. Calls are made side by side, and each call beyond this number opens a new
# one.
_CONNECTIONS = 64

# The number of a try, and what it found.
OnAway: TypeAlias = Callable[[int, str], None]


class Transport:
    """Calls methods of lakefs-sdk and returns answers or raises errors; threads may share one.

    Args:
        options: Where and how.
        clock: The clock for waiting.
        on_away: Told of each try that found the server away, when it is tried again.

    Attributes:
        clock_reading: The server's clock against this machine's, from the answer that tells most;
            None before any.
        outages: How often the server was away and came back.
    """

    def __init__(self, options: ServerOptions, clock: Clock, on_away: OnAway | None = None) -> None:
        self.options = options
        self.clock_reading: ClockReading | None = None
        import_sdk()
        from lakefs_sdk.api_client import ApiClient
        from lakefs_sdk.configuration import Configuration

        self.clock = clock
        self._on_away = on_away
        self._login = self._login_of(options)
        self.errors = ServerErrors(options, self._login)
        self.requests: Counter[str] = Counter()
        self.outages = 0
        self._answered = False
        # Held while a count or a note is changed, never during a call.
        self._noting = threading.Lock()
        options.require_files()
        configuration = Configuration(host=options.api_url, ssl_ca_cert=options.ca_certificate)
        configuration.cert_file = options.client_certificate  # type: ignore[assignment]
        # Named in any case: urllib3 looks there whether the key wants a password, and then refuses.
        # Else OpenSSL would ask for it on the terminal.
        key = options.client_key or options.client_certificate
        configuration.key_file = key  # type: ignore[assignment]
        proxy = proxy_of(options.api_url)
        if proxy is not None:
            configuration.proxy = proxy.url  # type: ignore[assignment]
            configuration.proxy_headers = proxy.headers  # type: ignore[assignment]
        # urllib3 would repeat by itself, wait by its own clock, and carry the keys after a
        # redirect.
        configuration.retries = False  # type: ignore[assignment]
        configuration.connection_pool_maxsize = _CONNECTIONS
        client = f"lakegc/{__version__}"
        self.client = ApiClient(configuration, header_name="X-Lakefs-Client", header_value=client)
        self.client.user_agent = client

    def _login_of(self, options: ServerOptions) -> Login:
        if options.token is None:
            return KeyPair(options.access_key_id, options.secret_access_key)
        return RenewedToken(options.token, lambda *asked: log_in(self, *asked), self.clock)

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
            call: Describes the call, for counting and for errors.
            method: The method.
            *arguments: Its arguments.
            expected: Statuses besides 2xx that the caller wants to see as answers.
            **options: Its keyword arguments.

        Returns:
            An answer of status 2xx, or one of `expected`.

        Raises:
            LakegcError: One of the tree, by the kind of failure; see `failures`.
        """

        def again(found: tuple[Answer, float]) -> bool:
            answer, _ = found
            passing = answer.status in (TOO_MANY, BROKEN_OFF) or answer.status >= 500
            passing = passing and answer.status != NOT_IMPLEMENTED
            # Before v1.75 the server answered an unknown call with status 500.
            passing = passing and answer.message != UNKNOWN_ENDPOINT and not answer.lacks_permission
            return passing and call.repeatable

        answer, _ = self._backoff(tries=self.options.tries).ask(
            lambda: self._answer(call, method, *arguments, **options),
            again=retry_if_result(again),
            sleep=self.clock.sleep,
            at_least=itemgetter(1),
        )
        if 200 <= answer.status < 300 or (
            answer.status in expected and not answer.lacks_permission
        ):
            return answer
        raise self.errors.of_answer(call, answer)

    def _answer(
        self, call: Call, method: Callable[..., ApiResponse], *arguments: Any, **options: Any
    ) -> tuple[Answer, float]:
        """Call until a connection can be made, for at most the time of a restart.

        It waits only for a server that answered before. One that never answered is more likely a
        wrong endpoint, which the user should learn at once.
        """
        began, tries = self.clock.monotonic(), 0

        def once() -> tuple[Answer, float]:
            nonlocal tries
            tries += 1
            return self._logged_in(call, method, *arguments, **options)

        def again(error: BaseException) -> bool:
            if not (self._answered and isinstance(error, ServerAwayError)):
                return False
            if self._on_away is not None:
                self._on_away(tries, error.found)
            return True

        try:
            found = self._backoff(within_seconds=self.options.longest_outage.total_seconds()).ask(
                once,
                again=retry_if_exception(again),
                sleep=self.clock.sleep,
                spent=lambda: self.clock.monotonic() - began,
            )
        except ServerAwayError as away:
            if self._answered:
                raise
            raise NeverAnsweredError(away.found, away.next_step) from None
        self._answered = True
        with self._noting:
            self.outages += tries > 1 or found[0].status == BROKEN_OFF
        return found

    def _logged_in(
        self, call: Call, method: Callable[..., ApiResponse], *arguments: Any, **options: Any
    ) -> tuple[Answer, float]:
        """Call as the user, again with another token if there is one after one was refused."""
        if call.public:
            return self._once(call, method, *arguments, **options)
        sent = self._login.authorization()
        found = self._once(call, method, *arguments, _request_auth=_header(sent), **options)
        answer, _ = found
        # A call that is refused so had no effect, and any may be made again.
        if answer.status == 401 and not answer.lacks_permission and self._login.renewed(sent):
            now = _header(self._login.authorization())
            found = self._once(call, method, *arguments, _request_auth=now, **options)
        return found

    def _once(
        self, call: Call, method: Callable[..., ApiResponse], *arguments: Any, **options: Any
    ) -> tuple[Answer, float]:
        """Call once; a broken connection counts as an overloaded server."""
        from lakefs_sdk.exceptions import ApiException

        with self._noting:
            self.requests[call.name] += 1
        timeouts = (
            self.options.connect_timeout.total_seconds(),
            self.options.read_timeout.total_seconds(),
        )
        sent = datetime.now(UTC)
        try:
            response = method(
                *arguments, **options, _preload_content=False, _request_timeout=timeouts
            )
        except ApiException as error:
            if not error.status:
                raise self._no_tls(call, str(error.reason)) from None
            self._read_clock(error.headers or {}, sent)
            body = error.body if isinstance(error.body, str) else ""
            retry_after = (
                str(error.headers.get("Retry-After", "")) if error.headers is not None else ""
            )
            return Answer(int(error.status), body.encode()), self._retry_after(retry_after)
        except UnicodeDecodeError:
            raise TransientError(
                f"{call.subject}: {self.options.endpoint} answered an error that is no text",
                "Check that endpoint is a lakeFS server and not something in front of it, and run "
                "again.",
            ) from None
        except urllib3.exceptions.HTTPError as error:
            lost = self.errors.of_connection(call, error)
            if lost is None:
                return Answer(BROKEN_OFF, b""), 0.0
            raise lost from None
        self._read_clock(response.headers or {}, sent)
        return Answer(int(response.status_code or 0), bytes(response.raw_data or b"")), 0.0

    def _no_tls(self, call: Call, reason: str) -> SettingsError:
        return SettingsError(
            f"{call.subject}: no TLS connection to {self.options.endpoint}: "
            f"{self.errors.shown(reason)}",
            "Check endpoint (http or https); if the server's certificate is signed by an "
            "authority of your own, name its file as ca_certificate, and if the server "
            "demands a certificate of its clients, name yours as client_certificate.",
        )

    def _read_clock(self, headers: Mapping[str, str], sent: datetime) -> None:
        """Note the date of an answer, unless the answer comes from a cache on the way."""
        date = http_date(headers.get("Date", ""))
        if date is not None and "Age" not in headers:
            reading = ClockReading.of(date, sent=sent, received=datetime.now(UTC))
            with self._noting:
                self.clock_reading = narrower(self.clock_reading, reading)

    def _backoff(self, **bounds: float) -> Backoff:
        first, longest = self.options.first_backoff, self.options.longest_backoff
        return Backoff(first.total_seconds(), longest.total_seconds(), spread=0, **bounds)

    def _retry_after(self, header: str) -> float:
        """Read how long the server asks us to wait, in seconds, at most our own longest pause."""
        until = http_date(header)
        if until is not None:
            asked = (until - self.clock.now()).total_seconds()
        else:
            asked = float(header) if header.isascii() and header.isdigit() else 0.0
        return min(max(asked, 0.0), self.options.longest_backoff.total_seconds())


def _header(authorization: str) -> dict[str, str]:
    """Return the header in the form in which lakefs-sdk takes it for one call."""
    return {"type": "bearer", "in": "header", "key": "Authorization", "value": authorization}
