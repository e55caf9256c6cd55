"""Parts of a long listing that are read side by side, and where another one could begin."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from spark_core.addresses.xids import LAST_SECOND, xid_seconds
from spark_core.storage.listing_rows import ListedPage

# A stretch with fewer pages left is not cut: one page comes while the cut is asked for.
_WORTH_A_CUT = 3


@dataclass
class Folder:
    """A prefix that is listed.

    Attributes:
        prefix: Ends in a slash.
        first: The time of its first name, in unix seconds; None until a name has one.
        is_cut: Whether the store is asked for the names after a time.
    """

    prefix: str
    first: int | None = None
    is_cut: bool = True

    def seconds(self, key: str) -> int | None:
        """Return the time that a name begins with, in unix seconds; None if it has none."""
        return xid_seconds(key.removeprefix(self.prefix))


@dataclass(eq=False)
class Stretch:
    """A part of a folder that is read page by page.

    Attributes:
        folder: Where.
        pages: The rest of the listing from the beginning of the stretch on.
        end: The first name of the next stretch; None for the last one.
        none_from: No name of this second or later lies before `end`, as far as is known.
        began: The time of its first name.
        last: The name that was read last.
        read: Number of pages that were read.
        cut_after: Value of `read` at the last request for a cut.
    """

    folder: Folder
    pages: Iterator[ListedPage]
    end: str | None = None
    none_from: int | None = None
    began: int | None = None
    last: str = ""
    read: int = 0
    cut_after: int = 0

    def cut(self) -> tuple[float, int] | None:
        """Guess how many pages are left, and the second to cut at; None if not worth a request."""
        now = self.folder.seconds(self.last)
        if now is None or self.began is None or self.folder.first is None:
            return None
        if not self.folder.is_cut or self.cut_after == self.read:
            return None
        page = max(now - self.began, 1) / self.read
        # As long as nothing tells where the folder ends: four pages ahead at first, then three
        # times as far each time.
        unknown = max(4 * page, 2 * (now - self.folder.first))
        ahead = unknown if self.none_from is None else (self.none_from - now) / 2
        left, second = 2 * ahead / page, min(int(now + ahead), LAST_SECOND)
        return (left, second) if left >= _WORTH_A_CUT and second > now else None


@dataclass(frozen=True)
class Cut:
    """A request for the names after a second in the middle of a stretch."""

    stretch: Stretch
    second: int
    pages: Iterator[ListedPage]
