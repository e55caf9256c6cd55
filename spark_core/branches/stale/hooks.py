"""What the files below `_lakefs_actions/` say of branches."""

from __future__ import annotations

import re
from dataclasses import dataclass

from spark_core.branches.stale.server_patterns import hook_names

# A larger file is no file of hooks.
MOST_BYTES = 1_000_000
_WORD = re.compile(r"[\w-]+", re.ASCII)


@dataclass(frozen=True)
class HookFile:
    """A file with hooks.

    Attributes:
        path: Its path.
        branch: A branch that has it.
        words: Words that could be names of branches.
        patterns: Patterns of the branches that its events are about.
        is_readable: Whether it is YAML in lakeFS's form; else nobody knows whom it names.
    """

    path: str
    branch: str
    words: frozenset[str]
    patterns: tuple[str, ...]
    is_readable: bool = True

    def names(self, branch: str) -> str | None:
        """Say how the file names a branch; None if it does not."""
        where = f"the hook file {self.path} on branch {self.branch}"
        if not self.is_readable:
            return f"{where} cannot be read as YAML, and may name it; repair the file or delete it"
        if branch in self.words:
            return f"{where} has its name in it"
        for pattern in self.patterns:
            match hook_names(pattern, branch):
                case True:
                    return f"{where} names it ({pattern})"
                case None:
                    return f"{where} has the pattern {pattern!r}, which may name it"
        return None


def parse(path: str, branch: str, data: bytes | None) -> HookFile:
    """Read a file with hooks; one that cannot be read may name any branch.

    Words are taken from everywhere in the file, scripts and comments too: a name that stands
    there keeps the branch.

    Args:
        path: Its path.
        branch: A branch that has it.
        data: Its content; None for one that is larger than such a file can be.
    """
    if data is None:
        return HookFile(path, branch, frozenset(), (), is_readable=False)
    text = data.decode(errors="replace")
    found = _WORD.findall(text)
    words = frozenset({*found, *(word.lstrip("-") for word in found)})
    patterns = _patterns(text)
    return HookFile(path, branch, words, patterns or (), is_readable=patterns is not None)


def _patterns(text: str) -> tuple[str, ...] | None:
    """Return the patterns of all events; None if the text is no YAML, or not in lakeFS's form."""
    import yaml

    from spark_core.yaml_documents import read_yaml

    try:
        found = read_yaml(text, as_words=True)
    except (yaml.YAMLError, ValueError):
        return None
    events = found.get("on") if isinstance(found, dict) else None
    if not isinstance(events, dict):
        return None
    patterns: list[str] = []
    for event in events.values():
        branches = (event.get("branches") if isinstance(event, dict) else None) or []
        if not isinstance(branches, list) or len(patterns) + len(branches) > MOST_BYTES:
            # More than the file has letters: aliases that repeat one long list for each event.
            return None
        if not all(isinstance(each, str) for each in branches):
            return None
        patterns += branches
    return tuple(dict.fromkeys(patterns))
