"""How an option of a run is declared: its bounds, and how settings write it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Option:
    """The declaration of an option; name, type and default are taken from `RunOptions`.

    Attributes:
        unit: The unit in which settings write a duration as a number.
        setting: Its name in settings; left out, its own name and the unit.
        words: The words of settings for False and for True, if they are others.
        ge: Least number in settings ...
        gt: ... or the number that it has to be above.
        le: Largest number in settings.
        decides: Whether it decides what may go, so that the verdict keeps it.
        lifts: Checks whose refusal it lifts, or that refusal in words.
    """

    name: str = ""
    type: Any = None
    default: Any = None
    unit: str = ""
    setting: str = ""
    words: tuple[str, str] | None = None
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    decides: bool = False
    lifts: tuple[str, ...] = ()

    def read(self, written: Any) -> Any:
        """Return the option's value for a value in settings."""
        if self.words:
            return written == self.words[True]
        return timedelta(**{self.unit: written}) if self.unit else written

    def write(self, value: Any) -> Any:
        """Return the value in settings for a value of the option."""
        if self.words:
            return self.words[value]
        return value / timedelta(**{self.unit: 1}) if self.unit else value
