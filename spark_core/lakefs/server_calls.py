"""What each group of calls to the server stands on: the transport, and lists page by page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from spark_core.clocks import ClockReading
from spark_core.errors import SettingsError
from spark_core.lakefs.answers import Body, unreadable
from spark_core.lakefs.calls import Call
from spark_core.lakefs.transport import Transport

if TYPE_CHECKING:
    # Imported where a call is made: executors import this package, and never call the server.
    from lakefs_sdk.api_response import ApiResponse

    from spark_core.lakefs.pages import PageReader

_Row = TypeVar("_Row")

# Rows of a page; the server gives no more.
PAGE = 1_000


class ServerCalls:
    """Makes the calls of one group.

    Args:
        transport: Shared by all groups.

    Attributes:
        requests: Calls made so far, by name; repeated calls count again.
    """

    def __init__(self, transport: Transport) -> None:
        from spark_core.lakefs.pages import PageReader

        self._transport = transport
        self.requests: Counter[str] = transport.requests
        self._rows = PageReader(dict[str, Any])

    @property
    def url(self) -> str:
        """URL of the server, without keys."""
        return self._transport.options.url

    @property
    def clock_reading(self) -> ClockReading | None:
        """The server's clock compared with this machine's; None if no answer had a date yet."""
        return self._transport.clock_reading

    @property
    def transport(self) -> Transport:
        """What makes the calls; `branches` makes those that change branches with it."""
        return self._transport

    def _on(self, repository_id: str, name: str, what: str, action: str) -> Call:
        if not repository_id:
            raise SettingsError(
                "a repository without a name was asked for; name one in the settings"
            )
        return Call(name, f"{what} of repository {repository_id}", action)

    def _listed(
        self,
        call: Call,
        method: Callable[..., ApiResponse],
        *arguments: str,
        first_page: int = PAGE,
        **options: Any,
    ) -> Iterator[Body]:
        """Read a list row by row, only as far as the caller iterates; see `_pages`."""
        pages = self._pages(call, self._rows, method, *arguments, first_page=first_page, **options)
        return (Body(call, row) for row in chain.from_iterable(pages))

    def _pages(
        self,
        call: Call,
        reader: PageReader[_Row],
        method: Callable[..., ApiResponse],
        *arguments: str,
        first_page: int = PAGE,
        **options: Any,
    ) -> Iterator[list[_Row]]:
        """Read a list page by page, only as far as the caller iterates.

        Raises:
            IncompleteReadError: If the list has no end, or a page does not say where to continue.
        """
        after: set[str] = set()
        offset = ""
        for page in range(self._transport.options.max_pages):
            where: dict[str, Any] = {"after": offset} if offset else {}
            amount = min(first_page * 10 ** min(page, 3), PAGE)
            answer = self._transport.call(
                call, method, *arguments, amount=amount, **where, **options
            )
            found = reader.read(call, answer)
            yield found.results
            if not found.pagination.has_more:
                return
            offset = found.pagination.next_offset or ""
            if not offset or offset in after:
                raise unreadable(call, f"more results behind {offset!r}, where the list was before")
            if "\ufffd" in offset:
                # The server shows bytes that are no UTF-8 like this. Continuing from there could
                # skip names.
                raise unreadable(
                    call,
                    f"more results behind {offset!r}, a name that is no UTF-8 and cannot be asked "
                    "for",
                )
            after.add(offset)
        raise unreadable(
            call, f"a list without end (max_pages = {self._transport.options.max_pages})"
        )
