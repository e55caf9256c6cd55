"""One picture of a report: the bytes of the namespace, and what may go by reason and by age."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spark_core.extras import require
from spark_core.plain_text import visible
from spark_core.report.report import Report
from spark_core.report.values import Group

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KEPT = "#4c78a8"
GOES = "#e4572e"

_BAR_INCHES = 0.34
_LONGEST_NAME = 58
_LONGEST_TITLE = 90


def chart(report: Report) -> bytes:
    """Draw a report as PNG; the same report gives the same picture.

    Raises:
        SettingsError: If matplotlib is not installed.
    """
    require("charts", "Pictures of a report")
    # A figure of its own, because pyplot keeps global state and looks for a display.
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    panels = [
        ("All objects of the namespace", [report.expired, *report.kept]),
        ("May go, by reason", list(report.by_reason)),
        ("May go, by age", list(report.by_age)),
    ]
    panels = [(title, groups) for title, groups in panels if groups]
    heights = [len(groups) + 1.2 for _, groups in panels]
    # Names are plain text: a dollar sign in a name begins no formula.
    with rc_context({"font.size": 9, "text.parse_math": False}):
        figure = Figure(figsize=(9, _BAR_INCHES * sum(heights) + 0.8), layout="constrained")
        figure.suptitle(
            _shortened(visible(f"{report.repository}, run {report.run}"), _LONGEST_TITLE),
            fontsize=11,
            x=0.01,
            ha="left",
        )
        axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
        widest = max(group.size_bytes for _, groups in panels for group in groups)
        for axis, (title, groups) in zip(axes, panels, strict=True):
            _bars(axis, title, groups, widest, report.expired.name)
        target = io.BytesIO()
        figure.savefig(target, format="png", dpi=120, metadata={"Software": None})
    return target.getvalue()


def _bars(axis: Axes, title: str, groups: Sequence[Group], widest: int, may_go: str) -> None:
    """Draw one panel; all panels share one scale, so that their bars can be compared."""
    kept = (
        {group.name for group in groups if group.name != may_go}
        if any(g.name == may_go for g in groups)
        else set()
    )
    names = [_shortened(visible(group.name), _LONGEST_NAME) for group in groups]
    colours = [KEPT if group.name in kept else GOES for group in groups]
    bars = axis.barh(
        range(len(groups)), [group.size_bytes for group in groups], color=colours, height=0.7
    )
    axis.bar_label(bars, labels=[str(group) for group in groups], padding=4)
    axis.set_yticks(range(len(groups)), names)
    axis.invert_yaxis()
    # Room for the label of the longest bar; an empty namespace still needs a width.
    axis.set_xlim(0, max(widest, 1) * 1.35)
    axis.set_xticks([])
    axis.set_title(title, loc="left", fontsize=9, fontweight="bold")
    for side in ("top", "right", "bottom"):
        axis.spines[side].set_visible(False)
    axis.tick_params(left=False)


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
