"""The OpenMetrics text format: gauges with labels, as node exporter and push gateways read them.

Every metric is a gauge, since each is read anew from the store. A gauge is written the same in
OpenMetrics and in the older Prometheus format, so one text serves readers of both.

References:
    OpenMetrics 1.0, "Text format"; Prometheus, "Exposition formats".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_UNITS = ("seconds", "bytes")

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass
class Gauge:
    """One metric with its values.

    Attributes:
        name: Its name; a unit, if it has one, is the last word.
        description: One sentence.
        values: Labels and value, in the order in which they are written.
    """

    name: str
    description: str
    values: list[tuple[Mapping[str, str], float]] = field(default_factory=list)

    def set(self, value: float | None, **labels: str) -> None:
        """Add a value; None adds nothing."""
        if value is not None:
            self.values.append((labels, float(value)))

    def lines(self) -> Iterator[str]:
        """Yield the lines of the metric; none if it has no value."""
        if not self.values:
            return
        yield f"# TYPE {self.name} gauge"
        unit = self.name.rpartition("_")[2]
        if unit in _UNITS:
            yield f"# UNIT {self.name} {unit}"
        # A quote is written as it is there.
        text = self.description.replace("\\", r"\\").replace("\n", r"\n")
        yield f"# HELP {self.name} {text}"
        for labels, value in self.values:
            named = ",".join(
                f'{name}="{text.translate(_ESCAPES)}"' for name, text in labels.items()
            )
            yield (
                f"{self.name}{{{named}}} {_number(value)}"
                if named
                else (f"{self.name} {_number(value)}")
            )


def exposition(gauges: Sequence[Gauge]) -> str:
    """Return the text of some metrics, with its last line `# EOF`."""
    return "\n".join([*(line for gauge in gauges for line in gauge.lines()), "# EOF", ""])


def _number(value: float) -> str:
    """Write a whole number without a fraction, and any other one exactly."""
    if math.isfinite(value) and value == int(value):
        return str(int(value))
    return repr(value).replace("inf", "Inf").replace("nan", "NaN")
