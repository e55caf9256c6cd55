"""Compares what a page shows of an output with what was printed.

Compared are words, and figures of lakeFS's objects. Not compared is what differs from run to run:
instants, ids, addresses, ports, durations, how many bytes Parquet takes, and Spark's tasks.
"""

from __future__ import annotations

import re
from pathlib import Path

# What differs, and the word that stands for it.
VARIES = (
    (r"run_id=\S+|--run \S+|\brun \d{4}-\d\d-\d\dT\S+?(?=[:,;.]?( |$))", "RUN"),
    (r"\d{4}-\d\d-\d\d[ T]\d\d[:-]\d\d(?:[:-]\d\d)?Z?", "INSTANT"),
    (r"\bdata/\w+/\w+", "ADDRESS"),
    (r"newest slice \w+", "SLICE"),
    (r"\b(?=[0-9a-f]*\d)[0-9a-f]{10,12}\b", "COMMIT"),
    (r"rows +[\d.]+ (?:bytes|kB) +[\d.]+ s", "rows SIZE SECONDS"),
    (r"[\d.]+ a second, [\d:]+ left", "a second, left"),
    (r"\d+ seconds in all", "seconds in all"),
    (r"Spark: \d+ tasks on local\[\S+\]", "Spark: tasks"),
    (r"127\.0\.0\.1:\d+", "SERVER"),
    (r"\S*/lakegc\.toml", "SETTINGS"),
)


def words(text: str) -> list[str]:
    """Return the words of an output, wherever its lines were broken."""
    text = " ".join(text.split())
    for varies, word in VARIES:
        text = re.sub(varies, word, text)
    return text.split()


def blocks(page: Path) -> list[tuple[str, str]]:
    """Return the kind and the text of each fenced block of a page."""
    fenced = r"^```(\w+)\n(.*?)^```$"
    return re.findall(fenced, page.read_text(), re.MULTILINE | re.DOTALL)


def require_shown(shown: str, printed: list[str], begin: int = 0) -> int:
    """Find what is shown between `...` in what was printed, in its order; return where it ended."""
    for piece in re.split(r"^\.\.\.$", shown, flags=re.MULTILINE):
        wanted = words(piece)
        found = next(
            (
                at
                for at in range(begin, len(printed) - len(wanted) + 1)
                if printed[at : at + len(wanted)] == wanted
            ),
            None,
        )
        assert found is not None, f"not printed:\n{piece}\n\nafter\n{' '.join(printed[begin:])}"
        begin = found + len(wanted)
    return begin
