"""What stored bytes cost in a month, by storage class where prices differ, and sums of it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace


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

    @classmethod
    def parse(cls, text: str, by_class: Mapping[str, float] | None = None) -> Price:
        """Read a number with the word of its currency, which may be left out.

        Raises:
            ValueError: If it does not begin with a number of at least 0.

        Examples:
            >>> Price.parse("0.023 EUR"), Price.parse("0").currency
            (Price(per_gb_month=0.023, currency='EUR', by_class={}), '')
        """
        number, _, currency = text.strip().partition(" ")
        price = float(number)
        if not 0 <= price < math.inf:
            raise ValueError("a price of at least 0")
        return cls(price, currency.strip(), by_class or {})

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
