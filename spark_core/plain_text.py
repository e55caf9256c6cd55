"""Make foreign text safe to show.

Whoever may write to a repository chooses its addresses, branch names and messages.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from html import escape as html_escape

# Most text passes this fast check: plain ASCII without control characters.
_PLAIN = re.compile(r"[\x20-\x7e]*\Z")

_KILO = 1000


def bytes_text(size_bytes: int) -> str:
    """Print bytes as people read them.

    Examples:
        >>> bytes_text(1), bytes_text(999), bytes_text(1_000), bytes_text(12_345_678)
        ('1 byte', '999 bytes', '1.0 kB', '12.3 MB')
    """
    if size_bytes < _KILO:
        return f"{size_bytes} byte" + ("" if size_bytes == 1 else "s")
    size = float(size_bytes)
    for unit in ("kB", "MB", "GB", "TB"):
        size /= _KILO
        if size < _KILO:
            return f"{size:.1f} {unit}"
    return f"{size / _KILO:.1f} PB"


def span_text(span: timedelta) -> str:
    """Print a span of time in days, hours, minutes and seconds, without those that are 0.

    Examples:
        >>> from datetime import timedelta
        >>> span_text(timedelta(hours=24, minutes=5)), span_text(timedelta(seconds=1))
        ('1 day 5 minutes', '1 second')
    """
    minutes, seconds = divmod(int(span.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    named = {"day": days, "hour": hours, "minute": minutes, "second": seconds}
    said = [
        f"{count:,} {unit}{'' if count == 1 else 's'}" for unit, count in named.items() if count
    ]
    return " ".join(said) or "0 seconds"


def counted(number: int, word: str) -> str:
    """Print a number of things.

    Examples:
        >>> counted(1, "slice"), counted(2_000, "range")
        ('1 slice', '2,000 ranges')
    """
    return f"{number:,} {word}{'' if number == 1 else 's'}"


@dataclass(frozen=True)
class Price:
    """What stored bytes cost.

    Attributes:
        per_gb_month: What a GB (1,000,000,000 bytes) costs in a month.
        currency: The word behind each amount; empty if nobody gave one.
        by_class: What a GB costs in a month by storage class, where that is another price.
    """

    per_gb_month: float
    currency: str = ""
    by_class: Mapping[str, float] = field(default_factory=dict)

    def over(self, classes: Mapping[str, int], size_bytes: int) -> Price:
        """Return the price of a GB of some bytes, on the average.

        Args:
            classes: Those of the bytes whose storage class is known, by class.
            size_bytes: All of them.

        Examples:
            >>> Price(0.02, by_class={"COLD": 0.01}).over({"COLD": 3, "WARM": 1}, 8).per_gb_month
            0.01625
        """
        if not self.by_class or not size_bytes:
            return self
        less = sum(
            classes.get(name, 0) * (self.per_gb_month - each)
            for name, each in self.by_class.items()
        )
        return replace(self, per_gb_month=self.per_gb_month - less / size_bytes, by_class={})

    def amount(self, size_bytes: int) -> float:
        """Return what bytes cost in a month."""
        return size_bytes / 1e9 * self.per_gb_month


def money_text(size_bytes: int, price: Price) -> str:
    """Print what bytes cost in a month.

    Examples:
        >>> money_text(1_500_000_000, Price(0.02)), money_text(2 * 10**12, Price(0.023, "EUR"))
        ('0.03 a month', '46.00 EUR a month')
    """
    return amount_text(price.amount(size_bytes), price.currency)


def moneys_text(priced: Iterable[tuple[Price, int]]) -> str:
    """Print what bytes of several prices cost in a month, by currency; empty if there are none.

    Examples:
        >>> moneys_text([(Price(1, "EUR"), 10**9), (Price(2, "USD"), 10**9), (Price(3), 0)])
        '0.00 and 1.00 EUR and 2.00 USD a month'
    """
    return amounts_text((price.currency, price.amount(size_bytes)) for price, size_bytes in priced)


def amounts_text(amounts: Iterable[tuple[str, float]]) -> str:
    """Print amounts that are due each month, summed up by currency; empty if there are none.

    Examples:
        >>> amounts_text([("EUR", 1), ("USD", 2), ("EUR", 3)])
        '4.00 EUR and 2.00 USD a month'
    """
    costs = defaultdict[str, float](float)
    for currency, amount in amounts:
        costs[currency] += amount
    told = (amount_text(costs[each], each).removesuffix(" a month") for each in sorted(costs))
    return " and ".join(told) + (" a month" if costs else "")


def amount_text(amount: float, currency: str) -> str:
    """Print an amount that is due each month.

    Examples:
        >>> amount_text(1234.5, "EUR"), amount_text(0.001, "")
        ('1,234.50 EUR a month', 'less than 0.01 a month')
    """
    number = "less than 0.01" if 0 < amount < 0.01 else f"{amount:,.2f}"
    return " ".join(filter(None, (number, currency, "a month")))


def visible(text: str, *, lines: bool = False) -> str:
    r"""Escape invisible characters, which could control a terminal or reorder the text.

    These are control characters (also those of the second set, which some terminals
    obey), marks that change the direction of writing, zero-width characters, spaces
    other than the usual one, and what Unicode has not assigned. Letters of every
    language stay as they are, even those that only look alike, because no decision
    depends on how text looks.

    Args:
        text: Text from elsewhere.
        lines: Whether line ends stay.

    Examples:
        >>> visible("data/s/\x1b[2J\u202egpj.exe")
        'data/s/\\x1b[2J\\u202egpj.exe'
        >>> visible("Größe, 大きさ")
        'Größe, 大きさ'
    """
    if _PLAIN.match(text):
        return text
    kept = "\n" if lines else ""
    return "".join(one if one.isprintable() or one in kept else _escaped(one) for one in text)


def escape(text: str) -> str:
    """Make text from elsewhere safe for HTML: no markup, and nothing that cannot be seen."""
    return html_escape(visible(text))


def _escaped(one: str) -> str:
    return ascii(one)[1:-1]
